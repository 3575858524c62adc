/* SPDX-License-Identifier: MIT */
/* Converts tags when limits change.
 *
 * A tag is measured in time on the tightest limit, so new limits change its value; they may also group
 * the classes into other lanes, each of which has a virtual time of its own.  Neither may change the
 * order: a competitor that was ahead of others stays ahead by as many requests, and one that was behind
 * stays behind.  So the lead of each competitor over the virtual time is converted by the cost of the
 * last request served, before and after the change. */
#include "sched/gate_internal.h"

static bool is_sample(const struct cost *c)
{
	return c->ops || c->bytes;
}

uint64_t lane_sample_cost(const struct lane *l)
{
	const struct cost *sample = &l->node->branch->sample[l->index];
	return is_sample(sample) ? turn_cost_of(l->node, sample) : 0;
}

/* The conversion of one node's tags. */
struct retag {
	struct node *node;
	struct fq was[LANES];		 /* the former queues, empty now */
	uint64_t from[LANES], to[LANES]; /* tags are multiplied by to/from */
	uint32_t source[LANES];		 /* bit per former lane that has classes in this one */
	uint64_t now_ns;
};

static int64_t convert(const struct retag *rt, unsigned lane, int64_t tags)
{
	uint64_t from = rt->from[lane], to = rt->to[lane];
	i128 t = from == to || !from || !to ? (i128)tags : (i128)tags * to / from;
	const i128 most = FQ_COST_MAX;
	return (int64_t)(t > most ? most : t < -most ? -most : t);
}

/* The lead of a competitor in a new lane, computed from its leads in the former lanes: the largest
 * lead among the lanes in which it was queued, or a larger positive one in another lane. */
static int64_t lead_now(const struct retag *rt, const struct fq_item was[LANES], unsigned lane,
			uint64_t *left_ns)
{
	int64_t queued = INT64_MIN, other = INT64_MIN;
	*left_ns = 0;
	for (unsigned i = 0; i < LANES; i++) {
		if (!(rt->source[lane] & 1U << i) || !was[i].left_ns)
			continue;
		int64_t lead = convert(rt, i, fq_lead(&rt->was[i], &was[i], rt->now_ns));
		int64_t *best = was[i].left_ns == rt->now_ns ? &queued : &other;
		*best = lead > *best ? lead : *best;
		*left_ns = max_u64(*left_ns, was[i].left_ns);
	}
	if (queued == INT64_MIN)
		return other == INT64_MIN ? 0 : other;
	return other > 0 && other > queued ? other : queued;
}

static void retag_child(const struct retag *rt, struct node *child)
{
	struct fq_item was[LANES];
	for (unsigned i = 0; i < LANES; i++)
		was[i] = child->lane[i].item;
	for (unsigned i = 0; i < LANES; i++) {
		struct fq_item *item = &child->lane[i].item;
		if (rt->source[i])
			fq_set_lead(rt->node->lane[i].fq, item,
				    lead_now(rt, was, i, &item->left_ns));
	}
}

static void key_retag(struct key *key, void *arg)
{
	retag_child(arg, &key->node);
}

static void retag_children(struct retag *rt)
{
	if (node_is_leaf(rt->node))
		keys_each(&node_leaf(rt->node)->keys, key_retag, rt);
	list_for_each (it, &rt->node->branch->children)
		retag_child(rt, list_entry(it, struct node, sibling));
}

/* Sets up a new lane from the former ones, except for the tags of its children. */
static void retag_lane(const struct retag *rt, unsigned lane, const uint64_t in_line[LANES],
		       const struct cost sample[LANES])
{
	struct lane *l = &rt->node->lane[lane];
	struct cost *kept = &rt->node->branch->sample[lane];
	uint64_t largest = 0;
	l->in_line = NEVER;
	*kept = (struct cost){0};
	for (unsigned i = 0; i < LANES; i++) {
		if (!(rt->source[lane] & 1U << i))
			continue;
		largest = max_u64(largest, (uint64_t)convert(rt, i, (int64_t)rt->was[i].largest));
		l->in_line = min_u64(l->in_line, in_line[i]);
		if (!is_sample(kept))
			*kept = sample[i];
	}
	l->fq->vtime = 0;
	l->fq->idle_ns = rt->now_ns;
	l->fq->largest = largest;
}

void tags_convert(struct node *n, uint64_t now_ns)
{
	const struct gate *g = n->gate;
	struct retag rt = {.node = n, .now_ns = now_ns};
	uint64_t in_line[LANES];
	struct cost sample[LANES];
	for (unsigned c = 0; c < COST_CLASSES; c++)
		rt.source[g->lane_of[c]] |= 1U << g->lane_was[c];
	for (unsigned i = 0; i < LANES; i++) {
		in_line[i] = n->lane[i].in_line;
		sample[i] = n->branch->sample[i];
		rt.was[i] = *n->lane[i].fq;
		rt.from[i] = n->branch->sample_was[i];
		rt.to[i] = lane_sample_cost(&n->lane[i]);
	}
	for (unsigned i = 0; i < LANES; i++)
		if (rt.source[i])
			retag_lane(&rt, i, in_line, sample);
	retag_children(&rt);
}
