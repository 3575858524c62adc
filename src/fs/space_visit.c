/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "fs/space_table_internal.h"

#define VISITED_MIN 256

void forget_visited_locked(struct space_shard *sh)
{
	free(sh->visited);
	sh->visited = NULL;
	sh->n_visited = sh->visited_size = 0;
}

bool was_visited_locked(const struct space_shard *sh, uint64_t key)
{
	size_t mask = sh->visited_size - 1;
	if (!sh->visited_size)
		return false;
	for (size_t at = (key / SPACE_SHARDS) & mask; sh->visited[at]; at = (at + 1) & mask)
		if (sh->visited[at] == key)
			return true;
	return false;
}

static void lock_all(struct space_table *t)
{
	for (unsigned i = 0; i < SPACE_SHARDS; i++)
		pthread_mutex_lock(&t->shard[i].lock);
}

static void unlock_all(struct space_table *t)
{
	for (unsigned i = 0; i < SPACE_SHARDS; i++)
		pthread_mutex_unlock(&t->shard[i].lock);
}

void table_scan_begin(struct space_table *t, bool alone)
{
	lock_all(t);
	atomic_store(&t->missed, false);
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		struct space_shard *sh = &t->shard[i];
		forget_visited_locked(sh);
		for (size_t b = 0; b < sh->buckets; b++)
			for (struct space_slot *s = sh->bucket[b]; s; s = s->next) {
				s->in_scan = s->base_exists = false;
				s->unseen = s->refs == 0;
			}
	}
	atomic_store(&t->alone, alone);
	atomic_store(&t->disturbed, false);
	atomic_store(&t->scanning, true);
	atomic_fetch_add(&t->epoch, 1);
	unlock_all(t);
}

static bool grow_visited_locked(struct space_shard *sh)
{
	size_t n_old = sh->visited_size, size = n_old ? 2 * n_old : VISITED_MIN;
	uint64_t *old = sh->visited, *set = calloc(size, sizeof(*set));
	if (!set)
		return false;
	for (size_t i = 0; i < n_old; i++) {
		if (!old[i])
			continue;
		size_t at = (old[i] / SPACE_SHARDS) & (size - 1);
		while (set[at])
			at = (at + 1) & (size - 1);
		set[at] = old[i];
	}
	free(old);
	sh->visited = set;
	sh->visited_size = size;
	return true;
}

static bool add_visited_locked(struct space_shard *sh, uint64_t key)
{
	if (4 * sh->n_visited >= 3 * sh->visited_size && !grow_visited_locked(sh))
		return false;
	size_t mask = sh->visited_size - 1, at = (key / SPACE_SHARDS) & mask;
	while (sh->visited[at])
		at = (at + 1) & mask;
	sh->visited[at] = key;
	sh->n_visited++;
	return true;
}

enum visit table_visit(struct space_table *t, dev_t dev, uint64_t ino, bool has_links)
{
	uint64_t key = key_of(dev, ino);
	struct space_shard *sh = shard_of(t, key);
	bool remember = has_links || !atomic_load_explicit(&t->alone, memory_order_relaxed);
	if (!remember && !atomic_load_explicit(&t->slots, memory_order_relaxed))
		return VISIT_COUNT;
	enum visit v = VISIT_COUNT;
	pthread_mutex_lock(&sh->lock);
	if (sh->n && slot_find_locked(sh, key, dev, ino))
		v = VISIT_SLOT;
	else if (was_visited_locked(sh, key))
		v = VISIT_KNOWN;
	else if (remember && !add_visited_locked(sh, key))
		v = VISIT_NO_MEMORY;
	pthread_mutex_unlock(&sh->lock);
	return v;
}

/* Drops slots that were kept only for the scan. */
static void end_locked(struct space_table *t)
{
	atomic_store(&t->scanning, false);
	atomic_store(&t->alone, false);
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		struct space_shard *sh = &t->shard[i];
		forget_visited_locked(sh);
		list_for_each_safe (it, &sh->idle) {
			struct space_slot *s = list_entry(it, struct space_slot, idle);
			if (!s->known || s->gone || !s->dirty || s->unseen)
				slot_drop_locked(t, sh, s);
		}
	}
}

void table_scan_end(struct space_table *t, int64_t bytes, int64_t inodes)
{
	lock_all(t);
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		const struct space_shard *sh = &t->shard[i];
		for (size_t b = 0; b < sh->buckets; b++)
			for (const struct space_slot *s = sh->bucket[b]; s; s = s->next) {
				/* Not known: not changed, so the scan counted it right.  Unseen:
				 * not in the tree. */
				if (!s->known || s->unseen)
					continue;
				bytes += s->bytes - (s->in_scan ? s->base : 0);
				inodes += s->exists - s->base_exists;
			}
	}
	space_add(&t->bytes, bytes - atomic_load(&t->bytes.used));
	space_add(&t->inodes, inodes - atomic_load(&t->inodes.used));
	end_locked(t);
	unlock_all(t);
}

void table_scan_abort(struct space_table *t)
{
	lock_all(t);
	for (unsigned i = 0; i < SPACE_SHARDS; i++)
		list_for_each (it, &t->shard[i].idle)
			list_entry(it, struct space_slot, idle)->unseen = false;
	end_locked(t);
	unlock_all(t);
}
