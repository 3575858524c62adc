/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "fs/space_table_internal.h"

#define PROOF_EVERY 64 /* writes of unknown cost */

static void set_excess_locked(struct space_table *t, struct space_slot *s, int64_t excess)
{
	if (excess != s->excess)
		atomic_fetch_add_explicit(&t->excess, excess - s->excess, memory_order_relaxed);
	s->excess = excess;
}

void slot_count_new_locked(struct space_table *t, struct space_slot *s, int64_t bytes)
{
	if (!s->known)
		s->base = bytes; /* in case the scan has already counted it */
	if (!s->known || !s->exists)
		space_add(&t->inodes, 1);
	space_add(&t->bytes, bytes - s->bytes);
	s->bytes = bytes;
	set_excess_locked(t, s, 0);
	atomic_store_explicit(&s->all_counts, false, memory_order_relaxed);
	s->known = s->exists = true;
	s->dirty = bytes != 0;
	s->gone = false;
	s->keep_end = 0;
	s->solid_to = 0;
	s->solid_end = bytes == 0;
	s->handle_bytes = 0;
	s->looks = 0;
	s->born = s->applied = slot_ticket(s);
}

void slot_uncount_locked(struct space_table *t, struct space_slot *s)
{
	if (s->known)
		space_add(&t->bytes, -s->bytes);
	if (s->exists)
		space_add(&t->inodes, -1);
	s->bytes = 0;
	set_excess_locked(t, s, 0);
	s->known = true;
	s->exists = false;
	s->dirty = false;
	s->solid_to = 0;
	s->solid_end = false;
	s->applied = atomic_load_explicit(&s->ticket, memory_order_relaxed);
}

/* -- counting -- */

/* An empty file is known to have no blocks.  Everything else about allocated blocks comes from
 * table_prove and table_write_end; here it is only discarded, if the file was changed directly in
 * the source. */
static void note_solid_locked(struct space_slot *s, const struct slot_stat *st, uint64_t ticket)
{
	if ((uint64_t)st->bytes < s->solid_to || st->size < s->solid_to) {
		s->solid_to = 0;
		s->solid_end = false;
	}
	if (!st->bytes && !st->size && !s->busy && !s->unsure && !s->bypassing &&
	    ticket > s->changed)
		s->solid_end = true;
}

static void base_locked(struct space_slot *s, const struct slot_stat *st)
{
	if (s->known)
		return;
	s->known = true;
	s->exists = st->exists;
	s->bytes = s->base = st->exists ? st->bytes : 0;
	s->keep_end = st->cap < (uint64_t)st->bytes ? (uint64_t)st->bytes : 0;
	s->gone |= !st->exists;
	if (st->exists)
		note_solid_locked(s, st, s->changed ? 0 : 1);
}

void table_base(struct space_table *t, struct space_slot *s, const struct slot_stat *st)
{
	struct space_shard *sh = lock_of(t, s);
	base_locked(s, st);
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

uint64_t table_counted(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	int64_t bytes = s->bytes;
	pthread_mutex_unlock(&sh->lock);
	return bytes < 0 ? 0 : (uint64_t)bytes;
}

void table_handle(struct space_table *t, struct space_slot *s, struct fhandle *out)
{
	struct space_shard *sh = lock_of(t, s);
	out->bytes = s->handle_bytes;
	out->type = s->handle_type;
	memcpy(out->data, s->handle, s->handle_bytes);
	pthread_mutex_unlock(&sh->lock);
}

/* Records the new size of a file that the total already includes. */
static void moved_locked(struct space_slot *s, int64_t bytes)
{
	s->bytes = bytes;
	s->looks = 0;
	if (s->pending)
		s->due_ns = 0;
}

static void set_bytes_locked(struct space_table *t, struct space_slot *s, int64_t bytes)
{
	if (bytes == s->bytes)
		return;
	space_add(&t->bytes, bytes - s->bytes);
	moved_locked(s, bytes);
}

static void apply_locked(struct space_table *t, struct space_slot *s, const struct slot_stat *st)
{
	/* A closed file without a handle cannot be checked again once its excess has been freed, so all is counted. */
	uint64_t closed = s->handle_bytes ? st->cap_closed : UINT64_MAX;
	uint64_t cap = max_u64(s->handles ? st->cap : closed, s->keep_end);
	uint64_t all = (uint64_t)st->bytes, counted = slot_counts_all(s) ? all : min_u64(all, cap);
	set_bytes_locked(t, s, (int64_t)counted);
	set_excess_locked(t, s, (int64_t)(all - counted));
}

bool table_is_untouched(struct space_table *t, struct space_slot *s, uint64_t ticket)
{
	struct space_shard *sh = lock_of(t, s);
	bool untouched = !s->handles && s->applied + 1 == ticket;
	pthread_mutex_unlock(&sh->lock);
	return untouched;
}

void table_keep_all(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	if (s->bytes > 0)
		s->keep_end = max_u64(s->keep_end, (uint64_t)s->bytes);
	pthread_mutex_unlock(&sh->lock);
}

bool table_has_waste(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	bool waste = s->excess && !s->handles;
	pthread_mutex_unlock(&sh->lock);
	return waste;
}

void table_check_all(struct space_table *t)
{
	for (unsigned i = 0; i < SPACE_SHARDS; i++) {
		struct space_shard *sh = &t->shard[i];
		pthread_mutex_lock(&sh->lock);
		for (size_t b = 0; b < sh->buckets; b++)
			for (struct space_slot *s = sh->bucket[b]; s; s = s->next) {
				set_excess_locked(t, s, 0);
				s->due_ns = 0;
				s->looks = 0;
			}
		pthread_mutex_unlock(&sh->lock);
	}
}

bool table_settle(struct space_table *t, struct space_slot *s, uint64_t ticket,
		  const struct slot_stat *st)
{
	struct space_shard *sh = lock_of(t, s);
	bool fresh = ticket > s->guessed;
	if (fresh && s->known && ticket > s->applied && (s->exists || s->handles)) {
		s->applied = ticket;
		apply_locked(t, s, st);
		note_solid_locked(s, st, ticket);
		s->unverified = false;
		s->dirty = !st->final;
	} else {
		s->dirty = true;
	}
	slot_note_pending_locked(t, s);
	pthread_mutex_unlock(&sh->lock);
	return fresh;
}

/* -- writes whose cost is known -- */

bool table_write_begin(struct space_table *t, struct space_slot *s, struct slot_write *w,
		       uint64_t *growth)
{
	struct space_shard *sh = lock_of(t, s);
	uint64_t end = space_round_up(w->to, w->block);
	*growth = end > s->solid_to ? end - s->solid_to : 0;
	bool sure =
		w->from <= s->solid_to && (s->solid_end || !*growth) && !s->busy && !s->bypassing;
	w->epoch = s->epoch;
	pthread_mutex_unlock(&sh->lock);
	return sure;
}

bool table_write_end(struct space_table *t, struct space_slot *s, const struct slot_write *w,
		     uint64_t reserved)
{
	struct space_shard *sh = lock_of(t, s);
	bool sure = w->from <= s->solid_to && w->epoch == s->epoch && (s->exists || s->handles);
	uint64_t end = max_u64(s->solid_to, space_round_up(w->to, w->block));
	sure &= s->solid_end || end == s->solid_to;
	if (sure) {
		uint64_t growth = end - s->solid_to;
		space_take(&t->bytes, growth, reserved);
		if (growth)
			moved_locked(s, s->bytes + (int64_t)growth);
		s->solid_to = end;
		s->guessed = slot_ticket(s);
		s->unverified = s->dirty = true;
		slot_note_pending_locked(t, s);
	}
	pthread_mutex_unlock(&sh->lock);
	return sure;
}

bool table_wants_proof(struct space_table *t, struct space_slot *s, unsigned *epoch)
{
	struct space_shard *sh = lock_of(t, s);
	bool wants = !s->busy && !s->bypassing && !s->solid_end && s->proof_in == 0;
	s->proof_in = wants ? PROOF_EVERY : s->proof_in ? s->proof_in - 1 : 0;
	*epoch = s->epoch;
	pthread_mutex_unlock(&sh->lock);
	return wants;
}

void table_prove(struct space_table *t, struct space_slot *s, const struct slot_proof *p)
{
	struct space_shard *sh = lock_of(t, s);
	if (s->epoch == p->epoch && !s->busy && !s->bypassing && p->solid_to >= s->solid_to) {
		s->solid_to = p->solid_to;
		s->solid_end = p->solid_end && !s->unsure;
	}
	pthread_mutex_unlock(&sh->lock);
}

void table_change_begin(struct space_table *t, struct space_slot *s, enum slot_change c)
{
	struct space_shard *sh = lock_of(t, s);
	s->epoch++;
	s->solid_end = false;
	if (c == CHANGE_ANY) {
		s->busy++;
		s->solid_to = 0;
	} else {
		s->unsure++;
	}
	pthread_mutex_unlock(&sh->lock);
}

void table_change_end(struct space_table *t, struct space_slot *s, enum slot_change c)
{
	struct space_shard *sh = lock_of(t, s);
	s->changed = atomic_load_explicit(&s->ticket, memory_order_relaxed);
	if (c == CHANGE_ANY)
		s->busy--;
	else
		s->unsure--;
	pthread_mutex_unlock(&sh->lock);
}

/* -- names -- */

bool table_remove_begin(struct space_table *t, dev_t dev, uint64_t ino, const struct slot_stat *st,
			struct slot_victim *v)
{
	struct space_shard *sh;
	v->slot = table_get_locked(t, dev, ino, &sh);
	bool valid = !v->slot || v->slot->known || atomic_load(&t->drops) == v->drops;
	if (v->slot && valid)
		base_locked(v->slot, st);
	v->born = v->slot ? v->slot->born : 0;
	pthread_mutex_unlock(&sh->lock);
	return valid;
}

void table_remove_end(struct space_table *t, const struct slot_victim *v, bool removed,
		      uint64_t now_ns)
{
	struct space_shard *sh = lock_of(t, v->slot);
	if (removed && v->slot->born == v->born)
		v->slot->gone = true;
	slot_unref_locked(t, sh, v->slot, now_ns);
	pthread_mutex_unlock(&sh->lock);
}

void table_vanished(struct space_table *t, struct space_slot *s, uint64_t ticket)
{
	struct space_shard *sh = lock_of(t, s);
	if (ticket > s->born && ticket > s->named)
		s->gone = true;
	pthread_mutex_unlock(&sh->lock);
}

void table_named(struct space_table *t, struct space_slot *s)
{
	struct space_shard *sh = lock_of(t, s);
	s->gone = false;
	s->named = slot_ticket(s);
	if (!s->exists) {
		s->exists = true;
		space_add(&t->inodes, 1);
	}
	pthread_mutex_unlock(&sh->lock);
}
