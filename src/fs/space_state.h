/* SPDX-License-Identifier: MIT */
/* The total of a tree, kept in a small file from one mount of it to the next.
 *
 * The file says "dirty" while the tree is mounted and "clean" after an orderly end, and is replaced as a whole each time; so what
 * it says after a crash is "dirty", and the tree is scanned.  A lock beside it keeps a second daemon from writing it.
 *
 * The file's name is made of the source's path, and what it says counts only for the same directory of the same
 * filesystem. */
#ifndef FS_SPACE_STATE_H
#define FS_SPACE_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct space_state {
	char *path; /* NULL: nothing can be kept */
	int dir_fd, lock_fd;
	char name[32];
	char identity[160]; /* of the directory */
};

struct space_total {
	int64_t bytes, inodes;
};

/* `dir` is made if need be, mode 0700; NULL: nothing is kept.  0, or -errno: why nothing can be kept. */
int state_open(struct space_state *s, const char *dir, const char *source, int root_fd);
void state_close(struct space_state *s);
/* True: the last mount of the tree ended in order, with this total. */
bool state_load(const struct space_state *s, struct space_total *out);
/* 0 or -errno. */
int state_save(const struct space_state *s, const struct space_total *total, bool clean);

#endif
