/* SPDX-License-Identifier: MIT */
/* A mounted mirror: the FUSE session, its receive threads and its waiting requests.
 *
 *	new (source opened, session created) -mount-> mounted -start-> serving
 *	serving -stop, or unmounted from outside-> draining -> stopped -free
 *
 * Creating, stopping and freeing a mount may wait for its source, which may hang: don't do it on a
 * thread that others depend on. */
#ifndef FS_MOUNT_H
#define FS_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "fs/detach.h"
#include "fs/fs.h"
#include "sched/gate.h"

enum interrupt_mode { INTERRUPT_FATAL, INTERRUPT_ANY };

/* Can be changed while mounted (fs_mount_set). */
struct mount_policy {
	bool nonblock_waits;	   /* nonblock=wait */
	bool timeout_is_etimedout; /* on_timeout=etimedout */
	enum interrupt_mode interrupt;
};

/* How requests arrive from the kernel. */
enum mount_transport { TRANSPORT_AUTO, TRANSPORT_DEV, TRANSPORT_URING };

struct mount_config {
	struct fs_config fs;
	const char *mountpoint;
	const char *fuse_options; /* "ro,allow_other,fsname=…", NULL or "" for none */
	bool debug;
	enum mount_transport transport;
	struct mount_policy policy;
};

struct fs_mount;

/* Opens the source and creates the session; `gate` must outlive it.  NULL: err says why. */
struct fs_mount *fs_mount_new(const struct mount_config *cfg, struct gate *g,
			      struct gate_mount *gate, struct error *err);
/* Mounts.  0, or -1 with err; then nothing is left behind. */
int fs_mount_mount(struct fs_mount *m, struct error *err);
/* Starts serving (after any fork).  `ended` is called once, on a thread of the mount, when the
 * kernel has ended the connection (umount, abort); fs_mount_stop must still be called. */
int fs_mount_start(struct fs_mount *m, void (*ended)(struct fs_mount *m, void *ctx), void *ctx,
		   struct error *err);
/* Waits until the kernel's first message (INIT) has been replied to; from then on the mount works.
 * -1 with err if the connection ends instead. */
int fs_mount_wait_ready(struct fs_mount *m, struct error *err);

/* Ends the mount.  Parked requests are run, or refused after a grace period of half a second; new
 * requests are refused with ENOTCONN; the mount is detached; requests in the source have
 * patience_ns (NEVER: no bound) to finish.  Then the connection to the kernel is cut, which
 * releases every client.
 * True: nothing is left.  False: requests were abandoned in the source and counted in *left; their
 * threads still use the mount, and only fs_mount_free waits for them. */
struct fs_source_look;
bool fs_mount_stop(struct fs_mount *m, uint64_t patience_ns, struct fs_source_look *left);
/* From any thread, at any time: a running fs_mount_stop does not wait for the source any longer. */
void fs_mount_abandon(struct fs_mount *m);
/* True: the kernel has ended the connection, by umount or abort. */
bool fs_mount_has_ended(const struct fs_mount *m);
/* True: the mount has been detached, or the attempt to detach it has failed for good. */
bool fs_mount_is_detached(const struct fs_mount *m);
/* Waits for all threads, including abandoned ones. */
void fs_mount_free(struct fs_mount *m);

void fs_mount_set(struct fs_mount *m, const struct mount_policy *p);
void fs_mount_set_space(struct fs_mount *m, const struct space_policy *p);
void fs_mount_look(const struct fs_mount *m, struct fs_counts *out);
struct mount_place fs_mount_place(const struct fs_mount *m);
/* Lists up to n processes that have files open whose reads and writes bypass the daemon; returns
 * their number. */
unsigned fs_mount_bypassing(const struct fs_mount *m, struct fs_opener *out, unsigned n);

/* The directory that is the root of the mount: device and inode number in the source. */
void fs_mount_root(const struct fs_mount *m, uint64_t *dev, uint64_t *ino);

/* The transport in use, "dev" or "uring".  *why_not (never NULL): why a mount that may use io_uring does not use it,
 * else "". */
const char *fs_mount_transport(const struct fs_mount *m, const char **why_not);
/* Call if the system calls of io_uring are forbidden: no mount of this process uses it then. */
void uring_forbid(void);
/* NULL: the kernel has FUSE over io_uring enabled; else why not. */
const char *uring_why_disabled(void);

/* What is in the source now. */
#define FS_SOURCE_OPS 8
#define FS_STUCK_NS   NSEC_PER_SEC /* requests that have been in the source for longer are stuck */
struct fs_source_op {
	const char *name;
	unsigned n;
	uint64_t oldest_ns; /* age */
};
struct fs_source_look {
	unsigned n;	 /* requests in the source */
	unsigned stuck;	 /* of these, older than FS_STUCK_NS */
	unsigned queued; /* admitted, but no thread is free to carry them out */
	uint64_t oldest_ns;
	const char *oldest_op; /* "" for none */
	unsigned n_ops;
	struct fs_source_op op[FS_SOURCE_OPS];
};
void fs_mount_look_source(struct fs_mount *m, struct fs_source_look *out);
void fs_source_look_add(struct fs_source_look *to, const struct fs_source_look *from);

#endif
