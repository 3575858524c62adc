/* SPDX-License-Identifier: MIT */
/* Shared by the files that implement volumes.h: volumes.c (state, configuration file, create),
 * volumes_mount.c (mount, unmount, recover), volumes_remove.c.  The caller holds `change`, except
 * for functions that only make paths. */
#ifndef CTL_VOLUMES_INTERNAL_H
#define CTL_VOLUMES_INTERNAL_H

#include "ctl/volumes.h"

enum {
	DONE = 200,
	PENDING = 202, /* internal: the engine never sees it */
	BAD_REQUEST = 400,
	NOT_FOUND = 404,
	CONFLICT = 409,
	FAILED = 500,
};

/* Paths in the state directory, to be freed; NULL: no memory.  fmt: for a name and an id. */
char *volumes_path(const struct volumes *v, const char *fmt, const char *name, unsigned id);
char *volumes_mountpoint(const struct volumes *v, const char *name);
char *volumes_data(const struct volumes *v, const char *name, unsigned id);

/* Seconds since the boot, for references. */
int64_t volumes_now(void);

/* A new array: the keys of an object. */
json_t *volumes_keys(json_t *object);

/* Set err and return its HTTP status. */
int volumes_no_such(const char *name, struct error *err);
int volumes_no_memory(struct error *err);

/* Writes the copy and makes it the state, under `look`.  Only holders of `change` do that, so they
 * may read the state without `look`.  Takes the copy over. */
int volumes_commit(struct volumes *v, json_t *copy, enum volume_sync sync, struct error *err);
/* So that the state and the configuration file can be written on a full disk. */
void volumes_make_spares(const struct volumes *v);
/* Writes the daemon's configuration file: as it is now, with the section of `add` and without that of `drop` (or NULL). */
int volumes_rewrite_conf(struct volumes *v, const char *add, const char *drop, struct error *err);
/* The keys of the volume in that file; NULL: it is not there. */
char *volumes_served_section(const struct volumes *v, const json_t *volume);
/* Unmounts a volume that nobody refers to.  0: it is not mounted any more; 1 with err: it is in use; -1 with err. */
int volumes_release(struct volumes *v, const char *name, struct error *err);
/* True: the daemon does not answer.  Asking it to mount every volume would take minutes, and engines would wait as long. */
bool volumes_daemon_is_silent(const struct volumes *v);
/* Moves trees of volumes that were removed to the trash, and removes empty ones. */
void volumes_find_lost(struct volumes *v);
/* Deletes what is in the trash, in the background. */
void volumes_empty_trash(const struct volumes *v);

#endif
