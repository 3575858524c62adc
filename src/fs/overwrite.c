/* SPDX-License-Identifier: MIT */
#include "fs/overwrite.h"

#include <string.h>

#include "base/util.h"

static bool overlap(const struct byte_range *a, const struct byte_range *b)
{
	return a->from < b->to && b->from < a->to;
}

void overwrites_init(struct overwrites *o)
{
	*o = (struct overwrites){0};
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->written_back, NULL);
	list_init(&o->writes);
	list_init(&o->write_backs);
}

void overwrites_destroy(struct overwrites *o)
{
	pthread_mutex_destroy(&o->lock);
	pthread_cond_destroy(&o->written_back);
}

static void start_locked(struct list *running, struct range_io *io, uint64_t off, uint64_t size)
{
	io->range = (struct byte_range){off, off + size};
	list_push_tail(running, &io->link);
}

/* The first range of the list that overlaps `r`, or NULL. */
static const struct byte_range *running_in(const struct list *running, const struct byte_range *r)
{
	list_for_each (it, running) {
		const struct range_io *io = list_entry(it, struct range_io, link);
		if (overlap(&io->range, r))
			return &io->range;
	}
	return NULL;
}

/* If the record is full, drops the oldest range: it is the least likely to belong to the newest
 * write(2). */
static void add_done_locked(struct overwrites *o, struct byte_range r)
{
	if (o->n_done && o->done[o->n_done - 1].to == r.from) {
		o->done[o->n_done - 1].to = r.to;
		return;
	}
	if (o->n_done == OVERWRITES_MAX)
		memmove(o->done, o->done + 1, --o->n_done * sizeof(*o->done));
	o->done[o->n_done++] = r;
}

void overwrite_begin(struct overwrites *o, struct range_io *io, uint64_t off, uint64_t size)
{
	pthread_mutex_lock(&o->lock);
	if (off != o->next)
		o->n_done = 0;
	/* from now on write-back leaves this range alone */
	start_locked(&o->writes, io, off, size);
	while (running_in(&o->write_backs, &io->range))
		pthread_cond_wait(&o->written_back, &o->lock);
	pthread_mutex_unlock(&o->lock);
}

void overwrite_end(struct overwrites *o, struct range_io *io, int64_t written)
{
	uint64_t n = written > 0 ? (uint64_t)written : 0;
	pthread_mutex_lock(&o->lock);
	list_remove(&io->link);
	if (n)
		add_done_locked(o, (struct byte_range){io->range.from, io->range.from + n});
	o->next = io->range.from + n;
	pthread_mutex_unlock(&o->lock);
}

/* Does not affect writes in progress: the pages may be filled with data from before them. */
void overwrite_pages_filled(struct overwrites *o, uint64_t off, uint64_t size)
{
	struct byte_range filled = {off, off + size}, old[OVERWRITES_MAX];
	pthread_mutex_lock(&o->lock);
	unsigned n = o->n_done;
	memcpy(old, o->done, n * sizeof(*old));
	o->n_done = 0;
	for (unsigned i = 0; i < n; i++) {
		struct byte_range before = {old[i].from, min_u64(old[i].to, filled.from)};
		struct byte_range after = {max_u64(old[i].from, filled.to), old[i].to};
		if (before.from < before.to)
			add_done_locked(o, before);
		if (after.from < after.to)
			add_done_locked(o, after);
	}
	pthread_mutex_unlock(&o->lock);
}

void write_back_begin(struct overwrites *o, struct range_io *io, uint64_t off, uint64_t size)
{
	pthread_mutex_lock(&o->lock);
	start_locked(&o->write_backs, io, off, size);
	pthread_mutex_unlock(&o->lock);
}

/* A range that overlaps `r` and that write-back must leave alone, or NULL. */
static const struct byte_range *overwritten_in_locked(const struct overwrites *o,
						      const struct byte_range *r)
{
	const struct byte_range *found = running_in(&o->writes, r);
	for (unsigned i = 0; i < o->n_done && !found; i++)
		if (overlap(&o->done[i], r))
			found = &o->done[i];
	return found;
}

bool write_back_next(struct overwrites *o, const struct range_io *io, struct byte_range *part)
{
	const struct byte_range *taken;
	pthread_mutex_lock(&o->lock);
	*part = (struct byte_range){part->to, part->to + 1};
	while (part->from < io->range.to && (taken = overwritten_in_locked(o, part)))
		*part = (struct byte_range){taken->to, taken->to + 1};
	part->to = io->range.to;
	while (part->from < part->to && (taken = overwritten_in_locked(o, part)))
		part->to = taken->from;
	pthread_mutex_unlock(&o->lock);
	return part->from < part->to;
}

void write_back_end(struct overwrites *o, struct range_io *io)
{
	pthread_mutex_lock(&o->lock);
	list_remove(&io->link);
	pthread_cond_broadcast(&o->written_back);
	pthread_mutex_unlock(&o->lock);
}
