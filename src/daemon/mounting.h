/* SPDX-License-Identifier: MIT */
/* A mount on its way up: opening the source, making the session and mounting it may each hang. */
#ifndef DAEMON_MOUNTING_H
#define DAEMON_MOUNTING_H

#include <stdatomic.h>

#include "daemon/registry.h"
#include "daemon/task.h"
#include "fs/space.h"

struct mounting {
	struct task task;
	struct list link;	    /* in registry->mountings */
	struct served_mount *owner; /* NULL: nobody wants it any more */
	struct registry *registry;
	struct ending *ending; /* memory for its end */
	int64_t since_ms;
	_Atomic bool cancelled; /* set by the main thread */

	/* what the thread works with: copies */
	struct settings s;
	char *source;
	struct gate_mount *gate;
	struct served_fs *fs; /* the main thread's, but for its space */
	struct space_policy space;

	/* what comes of it */
	struct fs_mount *session; /* NULL: err says why */
	char *real_mountpoint;
	struct error err;
};

/* 0, or -1 with err; how it ends is seen in the mount's state. */
int mounting_start(struct served_mount *m, struct error *err);
/* Nobody wants it any more.  Should it come up after all, it is taken down again. */
void mounting_give_up(struct served_mount *m);

#endif
