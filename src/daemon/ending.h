/* SPDX-License-Identifier: MIT */
/* A mount on its way down, on a thread of its own since its source may hang:
 *
 *	begin ─▶ drains, detaches, releases its clients ─▶ released ─▶ waits for its threads ─▶ gone
 *	                                                      │
 *	                           the mount can be made again, its daemon can end
 *
 * Requests that hang in the source can be abandoned: the mount is released then, and what belongs to
 * them stays until they come back. */
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
	struct served_mount *owner; /* NULL: forgotten, or released */
	uint64_t serial;	    /* how others name it */
	char *name, *mountpoint;
	struct auto_unmount auto_unmount; /* from when it is mounted until it is released */
	struct fs_mount *session;
	struct gate_mount *gate;
	struct served_fs *fs;
	bool force;	  /* what hangs is abandoned after the grace time */
	bool released;	  /* clients have their answers, the mount is gone from the tree */
	bool clean;	  /* nothing was abandoned */
	int64_t since_ms; /* of the last step */
	struct fs_source_look left;
};

/* Memory for one, taken while the mount is made: its end must not fail.  NULL: out of memory. */
struct ending *ending_new(struct registry *r, const struct settings *s);
void ending_free(struct ending *e); /* which has not begun */
void ending_begin(struct ending *e, struct fs_mount *session, struct gate_mount *gate,
		  struct served_fs *fs);
/* The same for a mount that is up; twice, with force: abandons what hangs. */
void ending_of(struct served_mount *m, bool force);
void ending_abandon(struct ending *e);
void ending_look(const struct ending *e, struct fs_source_look *out);
/* "5 requests in the source: read, for 12 s"; to be freed. */
char *ending_text(const struct ending *e);
struct ending *ending_find(struct registry *r, uint64_t serial);
/* By the name or the mountpoint of a mount that the registry has forgotten; not released yet. */
struct ending *ending_find_dropped(struct registry *r, const char *name);

#endif
