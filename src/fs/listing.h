/* SPDX-License-Identifier: MIT */
/* Estimates the size of the next reply to a directory listing: as much as this directory has
 * returned before, so that listing a small directory does not wait for bytes that it will never
 * use.
 * Units    bytes of a reply.  A directory is identified by its node ID.
 * Locking  none: each slot is one atomic word; two directories may evict each other. */
#ifndef FS_LISTING_H
#define FS_LISTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LISTING_SLOTS 1024
#define LISTING_LEAST 1024 /* large enough for any single entry with attributes */

struct listings {
	_Atomic uint64_t slot[LISTING_SLOTS];
};

/* How many bytes to charge for a listing that asks for `size`: at least min(size, LISTING_LEAST). */
size_t listing_expect(const struct listings *l, uint64_t dir, size_t size);
/* A listing that was allowed `size` bytes used `used`; `cut`: there was more, so the next one is
 * allowed twice as much. */
void listing_gave(struct listings *l, uint64_t dir, size_t size, size_t used, bool cut);

#endif
