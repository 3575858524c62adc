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
	bool nofollow; /* the path of the source must not lead through a symbolic link */
	enum cache_mode cache;
	double attr_timeout_s, entry_timeout_s; /* < 0: the default of the cache mode */
	bool owner_only;			/* allow_root: only root and the owner */
	bool no_atime, no_dir_atime;		/* leave the source's access times alone */
	bool strict_atime; /* every read updates them; no_atime takes precedence */
	/* The mount is in a user and mount namespace of its own, which the daemon cannot see
	 * (daemon/run.h).  So no path in the source leads into the mount, and filesystems inside
	 * the source may be entered.  The kernel refuses writes to files whose owner does not
	 * exist in that namespace, so all files are shown as the user's own, and the source
	 * decides. */
	bool own_namespace;
	bool debug;
	struct space *space; /* counts what the tree holds; NULL: nothing does */
	struct space_policy space_policy;
	/* tells whether a class is unlimited, and counts open files; NULL: no limits */
	struct gate_mount *gate_mount;
};

struct fs;

/* Opens the source.  NULL: `err` says why.  Call this before mounting, because the mountpoint may be the
 * source itself or lie inside it. */
struct fs *fs_new(const struct fs_config *cfg, struct error *err);
/* Call after the session is gone, when no thread runs an operation. */
void fs_free(struct fs *fs);

/* Call after fuse_session_mount and before the first message: kernel passthrough is requested on
 * the session's device.  Without this call there is no passthrough. */
void fs_attach(struct fs *fs, struct fuse_session *se);

/* True: the source's own mount is read-only.  Mount "ro", so that programs get the same EROFS. */
bool fs_source_is_read_only(const struct fs *fs);

/* For libfuse, which only negotiates with the kernel: has init and nothing else; userdata is the
 * struct fs. */
extern const struct fuse_lowlevel_ops fs_ops;

/* Per-thread set-up: a umask of its own (unshare CLONE_FS), buffers, credentials.  False: out of
 * memory; the thread must not run operations. */
bool fs_thread_start(void);
/* The buffer of this thread: FS_BUFFER_SIZE bytes (request.h), page-aligned. */
char *fs_thread_buffer(void);
/* Frees what fs_thread_start allocated. */
void fs_thread_stop(void);

/* Closes fds that were not used since the last call and can be reopened.  Otherwise files that are deleted in
 * the source would keep their blocks.  True: call it again after a while. */
bool fs_close_idle(struct fs *fs);

/* Sets new limits of this mount on the space of its source.  Starts counting if necessary. */
void fs_set_space(struct fs *fs, const struct space_policy *p);

/* For statistics. */
struct fs_counts {
	uint64_t inodes, inode_fds, handles;
	uint64_t passthrough_handles; /* their data bypasses the daemon */
	uint64_t passthrough_maps;    /* only mappings of them would */
};
/* A process that has files open. */
struct fs_opener {
	uid_t uid;
	pid_t pid; /* of the thread that opened them */
	uint64_t handles;
};
void fs_look(const struct fs *fs, struct fs_counts *out);

#endif
