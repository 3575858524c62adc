/* SPDX-License-Identifier: MIT */
/* Between inode.c and inode_table.c.  _locked: with the lock of the shard held. */
#ifndef FS_INODE_TABLE_H
#define FS_INODE_TABLE_H

#include "fs/inode.h"

#define INODE_BUCKETS_MIN 64

struct inode_shard *inode_shard_of_key(struct fs *fs, dev_t dev, uint64_t ino);
struct inode_shard *inode_shard_of_id(struct fs *fs, uint64_t id);
size_t inode_key_slot(const struct inode_shard *s, dev_t dev, uint64_t ino);

/* A new one, without references; id 0: it gets its own.  NULL: out of memory. */
struct inode *inode_add_locked(struct fs *fs, struct inode_shard *s, const struct stat *st,
			       const struct fhandle *fh, uint64_t id);
struct inode *inode_find_id_locked(const struct inode_shard *s, uint64_t id);
void inode_link_locked(struct inode_shard *s, struct inode *inode);
void inode_unlink_locked(struct inode_shard *s, struct inode *inode);
/* False: out of memory, and there was no table before. */
bool inode_resize_locked(struct inode_shard *s, size_t buckets);

/* File handles: set once, when first known. */
void inode_set_handle(struct inode *inode, const struct fhandle *fh);
void inode_copy_handle(const struct inode *inode, struct fhandle *out);
bool inode_same_handle(const struct inode *inode, const struct fhandle *fh);

/* Takes *fd. */
void inode_adopt_fd_locked(struct fs *fs, struct inode_shard *s, struct inode *inode, int *fd);
/* The fd, to be closed without the lock. */
int inode_drop_fd_locked(struct fs *fs, struct inode *inode);
/* Its fd is the only way to it, and stays; true: so it is now. */
bool inode_set_pinned_locked(struct inode *inode, bool pinned);

#endif
