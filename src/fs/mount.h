/* SPDX-License-Identifier: MIT */
/* A mirror mounted: the FUSE session, its receive threads, the requests that wait.
 *
 *	new (source opened, session made) -mount-> mounted -start-> serving
 *	serving -stop, or unmounted from outside-> draining -> stopped -free
 */
#ifndef FS_MOUNT_H
#define FS_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "fs/fs.h"
#include "sched/gate.h"

enum interrupt_mode { INTERRUPT_FATAL, INTERRUPT_ANY };

/* May change while mounted (fs_mount_set). */
struct mount_policy {
	bool nonblock_waits;	   /* nonblock=wait */
	bool timeout_is_etimedout; /* on_timeout=etimedout */
	enum interrupt_mode interrupt;
	enum fair_kind fair;
};

struct mount_config {
	struct fs_config fs;
	const char *mountpoint;
	const char *fuse_options; /* "ro,allow_other,fsname=…", NULL or "" for none */
	bool debug;
	struct mount_policy policy;
};

struct fs_mount;

/* Opens the source and makes the session; `gate` must outlive it.  NULL: err says why. */
struct fs_mount *fs_mount_new(const struct mount_config *cfg, struct gate *g,
			      struct gate_mount *gate, struct error *err);
/* Mounts.  0 or -1 with err; nothing is left behind then. */
int fs_mount_mount(struct fs_mount *m, struct error *err);
/* Starts serving (after any fork).  `ended` is called once, on a thread of the mount, when the
 * kernel has ended the connection (umount, abort); fs_mount_stop must still be called. */
int fs_mount_start(struct fs_mount *m, void (*ended)(struct fs_mount *m, void *ctx), void *ctx,
		   struct error *err);
/* Waits until the kernel's first message (INIT) has been answered: from then on the mount answers.
 * -1 with err when the connection ends instead. */
int fs_mount_wait_ready(struct fs_mount *m, struct error *err);
/* Stop intake, run what is parked (refuse it past the grace time), end threads, unmount. */
void fs_mount_stop(struct fs_mount *m);
void fs_mount_free(struct fs_mount *m);

void fs_mount_set(struct fs_mount *m, const struct mount_policy *p);
void fs_mount_look(const struct fs_mount *m, struct fs_counts *out);

/* The job_ops thread set-up that the executor pool needs. */
void fs_mount_worker_start(void *unused);

#endif
