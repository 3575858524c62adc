/* SPDX-License-Identifier: MIT */
/* The table of inodes: what the kernel refers to by node ID.
 *
 * IDs: 64 bits, never reused, and checked on every use: a stale one (from an NFS client, for example)
 * results in ESTALE, never in another file.  durable.h describes them.
 *
 * Identity: (st_dev, st_ino), and for an inode without an fd also its file handle, which contains the
 * generation: a number that was reused is another inode.
 *
 * Access: by an O_PATH fd, opened when first needed, and closed when it has not been used for a while or
 * fds become scarce.  It is reopened by file handle, or by (parent, name) if the source or our
 * privileges provide no handles (it is then closed only when fds are scarce).
 *
 * Locking: one mutex per shard, held for memory accesses only, never during a system call that can wait. */
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
struct space_slot;

#define FHANDLE_INLINE 24
#define FHANDLE_MAX    128

/* A file handle from name_to_handle_at; bytes == 0: none. */
struct fhandle {
	uint8_t bytes;
	/* Read from an fd, so it belongs to the file whose attributes were read from that fd.  A handle that was found by a
	 * name may be that of another file, by which the first one has been replaced meanwhile. */
	bool sure;
	int32_t type;
	unsigned char data[FHANDLE_MAX];
};

struct inode {
	struct inode *next_by_id, *next_by_key;
	uint64_t id;
	/* references held by the kernel, and by children that know it as parent */
	uint64_t nlookup;
	uint64_t ino;
	dev_t dev;
	mode_t type;		     /* S_IFMT part only */
	int fd;			     /* O_PATH, or -1 */
	uint32_t users;		     /* operations that currently use fd */
	_Atomic uint32_t n_open;     /* handles */
	_Atomic uint32_t n_mappable; /* open files whose mapped stores we do not notice */
	_Atomic bool large;	     /* mirror_is_large when it was last looked up */
	bool recently_used;
	bool pinned;	  /* has no name any more: the fd is the only access to it */
	bool handle_sure; /* its handle has been found to lead to this inode */
	uint8_t handle_bytes;
	uint8_t finds; /* how often it was found by its handle */
	int32_t handle_type;
	union {
		unsigned char inline_data[FHANDLE_INLINE];
		unsigned char *data;
	} handle;
	struct list with_fd;  /* in shard->with_fd while fd >= 0 */
	struct inode *parent; /* only without handles */
	char *name;
	struct open_state *open; /* while files are open; see handle.h */
	struct space_slot *held; /* of a file without a name, while space is counted */
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
	_Atomic unsigned hand;	    /* where the search for an fd to close continues */
	_Atomic unsigned next_file; /* where inode_table_next_file continues */
	struct fs *owner;
	struct list all; /* all tables of the process: they share its fds */
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

/* Does not take ownership of `root_fd`.  0 or -errno. */
int inode_table_init(struct fs *fs, int root_fd);
void inode_table_free(struct fs *fs);

/* Closes the fds of regular files that were not used since the last call.  False: further calls
 * close nothing unless files are used in between. */
bool inode_table_close_idle(struct fs *fs);

/* The node ID of some regular file that the kernel knows, one after the other; 0: none was found, but the search is bounded. */
uint64_t inode_table_next_file(struct fs *fs);

/* The inode of a node ID, with an fd.  0, -ESTALE, or the reason why it cannot be opened. */
int inode_get(struct fs *fs, uint64_t id, struct inode_ref *out);
/* The same without opening an fd (out->fd is -1 unless it has one). */
int inode_get_no_fd(struct fs *fs, uint64_t id, struct inode_ref *out);
/* The handle by which the inode can be opened.  False: it has none, or no name any more, so that only its fd leads
 * to it. */
bool inode_handle(struct fs *fs, struct inode *inode, struct fhandle *out);
/* True: `fd`, which was opened by that handle (empty: by name), is the inode. */
bool inode_is_fd(struct fs *fs, struct inode *inode, const struct fhandle *fh, int fd);

/* Finds or creates the inode of `st` and adds one lookup reference.  *fd (may be -1), an O_PATH fd
 * of it, is taken over and set to -1 if the inode needs it.  `fh` may be empty; dir and name are
 * recorded if there are no handles.  NULL: out of memory. */
struct inode *inode_intern(struct fs *fs, const struct stat *st, int *fd, const struct fhandle *fh,
			   struct inode *dir, const char *name);
/* For an inode that the kernel has forgotten, but of which a program has a file handle: finds it by
 * its ID alone, and otherwise does what inode_intern does.  0, -ESTALE or -ENOMEM. */
int inode_remember(struct fs *fs, uint64_t id, struct stat *st, struct inode **out);
/* True: the directory of fd is the source or below it. */
bool inode_is_inside(const struct fs *fs, int fd);
/* Finds an inode that the kernel knows, and adds one lookup reference: by its numbers alone if it is
 * held by an fd, else by its handle as well (`fh`; NULL or empty: not by handle).  0; -ENOENT: there is
 * none; -EAGAIN: it was found so often that it should now be opened (inode_intern with an fd). */
int inode_find(struct fs *fs, const struct stat *st, const struct fhandle *fh, struct inode **out);
/* Drops n lookup references; frees the inode with the last one. */
void inode_forget(struct fs *fs, uint64_t id, uint64_t n);
void inode_unref(struct fs *fs, struct inode *inode, uint64_t n);

/* Call before removing a name, which may be the only way to its inode: if the kernel knows the
 * inode, pins it by an fd, unless there are too many.  Returns its ID, for inode_unpin if the name
 * remains after all; 0: the kernel does not know it, or it has other names.  Fills *st with its attributes; st_nlink is 0 if these are unknown. */
uint64_t inode_keep_unlinked(struct fs *fs, int dir_fd, const char *name, struct stat *st);
void inode_unpin(struct fs *fs, uint64_t id);
/* Holds the inode by this O_PATH fd permanently (O_TMPFILE). */
void inode_pin(struct fs *fs, struct inode *inode, int *fd);
/* A file has just lost its last name, or has none yet: if the kernel knows the inode, its space stays counted until the kernel
 * forgets it, or inode_unpin is called. */
void inode_hold(struct fs *fs, uint64_t id, struct space_slot *slot, uint64_t now_ns);
/* Space is being counted from now on: includes the files without a name that the kernel knows. */
void inodes_adopt(struct fs *fs);
/* The mount ends: no inode holds space any more. */
void inodes_release(struct fs *fs);
/* Something was renamed: without handles, its (parent, name) must be updated. */
void inode_moved(struct fs *fs, const struct stat *st, struct inode *dir, const char *name);

/* The lock of an inode's open_state. */
pthread_mutex_t *inode_lock(struct fs *fs, const struct inode *inode);

/* name_to_handle_at; an empty name means fd itself. */
void fhandle_of(const struct fs *fs, int fd, const char *name, struct fhandle *out);
/* open_by_handle_at.  fd or -errno. */
int fhandle_open(struct fs *fs, const struct fhandle *fh, int flags);
int fhandle_open_at(int mount_fd, const struct fhandle *fh, int flags);

#endif
