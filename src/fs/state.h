/* SPDX-License-Identifier: MIT */
/* Saves the tables of a mirror for a later daemon, and loads them there: which inodes and which
 * open files the kernel knows, under the same ids and numbers.
 *
 * Descriptors are passed beside the bytes (SCM_RIGHTS can carry them); records refer to them by
 * their index in `fds`.  The bytes are valid only on the same machine and for the same version of
 * this format.  Not saved: what is remembered for speed alone (listings, habits), and the position
 * of a directory stream, since each request of the kernel says where to continue.
 *
 * Threads  no thread may run an operation on the mirror meanwhile.
 * Errors   0 or -errno. */
#ifndef FS_STATE_H
#define FS_STATE_H

#include <stddef.h>

struct fs;

struct fs_state {
	char *data;
	size_t len, room;
	int *fds; /* owned by the mirror, and valid as long as it exists */
	size_t n_fds, fds_room;
};

/* *out must be {0}; free it with fs_state_free, even after an error. */
int fs_state_save(struct fs *fs, struct fs_state *out);
/* Loads into a mirror of the same source that has served no request yet.  The descriptors are
 * duplicated.  -EINVAL: this is not a saved state.  After an error the mirror contains a part of it
 * and can only be freed. */
int fs_state_load(struct fs *fs, const struct fs_state *in);
void fs_state_free(struct fs_state *s);

#endif
