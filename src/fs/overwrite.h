/* SPDX-License-Identifier: MIT */
/* Keeps the write-back of a mapped page from undoing a direct write.
 *
 * With direct I/O the kernel drops the pages that a write(2) covers, sends the WRITE, and drops them
 * again when it has the reply.  In between, while the WRITE is parked or under way, a page fault may
 * read a page with its old bytes again, and a store may make it dirty:
 *
 *	writer   drop page ── WRITE ............................. pwrite ── reply ── drop page
 *	mapper                     READ (old bytes) ── store                             └─ write-back
 *
 * The write-back carries the whole page and would replace the bytes of the WRITE by the old ones.  So
 * every inode records which bytes direct writes have changed since the kernel last read their pages,
 * and write-back leaves these alone.  Bytes that were both written and stored to may end up either
 * way, as on any filesystem.
 *
 * The record is bounded: while a file is mapped, the kernel sends one write(2) at a time, in
 * consecutive pieces, so a WRITE that does not continue the previous one implies that the pages of
 * that one have been dropped.
 *
 * Locking: one mutex inside, never held during a call to the source.  A direct write waits for a
 * write-back of the same bytes that has begun; nothing else waits. */
#ifndef FS_OVERWRITE_H
#define FS_OVERWRITE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define OVERWRITES_MAX 16

struct byte_range {
	uint64_t from, to; /* `to` is exclusive */
};

/* A direct write or a write-back in progress. */
struct range_io {
	struct list link;
	struct byte_range range;
};

struct overwrites {
	/* What every write changes comes first: these are few cache lines, and none in which others write. */
	pthread_mutex_t lock;
	uint64_t next; /* where the next piece of the last write(2) would begin */
	unsigned n_done;
	struct list writes, write_backs; /* struct range_io: in progress */
	/* Written and not read by the kernel since, in the order of the writes. */
	struct byte_range done[OVERWRITES_MAX];
	pthread_cond_t written_back;
};

void overwrites_init(struct overwrites *o);
void overwrites_destroy(struct overwrites *o);

/* Bracket the write to the source; `written` may be less than requested, or negative. */
void overwrite_begin(struct overwrites *o, struct range_io *io, uint64_t off, uint64_t size);
void overwrite_end(struct overwrites *o, struct range_io *io, int64_t written);

/* Call before reading the source to fill pages, or when the data of a write(2) is already in the
 * pages. */
void overwrite_pages_filled(struct overwrites *o, uint64_t off, uint64_t size);

/* Bracket the writes of a write-back to the source.  In between, write_back_next returns the parts
 * to be written, one after the other; start with *part = {off, off}.  False: no more. */
void write_back_begin(struct overwrites *o, struct range_io *io, uint64_t off, uint64_t size);
bool write_back_next(struct overwrites *o, const struct range_io *io, struct byte_range *part);
void write_back_end(struct overwrites *o, struct range_io *io);

#endif
