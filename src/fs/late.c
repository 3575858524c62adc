/* SPDX-License-Identifier: MIT */
/* A request that finds no room to wait in is refused, but not at once: programs that try again
 * without a pause would keep the receive threads busy, and every megabyte that they bring is copied
 * before anybody can say no.  Of the request nothing but its number is kept.
 *
 *	late_refuse ─▶ in the list ─ a tenth of a second, or a signal ─▶ EAGAIN
 *
 * The list is in the order of time, since the delay is the same for all but for changes of max_wait. */
#include <errno.h>
#include <stdlib.h>

#include "fs/mount_internal.h"

#define LATE_MAX 4096 /* more are told at once */

struct late {
	struct list link;
	uint64_t unique, due_ns;
};

void late_refuse(struct fs_mount *m, uint64_t unique)
{
	struct parked_table *t = &m->parked;
	const struct receiver *self = receiver_self();
	uint64_t due_ns = mount_now_ns() + gate_no_room_delay_ns(m->gate);
	struct late *l = malloc(sizeof(*l));
	bool held = false;
	pthread_mutex_lock(&t->lock);
	if (l && t->n_late < LATE_MAX && !(self && self->interrupted == unique)) {
		*l = (struct late){.unique = unique, .due_ns = due_ns};
		list_push_tail(&t->late, &l->link);
		t->n_late++;
		held = true;
	}
	pthread_mutex_unlock(&t->lock);
	if (held)
		return;
	free(l);
	wire_reply_err(m->fd, unique, EAGAIN);
}

static void take_locked(struct parked_table *t, struct late *l)
{
	list_remove(&l->link);
	t->n_late--;
}

static void answer(struct fs_mount *m, struct late *l)
{
	wire_reply_err(m->fd, l->unique, EAGAIN);
	free(l);
}

static struct late *find_locked(struct parked_table *t, uint64_t unique)
{
	list_for_each (it, &t->late) {
		struct late *l = list_entry(it, struct late, link);
		if (l->unique == unique)
			return l;
	}
	return NULL;
}

bool late_interrupt_unlock(struct fs_mount *m, uint64_t unique)
{
	struct late *l = find_locked(&m->parked, unique);
	if (!l)
		return false;
	take_locked(&m->parked, l);
	pthread_mutex_unlock(&m->parked.lock);
	answer(m, l);
	return true;
}

/* The first of those that are due, taken out of the list; NULL: none is. */
static struct late *next_due(struct parked_table *t, uint64_t now_ns)
{
	pthread_mutex_lock(&t->lock);
	struct late *l = list_first(&t->late, struct late, link);
	if (l && l->due_ns <= now_ns)
		take_locked(t, l);
	else
		l = NULL;
	pthread_mutex_unlock(&t->lock);
	return l;
}

void late_answer(struct fs_mount *m, uint64_t now_ns)
{
	struct late *l;
	while ((l = next_due(&m->parked, now_ns)))
		answer(m, l);
}
