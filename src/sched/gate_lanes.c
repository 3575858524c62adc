/* SPDX-License-Identifier: MIT */
/* Lanes, and the steps common to all changes while jobs are parked: everything in the changed part
 * is taken out of the fair queues, changed, and queued again.  The order within a key, every place
 * in the fair order and the order of lanes in line are preserved. */
#include <string.h>

#include "sched/gate_internal.h"

void leaves_each(struct node *n, void (*fn)(struct leaf *f, void *arg), void *arg)
{
	if (node_is_leaf(n))
		fn(node_leaf(n), arg);
	list_for_each (it, &n->branch->children)
		leaves_each(list_entry(it, struct node, sibling), fn, arg);
}

/* --- out of the queues and back --- */

static void key_out(struct key *key, void *arg)
{
	for (unsigned i = 0; i < LANES; i++) {
		lane_clocks_lift(&key->node.lane[i], *(uint64_t *)arg);
		lane_reset(&key->node.lane[i], *(uint64_t *)arg);
		parts_join(&key->node.lane[i], *(uint64_t *)arg);
	}
}

static void key_in(struct key *key, void *arg)
{
	debts_resize(key);
	for (unsigned i = 0; i < LANES; i++) {
		parts_divide(&key->node.lane[i], *(uint64_t *)arg);
		lane_clocks_lay(&key->node.lane[i], *(uint64_t *)arg);
		if (!lane_empty(&key->node.lane[i]))
			lane_enter(&key->node.lane[i], *(uint64_t *)arg);
	}
}

void change_begin(struct node *n, uint64_t now_ns)
{
	memcpy(n->gate->lane_was, n->gate->lane_of, sizeof(n->gate->lane_was));
	for (unsigned i = 0; i < LANES; i++) {
		struct lane *l = &n->lane[i];
		if (lane_empty(l))
			l->in_line = NEVER;
		lane_reset(l, now_ns);
		n->branch->sample_was[i] = lane_sample_cost(l);
	}
	if (node_is_leaf(n)) {
		vouchers_lift(node_leaf(n));
		keys_each(&node_leaf(n)->keys, key_out, &now_ns);
	}
	list_for_each (it, &n->branch->children)
		change_begin(list_entry(it, struct node, sibling), now_ns);
}

/* Calls fn for the lanes of a node in the order in which they last joined a line, so that those with
 * equal tags, or none, join it again in that order. */
static void lanes_in_line(struct node *n, void (*fn)(struct lane *l, uint64_t now_ns),
			  uint64_t now_ns)
{
	uint32_t left = (1U << LANES) - 1;
	while (left) {
		unsigned next = (unsigned)__builtin_ctz(left);
		for (unsigned i = next + 1; i < LANES; i++)
			if (left & 1U << i && n->lane[i].in_line < n->lane[next].in_line)
				next = i;
		left &= ~(1U << next);
		fn(&n->lane[next], now_ns);
	}
}

static void enter(struct lane *l, uint64_t now_ns)
{
	if (!lane_empty(l) && !l->blocked)
		lane_enter(l, now_ns);
}

/* Queues everything below the node again, and then its own lanes: from the leaves towards the
 * root. */
static void sort_in(struct node *n, uint64_t now_ns)
{
	tags_convert(n, now_ns);
	if (node_is_leaf(n)) {
		keys_each(&node_leaf(n)->keys, key_in, &now_ns);
		vouchers_lay(node_leaf(n));
	}
	list_for_each (it, &n->branch->children)
		sort_in(list_entry(it, struct node, sibling), now_ns);
	if (n->parent)
		lanes_in_line(n, enter, now_ns);
	reserve_end(n, now_ns); /* its requests may have moved to another class */
}

void change_end(struct node *n, uint64_t now_ns)
{
	sort_in(n, now_ns);
	/* The jobs at the front of its ancestors may have changed. */
	for (struct node *up = n; up; up = up->parent)
		lanes_in_line(up, lane_touch, now_ns);
}

/* --- lanes --- */

static void collect_kinds(struct node *n, uint32_t kinds[COST_CLASSES])
{
	static const struct limiter_config none;
	const struct limiter each = {.config = node_is_leaf(n) ? node_leaf(n)->each_limits : none};
	for (unsigned c = 0; c < COST_CLASSES; c++)
		kinds[c] |= limiter_kinds_for(n->limiter, c) | limiter_kinds_for(&each, c) |
			    limiter_pool_kinds_for(n->limiter, c) << LIMIT_KINDS;
	list_for_each (it, &n->branch->children)
		collect_kinds(list_entry(it, struct node, sibling), kinds);
}

static bool class_meets(const struct limiter *l, enum cost_class cls, unsigned resource)
{
	uint32_t kinds = resource % BUCKET_ROLES == BUCKET_POOL ? limiter_pool_kinds_for(l, cls)
								: limiter_kinds_for(l, cls);
	return kinds & 1U << resource / BUCKET_ROLES;
}

/* Records which lanes use each limit: tokens of a limit that only one lane uses need not be held
 * for it. */
static void mark_lanes(struct gate *g, struct node *n)
{
	for (unsigned i = 0; i < RESOURCES; i++)
		if (n->res[i])
			n->res[i]->lanes = 0;
	for (unsigned c = 0; c < COST_CLASSES; c++)
		for (unsigned i = 0; i < RES_INFLIGHT; i++)
			if (n->res[i] && class_meets(n->limiter, c, i))
				n->res[i]->lanes |= 1U << g->lane_of[c];
	if (node_is_leaf(n))
		each_mark_lanes(node_leaf(n));
	list_for_each (it, &n->branch->children)
		mark_lanes(g, list_entry(it, struct node, sibling));
}

/* --- regrouping lanes --- */

/* Moves all jobs of a key to `out`, in the order of their arrival. */
static void merge_jobs(struct key *key, struct list *out)
{
	for (;;) {
		struct job *oldest = NULL;
		for (unsigned i = 0; i < LANES; i++) {
			struct job *j = list_first(&key->node.lane[i].jobs, struct job, link);
			if (j && (!oldest || (int64_t)(j->seq - oldest->seq) < 0))
				oldest = j;
		}
		if (!oldest)
			return;
		list_remove(&oldest->link);
		oldest->lane->parked--;
		list_push_tail(out, &oldest->link);
	}
}

static void key_relane(struct key *key, void *arg)
{
	struct leaf *f = arg;
	const struct gate *g = f->node.gate;
	struct list jobs = LIST_INIT(jobs);
	merge_jobs(key, &jobs);
	atomic_store(&key->waiting, 0);
	list_for_each_safe (it, &jobs) {
		struct job *j = list_entry(it, struct job, link);
		j->lane = &key->node.lane[g->lane_of[j->cost.cls]];
		list_remove(it);
		list_push_tail(&j->lane->jobs, it);
		f->lane_parked[j->lane->index]++;
		j->lane->parked++;
		job_tell_newcomers(j);
	}
}

static void leaf_relane(struct leaf *f, void *arg)
{
	memset(f->lane_parked, 0, sizeof(f->lane_parked));
	keys_each(&f->keys, key_relane, f);
	leaf_tell_newcomers(f);
}

void gate_lanes_locked(struct gate *g)
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
		leaves_each(&g->global, leaf_relane, NULL);
	}
	mark_lanes(g, &g->global);
}
