/* SPDX-License-Identifier: MIT */
/* A mount that is being made: opening the source, creating the session and mounting may each hang. */
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
	struct ending *ending; /* allocated now, because ending the mount must not fail */
	int64_t since_ms;
	_Atomic bool cancelled; /* set by the main thread */

	/* copies for the thread */
	struct settings s;
	char *source;
	struct gate_mount *gate_mount;
	struct served_fs *fs; /* the thread uses only fs->space */
	struct space_policy space;

	/* results */
	struct fs_mount *session; /* NULL: err says why */
	char *real_mountpoint;
	struct error err;
};

/* 0, or -1 with err.  Later the mount's state (served_state) shows the result. */
int mounting_start(struct served_mount *m, struct error *err);
/* The mount is not wanted any more: if it comes up after all, it is ended again. */
void mounting_give_up(struct served_mount *m);

#endif
