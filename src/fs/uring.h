/* SPDX-License-Identifier: MIT */
/* One io_uring, as far as FUSE needs it: 128-byte submissions, one registered file, completions in a batch.
 * Uses system calls directly, because liburing has different functions in different releases.
 * Threads  a ring belongs to the thread that called uring_open.
 * Errors   0 or -errno. */
#ifndef FS_URING_H
#define FS_URING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uring {
	int fd;	      /* -1: not open */
	int enter_fd; /* the same, or its registered number */
	unsigned enter_flags;
	unsigned *sq_head, *sq_tail, *sq_flags, sq_mask, sq_entries;
	unsigned *cq_head, *cq_tail, cq_mask;
	char *sqes; /* of 128 bytes */
	struct io_uring_cqe *cqes;
	unsigned queued; /* submissions that the kernel has not got yet */
	void *rings;
	size_t rings_size, sqes_size;
};

/* `file` becomes registered file 0; -1: none. */
int uring_open(struct uring *u, unsigned entries, unsigned completions, int file);
void uring_close(struct uring *u);
/* An empty submission.  If there is no room, submits what is queued first.  NULL: the kernel does
 * not accept it. */
struct io_uring_sqe *uring_get(struct uring *u);
/* Submits, and waits for a completion if `wait`. */
int uring_enter(struct uring *u, bool wait);
/* Takes the next completion; false: there is none. */
bool uring_take(struct uring *u, struct io_uring_cqe *out);
/* True: the kernel has more completions than there is room for, and adds them at the next uring_enter. */
bool uring_has_overflown(const struct uring *u);
/* True if a completion with this user_data can be taken. */
bool uring_has(const struct uring *u, uint64_t user_data);

#endif
