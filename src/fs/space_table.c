/* SPDX-License-Identifier: MIT */
#include "fs/space_table.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN 64
#define VISITED_MIN 256
#define GUESSES_MAX 256 /* most writes that are counted without a stat in between */

/* When a file is checked again after its last change.  Dirty data is written within half a minute, which may allocate blocks
 * for the file's block map; XFS frees preallocated blocks beyond the end of a file within five minutes. */
static const uint64_t look_after_ns[] = {NSEC_PER_SEC, 5 * NSEC_PER_SEC, 40 * NSEC_PER_SEC,
					 400 * NSEC_PER_SEC};

static uint64_t key_of(dev_t dev, uint64_t ino)
{
	uint64_t h = (ino ^ ((uint64_t)dev << 44)) * 0x9E3779B97F4A7C15ULL;
	h ^= h >> 32;
	return h ? h : 1;
}

static struct space_shard *shard_of(struct space_table *t, uint64_t key)
{
	return &t->shard[key % SPACE_SHARDS];
}

static size_t bucket_of(const struct space_shard *sh, uint64_t key)
{
	return (key / SPACE_SHARDS) & (sh->buckets - 1);
}

void table_init(struct space_table *t)
{
	memset(t, 0, sizeof(*t));
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		pthread_mutex_init(&t->shard[i].lock, NULL);
		list_init(&t->shard[i].idle);
	}
}

static void forget_visited(struct space_shard *sh)
{
	free(sh->visited);
	sh->visited = NULL;
	sh->n_visited = sh->visited_size = 0;
}

static void free_slots(struct space_shard *sh)
{
	for (size_t b = 0; b < sh->buckets; b++)
		for (struct space_slot *s = sh->bucket[b], *next; s; s = next) {
			next = s->next;
			free(s);
		}
	free(sh->bucket);
	sh->bucket = NULL;
	sh->n = sh->buckets = 0;
	list_init(&sh->idle);
	forget_visited(sh);
}

void table_destroy(struct space_table *t)
{
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		free_slots(&t->shard[i]);
		pthread_mutex_destroy(&t->shard[i].lock);
	}
}

void table_reset(struct space_table *t)
{
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		pthread_mutex_lock(&t->shard[i].lock);
		free_slots(&t->shard[i]);
		pthread_mutex_unlock(&t->shard[i].lock);
	}
	_Atomic int64_t *totals[] = {&t->bytes.used, &t->bytes.committed, &t->inodes.used,
				     &t->inodes.committed};
	for (unsigned i = 0; i < ARRAY_SIZE(totals); i++)
		atomic_store(totals[i], 0);
	_Atomic uint64_t *counts[] = {&t->slots, &t->idle, &t->bypassing, &t->moves};
	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++)
		atomic_store(counts[i], 0);
	atomic_store(&t->scanning, false);
	atomic_store(&t->missed, false);
}

/* -- finding and making; the shard's lock is held -- */

static bool grow_locked(struct space_shard *sh)
{
	size_t wanted = sh->buckets ? 2 * sh->buckets : BUCKETS_MIN;
	struct space_slot **old = sh->bucket, **bucket = calloc(wanted, sizeof(*bucket));
	if (!bucket)
		return sh->buckets != 0;
	size_t n_old = sh->buckets;
	sh->bucket = bucket;
	sh->buckets = wanted;
	for (size_t b = 0; b < n_old; b++)
		for (struct space_slot *s = old[b], *next; s; s = next) {
			next = s->next;
			struct space_slot **to = &bucket[bucket_of(sh, key_of(s->dev, s->ino))];
			s->next = *to;
			*to = s;
		}
	free(old);
	return true;
}

static struct space_slot *find_locked(const struct space_shard *sh, uint64_t key, dev_t dev,
				      uint64_t ino)
{
	struct space_slot *s = sh->buckets ? sh->bucket[bucket_of(sh, key)] : NULL;
	while (s && (s->ino != ino || s->dev != dev))
		s = s->next;
	return s;
}

static bool was_visited_locked(const struct space_shard *sh, uint64_t key)
{
	size_t mask = sh->visited_size - 1;
	if (!sh->visited_size)
		return false;
	for (size_t at = (key / SPACE_SHARDS) & mask; sh->visited[at]; at = (at + 1) & mask)
		if (sh->visited[at] == key)
			return true;
	return false;
}

static struct space_slot *make_locked(struct space_table *t, struct space_shard *sh, uint64_t key,
				      dev_t dev, uint64_t ino)
{
	if (sh->n >= sh->buckets && !grow_locked(sh))
		return NULL;
	struct space_slot *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->dev = dev;
	s->ino = ino;
	s->exists = true;
	list_init(&s->idle);
	s->in_scan = s->base_exists = was_visited_locked(sh, key);
	struct space_slot **at = &sh->bucket[bucket_of(sh, key)];
	s->next = *at;
	*at = s;
	sh->n++;
	atomic_fetch_add_explicit(&t->slots, 1, memory_order_relaxed);
	return s;
}

static void drop_locked(struct space_table *t, struct space_shard *sh, struct space_slot *s)
{
	struct space_slot **at = &sh->bucket[bucket_of(sh, key_of(s->dev, s->ino))];
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	if (!list_empty(&s->idle))
		atomic_fetch_sub_explicit(&t->idle, 1, memory_order_relaxed);
	list_remove(&s->idle);
	sh->n--;
	atomic_fetch_sub_explicit(&t->slots, 1, memory_order_relaxed);
	free(s);
}

static void ref_locked(struct space_table *t, struct space_slot *s)
{
	if (!list_empty(&s->idle)) {
		atomic_fetch_sub_explicit(&t->idle, 1, memory_order_relaxed);
		list_remove(&s->idle);
	}
	s->refs++;
	s->unseen = false;
}

/* An earlier file with this inode number no longer exists. */
static void count_new_locked(struct space_table *t, struct space_slot *s, int64_t bytes)
{
	if (!s->known)
		s->base = bytes; /* in case the scan has already counted it */
	if (!s->known || !s->exists)
		space_add(&t->inodes, 1);
	space_add(&t->bytes, bytes - s->bytes);
	s->bytes = bytes;
	s->known = s->exists = s->dirty = true;
	s->gone = false;
	s->keep_end = 0;
	s->solid_to = 0;
	s->handle_bytes = 0;
	s->looks = 0;
	s->applied = atomic_load_explicit(&s->ticket, memory_order_relaxed);
}

static struct space_slot *get(struct space_table *t, dev_t dev, uint64_t ino, bool make,
			      const int64_t *new_bytes)
{
	uint64_t key = key_of(dev, ino);
	struct space_shard *sh = shard_of(t, key);
	pthread_mutex_lock(&sh->lock);
	struct space_slot *s = find_locked(sh, key, dev, ino);
	if (!s && make)
		s = make_locked(t, sh, key, dev, ino);
	if (s)
		ref_locked(t, s);
	if (s && new_bytes)
		count_new_locked(t, s, *new_bytes);
	pthread_mutex_unlock(&sh->lock);
	if (!s && make)
		atomic_store(&t->missed, true);
	return s;
}

struct space_slot *table_get(struct space_table *t, dev_t dev, uint64_t ino)
{
	return get(t, dev, ino, true, NULL);
}

struct space_slot *table_get_new(struct space_table *t, dev_t dev, uint64_t ino, int64_t bytes)
{
	return get(t, dev, ino, true, &bytes);
}

struct space_slot *table_find(struct space_table *t, dev_t dev, uint64_t ino)
{
	return get(t, dev, ino, false, NULL);
}

/* -- letting go -- */

static void uncount_locked(struct space_table *t, struct space_slot *s)
{
	if (s->known)
		space_add(&t->bytes, -s->bytes);
	if (s->exists)
		space_add(&t->inodes, -1);
	s->bytes = 0;
	s->known = true;
	s->exists = false;
	s->dirty = false;
	s->solid_to = 0;
	s->applied = atomic_load_explicit(&s->ticket, memory_order_relaxed);
}

static void unref_locked(struct space_table *t, struct space_shard *sh, struct space_slot *s,
			 uint64_t now_ns)
{
	if (s->gone && !s->handles && (s->exists || s->bytes))
		uncount_locked(t, s);
	if (--s->refs)
		return;
	bool keep = atomic_load_explicit(&t->scanning, memory_order_relaxed);
	if (!keep && (!s->known || s->gone || !s->dirty)) {
		drop_locked(t, sh, s);
		return;
	}
	if (s->looks >= ARRAY_SIZE(look_after_ns)) {
		if (!keep) {
			drop_locked(t, sh, s);
			return;
		}
		s->looks = 0;
	}
	s->due_ns = now_ns + look_after_ns[s->looks];
	list_push_tail(&sh->idle, &s->idle);
	atomic_fetch_add(&t->idle, 1); /* before the caller checks whether the keeper sleeps */
}

static struct space_shard *lock_of(struct space_table *t, const struct space_slot *s)
{
	struct space_shard *sh = shard_of(t, key_of(s->dev, s->ino));
	pthread_mutex_lock(&sh->lock);
	return sh;
}

void table_put(struct space_table *t, struct space_slot *s, uint64_t now_ns)
{
	struct space_shard *sh = lock_of(t, s);
	unref_locked(t, sh, s, now_ns);
	pthread_mutex_unlock(&sh->lock);
}

void table_opened(struct space_table *t, struct space_slot *s, bool bypassing,
		  const struct fhandle *fh)
{
	struct space_shard *sh = lock_of(t, s);
	s->handles++;
	s->bypassing += bypassing;
	s->dirty |= bypassing;
	if (bypassing)
		s->solid_to = 0;
	atomic_fetch_add_explicit(&t->bypassing, bypassing, memory_order_relaxed);
	if (fh->bytes <= SPACE_HANDLE_MAX) {
		memcpy(s->handle, fh->data, fh->bytes);
		s->handle_type = fh->type;
		s->handle_bytes = fh->bytes;
	}
	pthread_mutex_unlock(&sh->lock);
}

void table_closed(struct space_table *t, struct space_slot *s, bool bypassing, uint64_t now_ns)
{
	struct space_shard *sh = lock_of(t, s);
	s->handles--;
	s->bypassing -= bypassing;
	atomic_fetch_sub_explicit(&t->bypassing, bypassing, memory_order_relaxed);
	unref_locked(t, sh, s, now_ns);
	pthread_mutex_unlock(&sh->lock);
}

/* -- counting -- */

static void note_solid_locked(struct space_slot *s, const struct slot_stat *st)
{
	bool solid = !s->busy && !s->bypassing && st->bytes == (int64_t)st->size;
	s->solid_to = solid ? st->size : 0;
	s->guesses = 0;
}

void table_base(struct space_table *t, struct space_slot *s, const struct slot_stat *st)
{
	struct space_shard *sh = lock_of(t, s);
	if (!s->known) {
		s->known = true;
		s->exists = st->exists;
		s->bytes = s->base = st->exists ? st->bytes : 0;
		s->keep_end = st->cap < (uint64_t)st->bytes ? (uint64_t)st->bytes : 0;
		s->gone |= !st->exists;
		if (st->exists)
			note_solid_locked(s, st);
	}
	pthread_mutex_unlock(&sh->lock);
}

void table_keep(struct space_table *t, struct space_slot *s, uint64_t end)
{
	struct space_shard *sh = lock_of(t, s);
	s->keep_end = max_u64(s->keep_end, end);
	pthread_mutex_unlock(&sh->lock);
}

void table_cut(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	s->keep_end = 0;
	pthread_mutex_unlock(&sh->lock);
}

uint64_t table_kept(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	uint64_t end = s->keep_end;
	pthread_mutex_unlock(&sh->lock);
	return end;
}

void table_handle(struct space_table *t, struct space_slot *s, struct fhandle *out)
{
	struct space_shard *sh = lock_of(t, s);
	out->bytes = s->handle_bytes;
	out->type = s->handle_type;
	memcpy(out->data, s->handle, s->handle_bytes);
	pthread_mutex_unlock(&sh->lock);
}

static void set_bytes_locked(struct space_table *t, struct space_slot *s, int64_t bytes)
{
	if (bytes == s->bytes)
		return;
	space_add(&t->bytes, bytes - s->bytes);
	s->bytes = bytes;
	s->looks = 0;
}

bool table_settle(struct space_table *t, struct space_slot *s, uint64_t ticket,
		  const struct slot_stat *st)
{
	struct space_shard *sh = lock_of(t, s);
	bool fresh = ticket > s->guessed;
	if (fresh && s->known && ticket > s->applied && (s->exists || s->handles)) {
		uint64_t cap = s->handles ? max_u64(st->cap, s->keep_end) : UINT64_MAX;
		s->applied = ticket;
		set_bytes_locked(t, s, (int64_t)min_u64((uint64_t)st->bytes, cap));
		note_solid_locked(s, st);
	}
	s->dirty = true;
	pthread_mutex_unlock(&sh->lock);
	return fresh;
}

/* -- writes whose cost is known -- */

bool table_write_begin(struct space_table *t, struct space_slot *s, struct slot_write *w,
		       uint64_t *growth)
{
	struct space_shard *sh = lock_of(t, s);
	bool sure = s->solid_to && w->from <= s->solid_to && !s->busy && s->guesses < GUESSES_MAX;
	uint64_t end = space_round_up(w->to, w->block);
	w->epoch = s->epoch;
	*growth = sure && end > s->solid_to ? end - s->solid_to : 0;
	pthread_mutex_unlock(&sh->lock);
	return sure;
}

bool table_write_end(struct space_table *t, struct space_slot *s, const struct slot_write *w)
{
	struct space_shard *sh = lock_of(t, s);
	bool sure = s->solid_to && w->from <= s->solid_to && w->epoch == s->epoch &&
		    (s->exists || s->handles);
	if (sure) {
		uint64_t end = max_u64(s->solid_to, space_round_up(w->to, w->block));
		set_bytes_locked(t, s, s->bytes + (int64_t)(end - s->solid_to));
		s->solid_to = end;
		s->guessed = slot_ticket(s);
		s->guesses++;
		s->dirty = true;
	}
	pthread_mutex_unlock(&sh->lock);
	return sure;
}

void table_change_begin(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	s->busy++;
	s->epoch++;
	s->solid_to = 0;
	pthread_mutex_unlock(&sh->lock);
}

void table_change_end(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	s->busy--;
	pthread_mutex_unlock(&sh->lock);
}

bool table_is_guessed(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	bool guessed = s->guesses;
	pthread_mutex_unlock(&sh->lock);
	return guessed;
}

void table_gone(struct space_table *t, dev_t dev, uint64_t ino, int64_t bytes)
{
	uint64_t key = key_of(dev, ino);
	struct space_shard *sh = shard_of(t, key);
	pthread_mutex_lock(&sh->lock);
	struct space_slot *s = find_locked(sh, key, dev, ino);
	if (!s && atomic_load_explicit(&t->scanning, memory_order_relaxed))
		s = make_locked(t, sh, key, dev, ino);
	if (!s) {
		space_add(&t->bytes, -bytes);
		space_add(&t->inodes, -1);
	} else {
		ref_locked(t, s);
		if (!s->known) {
			s->known = true;
			s->bytes = s->base = bytes;
		}
		s->gone = true;
		unref_locked(t, sh, s, 0);
	}
	pthread_mutex_unlock(&sh->lock);
}

void table_vanished(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	s->gone = true;
	pthread_mutex_unlock(&sh->lock);
}

void table_named(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	s->gone = false;
	if (!s->exists) {
		s->exists = true;
		space_add(&t->inodes, 1);
	}
	pthread_mutex_unlock(&sh->lock);
}

/* -- scanning -- */

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

void table_scan_begin(struct space_table *t)
{
	lock_all(t);
	atomic_store(&t->missed, false);
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		struct space_shard *sh = &t->shard[i];
		forget_visited(sh);
		for (size_t b = 0; b < sh->buckets; b++)
			for (struct space_slot *s = sh->bucket[b]; s; s = s->next) {
				s->in_scan = s->base_exists = false;
				s->unseen = s->refs == 0;
			}
	}
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

enum visit table_visit(struct space_table *t, dev_t dev, uint64_t ino, bool remember)
{
	uint64_t key = key_of(dev, ino);
	struct space_shard *sh = shard_of(t, key);
	enum visit v = VISIT_COUNT;
	pthread_mutex_lock(&sh->lock);
	if (sh->n && find_locked(sh, key, dev, ino))
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
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		struct space_shard *sh = &t->shard[i];
		forget_visited(sh);
		list_for_each_safe (it, &sh->idle) {
			struct space_slot *s = list_entry(it, struct space_slot, idle);
			if (!s->known || s->gone || !s->dirty || s->unseen)
				drop_locked(t, sh, s);
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
				/* Not changed: the count of the scan is right.  Unseen: no longer in the tree. */
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

/* -- looking again -- */

/* Open files whose writes bypass the daemon. */
static unsigned due_bypassing_locked(struct space_table *t, struct space_shard *sh,
				     struct space_slot **out, unsigned max)
{
	unsigned n = 0;
	for (size_t b = 0; b < sh->buckets; b++)
		for (struct space_slot *s = sh->bucket[b]; s && n < max; s = s->next)
			if (s->bypassing) {
				ref_locked(t, s);
				out[n++] = s;
			}
	return n;
}

static unsigned due_idle_locked(struct space_table *t, struct space_shard *sh, uint64_t now_ns,
				uint64_t keep, struct space_slot **out, unsigned max)
{
	unsigned n = 0;
	list_for_each_safe (it, &sh->idle) {
		struct space_slot *s = list_entry(it, struct space_slot, idle);
		if (atomic_load_explicit(&t->idle, memory_order_relaxed) > keep) {
			drop_locked(t, sh, s);
		} else if (s->due_ns <= now_ns && n < max) {
			ref_locked(t, s);
			s->looks++;
			out[n++] = s;
		}
	}
	return n;
}

unsigned table_due(struct space_table *t, uint64_t now_ns, uint64_t keep, struct space_slot **out,
		   unsigned max)
{
	unsigned n = 0;
	bool bypassing = atomic_load_explicit(&t->bypassing, memory_order_relaxed);
	if (atomic_load(&t->scanning))
		return 0;
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		struct space_shard *sh = &t->shard[i];
		pthread_mutex_lock(&sh->lock);
		if (bypassing)
			n += due_bypassing_locked(t, sh, out + n, max - n);
		n += due_idle_locked(t, sh, now_ns, keep, out + n, max - n);
		pthread_mutex_unlock(&sh->lock);
	}
	return n;
}
