/* SPDX-License-Identifier: MIT */
/* The tables of a mirror, written out for a later daemon and read back by it: which inodes and which open files the
 * kernel knows, under the same ids and numbers.
 *
 * Descriptors travel beside the bytes (as SCM_RIGHTS can carry them); records name them by their place in `fds`.
 * The bytes are good on the same machine and for the same version of this format only.
 * Not written: what is remembered for speed alone (listings, habits), and where a directory stream stands, since each
 * request of the kernel says where it goes on.
 *
 * Threads  nobody may run an operation on the mirror meanwhile.
 * Errors   0 or -errno. */
#ifndef FS_STATE_H
#define FS_STATE_H

#include <stddef.h>

struct fs;

struct fs_state {
	char *data;
	size_t len, room;
	int *fds; /* the mirror's own: valid as long as it is */
	size_t n_fds, fds_room;
};

/* *out is {0} before, and to be freed whatever is returned. */
int fs_state_save(struct fs *fs, struct fs_state *out);
/* Into a mirror of the same source that has not served yet.  The descriptors are duplicated.  -EINVAL: not such a
 * state.  After an error the mirror holds a part of it, and can only be freed. */
int fs_state_load(struct fs *fs, const struct fs_state *in);
void fs_state_free(struct fs_state *s);

#endif
