/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "fs/space_table_internal.h"

#define GUESSES_MAX 256 /* most writes that are counted without a stat in between */

/* An earlier file with this inode number no longer exists. */
void slot_count_new_locked(struct space_table *t, struct space_slot *s, int64_t bytes)
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

void slot_uncount_locked(struct space_table *t, struct space_slot *s)
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
	struct space_slot *s = slot_find_locked(sh, key, dev, ino);
	if (!s && atomic_load_explicit(&t->scanning, memory_order_relaxed))
		s = slot_make_locked(t, sh, key, dev, ino);
	if (!s) {
		space_add(&t->bytes, -bytes);
		space_add(&t->inodes, -1);
	} else {
		slot_ref_locked(t, s);
		if (!s->known) {
			s->known = true;
			s->bytes = s->base = bytes;
		}
		s->gone = true;
		slot_unref_locked(t, sh, s, 0);
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
