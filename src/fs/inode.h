/* SPDX-License-Identifier: MIT */
/* What the kernel knows by node id: the table of inodes.
 *
 * Ids: 64 bits, never reused, checked on every use: a stale one (an NFS client's, for one) gives
 * ESTALE instead of another file.  See durable.h for what they are made of.
 *
 * Identity: (st_dev, st_ino), and for an inode that no fd pins also its file handle, which carries
 * the generation: a number that was reused is another inode.
 *
 * Holding: an O_PATH fd, opened when first needed and let go when it was not used for a while or fds
 * get short, and behind it whatever finds the file again: its file handle, or (parent, name) where
 * the backing or our privileges have no handles (then only when fds get short).
 *
 * Locking: one mutex per shard, held for memory only, never over a system call that can wait. */
#ifndef FS_INODE_H
#define FS_INODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/list.h"

struct fs;
struct open_state;

#define FHANDLE_INLINE 24
#define FHANDLE_MAX    128

/* A file handle as name_to_handle_at gives it; bytes == 0: none. */
struct fhandle {
	uint8_t bytes;
	int32_t type;
	unsigned char data[FHANDLE_MAX];
};

struct inode {
	struct inode *next_by_id, *next_by_key;
	uint64_t id;
	uint64_t nlookup; /* references of the kernel, and of children by name */
	uint64_t ino;
	dev_t dev;
	mode_t type;		     /* S_IFMT part only */
	int fd;			     /* O_PATH, or -1 */
	uint32_t users;		     /* operations that use fd now */
	_Atomic uint32_t n_mappable; /* open files whose mapped stores nobody tells us of */
	bool recently_used;
	bool pinned; /* has no name any more: the fd is the only way to it */
	uint8_t handle_bytes;
	int32_t handle_type;
	union {
		unsigned char inline_data[FHANDLE_INLINE];
		unsigned char *data;
	} handle;
	struct list with_fd;  /* in shard->with_fd while fd >= 0 */
	struct inode *parent; /* without handles only */
	char *name;
	struct open_state *open; /* while files are open; see handle.h */
};

#define INODE_SHARD_BITS 6
#define INODE_SHARDS	 (1U << INODE_SHARD_BITS)

struct inode_shard {
	pthread_mutex_t lock;
	struct inode **by_id, **by_key;
	size_t n, buckets;
	struct list with_fd; /* least recently opened first */
	uint64_t next_id;
} __attribute__((aligned(64)));

struct inode_table {
	struct inode_shard shards[INODE_SHARDS];
	struct inode *root;
	_Atomic uint64_t n, n_fds, peak;
	_Atomic unsigned hand; /* where the search for an fd to close goes on */
	struct fs *owner;
	struct list all; /* of every table in the process: they share its fds */
};

/* An inode in use: fd is valid until inode_put. */
struct inode_ref {
	struct inode *inode;
	int fd;
};
#define INODE_REF_INIT                                                                             \
	{                                                                                          \
		NULL, -1                                                                           \
	}
void inode_put(struct fs *fs, struct inode_ref *ref);

/* `root_fd` is not taken.  0 or -errno. */
int inode_table_init(struct fs *fs, int root_fd);
void inode_table_free(struct fs *fs);

/* Closes the fds of regular files that were not used since the last call.  False: no other call will close more,
 * unless some are used before. */
bool inode_table_close_idle(struct fs *fs);

/* The inode of a node id with an fd to use.  0, -ESTALE or why it cannot be opened. */
int inode_get(struct fs *fs, uint64_t id, struct inode_ref *out);
/* Without an fd (out->fd = -1 unless there is one at hand). */
int inode_get_no_fd(struct fs *fs, uint64_t id, struct inode_ref *out);
/* The handle of an inode that has no fd at the moment.  False: it has one, or has no handle. */
bool inode_handle_only(struct fs *fs, struct inode *inode, struct fhandle *out);

/* Finds or makes the inode of `st` and adds one lookup reference.  *fd (may be -1), an O_PATH fd of
 * it, is taken and set to -1 if the inode has use for it.  `fh` may be empty; dir and name are
 * remembered where there are no handles.  NULL: out of memory. */
struct inode *inode_intern(struct fs *fs, const struct stat *st, int *fd, const struct fhandle *fh,
			   struct inode *dir, const char *name);
/* What the kernel has forgotten, and somebody has a file handle of: finds it by its id alone, as
 * inode_intern does.  0 or -ESTALE. */
int inode_remember(struct fs *fs, uint64_t id, struct stat *st, struct inode **out);
/* Is the directory that fd holds the source or below it? */
bool inode_is_inside(const struct fs *fs, int fd);
/* Is this identity known, and by an fd, so that the numbers alone prove it?  Then one lookup
 * reference is added. */
struct inode *inode_find_pinned(struct fs *fs, const struct stat *st);
/* n lookup references less; forgets the inode with the last. */
void inode_forget(struct fs *fs, uint64_t id, uint64_t n);
void inode_unref(struct fs *fs, struct inode *inode, uint64_t n);

/* A name is about to go, and with it perhaps the way to its inode: if the kernel knows that, hold
 * it by fd.  Returns its id for inode_unpin should the name stay after all, 0 if nothing was held.
 * st: what it is; st_nlink is 0 if that is not known. */
uint64_t inode_keep_unlinked(struct fs *fs, int dir_fd, const char *name, struct stat *st);
void inode_unpin(struct fs *fs, uint64_t id);
/* Held by this O_PATH fd for good (O_TMPFILE). */
void inode_pin(struct fs *fs, struct inode *inode, int *fd);
/* Something moved: without handles its (parent, name) must follow. */
void inode_moved(struct fs *fs, const struct stat *st, struct inode *dir, const char *name);

/* The lock of an inode's open_state. */
pthread_mutex_t *inode_lock(struct fs *fs, const struct inode *inode);

/* name_to_handle_at; an empty name means fd itself. */
void fhandle_of(const struct fs *fs, int fd, const char *name, struct fhandle *out);
/* open_by_handle_at.  fd or -errno. */
int fhandle_open(struct fs *fs, const struct fhandle *fh, int flags);
int fhandle_open_at(int mount_fd, const struct fhandle *fh, int flags);

#endif
