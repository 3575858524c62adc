/* SPDX-License-Identifier: MIT */
/* Node ids that mean the same file to the next daemon.
 *
 * Of a node id (64 bits) and a generation (32 bits) the kernel makes the file handles that programs and
 * NFS clients keep.  When it meets one whose inode it has forgotten, it sends LOOKUP(id, ".") and compares
 * the generation of the answer.  So where the backing's own file handle says no more than an inode number
 * and a generation (ext4, XFS, tmpfs and others), the id is made of those two:
 *
 *	bit 63   0                    1
 *	         31 bits of number    a counter (inode.c): for what does not fit; good for the
 *	         32 of generation     life of the daemon
 *
 * and the backing tells whether that file still exists.  The generation for the kernel is a keyed hash of
 * the id, so that only what this source has shown can be had: the backing would give any file of its
 * filesystem to who guesses the numbers.
 *
 * Locking: none, nothing changes after durable_init. */
#ifndef FS_DURABLE_H
#define FS_DURABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "fs/inode.h"

struct handle_format;

struct durable_ids {
	const struct handle_format *format; /* NULL: handles of this filesystem do not fit */
	struct fhandle root; /* every other one differs in number and generation only */
	dev_t dev;
	uint64_t key[2];
};

#define COUNTED_ID (1ULL << 63)

/* `root_fd` is the source, and fs->by_handle is decided. */
void durable_init(struct durable_ids *d, const struct fs *fs, int root_fd);

/* The id of the file with these numbers and this handle; 0: it has none. */
uint64_t durable_id(const struct durable_ids *d, const struct stat *st, const struct fhandle *fh);
/* And back.  False: not such an id. */
bool durable_handle(const struct durable_ids *d, uint64_t id, struct fhandle *out);
uint64_t durable_number(uint64_t id); /* the inode number in it */
uint32_t durable_generation(const struct durable_ids *d, uint64_t id);

#endif
