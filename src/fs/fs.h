/* SPDX-License-Identifier: MIT */
/* The mirror: carries out FUSE operations on one backing tree.
 * Limits are applied before an operation is called (admit.c), so nothing here waits for a limit.
 * Threads: any number; each calls fs_thread_start once before its first operation. */
#ifndef FS_FS_H
#define FS_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "fs/space.h"

enum cache_mode { CACHE_AUTO, CACHE_STRICT, CACHE_PAGE };

struct gate_mount;
struct fuse_session;
struct fuse_lowlevel_ops;

struct fs_config {
	const char *source;
	enum cache_mode cache;
	double attr_timeout_s, entry_timeout_s; /* < 0: the default of the cache mode */
	bool multi_user; /* root with allow_other: act as the caller (fsuid, groups, umask) */
	bool owner_only; /* allow_root: nobody else but root */
	bool no_atime, no_dir_atime; /* the source's access times stay as they are */
	bool strict_atime;	     /* every read moves them; no_atime wins */
	/* The mount is in a user and mount namespace of a user's own, out of the daemon's sight
	 * (daemon/run.h).  So no step in the source leads into it, and filesystems inside the source
	 * may be entered.  And the kernel forbids to write what belongs to somebody whom that
	 * namespace does not know: it is shown as the user's own, and the source decides. */
	bool own_namespace;
	bool debug;
	struct space *space; /* of the tree; NULL: its size is nobody's business */
	struct space_policy space_policy;
	struct gate_mount *
		gate; /* tells whether a class is unlimited, and counts open files; NULL: no limits */
};

struct fs;

/* Opens the source.  NULL: `err` says why.  Call this before mounting, because the mountpoint may be the
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

/* Per-thread set-up: own umask (unshare CLONE_FS), buffers, credentials state.  False: no memory, the
 * thread must run no operation. */
bool fs_thread_start(void);
/* Frees what fs_thread_start allocated. */
void fs_thread_stop(void);

/* Requests that libfuse 3.17 cannot parse (STATX) or that are faster answered without it.  True:
 * answered.  `msg` is the kernel's message, header included. */
bool fs_process_raw(struct fs *fs, struct fuse_session *se, const void *msg, size_t len);

/* Closes fds that were not used since the last call and can be reopened.  Otherwise files that are deleted in
 * the source would keep their blocks.  True: call it again after a while. */
bool fs_close_idle(struct fs *fs);

/* New limits of this mount on the space of its source.  Begins to count if need be. */
void fs_set_space(struct fs *fs, const struct space_policy *p);

/* For statistics. */
struct fs_counts {
	uint64_t inodes, inode_fds, handles;
	uint64_t passthrough_handles; /* their data bypasses the daemon */
	uint64_t passthrough_maps;    /* others that do so when they are mapped into memory */
};
/* A process that has files open. */
struct fs_opener {
	uid_t uid;
	pid_t pid; /* of the thread that opened them */
	uint64_t handles;
};
void fs_look(const struct fs *fs, struct fs_counts *out);

#endif
