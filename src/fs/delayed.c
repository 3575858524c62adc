/* SPDX-License-Identifier: MIT */
/* A request that cannot be parked for lack of room is refused, but only after a delay.  Otherwise programs
 * that retry without a pause would keep the receive threads busy, which have to copy up to a megabyte of data
 * before they can refuse.  Data is not kept meanwhile.
 *
 *	delayed_refuse ─▶ in the list ─ a tenth of a second, or a signal ─▶ EAGAIN
 *
 * The list is in order of time, because the delay is the same for all (unless max_wait changes). */
#include <errno.h>
#include <stdlib.h>

#include "fs/mount_internal.h"
#include "fs/reply.h"

#define DELAYED_MAX 4096 /* any more are refused immediately */

struct delayed {
	struct list link, hash;
	struct request *request; /* without its payload */
	uint64_t due_ns;
};

static struct list *hash_of(struct parked_table *t, uint64_t unique)
{
	return &t->delayed_hash[(unique >> 1) % DELAYED_HASH]; /* the kernel counts by two */
}

void delayed_refuse(struct request *r)
{
	struct fs_mount *m = r->mount;
	struct parked_table *t = &m->parked;
	uint64_t due_ns = monotonic_ns() + gate_no_room_delay_ns(m->gate_mount);
	struct delayed *l = malloc(sizeof(*l));
	struct request *kept = l ? request_keep(r, false) : NULL;
	bool held = false;
	pthread_mutex_lock(&t->lock);
	if (kept && t->n_delayed < DELAYED_MAX && !parked_was_interrupted(t, r->in->unique)) {
		*l = (struct delayed){.request = kept, .due_ns = due_ns};
		list_push_tail(&t->delayed, &l->link);
		list_push_tail(hash_of(t, kept->in->unique), &l->hash);
		t->n_delayed++;
		held = true;
	}
	pthread_mutex_unlock(&t->lock);
	if (held) {
		watchdog_hurry(m);
		return;
	}
	reply_status(r, -EAGAIN);
	if (kept)
		request_drop(kept);
	free(l);
}

static void take_locked(struct parked_table *t, struct delayed *l)
{
	list_remove(&l->link);
	list_remove(&l->hash);
	t->n_delayed--;
}

static void answer(struct delayed *l)
{
	reply_status(l->request, -EAGAIN);
	request_drop(l->request);
	free(l);
}

static struct delayed *find_locked(struct parked_table *t, uint64_t unique)
{
	list_for_each (it, hash_of(t, unique)) {
		struct delayed *l = list_entry(it, struct delayed, hash);
		if (l->request->in->unique == unique)
			return l;
	}
	return NULL;
}

bool delayed_interrupt_unlock(struct fs_mount *m, uint64_t unique)
{
	struct delayed *l = find_locked(&m->parked, unique);
	if (!l)
		return false;
	take_locked(&m->parked, l);
	pthread_mutex_unlock(&m->parked.lock);
	answer(l);
	return true;
}

/* The first of those that are due, taken out of the list; NULL: none is. */
static struct delayed *next_due(struct parked_table *t, uint64_t now_ns)
{
	pthread_mutex_lock(&t->lock);
	struct delayed *l = list_first(&t->delayed, struct delayed, link);
	if (l && l->due_ns <= now_ns)
		take_locked(t, l);
	else
		l = NULL;
	pthread_mutex_unlock(&t->lock);
	return l;
}

void delayed_answer(struct fs_mount *m, uint64_t now_ns, unsigned n)
{
	struct delayed *l;
	while (n-- && (l = next_due(&m->parked, now_ns)))
		answer(l);
}
