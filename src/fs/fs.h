/* SPDX-License-Identifier: MIT */
/* The mirror: one backing tree as libfuse low-level operations.
 * Knows how to carry an operation out; whether it may go now is decided before (fs/admit.h), so
 * every function here runs to its reply without waiting for a limit.
 * Threads: any number; each calls fs_thread_start once before its first operation. */
#ifndef FS_FS_H
#define FS_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum cache_mode { CACHE_AUTO, CACHE_STRICT, CACHE_PAGE };

struct gate_mount;
struct fuse_session;
struct fuse_lowlevel_ops;

struct fs_config {
	const char *source;
	enum cache_mode cache;
	double attr_timeout_s, entry_timeout_s; /* < 0: what the cache mode says */
	bool multi_user; /* root with allow_other: act as the caller (fsuid, groups, umask) */
	bool owner_only; /* allow_root: nobody else but root */
	bool no_atime, no_dir_atime; /* the source's access times stay as they are */
	bool debug;
	struct gate_mount *gate; /* asked for "is this class unlimited", max_open; NULL: no limits */
};

struct fs;

/* Opens the source.  NULL: `err` says why.  Do this before mounting: the mountpoint may be the
 * source itself or lie inside it. */
struct fs *fs_new(const struct fs_config *cfg, struct error *err);
/* After the session is gone and no thread runs an operation. */
void fs_free(struct fs *fs);

/* After fuse_session_mount and before the first message: kernel passthrough is asked for on the
 * session's device.  Without this call there is no passthrough. */
void fs_attach(struct fs *fs, struct fuse_session *se);

/* The source's own mount is read-only: mount "ro", so that programs get EROFS as they do there. */
bool fs_source_is_read_only(const struct fs *fs);

/* The operations; their userdata is the struct fs. */
extern const struct fuse_lowlevel_ops fs_ops;

/* Per-thread set-up: own umask (unshare CLONE_FS), buffers, credentials state. */
void fs_thread_start(void);
/* Gives the buffer of a thread back that ends before the process. */
void fs_thread_stop(void);

/* Requests that libfuse 3.17 cannot parse (STATX) or that are faster answered without it.  True:
 * answered.  `msg` is the kernel's message, header included. */
bool fs_process_raw(struct fs *fs, struct fuse_session *se, const void *msg, size_t len);

/* Lets go of what was not used since the last call and can be had again: it keeps the blocks of files
 * that were deleted in the source.  True: worth calling again after a while. */
bool fs_close_idle(struct fs *fs);

/* For looking. */
struct fs_counts {
	uint64_t inodes, inode_fds, handles, passthrough_handles;
};
void fs_look(const struct fs *fs, struct fs_counts *out);

#endif
