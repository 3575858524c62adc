/* SPDX-License-Identifier: MIT */
/* Parts of a lane.  The jobs of a key may have different outer keys: those of a cgroup, say, belong to several users.  In
 * one FIFO, a user who is at the limit of the outer scope would delay the others.  So a lane whose jobs have different outer
 * keys is divided into parts, one for each set of outer keys: lanes of their own between the key's lane and its jobs, which
 * take turns.
 *
 *	lane of the key    ● asks the key's own limits          ● asks them, and the outer keys
 *	 ├ part            ▤ asks the outer keys        or      ▤ all jobs have the same outer keys
 *	 └ part            ▤
 *
 * A lane that becomes empty is whole again when its next job arrives.  If there is no memory for a part, its jobs
 * queue with others.  A change of limits begins by joining all parts, and ends by dividing the lanes anew. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "sched/gate_internal.h"

struct parts {
	struct fq fq;
	struct list list; /* of struct part */
	unsigned n;
};

struct part {
	struct lane lane;
	struct list link; /* in parts->list */
};

/* NULL: the lane is not divided. */
static struct parts *parts_of(const struct lane *whole)
{
	return whole->fq ? container_of(whole->fq, struct parts, fq) : NULL;
}

static bool same_outer(const struct job *a, const struct job *b)
{
	bool same = a->outer_keys == b->outer_keys;
	for (unsigned i = 1; same && i <= a->outer_keys; i++)
		same = a->grant.key[i].key == b->grant.key[i].key;
	return same;
}

static struct job *last_job(const struct lane *l)
{
	return list_empty(&l->jobs) ? NULL : list_entry(l->jobs.prev, struct job, link);
}

struct lane *part_next(const struct lane *whole, const struct lane *part)
{
	const struct parts *ps = parts_of(whole);
	if (!ps)
		return NULL;
	const struct list *it =
		part ? container_of(part, const struct part, lane)->link.next : ps->list.next;
	return it == &ps->list ? NULL : &list_entry(it, struct part, link)->lane;
}

/* An empty part can be used for any jobs. */
static struct part *part_new(struct lane *whole)
{
	struct parts *ps = parts_of(whole);
	for (struct lane *l = part_next(whole, NULL); l; l = part_next(whole, l))
		if (list_empty(&l->jobs)) {
			fq_item_init(&l->item, 1);
			return container_of(l, struct part, lane);
		}
	struct part *p = fq_reserve(&ps->fq, ps->n + 1) ? calloc(1, sizeof(*p)) : NULL;
	if (!p)
		return NULL;
	lane_init(&p->lane, whole->node, whole->index);
	list_push_tail(&ps->list, &p->link);
	ps->n++;
	return p;
}

static struct part *part_of(struct lane *whole, const struct job *j)
{
	for (struct lane *l = part_next(whole, NULL); l; l = part_next(whole, l))
		if (!list_empty(&l->jobs) && same_outer(last_job(l), j))
			return container_of(l, struct part, lane);
	return part_new(whole);
}

static void drop_parts(struct lane *whole)
{
	struct parts *ps = parts_of(whole);
	whole->fq = NULL;
	list_for_each_safe (it, &ps->list) {
		struct part *p = list_entry(it, struct part, link);
		lane_clock_free(&p->lane);
		free(p);
	}
	fq_free(&ps->fq);
	free(ps);
}

static bool make_parts(struct lane *whole, uint64_t now_ns)
{
	struct parts *ps = calloc(1, sizeof(*ps));
	if (!ps)
		return false;
	fq_init(&ps->fq, now_ns);
	list_init(&ps->list);
	whole->fq = &ps->fq;
	if (part_new(whole))
		return true;
	drop_parts(whole);
	return false;
}

static void move_jobs(struct lane *from, struct lane *to)
{
	list_for_each (it, &from->jobs)
		list_entry(it, struct job, link)->lane = to;
	list_splice_tail(&to->jobs, &from->jobs);
}

struct lane *lane_for(struct lane *whole, const struct job *j, uint64_t now_ns)
{
	if (whole->fq && !whole->parked)
		drop_parts(whole);
	const struct job *last = last_job(whole);
	if (!whole->fq && (!last || same_outer(last, j)))
		return whole;
	if (!whole->fq) {
		struct job *front = list_first(&whole->jobs, struct job, link);
		if (!make_parts(whole, now_ns))
			return whole;
		struct lane *first = part_next(whole, NULL);
		move_jobs(whole, first);
		first->clock = take_ptr(&whole->clock);
		lane_leave_outer(whole, front, now_ns);
		lane_touch(whole, now_ns);
		lane_touch(first, now_ns);
	}
	struct part *p = part_of(whole, j);
	return p ? &p->lane : part_next(whole, NULL);
}

/* Merges the jobs of the parts by the order of their arrival. */
void parts_join(struct lane *whole, uint64_t now_ns)
{
	if (!whole->fq)
		return;
	for (struct lane *l = part_next(whole, NULL); l; l = part_next(whole, l))
		lane_reset(l, now_ns);
	for (;;) {
		struct job *oldest = NULL;
		for (struct lane *l = part_next(whole, NULL); l; l = part_next(whole, l)) {
			struct job *j = list_first(&l->jobs, struct job, link);
			if (j && (!oldest || (int64_t)(j->seq - oldest->seq) < 0))
				oldest = j;
		}
		if (!oldest)
			break;
		list_remove(&oldest->link);
		list_push_tail(&whole->jobs, &oldest->link);
		oldest->lane = whole;
	}
	drop_parts(whole);
}

void parts_divide(struct lane *whole, uint64_t now_ns)
{
	struct list jobs = LIST_INIT(jobs);
	const struct job *front = list_first(&whole->jobs, struct job, link);
	bool differ = false;
	list_for_each (it, &whole->jobs)
		differ |= !same_outer(front, list_entry(it, struct job, link));
	if (!differ || !make_parts(whole, now_ns))
		return;
	list_splice_tail(&jobs, &whole->jobs);
	list_for_each_safe (it, &jobs) {
		struct job *j = list_entry(it, struct job, link);
		struct part *p = part_of(whole, j);
		j->lane = p ? &p->lane : part_next(whole, NULL);
		list_remove(it);
		list_push_tail(&j->lane->jobs, it);
	}
	for (struct lane *l = part_next(whole, NULL); l; l = part_next(whole, l))
		if (!list_empty(&l->jobs))
			lane_enter(l, now_ns);
}

void parts_free(struct lane *whole)
{
	if (whole->fq)
		drop_parts(whole);
}
