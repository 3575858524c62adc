/* SPDX-License-Identifier: MIT */
/* Stores the total of a tree in a small file, from one mount to the next.
 *
 * The file says "dirty" while the tree is mounted and "clean" after a clean unmount; it is replaced atomically.  After a crash it
 * says "dirty", and the tree is scanned.  A lock file beside it keeps a second daemon from writing it.
 *
 * Only the newest STATE_TOTALS_MAX files are kept, and those in use; a source whose total was removed is scanned.
 *
 * The name of the file is derived from the source's path; its content is used only for the same directory of the same
 * filesystem. */
#ifndef FS_SPACE_STATE_H
#define FS_SPACE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define STATE_TOTALS_MAX 1024

struct space_state {
	char *path; /* NULL: totals cannot be stored */
	int dir_fd, lock_fd;
	char name[32];
	char identity[160]; /* of the directory */
};

struct space_total {
	int64_t bytes, inodes;
};

/* Creates `dir` if necessary, mode 0700; NULL: nothing is stored.  0, or -errno: why totals cannot be stored. */
int state_open(struct space_state *s, const char *dir, const char *source, int root_fd);
void state_close(struct space_state *s);
/* True: the last unmount of the tree was clean, with this total. */
bool state_load(const struct space_state *s, struct space_total *out);
/* 0 or -errno.  If `clean` is false, an old total is gone even if this fails, for example because the disk is full. */
int state_save(const struct space_state *s, const struct space_total *total, bool clean);

#endif
