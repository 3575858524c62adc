/* SPDX-License-Identifier: MIT */
/* Lanes, and the frame of every change while jobs are parked: take everything of the changed part
 * out of the fair queues, change, sort it in again.  FIFO order within a key survives. */
#include <string.h>

#include "sched/gate_internal.h"

void mounts_each(struct scope *s, void (*fn)(struct gate_mount *m, void *arg), void *arg)
{
	if (s->level == LEVEL_MOUNT) {
		fn(scope_mount(s), arg);
		return;
	}
	list_for_each (it, &s->children)
		mounts_each(list_entry(it, struct scope, sibling), fn, arg);
}

struct jobs_each {
	void (*fn)(struct job *j, void *arg);
	void *arg;
};

static void key_jobs_each(struct key *key, void *arg)
{
	const struct jobs_each *e = arg;
	for (unsigned i = 0; i < LANES; i++)
		list_for_each_safe (it, &key->queue[i].jobs)
			e->fn(list_entry(it, struct job, link), e->arg);
}

void jobs_each(struct gate_mount *m, void (*fn)(struct job *j, void *arg), void *arg)
{
	struct jobs_each e = {fn, arg};
	keys_each(&m->keys, key_jobs_each, &e);
}

/* --- out of the queues and in again --- */

struct sort {
	struct gate_mount *m;
	uint64_t now_ns;
};

static void key_out(struct key *key, void *arg)
{
	const struct sort *s = arg;
	for (unsigned i = 0; i < LANES; i++)
		if (fq_queued(&key->queue[i].item))
			fq_remove(&s->m->scope.lane[i].fq, &key->queue[i].item, s->now_ns);
}

static void key_in(struct key *key, void *arg)
{
	const struct sort *s = arg;
	for (unsigned i = 0; i < LANES; i++) {
		const struct job *j = list_first(&key->queue[i].jobs, struct job, link);
		if (j)
			fq_add(&s->m->scope.lane[i].fq, &key->queue[i].item,
			       route_cost(&s->m->route[j->cost.cls], LEVEL_MOUNT, &j->cost),
			       s->now_ns);
	}
}

void change_begin(struct scope *s, uint64_t now_ns)
{
	for (unsigned i = 0; i < LANES; i++)
		lane_reset(&s->lane[i], now_ns);
	if (s->level == LEVEL_MOUNT) {
		struct sort sort = {scope_mount(s), now_ns};
		vouchers_drop(sort.m);
		keys_each(&sort.m->keys, key_out, &sort);
		return;
	}
	list_for_each (it, &s->children)
		change_begin(list_entry(it, struct scope, sibling), now_ns);
}

void change_end(struct scope *s, uint64_t now_ns)
{
	if (s->level == LEVEL_MOUNT) {
		struct sort sort = {scope_mount(s), now_ns};
		keys_each(&sort.m->keys, key_in, &sort);
	}
	list_for_each (it, &s->children)
		change_end(list_entry(it, struct scope, sibling), now_ns);
	/* Narrow to wide; ancestors of the change, too: their front may be another one. */
	for (struct scope *up = s; up; up = up->parent)
		for (unsigned i = 0; i < LANES; i++)
			lane_touch(&up->lane[i], now_ns);
}

/* --- lanes --- */

static void collect_kinds(const struct scope *s, uint32_t kinds[COST_CLASSES])
{
	for (unsigned c = 0; c < COST_CLASSES; c++)
		kinds[c] |= limiter_kinds_for(&s->limiter, c);
	list_for_each (it, (struct list *)(uintptr_t)&s->children)
		collect_kinds(list_entry(it, struct scope, sibling), kinds);
}

/* Which lanes meet a limit: what one lane has to itself needs no holding. */
static void mark_lanes(struct gate *g, struct scope *s)
{
	for (unsigned k = 0; k < RESOURCES; k++)
		s->res[k].lanes = 0;
	for (unsigned c = 0; c < COST_CLASSES; c++)
		for (unsigned k = 0; k < LIMIT_KINDS; k++)
			if (limiter_kinds_for(&s->limiter, c) & 1U << k)
				s->res[k].lanes |= 1U << g->lane_of[c];
	list_for_each (it, &s->children)
		mark_lanes(g, list_entry(it, struct scope, sibling));
}

/* All jobs of a key in the order in which they came. */
static void merge_jobs(struct key *key, struct list *out)
{
	for (;;) {
		struct job *oldest = NULL;
		for (unsigned i = 0; i < LANES; i++) {
			struct job *j = list_first(&key->queue[i].jobs, struct job, link);
			if (j && (!oldest || (int64_t)(j->seq - oldest->seq) < 0))
				oldest = j;
		}
		if (!oldest)
			return;
		list_remove(&oldest->link);
		list_push_tail(out, &oldest->link);
	}
}

static void key_relane(struct key *key, void *arg)
{
	const struct sort *s = arg;
	struct gate *g = s->m->scope.gate;
	struct list jobs = LIST_INIT(jobs);
	merge_jobs(key, &jobs);
	for (unsigned i = 0; i < LANES; i++)
		fq_item_init(&key->queue[i].item, key->queue[i].item.weight);
	list_for_each_safe (it, &jobs) {
		struct job *j = list_entry(it, struct job, link);
		unsigned lane = g->lane_of[j->cost.cls];
		list_remove(it);
		list_push_tail(&key->queue[lane].jobs, it);
		j->queue = &key->queue[lane];
		s->m->scope.lane[lane].parked++;
	}
}

static void scope_relane(struct scope *s, uint64_t now_ns)
{
	for (unsigned i = 0; i < LANES; i++) {
		s->lane[i].parked = 0;
		s->lane[i].fq.v = 0;
		s->lane[i].fq.idle_ns = now_ns;
		fq_item_init(&s->lane[i].item, s->weight);
	}
	if (s->level == LEVEL_MOUNT) {
		struct sort sort = {scope_mount(s), now_ns};
		keys_each(&sort.m->keys, key_relane, &sort);
		uint32_t waiting = 0;
		for (unsigned i = 0; i < LANES; i++)
			if (s->lane[i].parked)
				waiting |= s->gate->classes_of[i];
		atomic_store(&sort.m->waiting, waiting);
	}
	list_for_each (it, &s->children)
		scope_relane(list_entry(it, struct scope, sibling), now_ns);
}

void gate_lanes_locked(struct gate *g, uint64_t now_ns)
{
	uint32_t kinds[COST_CLASSES] = {0};
	unsigned lanes = 0, lane_of[COST_CLASSES] = {0};
	collect_kinds(&g->global, kinds);
	for (unsigned c = 0; c < COST_CLASSES; c++) {
		unsigned like = 0;
		while (kinds[like] != kinds[c])
			like++;
		lane_of[c] = like == c ? lanes++ : lane_of[like];
	}
	if (memcmp(lane_of, g->lane_of, sizeof(lane_of)) != 0 || !g->lanes) {
		memcpy(g->lane_of, lane_of, sizeof(lane_of));
		memset(g->classes_of, 0, sizeof(g->classes_of));
		for (unsigned c = 0; c < COST_CLASSES; c++)
			g->classes_of[lane_of[c]] |= 1U << c;
		g->lanes = lanes;
		scope_relane(&g->global, now_ns);
	}
	mark_lanes(g, &g->global);
}
