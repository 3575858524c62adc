/* SPDX-License-Identifier: MIT */
#include "fs/space_table.h"

#include <stdlib.h>
#include <string.h>

#include "fs/space_table_internal.h"

#define BUCKETS_MIN 64

/* After how many seconds a file is checked again: after its last change, then after each check.
 * The kernel writes data to disk at any time within about half a minute, which may allocate blocks
 * for the file's block map; the count is then wrong for at most five seconds.  XFS frees
 * preallocated blocks beyond the end of a file within five minutes, if we may not (space_trim.h). */
static const uint16_t look_after_s[] = {1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 30, 100, 300};

void table_init(struct space_table *t)
{
	memset(t, 0, sizeof(*t));
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		pthread_mutex_init(&t->shard[i].lock, NULL);
		list_init(&t->shard[i].idle);
	}
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
	forget_visited_locked(sh);
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
	_Atomic uint64_t *counts[] = {&t->slots,   &t->idle, &t->bypassing, &t->pending,
				      &t->held_ns, &t->held, &t->moves};
	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++)
		atomic_store(counts[i], 0);
	atomic_store(&t->excess, 0);
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

struct space_slot *slot_find_locked(const struct space_shard *sh, uint64_t key, dev_t dev,
				    uint64_t ino)
{
	struct space_slot *s = sh->buckets ? sh->bucket[bucket_of(sh, key)] : NULL;
	while (s && (s->ino != ino || s->dev != dev))
		s = s->next;
	return s;
}

struct space_slot *slot_make_locked(struct space_table *t, struct space_shard *sh, uint64_t key,
				    dev_t dev, uint64_t ino)
{
	if (sh->n >= sh->buckets && !grow_locked(sh))
		return NULL;
	/* Not calloc, which until glibc 2.41 did not reuse what this thread has just freed. */
	struct space_slot *s = malloc(sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct space_slot){.dev = dev, .ino = ino, .exists = true};
	list_init(&s->idle);
	s->in_scan = s->base_exists = was_visited_locked(sh, key);
	if (atomic_load_explicit(&t->alone, memory_order_relaxed))
		atomic_store(&t->disturbed, true);
	struct space_slot **at = &sh->bucket[bucket_of(sh, key)];
	s->next = *at;
	*at = s;
	sh->n++;
	atomic_fetch_add_explicit(&t->slots, 1, memory_order_relaxed);
	return s;
}

void slot_drop_locked(struct space_table *t, struct space_shard *sh, struct space_slot *s)
{
	struct space_slot **at = &sh->bucket[bucket_of(sh, key_of(s->dev, s->ino))];
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	if (!list_empty(&s->idle))
		atomic_fetch_sub_explicit(&t->idle, 1, memory_order_relaxed);
	list_remove(&s->idle);
	sh->n--;
	atomic_fetch_sub_explicit(&t->excess, s->excess, memory_order_relaxed);
	atomic_fetch_sub_explicit(&t->slots, 1, memory_order_relaxed);
	atomic_fetch_add(&t->drops, 1);
	free(s);
}

void slot_ref_locked(struct space_table *t, struct space_slot *s)
{
	if (!list_empty(&s->idle)) {
		atomic_fetch_sub_explicit(&t->idle, 1, memory_order_relaxed);
		list_remove(&s->idle);
	}
	s->refs++;
	s->unseen = false;
}

struct space_slot *table_get_locked(struct space_table *t, dev_t dev, uint64_t ino,
				    struct space_shard **sh)
{
	uint64_t key = key_of(dev, ino);
	*sh = shard_of(t, key);
	pthread_mutex_lock(&(*sh)->lock);
	struct space_slot *s = slot_find_locked(*sh, key, dev, ino);
	if (!s)
		s = slot_make_locked(t, *sh, key, dev, ino);
	if (s)
		slot_ref_locked(t, s);
	else
		atomic_store(&t->missed, true);
	return s;
}

struct space_slot *table_get(struct space_table *t, dev_t dev, uint64_t ino)
{
	struct space_shard *sh;
	struct space_slot *s = table_get_locked(t, dev, ino, &sh);
	pthread_mutex_unlock(&sh->lock);
	return s;
}

struct space_slot *table_get_new(struct space_table *t, dev_t dev, uint64_t ino, int64_t bytes)
{
	struct space_shard *sh;
	struct space_slot *s = table_get_locked(t, dev, ino, &sh);
	if (s)
		slot_count_new_locked(t, s, bytes);
	pthread_mutex_unlock(&sh->lock);
	return s;
}

struct space_slot *table_find(struct space_table *t, dev_t dev, uint64_t ino)
{
	uint64_t key = key_of(dev, ino);
	struct space_shard *sh = shard_of(t, key);
	pthread_mutex_lock(&sh->lock);
	struct space_slot *s = slot_find_locked(sh, key, dev, ino);
	if (s)
		slot_ref_locked(t, s);
	pthread_mutex_unlock(&sh->lock);
	return s;
}

/* -- letting go -- */

void slot_unref_locked(struct space_table *t, struct space_shard *sh, struct space_slot *s,
		       uint64_t now_ns)
{
	if (s->gone && !s->handles && (s->exists || s->bytes))
		slot_uncount_locked(t, s);
	if (--s->refs)
		return;
	bool keep = atomic_load_explicit(&t->scanning, memory_order_relaxed);
	if (!keep && (!s->known || s->gone || !s->dirty)) {
		slot_drop_locked(t, sh, s);
		return;
	}
	if (s->looks >= ARRAY_SIZE(look_after_s)) {
		if (!keep) {
			slot_drop_locked(t, sh, s);
			return;
		}
		s->looks = 0;
	}
	s->due_ns = now_ns + look_after_s[s->looks] * NSEC_PER_SEC;
	list_push_tail(&sh->idle, &s->idle);
	atomic_fetch_add(&t->idle, 1); /* before the caller checks whether the keeper sleeps */
}

void table_put(struct space_table *t, struct space_slot *s, uint64_t now_ns)
{
	struct space_shard *sh = lock_of(t, s);
	slot_unref_locked(t, sh, s, now_ns);
	pthread_mutex_unlock(&sh->lock);
}

void table_opened(struct space_table *t, struct space_slot *s, bool bypassing,
		  const struct fhandle *fh)
{
	struct space_shard *sh = lock_of(t, s);
	s->handles++;
	s->bypassing += bypassing;
	s->dirty |= bypassing;
	if (bypassing) {
		s->solid_to = 0;
		s->solid_end = false;
	}
	atomic_fetch_add_explicit(&t->bypassing, bypassing, memory_order_relaxed);
	if (fh->bytes <= SPACE_HANDLE_MAX) {
		memcpy(s->handle, fh->data, fh->bytes);
		s->handle_type = fh->type;
		s->handle_bytes = fh->bytes;
	}
	pthread_mutex_unlock(&sh->lock);
}

void table_suspect(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	s->dirty = true;
	slot_note_pending_locked(t, s);
	pthread_mutex_unlock(&sh->lock);
}

static void forget_pending_locked(struct space_table *t, struct space_slot *s)
{
	if (s->pending)
		atomic_fetch_sub(&t->pending, 1);
	s->pending = false;
	s->looks = 0;
}

void table_closed(struct space_table *t, struct space_slot *s, bool bypassing, uint64_t now_ns)
{
	struct space_shard *sh = lock_of(t, s);
	if (--s->handles == 0)
		forget_pending_locked(t, s);
	s->bypassing -= bypassing;
	atomic_fetch_sub_explicit(&t->bypassing, bypassing, memory_order_relaxed);
	slot_unref_locked(t, sh, s, now_ns);
	pthread_mutex_unlock(&sh->lock);
}

void table_hold(struct space_table *t, struct space_slot *s, uint64_t now_ns)
{
	struct space_shard *sh = lock_of(t, s);
	slot_ref_locked(t, s);
	s->handles++;
	pthread_mutex_unlock(&sh->lock);
	atomic_store_explicit(&t->held_ns, now_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&t->held, 1, memory_order_relaxed);
}

void table_release(struct space_table *t, struct space_slot *s, uint64_t now_ns)
{
	table_closed(t, s, false, now_ns);
	atomic_store_explicit(&t->held_ns, now_ns, memory_order_relaxed);
	atomic_fetch_sub_explicit(&t->held, 1, memory_order_release);
}

/* -- looking again -- */

/* An open file is checked if its writes bypass the daemon, or if it was changed. */
static bool open_is_due_locked(struct space_table *t, struct space_slot *s, uint64_t now_ns)
{
	if (s->bypassing || !s->pending)
		return s->bypassing;
	if (!s->dirty || s->looks == ARRAY_SIZE(look_after_s)) {
		forget_pending_locked(t, s);
		return false;
	}
	if (s->due_ns > now_ns)
		return false;
	s->due_ns = now_ns + look_after_s[s->looks++] * NSEC_PER_SEC;
	return true;
}

static unsigned due_open_locked(struct space_table *t, struct space_shard *sh, uint64_t now_ns,
				struct space_slot **out, unsigned max)
{
	unsigned n = 0;
	for (size_t b = 0; b < sh->buckets; b++)
		for (struct space_slot *s = sh->bucket[b]; s && n < max; s = s->next)
			if (s->handles && open_is_due_locked(t, s, now_ns)) {
				slot_ref_locked(t, s);
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
		if (atomic_load_explicit(&t->idle, memory_order_relaxed) > keep && !s->excess) {
			slot_drop_locked(t, sh, s);
		} else if (s->due_ns <= now_ns && n < max) {
			slot_ref_locked(t, s);
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
	bool any_open = atomic_load(&t->bypassing) || atomic_load(&t->pending);
	if (atomic_load(&t->scanning))
		return 0;
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		struct space_shard *sh = &t->shard[i];
		pthread_mutex_lock(&sh->lock);
		if (any_open)
			n += due_open_locked(t, sh, now_ns, out + n, max - n);
		n += due_idle_locked(t, sh, now_ns, keep, out + n, max - n);
		pthread_mutex_unlock(&sh->lock);
	}
	return n;
}
