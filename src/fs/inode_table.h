/* SPDX-License-Identifier: MIT */
/* The interface between inode.c and inode_table.c.  _locked: call with the shard's lock held. */
#ifndef FS_INODE_TABLE_H
#define FS_INODE_TABLE_H

#include "fs/inode.h"

#define INODE_BUCKETS_MIN 64

struct inode_shard *inode_shard_of_key(struct fs *fs, dev_t dev, uint64_t ino);
struct inode_shard *inode_shard_of_id(struct fs *fs, uint64_t id);
size_t inode_key_slot(const struct inode_shard *s, dev_t dev, uint64_t ino);

/* A new inode, without references; id 0: chooses its ID.  NULL: out of memory. */
struct inode *inode_add_locked(struct fs *fs, struct inode_shard *s, const struct stat *st,
			       const struct fhandle *fh, uint64_t id);
struct inode *inode_find_id_locked(const struct inode_shard *s, uint64_t id);
void inode_link_locked(struct inode_shard *s, struct inode *inode);
void inode_unlink_locked(struct inode_shard *s, struct inode *inode);
/* False: out of memory, and there was no table before. */
bool inode_resize_locked(struct inode_shard *s, size_t buckets);

/* File handles are set once, when first known. */
void inode_set_handle(struct inode *inode, const struct fhandle *fh);
void inode_copy_handle(const struct inode *inode, struct fhandle *out);
bool inode_same_handle(const struct inode *inode, const struct fhandle *fh);

/* Takes ownership of *fd. */
void inode_adopt_fd_locked(struct fs *fs, struct inode_shard *s, struct inode *inode, int *fd);
/* Returns the fd, which must be closed without the lock. */
int inode_drop_fd_locked(struct fs *fs, struct inode *inode);
/* The fd is the only access to the inode and must be kept.  True: it is pinned now. */
bool inode_set_pinned_locked(struct inode *inode, bool pinned);
/* Its space is no longer counted on behalf of the inode; see inode_hold. */
void inode_release_locked(struct fs *fs, struct inode *inode);

#endif
