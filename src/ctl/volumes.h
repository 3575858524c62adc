/* SPDX-License-Identifier: MIT */
/* The volumes of a container engine: made, mounted for containers, unmounted, removed.
 *
 *	STATE/volumes.json	the volumes that exist (volume_state.h)
 *	STATE/ratefs.conf	the daemon's configuration (volume_conf.h): a volume is in it while it is mounted
 *	STATE/data/NAME-ID	the tree of a volume without a source of its own
 *	STATE/mnt/NAME		where a volume is mounted
 *	STATE/trash		trees that are being deleted
 *	STATE/FILE.spare	see volume_make_spare
 *
 * A volume is mounted while containers refer to it.  Every step can be repeated: after a crash, a repeated call of the engine
 * or volumes_recover completes what was interrupted.
 *
 * Locking	safe from any thread.  `change` is held during every change, even over calls to the daemon; `look`
 *		guards the state and is held only briefly.  Order: change, look.
 * Errors	HTTP status codes: 200, or another with err. */
#ifndef CTL_VOLUMES_H
#define CTL_VOLUMES_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/error.h"
#include "ctl/volume_conf.h"
#include "ctl/volume_state.h"

struct volume_setup {
	const char *state_dir; /* an absolute path */
	const char *head;      /* the administrator's part of the configuration file */
	const char *control;   /* the daemon's socket */
	const char *ratefs;    /* the program */
	char **allowed;	       /* sources, and what is below them */
	unsigned n_allowed;
	unsigned mount_wait_s;	  /* how long an engine waits for a mount */
	unsigned collect_after_s; /* younger references are never collected */
};

/* The operations of ratefs that the plugin uses; tests have another table.  Calls are serialized, except `status`. */
struct volume_daemon_ops {
	/* Mounts `name` of the configuration file; starts a daemon if there is none.  0 also if it is already mounted;
	 * 1: still being mounted, ask again later; -1 with err. */
	int (*mount)(void *ctx, const char *name, struct error *err);
	/* 0: it is not mounted any more; 1 with err: it is in use; -1 with err. */
	int (*unmount)(void *ctx, const char *name, struct error *err);
	/* A new object: limits, usage, waiting requests; NULL: the daemon does not answer. */
	json_t *(*status)(void *ctx, const char *name);
	/* *n is a number that changes when files of the mounted volume are opened, read or written, but not when a program that
	 * watches the host calls stat or statfs; 0 if the volume is not mounted.  False: the daemon does not answer. */
	bool (*requests)(void *ctx, const char *name, uint64_t *n);
	/* True: the mounted volume shows this directory, and not another one that its path led to for a moment. */
	bool (*shows)(void *ctx, const char *name, const struct stat *directory);
	/* Checks the text of a configuration file; -1 with what is wrong with its options. */
	int (*check)(void *ctx, const char *text, struct error *err);
};

struct volumes {
	struct volume_setup setup;
	const struct volume_daemon_ops *daemon;
	void *daemon_ctx;
	struct volume_options known; /* from `ratefs --dump-options` */
	pthread_mutex_t change, look;
	struct volume_state state; /* look */
	json_t *unused; /* change: volumes without containers: [how many searches in a row found none, requests then] */
	char *state_dir; /* setup.state_dir without symbolic links: as mountinfo has it */
};

/* Makes the directories and reads the state.  -1 with err. */
int volumes_open(struct volumes *v, struct error *err);
void volumes_close(struct volumes *v);
/* Forgets references from before the last boot, which no container has survived.  Call it when the state directory belongs to
 * this process, before the first call of an engine. */
int volumes_begin(struct volumes *v, struct error *err);

/* Mounts volumes that have references but are not served by a daemon, and finishes deletions.  Called at startup and
 * periodically. */
void volumes_recover(struct volumes *v);
/* Unmounts volumes without references.  Drops references whose container is gone: no mount namespace has the volume, twice
 * in a row; no file was used in between, as by an engine that copies an image's files; the reference is
 * older than collect_after_s, and not Podman's, which counts its containers itself and would not mount the volume again. */
void volumes_collect(struct volumes *v);

/* Options are strings.  Creating the same volume again is not an error. */
int volumes_create(struct volumes *v, const char *name, json_t *options, struct error *err);
int volumes_remove(struct volumes *v, const char *name, struct error *err);
/* `id` is the engine's ID of the reference. */
int volumes_mount(struct volumes *v, const char *name, const char *id, struct error *err);
int volumes_unmount(struct volumes *v, const char *name, const char *id, struct error *err);
int volumes_unmount_locked(struct volumes *v, const char *name, const char *id, struct error *err);

/* A new object {"Name", "Mountpoint", "CreatedAt"}, with "Status" if asked for; NULL: no such
 * volume.  A new array of all. */
json_t *volumes_get(struct volumes *v, const char *name, bool status);
json_t *volumes_list(struct volumes *v);

#endif
