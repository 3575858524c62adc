/* SPDX-License-Identifier: MIT */
#include "base/heap.h"

#include <stdlib.h>

#define ARITY 4

static bool before(const struct heap_item *a, const struct heap_item *b)
{
	int64_t d = (int64_t)(a->key - b->key);
	return d ? d < 0 : (int64_t)(a->tie - b->tie) < 0;
}

static void put(struct heap *h, size_t i, struct heap_item *it)
{
	h->items[i] = it;
	it->place = i + 1;
}

static void sift_up(struct heap *h, size_t i, struct heap_item *it)
{
	while (i > 0) {
		size_t parent = (i - 1) / ARITY;
		if (!before(it, h->items[parent]))
			break;
		put(h, i, h->items[parent]);
		i = parent;
	}
	put(h, i, it);
}

static void sift_down(struct heap *h, size_t i, struct heap_item *it)
{
	for (;;) {
		size_t first = i * ARITY + 1, best = first;
		if (first >= h->n)
			break;
		for (size_t c = first + 1; c < first + ARITY && c < h->n; c++)
			if (before(h->items[c], h->items[best]))
				best = c;
		if (!before(h->items[best], it))
			break;
		put(h, i, h->items[best]);
		i = best;
	}
	put(h, i, it);
}

void heap_init(struct heap *h)
{
	*h = (struct heap){0};
}

void heap_free(struct heap *h)
{
	free(h->items);
	heap_init(h);
}

bool heap_reserve(struct heap *h, size_t n)
{
	if (n <= h->room)
		return true;
	size_t room = h->room ? h->room : 16;
	while (room < n)
		room *= 2;
	struct heap_item **items = realloc(h->items, room * sizeof(struct heap_item *));
	if (!items)
		return false;
	h->items = items;
	h->room = room;
	return true;
}

void heap_push(struct heap *h, struct heap_item *it)
{
	sift_up(h, h->n++, it);
}

void heap_update(struct heap *h, struct heap_item *it)
{
	size_t i = it->place - 1;
	if (i > 0 && before(it, h->items[(i - 1) / ARITY]))
		sift_up(h, i, it);
	else
		sift_down(h, i, it);
}

void heap_remove(struct heap *h, struct heap_item *it)
{
	size_t i = it->place - 1;
	struct heap_item *last = h->items[--h->n];
	it->place = 0;
	if (last == it)
		return;
	put(h, i, last);
	heap_update(h, last);
}
