/* SPDX-License-Identifier: MIT */
/* How long a request waited for each limit.  Nothing here influences scheduling.
 *
 * At any time, all requests in a lane at the bottom (the lane of a key, or a part of it) wait for the same limit: the one
 * that blocks the nearest lane between them and the root.  So the requests do not measure time themselves; lanes have
 * clocks, with one hand per limit.
 *
 *	lane of a leaf       its clock is advanced before it or a lane above it is blocked or unblocked: the hand of the
 *	                     limit that stopped it until then
 *	lane at the bottom   has a clock of its own only if the limits of its key or of an outer key (each.*) can block it;
 *	                     while they do not, its clock advances as much as that of the leaf
 *	request              waited for each limit as long as the hand moved between parking and admission
 *
 * The worked example of node.h: A is parked at 0.0.  At 0.5 the mount's lane is unblocked, so the hand of the mount's iops
 * advances by 0.5 s.  At 0.6 the lane of global is unblocked, so the hand of global's bps advances by 0.1 s.
 * The clock of a lane in which nothing waits may be wrong, because only differences matter and every reading advances the
 * clock first. */
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

struct key_clock {
	uint64_t at_ns;
	unsigned row; /* what last stopped the lane */
	uint64_t ns[WAIT_ROWS];
	uint64_t leaf_ns[WAIT_ROWS]; /* what the clock of the leaf showed at at_ns */
};

const struct resource *lane_stop(const struct lane *l)
{
	for (; l; l = lane_parent(l))
		if (l->blocked)
			return l->blocked;
	return NULL;
}

/* Scheduling may go back in time by BACKDATE_NS; clocks do not. */
static uint64_t advance(uint64_t *at_ns, uint64_t now_ns)
{
	uint64_t by_ns = now_ns > *at_ns ? now_ns - *at_ns : 0;
	*at_ns += by_ns;
	return by_ns;
}

/* --- leaves --- */

static struct wait_clock *leaf_clock(struct leaf *f, unsigned lane, uint64_t at_ns)
{
	struct wait_clock *c = &f->clock[lane];
	const struct resource *stop = lane_stop(&f->node.lane[lane]);
	if (stop && stop != c->stop) {
		c->stop = stop;
		c->row = wait_row_of(f, stop->node, stop->index);
	}
	c->ns[c->row] += advance(&c->at_ns, at_ns);
	return c;
}

/* --- keys --- */

static struct leaf *leaf_of_key(const struct lane *l)
{
	return node_leaf(l->node->parent);
}

/* What blocks a lane at the bottom, or the lane of which it is a part. */
static const struct resource *key_stop(const struct lane *l)
{
	return l->blocked ? l->blocked : lane_whole(l)->blocked;
}

static void key_clock_advance(struct lane *l, uint64_t at_ns)
{
	struct leaf *f = leaf_of_key(l);
	const struct wait_clock *leaf = leaf_clock(f, l->index, at_ns);
	const struct resource *stop = key_stop(l);
	struct key_clock *c = l->clock;
	uint64_t by_ns = advance(&c->at_ns, at_ns);
	if (stop) {
		c->row = wait_row_of(f, stop->node, stop->index);
		c->ns[c->row] += by_ns;
	} else if (by_ns) {
		c->row = leaf->row;
	}
	for (unsigned i = 0; i < f->n_wait_rows; i++) {
		if (!stop)
			c->ns[i] += leaf->ns[i] - c->leaf_ns[i];
		c->leaf_ns[i] = leaf->ns[i];
	}
}

/* Sets the clock of the lane to that of the leaf. */
static bool key_clock_set(struct lane *l, uint64_t at_ns)
{
	const struct wait_clock *leaf = leaf_clock(leaf_of_key(l), l->index, at_ns);
	if (!l->clock)
		l->clock = malloc(sizeof(*l->clock));
	if (!l->clock)
		return false;
	l->clock->at_ns = at_ns;
	l->clock->row = leaf->row;
	memcpy(l->clock->ns, leaf->ns, sizeof(leaf->ns));
	memcpy(l->clock->leaf_ns, leaf->ns, sizeof(leaf->ns));
	return true;
}

void lane_clock_free(struct lane *l)
{
	free(l->clock);
	l->clock = NULL;
}

/* --- lanes --- */

/* Goes through a lane of a key, then its parts (a part has none). */
static struct lane *bottom_next(struct lane *whole, const struct lane *l)
{
	return lane_is_part(whole) ? NULL : part_next(whole, l == whole ? NULL : l);
}

void lane_stop_changes(struct lane *l, uint64_t at_ns)
{
	struct node *n = l->node;
	if (!n->branch) {
		for (struct lane *b = l; b; b = bottom_next(l, b))
			if (b->clock)
				key_clock_advance(b, at_ns);
		return;
	}
	/* A lane that has its turn is often blocked again at the same time; with many classes, this loop is what waiting
	 * costs most. */
	if (n->branch->clocked_ns[l->index] >= at_ns)
		return;
	n->branch->clocked_ns[l->index] = at_ns;
	if (node_is_leaf(n))
		leaf_clock(node_leaf(n), l->index, at_ns);
	list_for_each (it, &n->branch->children) {
		struct lane *below = &list_entry(it, struct node, sibling)->lane[l->index];
		if (!below->blocked && !lane_empty(below))
			lane_stop_changes(below, at_ns);
	}
}

/* --- requests --- */

static const uint64_t *clock_of(const struct job *j, uint64_t at_ns)
{
	struct lane *l = j->lane;
	if (!l->clock)
		return leaf_clock(j->leaf, l->index, at_ns)->ns;
	key_clock_advance(l, at_ns);
	return l->clock->ns;
}

static bool needs_clock(const struct job *j)
{
	return atomic_load(&lane_key(j->lane)->limits) || j->outer_keys || lane_is_part(j->lane);
}

bool job_clock_start(struct job *j, uint64_t at_ns)
{
	j->clock_was = malloc(WAIT_ROWS * sizeof(*j->clock_was));
	if (!j->clock_was)
		return false;
	if (list_empty(&j->lane->jobs) && needs_clock(j) && !key_clock_set(j->lane, at_ns)) {
		job_clock_stop(j);
		return false;
	}
	memcpy(j->clock_was, clock_of(j, at_ns), WAIT_ROWS * sizeof(*j->clock_was));
	return true;
}

void job_clock_stop(struct job *j)
{
	free(j->clock_was);
	j->clock_was = NULL;
}

void job_clock_read(const struct job *j, uint64_t at_ns, uint64_t wait_ns, uint64_t ns[WAIT_ROWS])
{
	const uint64_t *now = clock_of(j, at_ns);
	uint64_t left_ns = wait_ns;
	memset(ns, 0, WAIT_ROWS * sizeof(*ns));
	for (unsigned i = 0; i < j->leaf->n_wait_rows; i++) {
		ns[i] = min_u64(now[i] - j->clock_was[i], left_ns);
		left_ns -= ns[i];
	}
	/* A late wake-up makes the request wait longer than the limit did. */
	const struct key_clock *own = j->lane->clock;
	ns[own ? own->row : j->leaf->clock[j->lane->index].row] += left_ns;
}

/* --- moving --- */

/* Converts clock_was from a reading of the clock to the time that the job has waited, and back. */
static void job_convert(struct job *j, uint64_t at_ns)
{
	if (!j->clock_was)
		return; /* the gate's own job */
	const uint64_t *now = clock_of(j, at_ns);
	for (unsigned i = 0; i < WAIT_ROWS; i++)
		j->clock_was[i] = now[i] - j->clock_was[i];
}

void lane_clocks_lift(struct lane *whole, uint64_t at_ns)
{
	for (struct lane *l = whole; l; l = bottom_next(whole, l)) {
		list_for_each (it, &l->jobs)
			job_convert(list_entry(it, struct job, link), at_ns);
	}
}

void job_clock_rename(struct job *j, const struct leaf *was)
{
	uint64_t waited[WAIT_ROWS] = {0};
	if (!j->clock_was || was == j->leaf)
		return;
	for (unsigned i = 0; i < was->n_wait_rows; i++)
		if (j->clock_was[i])
			waited[i ? wait_row_named(j->leaf, &was->wait_row[i].limit) : 0] +=
				j->clock_was[i];
	memcpy(j->clock_was, waited, sizeof(waited));
}

/* Without memory for a clock, the jobs use that of the leaf. */
void lane_clocks_lay(struct lane *whole, uint64_t at_ns)
{
	for (struct lane *l = whole; l; l = bottom_next(whole, l)) {
		const struct job *front = list_first(&l->jobs, struct job, link);
		if (front && needs_clock(front))
			(void)key_clock_set(l, at_ns);
		else
			lane_clock_free(l);
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a list is never NULL */
		list_for_each (it, &l->jobs)
			job_convert(list_entry(it, struct job, link), at_ns);
	}
}
