/* SPDX-License-Identifier: MIT */
/* What this process serves: its scopes and mounts, from settings to gate and FUSE session.
 *
 *	configuration ─▶ registry ─┬─ gate: global, fs, mount scopes
 *	                           └─ fs_mount: one per mount that is up
 *
 * Threads  everything here is called by the main thread only; a mount that ends by itself says so
 *          through `wake_fd`, and registry_reap takes it away.
 * Names    a mount without fs= has an fs scope of its own, called like the mount. */
#ifndef DAEMON_REGISTRY_H
#define DAEMON_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/list.h"
#include "daemon/settings.h"

struct fs_mount;
struct stepper;
struct workers;

struct served_fs {
	struct list link;
	struct settings s;
	struct gate_fs *gate;
	unsigned mounts; /* that are up */
	bool own;	 /* of one mount, not of an [fs:NAME] */
	bool paused;
};

struct served_mount {
	struct list link;
	struct settings s;
	struct registry *registry;
	struct served_fs *fs;	  /* NULL: not up */
	struct gate_mount *gate;  /* NULL: not up */
	struct fs_mount *session; /* NULL: not up */
	char *real_mountpoint;	  /* links resolved; NULL: never up */
	atomic_bool ended;	  /* by the kernel: umount, abort */
	bool paused;
	bool failed; /* could not be mounted; a reload tries again */
};

struct registry {
	struct settings global;
	struct weights weights; /* of [weights] */
	char *file;		/* the configuration; NULL: command line */
	bool debug;
	bool paused;
	bool finished; /* nothing is left to serve, by request */
	struct list fs, mounts;
	struct gate *gate;
	struct stepper *stepper;
	struct workers *workers;
	int wake_fd;
};

/* An empty one, good for registry_stop. */
void registry_clear(struct registry *r);
/* Threads, gate, global limits.  0 or -1 with err; registry_stop in any case. */
int registry_init(struct registry *r, const struct configuration *c, bool debug, struct error *err);
/* Makes every mount of the configuration; on_mount_error decides about failures, which are
 * logged.  0 or -1: nothing is left mounted. */
int registry_start(struct registry *r, const struct configuration *c);
/* Ends all mounts (at the same time) and threads. */
void registry_stop(struct registry *r);

/* Adds a mount that is not up yet; an fs.  NULL: out of memory. */
struct served_mount *registry_add_mount(struct registry *r, const struct settings *s);
struct served_fs *registry_add_fs(struct registry *r, const struct settings *s, bool own);
void registry_forget_mount(struct served_mount *m); /* which is down */
void registry_forget_fs(struct served_fs *fs);	    /* without mounts */

int registry_mount(struct served_mount *m, struct error *err);
void registry_unmount(struct served_mount *m);
/* Takes mounts away that have ended; returns how many are still up. */
unsigned registry_reap(struct registry *r);
unsigned registry_up(const struct registry *r);

struct served_fs *registry_find_fs(struct registry *r, const char *name);
/* The [fs:NAME], or (own) the scope that a mount of that name has for itself. */
struct served_fs *registry_find_own_fs(struct registry *r, const char *name, bool own);
struct served_mount *registry_find_mount(struct registry *r, const char *name);
const char *served_source(const struct served_mount *m);
/* By mount name or mountpoint. */
struct served_mount *registry_find_target(struct registry *r, const char *target);

/* New settings, whole and at once; takes over *s on success.  -1: nothing has changed. */
int registry_set_global(struct registry *r, struct settings *s, struct error *err);
int registry_set_fs(struct served_fs *fs, struct settings *s, struct error *err);
int registry_set_mount(struct served_mount *m, struct settings *s, struct error *err);
int registry_set_weights(struct registry *r, struct weights *w, struct error *err);

int registry_pause_global(struct registry *r, bool paused);
int registry_pause_fs(struct served_fs *fs, bool paused);
int registry_pause_mount(struct served_mount *m, bool paused);

#endif
