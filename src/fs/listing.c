/* SPDX-License-Identifier: MIT */
#include "fs/listing.h"

#include "base/util.h"

/* Node ID in the upper bits, the most bytes that the directory has returned in the lower; 0: free. */
#define BYTES_BITS 24
#define BYTES_MAX  ((1U << BYTES_BITS) - 1)

static uint64_t tag_of(uint64_t dir)
{
	return dir << BYTES_BITS;
}

static _Atomic uint64_t *slot_of(struct listings *l, uint64_t dir)
{
	return &l->slot[dir % LISTING_SLOTS];
}

static uint64_t known_bytes(uint64_t slot, uint64_t dir)
{
	return slot && (slot & ~(uint64_t)BYTES_MAX) == tag_of(dir) ? slot & BYTES_MAX : 0;
}

size_t listing_expect(const struct listings *l, uint64_t dir, size_t size)
{
	uint64_t slot = atomic_load_explicit(slot_of((struct listings *)(uintptr_t)l, dir),
					     memory_order_relaxed);
	uint64_t known = known_bytes(slot, dir);
	return known ? (size_t)min_u64(size, max_u64(known, LISTING_LEAST)) : size;
}

void listing_gave(struct listings *l, uint64_t dir, size_t size, size_t used, bool cut)
{
	_Atomic uint64_t *slot = slot_of(l, dir);
	uint64_t known = known_bytes(atomic_load_explicit(slot, memory_order_relaxed), dir);
	uint64_t bytes = max_u64(max_u64(known, 1), cut ? 2 * (uint64_t)size : used);
	if (bytes != known)
		atomic_store_explicit(slot, tag_of(dir) | min_u64(bytes, BYTES_MAX),
				      memory_order_relaxed);
}
