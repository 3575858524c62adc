/* SPDX-License-Identifier: MIT */
/* How many bytes the next reply to a directory listing may need: as much as this directory has given
 * before, so that listing a small directory does not wait for what it will never use.
 * Units    bytes of a reply.  A directory is named by its node id.
 * Locking  none: each slot is one atomic word; two directories may push each other out. */
#ifndef FS_LISTING_H
#define FS_LISTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LISTING_SLOTS 1024
#define LISTING_LEAST 1024 /* holds any one entry, with attributes */

struct listings {
	_Atomic uint64_t slot[LISTING_SLOTS];
};

/* What to admit of a listing that asks for `size`: at least min(size, LISTING_LEAST). */
size_t listing_expect(const struct listings *l, uint64_t dir, size_t size);
/* A listing that was let have `size` filled `used`; `cut`: there was more.  Then the next one is let
 * have twice as much. */
void listing_gave(struct listings *l, uint64_t dir, size_t size, size_t used, bool cut);

#endif
