/* SPDX-License-Identifier: MIT */
/* Intrusive 4-ary min-heap: each item knows its place, so removal and key change are O(log n).
 * Items are ordered by the signed difference of their keys (keys may wrap), then by `tie`, into
 * which the caller can put the order of insertion.  Not thread-safe. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_item {
	uint64_t key;
	uint64_t tie;
	size_t place; /* index + 1; 0: in no heap */
};

struct heap {
	struct heap_item **items;
	size_t n, room;
};

void heap_init(struct heap *h);
void heap_free(struct heap *h);

/* Makes sure that n items fit; false: out of memory.  heap_push never allocates. */
bool heap_reserve(struct heap *h, size_t n);
void heap_push(struct heap *h, struct heap_item *it);
void heap_remove(struct heap *h, struct heap_item *it);
/* Call after it->key or it->tie has changed. */
void heap_update(struct heap *h, struct heap_item *it);

static inline struct heap_item *heap_top(const struct heap *h)
{
	return h->n ? h->items[0] : NULL;
}

static inline bool heap_contains(const struct heap_item *it)
{
	return it->place != 0;
}

#endif
