/* SPDX-License-Identifier: MIT */
#include "fs/watch.h"

#include <stdlib.h>

#define CROWDED_TRIES                                                                              \
	8 /* how many processes to try in search of one that has a caller due for a check */

static void to_tail(struct list *head, struct list *n)
{
	list_remove(n);
	list_push_tail(head, n);
}

/* --- users --- */

static void user_init(struct watch_user *u, uint32_t uid)
{
	*u = (struct watch_user){.uid = uid};
	list_init(&u->link);
	list_init(&u->hash);
	list_init(&u->leaving);
	list_init(&u->fresh);
	list_init(&u->processes);
	list_init(&u->crowded);
}

void watch_init(struct watch *w)
{
	list_init(&w->users);
	w->n_users = 0;
	for (unsigned i = 0; i < WATCH_USER_HASH; i++)
		list_init(&w->user_hash[i]);
	for (unsigned i = 0; i < WATCH_PROCESS_HASH; i++)
		list_init(&w->process_hash[i]);
	user_init(&w->nobody, 0);
}

/* Finds or creates the user, and counts one more of its callers. */
static struct watch_user *user_get(struct watch *w, uint32_t uid)
{
	struct list *hash = &w->user_hash[uid % WATCH_USER_HASH];
	struct watch_user *u = NULL;
	list_for_each (it, hash) {
		u = list_entry(it, struct watch_user, hash);
		if (u->uid == uid)
			break;
		u = NULL;
	}
	if (!u) {
		u = malloc(sizeof(*u));
		if (u) {
			user_init(u, uid);
			list_push_tail(hash, &u->hash);
		} else {
			u = &w->nobody;
		}
	}
	if (u->n++ == 0) {
		list_push_tail(&w->users, &u->link);
		w->n_users++;
	}
	return u;
}

static void user_put(struct watch *w, struct watch_user *u)
{
	if (--u->n)
		return;
	list_remove(&u->link);
	list_remove(&u->hash);
	w->n_users--;
	if (u != &w->nobody)
		free(u);
}

/* --- processes --- */

static void process_init(struct watch_process *p, struct watch_user *u, uint32_t id)
{
	*p = (struct watch_process){.id = id, .user = u};
	list_init(&p->link);
	list_init(&p->hash);
	list_init(&p->crowded);
	list_init(&p->callers);
}

static struct list *process_hash(struct watch *w, uint32_t id)
{
	return &w->process_hash[id % WATCH_PROCESS_HASH];
}

static struct watch_process *process_find(struct watch *w, const struct watch_user *u, uint32_t id)
{
	list_for_each (it, process_hash(w, id)) {
		struct watch_process *p = list_entry(it, struct watch_process, hash);
		if (p->id == id && p->user == u)
			return p;
	}
	return NULL;
}

/* The number of its callers has changed. */
static void process_settle(struct watch_process *p)
{
	if (p->n < 2 || p->n == p->n_by_process)
		list_remove(&p->crowded);
	else if (list_empty(&p->crowded))
		list_push_tail(&p->user->crowded, &p->crowded);
	if (p->n)
		return;
	list_remove(&p->link);
	list_remove(&p->hash);
	if (p != &p->user->nameless)
		free(p);
}

static bool is_by_process(const struct watched *c)
{
	return c->by_process && !c->signalled;
}

static void process_enter(struct watch *w, struct watched *c, uint32_t id, uint64_t now_ns)
{
	struct watch_user *u = c->user;
	struct watch_process *p = process_find(w, u, id);
	if (!p) {
		p = malloc(sizeof(*p));
		if (p) {
			process_init(p, u, id);
			list_push_tail(process_hash(w, id), &p->hash);
		} else {
			p = &u->nameless;
			if (!p->n)
				process_init(p, u, 0);
		}
	}
	c->process = p;
	c->looked_ns = now_ns;
	list_push_tail(&p->callers, &c->link);
	p->n_by_process += is_by_process(c);
	if (p->n++ == 0) {
		p->looked_ns = now_ns;
		list_push_tail(&u->processes, &p->link);
	}
	process_settle(p);
}

/* --- callers --- */

void watch_add(struct watch *w, struct watched *c, uint32_t uid, uint32_t process, bool signalled,
	       uint64_t now_ns)
{
	if (c->user && (c->signalled || !signalled))
		return;
	if (c->user)
		watch_remove(w, c);
	c->user = user_get(w, uid);
	c->signalled = signalled;
	if (process)
		process_enter(w, c, process, now_ns);
	else
		list_push_tail(&c->user->fresh, &c->link);
}

void watch_remove(struct watch *w, struct watched *c)
{
	struct watch_user *u = c->user;
	if (!u)
		return;
	list_remove(&c->link);
	if (c->process) {
		c->process->n--;
		c->process->n_by_process -= is_by_process(c);
		process_settle(c->process);
	}
	c->process = NULL;
	c->user = NULL;
	user_put(w, u);
}

void watch_stays(struct watch *w, struct watched *c, uint32_t process, uint64_t now_ns)
{
	if (!c->user || c->process)
		return; /* its next check was scheduled when it had its turn */
	list_remove(&c->link);
	process_enter(w, c, process, now_ns);
}

void watch_killed(struct watch *w, struct watched *c, uint32_t process)
{
	struct watch_user *u = c->user;
	struct watch_process *p = u ? process_find(w, u, process) : NULL;
	if (!p)
		return;
	/* A caller that got a signal was found by a check to belong to this process; for others we
	 * know only what their thread ID meant a while ago. */
	list_for_each_safe (it, &p->callers) {
		struct watched *other = list_entry(it, struct watched, link);
		if (other->signalled != c->signalled)
			continue;
		to_tail(&u->leaving, &other->link);
		other->leaves = true;
		other->process = NULL;
		p->n--;
		p->n_by_process -= is_by_process(other);
	}
	process_settle(p);
}

/* --- whose turn --- */

static bool is_due(uint64_t looked_ns, uint64_t now_ns)
{
	return now_ns >= looked_ns + WATCH_EVERY_NS;
}

static struct watched *process_turn(struct watch_process *p, uint64_t now_ns)
{
	struct watched *c = list_first(&p->callers, struct watched, link);
	to_tail(&p->callers, &c->link);
	to_tail(&p->user->processes, &p->link);
	p->looked_ns = c->looked_ns = now_ns;
	return c;
}

/* A process that is due; otherwise a caller that is due, in a process that is not. */
static struct watched *due_turn(struct watch_user *u, uint64_t now_ns)
{
	struct watch_process *p = list_first(&u->processes, struct watch_process, link);
	if (p && is_due(p->looked_ns, now_ns))
		return process_turn(p, now_ns);
	for (unsigned i = 0; i < CROWDED_TRIES && !list_empty(&u->crowded); i++) {
		p = list_first(&u->crowded, struct watch_process, crowded);
		to_tail(&u->crowded, &p->crowded);
		if (is_due(list_entry(p->callers.next, struct watched, link)->looked_ns, now_ns))
			return process_turn(p, now_ns);
	}
	return NULL;
}

static struct watched *user_turn(struct watch_user *u, bool due, uint64_t now_ns)
{
	for (unsigned i = 0; i < WATCH_KINDS; i++) {
		unsigned kind = (u->turn + i) % WATCH_KINDS;
		struct watched *c = NULL;
		if (kind == WATCH_LEAVING)
			c = list_first(&u->leaving, struct watched, link);
		else if (kind == WATCH_FRESH)
			c = list_first(&u->fresh, struct watched, link);
		else if (due)
			c = due_turn(u, now_ns);
		if (c) {
			u->turn = kind + 1;
			return c;
		}
	}
	return NULL;
}

struct watched *watch_next(struct watch *w, bool due, uint64_t now_ns)
{
	for (unsigned i = w->n_users; i; i--) {
		struct watch_user *u = list_first(&w->users, struct watch_user, link);
		to_tail(&w->users, &u->link);
		struct watched *c = user_turn(u, due, now_ns);
		if (c)
			return c;
	}
	return NULL;
}

bool watch_urgent(const struct watch *w)
{
	list_for_each (it, &w->users) {
		const struct watch_user *u = list_entry(it, struct watch_user, link);
		if (!list_empty(&u->leaving) || !list_empty(&u->fresh))
			return true;
	}
	return false;
}
