/* SPDX-License-Identifier: MIT */
/* A mount that is being ended, on a thread of its own because its source may hang:
 *
 *	begin ─▶ drains, detaches, releases its clients ─▶ released ─▶ waits for its threads ─▶ gone
 *	                                                      │
 *	                           the mount can be made again, the daemon can exit
 *
 * Requests that hang in the source can be abandoned: the mount is then released, and the memory
 * that these requests use is kept until they return. */
#ifndef DAEMON_ENDING_H
#define DAEMON_ENDING_H

#include "daemon/auto_unmount.h"
#include "daemon/registry.h"
#include "daemon/task.h"
#include "fs/mount.h"

struct ending {
	struct task task;
	struct list link; /* in registry->endings */
	struct registry *registry;
	struct served_mount *owner; /* NULL: the registry has forgotten it, or it is released */
	uint64_t serial;	    /* identifies this ending (ending_find) */
	char *name, *mountpoint;
	struct auto_unmount auto_unmount; /* runs from mounting to release */
	struct fs_mount *session;
	struct gate_mount *gate_mount;
	struct served_fs *fs;
	bool force;	  /* abandon what hangs after the grace period */
	bool released;	  /* clients have their replies, and the mount has been detached */
	bool clean;	  /* nothing was abandoned */
	int64_t since_ms; /* start of the current step */
	struct fs_source_look left; /* requests that were in the source when it was released */
};

/* Allocated when the mount is made, because ending it must not fail.  NULL: out of memory. */
struct ending *ending_new(struct registry *r, const struct settings *s);
void ending_free(struct ending *e); /* frees one that has not begun */
void ending_begin(struct ending *e, struct fs_mount *session, struct gate_mount *gate,
		  struct served_fs *fs);
/* The same for a mount that works; called again with force, abandons what hangs. */
void ending_of(struct served_mount *m, bool force);
void ending_abandon(struct ending *e);
void ending_look(const struct ending *e, struct fs_source_look *out);
/* "5 requests in the source: read, for 12 s"; to be freed. */
char *ending_text(const struct ending *e);
struct ending *ending_find(struct registry *r, uint64_t serial);
/* Finds one by the name or mountpoint of a mount that the registry has forgotten; not released
 * yet. */
struct ending *ending_find_dropped(struct registry *r, const char *name);

#endif
