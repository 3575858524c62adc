/* SPDX-License-Identifier: MIT */
/* Walks a tree with several threads and shows every file to a visitor, once for each of its names.
 * Mounts inside the tree are not entered.
 *
 * Errors   0; -ECANCELED: *stop was set; -ENOMEM and the like.  Files that disappear meanwhile are no error;
 *          unreadable directories are counted in `unreadable`. */
#ifndef FS_SPACE_SCAN_H
#define FS_SPACE_SCAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct statx;

struct scan_progress {
	_Atomic uint64_t files,
		bytes; /* seen so far; a file with several names is counted for each */
	_Atomic uint64_t unreadable; /* directories */
};

struct scan_config {
	int root_fd; /* of a directory; O_PATH will do */
	bool slowly; /* one thread, which rests ten times as long as it works */
	const _Atomic bool *stop;
	struct scan_progress *progress;
	/* `name` in dir_fd ("" for the root itself).  0, or -errno to end the scan.  Any thread. */
	int (*visit)(void *ctx, int dir_fd, const char *name, const struct statx *st);
	void *ctx;
};

int space_scan(const struct scan_config *cfg);

#endif
