/* SPDX-License-Identifier: MIT */
/* Node IDs that mean the same file to the next daemon.
 *
 * The kernel makes the file handles that programs and NFS clients keep from a node ID (64 bits) and a
 * generation (32 bits).  For a handle whose inode it has forgotten, it sends LOOKUP(id, ".") and
 * compares the generation of the reply.  If the source's own file handles consist of an inode number
 * and a generation only (ext4, XFS, tmpfs and others), the ID is made of these:
 *
 *	bit 63   0                    1
 *	         31 bits of number    a counter (inode.c): for what does not fit; valid for the
 *	         32 of generation     life of the daemon
 *
 * and the source tells whether that file still exists.  The generation given to the kernel is a keyed
 * hash of the ID.  Without it, guessing numbers would give access to any file of the source's
 * filesystem, even outside the source.
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
	struct fhandle root;		    /* all others differ only in number and generation */
	dev_t dev;
	uint64_t key[2];
};

#define COUNTED_ID (1ULL << 63)

/* `root_fd` is the source; fs->by_handle must have been set. */
void durable_init(struct durable_ids *d, const struct fs *fs, int root_fd);

/* The ID of the file with these numbers and this handle; 0: it has none. */
uint64_t durable_id(const struct durable_ids *d, const struct stat *st, const struct fhandle *fh);
/* The reverse.  False: not such an ID. */
bool durable_handle(const struct durable_ids *d, uint64_t id, struct fhandle *out);
uint64_t durable_number(uint64_t id); /* the inode number in an ID */
uint32_t durable_generation(const struct durable_ids *d, uint64_t id);

#endif
