/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "fs/handle.h"

void handle_table_init(struct handle_table *t)
{
	for (unsigned i = 0; i < HANDLE_SHARDS; i++)
		pthread_mutex_init(&t->shards[i].lock, NULL);
}

void handle_table_free(struct handle_table *t)
{
	for (unsigned i = 0; i < HANDLE_SHARDS; i++) {
		for (unsigned c = 0; c < HANDLE_CHUNKS; c++)
			free(atomic_load(&t->shards[i].chunk[c]));
		pthread_mutex_destroy(&t->shards[i].lock);
	}
}

static unsigned shard_of(const struct handle *h)
{
	return (unsigned)h->fd % HANDLE_SHARDS;
}

static uint64_t number_of(uint32_t generation, uint32_t place, unsigned shard)
{
	return (uint64_t)generation << 32 | (uint64_t)place << HANDLE_SHARD_BITS | shard;
}

/* Creates place number n; all below it exist.  NULL: out of memory or of numbers. */
static struct handle_place *grow_locked(struct handle_shard *s)
{
	for (unsigned i = 0, first = 0; i < HANDLE_CHUNKS; i++) {
		uint32_t size = HANDLE_FIRST_CHUNK << i;
		if (s->n < first + size) {
			if (!atomic_load(&s->chunk[i])) {
				struct handle_place *chunk = calloc(size, sizeof(*chunk));
				if (!chunk)
					return NULL;
				atomic_store_explicit(&s->chunk[i], chunk, memory_order_release);
			}
			return handle_place_at(s, s->n++);
		}
		first += size;
	}
	return NULL;
}

static void free_place_locked(struct handle_shard *s, struct handle_place *p, uint32_t place)
{
	p->next_free = s->free;
	s->free = place + 1;
}

static void enter_locked(struct handle_place *p, struct handle *h)
{
	atomic_store_explicit(&p->handle, h, memory_order_relaxed);
	atomic_store_explicit(&p->number, h->number, memory_order_release);
}

int handle_table_add(struct handle_table *t, struct handle *h)
{
	unsigned shard = shard_of(h);
	struct handle_shard *s = &t->shards[shard];
	pthread_mutex_lock(&s->lock);
	struct handle_place *p;
	uint32_t place;
	if (s->free) {
		place = s->free - 1;
		p = handle_place_at(s, place);
		s->free = p->next_free;
	} else {
		place = s->n;
		p = grow_locked(s);
	}
	if (p) {
		if (++p->generation == 0)
			p->generation = 1;
		h->number = number_of(p->generation, place, shard);
		enter_locked(p, h);
	}
	pthread_mutex_unlock(&s->lock);
	return p ? 0 : -ENOMEM;
}

/* Takes a place out of the list of free ones; false: it is not in the list. */
static bool claim_locked(struct handle_shard *s, uint32_t place)
{
	for (uint32_t *link = &s->free; *link; link = &handle_place_at(s, *link - 1)->next_free)
		if (*link == place + 1) {
			*link = handle_place_at(s, place)->next_free;
			return true;
		}
	return false;
}

int handle_table_restore(struct handle_table *t, struct handle *h)
{
	struct handle_shard *s = &t->shards[h->number & (HANDLE_SHARDS - 1)];
	uint32_t generation = (uint32_t)(h->number >> 32);
	uint32_t place = (uint32_t)h->number >> HANDLE_SHARD_BITS;
	int res = generation ? 0 : -EINVAL;
	pthread_mutex_lock(&s->lock);
	while (res == 0 && s->n <= place) {
		uint32_t next = s->n;
		struct handle_place *p = grow_locked(s);
		if (p)
			free_place_locked(s, p, next);
		else
			res = -ENOMEM;
	}
	if (res == 0 && !claim_locked(s, place))
		res = -EEXIST;
	if (res == 0) {
		struct handle_place *p = handle_place_at(s, place);
		p->generation = generation;
		enter_locked(p, h);
	}
	pthread_mutex_unlock(&s->lock);
	return res;
}

void handle_table_remove(struct handle_table *t, struct handle *h)
{
	struct handle_shard *s = &t->shards[h->number & (HANDLE_SHARDS - 1)];
	uint32_t place = (uint32_t)h->number >> HANDLE_SHARD_BITS;
	pthread_mutex_lock(&s->lock);
	struct handle_place *p = handle_place_at(s, place);
	atomic_store_explicit(&p->number, 0, memory_order_release);
	atomic_store_explicit(&p->handle, NULL, memory_order_relaxed);
	free_place_locked(s, p, place);
	pthread_mutex_unlock(&s->lock);
}

void handle_table_each(struct handle_table *t, bool (*visit)(struct handle *h, void *ctx),
		       void *ctx)
{
	bool go_on = true;
	for (unsigned i = 0; i < HANDLE_SHARDS && go_on; i++) {
		struct handle_shard *s = &t->shards[i];
		pthread_mutex_lock(&s->lock);
		for (uint32_t place = 0; place < s->n && go_on; place++) {
			struct handle *h = atomic_load(&handle_place_at(s, place)->handle);
			go_on = !h || visit(h, ctx);
		}
		pthread_mutex_unlock(&s->lock);
	}
}
