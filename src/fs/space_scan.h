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

/* What was counted so far. */
struct scan_progress {
	_Atomic uint64_t files; /* names: a file with several is counted for each */
	_Atomic int64_t bytes, inodes;
	_Atomic uint64_t unreadable; /* directories */
};

/* What a visitor counted in a part of a directory; later added to the progress, so that threads do not compete for it. */
struct scan_sum {
	uint64_t files;
	int64_t bytes, inodes;
};

struct scan_config {
	int root_fd; /* of a directory; O_PATH will do */
	bool slowly; /* one thread, which rests ten times as long as it works */
	const _Atomic bool *stop;
	struct scan_progress *progress;
	/* `name` in dir_fd ("" for the root itself): adds what it counts to bytes and inodes of the sum.  0, or -errno to end
	 * the scan.  Any thread. */
	int (*visit)(void *ctx, struct scan_sum *sum, int dir_fd, const char *name,
		     const struct statx *st);
	void (*tell)(void *ctx); /* at least once per directory; NULL: never */
	void *ctx;
};

int space_scan(const struct scan_config *cfg);

#endif
