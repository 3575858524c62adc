/* SPDX-License-Identifier: MIT */
/* Keeps the write-back of a mapped page from undoing a direct write.
 *
 * With direct I/O the kernel drops the pages that a write(2) covers, sends the WRITE, and drops them
 * again when it has the answer.  In between, while the WRITE is parked or on its way, a page fault may
 * bring a page back with its old bytes, and a store may make it dirty:
 *
 *	writer   drop page ── WRITE ............................. pwrite ── answer ── drop page
 *	mapper                     READ (old bytes) ── store                             └─ write-back
 *
 * The write-back carries the whole page, and would put the old bytes over those of the WRITE.  So every
 * inode remembers which bytes direct writes have changed since the kernel last read their pages, and
 * write-back leaves those alone.  Bytes that were both written and stored to meanwhile may end either way,
 * as on any filesystem.
 *
 * Bounded: while a file is mapped the kernel sends one write(2) at a time, in pieces one after the
 * other, so a WRITE that does not continue the last one tells that the pages of that one are dropped.
 *
 * Locking: one mutex inside, never held over a backing call.  A direct write waits for the write-back
 * of the same bytes if that has begun; nothing else waits. */
#ifndef FS_OVERWRITE_H
#define FS_OVERWRITE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define OVERWRITES_MAX 16

struct byte_range {
	uint64_t from, to; /* `to` is not part of it */
};

/* A direct write or a write-back that is being carried out. */
struct range_io {
	struct list link;
	struct byte_range range;
};

struct overwrites {
	pthread_mutex_t lock;
	pthread_cond_t written_back;
	struct list writes, write_backs; /* struct range_io: being carried out */
	/* Written, and not read by the kernel since; in the order in which they were written. */
	struct byte_range done[OVERWRITES_MAX];
	unsigned n_done;
	uint64_t next; /* where the next piece of the last write(2) would begin */
};

void overwrites_init(struct overwrites *o);
void overwrites_destroy(struct overwrites *o);

/* Around the backing call of a direct write; `written` may be less than asked for, or negative. */
void overwrite_begin(struct overwrites *o, struct range_io *io, uint64_t off, uint64_t size);
void overwrite_end(struct overwrites *o, struct range_io *io, int64_t written);

/* Before the backing is read to fill pages, or when a write(2) has gone through them. */
void overwrite_pages_filled(struct overwrites *o, uint64_t off, uint64_t size);

/* Around the backing calls of a write-back.  Between the two, write_back_next gives the parts to be
 * written, one after the other; start with *part = {off, off}.  False: no more. */
void write_back_begin(struct overwrites *o, struct range_io *io, uint64_t off, uint64_t size);
bool write_back_next(struct overwrites *o, const struct range_io *io, struct byte_range *part);
void write_back_end(struct overwrites *o, struct range_io *io);

#endif
