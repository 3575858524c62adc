/* SPDX-License-Identifier: MIT */
/* The life of a node: memory, and its place in the tree. */
#include "sched/node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

static struct branch *branch_new(const char *name, uint64_t now_ns)
{
	struct branch *b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->since_ns = now_ns;
	list_init(&b->children);
	for (unsigned i = 0; i < LANES; i++)
		fq_init(&b->fq[i], now_ns);
	b->name = strdup(name);
	if (b->name)
		return b;
	free(b);
	return NULL;
}

static void branch_free(struct branch *b)
{
	if (!b)
		return;
	for (unsigned i = 0; i < LANES; i++)
		fq_free(&b->fq[i]);
	for (unsigned c = 0; c < COST_CLASSES; c++)
		free(b->next_own[c]);
	free(b->name);
	free(b);
}

void lane_init(struct lane *l, struct node *n, unsigned index)
{
	l->node = n;
	l->index = (uint16_t)index;
	l->fq = n->branch ? &n->branch->fq[index] : NULL;
	list_init(&l->jobs);
	list_init(&l->wait);
	l->in_line = NEVER;
	fq_item_init(&l->item, 1);
}

bool node_init(struct node *n, struct gate *g, struct node *parent, enum scope_kind kind,
	       const char *name, uint64_t now_ns)
{
	memset(n, 0, sizeof(*n));
	n->gate = g;
	n->parent = parent;
	n->kind = kind;
	n->weight = 1;
	list_init(&n->sibling);
	if (kind != SCOPE_KEY) {
		n->branch = branch_new(name, now_ns);
		n->res[RES_PAUSE] = n->branch ? resource_new(n, RES_PAUSE) : NULL;
	}
	for (unsigned i = 0; i < LANES; i++)
		lane_init(&n->lane[i], n, i);
	return kind == SCOPE_KEY || n->res[RES_PAUSE];
}

void node_fini(struct node *n)
{
	for (unsigned c = 0; c < COST_CLASSES; c++)
		free(n->own[c]);
	for (unsigned i = 0; i < RESOURCES; i++) {
		n->gate->n_resources -= n->res[i] != NULL;
		if (n->res[i])
			line_forget(n->res[i]);
		free(n->res[i]);
	}
	for (unsigned i = 0; i < LANES; i++)
		lane_clock_free(&n->lane[i]);
	if (n->limiter)
		limiter_fini(n->limiter);
	free(n->limiter);
	branch_free(n->branch);
}

/* --- limits --- */

static bool make_limiter(struct node *n, const struct limiter_config *cfg, uint64_t now_ns)
{
	n->limiter = aligned_alloc(CACHE_LINE, sizeof(*n->limiter));
	if (!n->limiter)
		return false;
	bool ok = limiter_init(n->limiter, n->kind, cfg, now_ns);
	n->limiter->owner = n;
	return ok;
}

/* Creates a resource for every existing bucket, and for permits if they are bounded. */
static int get_resources(struct node *n, const struct limiter_config *cfg)
{
	for (unsigned i = 0; i <= RES_INFLIGHT; i++) {
		bool wanted =
			i < RES_INFLIGHT
				? n->limiter->bucket[i / BUCKET_ROLES][i % BUCKET_ROLES] != NULL
				: cfg->max_inflight != 0;
		if (wanted && !n->res[i])
			n->res[i] = resource_new(n, i);
		if (wanted && !n->res[i])
			return -ENOMEM;
	}
	return 0;
}

int node_prepare(struct node *n, const struct limiter_config *cfg, uint64_t now_ns)
{
	bool ok = n->limiter ? limiter_prepare(n->limiter, cfg, now_ns)
			     : make_limiter(n, cfg, now_ns);
	return ok ? get_resources(n, cfg) : -ENOMEM;
}

/* --- the tree --- */

/* Reserves room in the parent's queues for everything that may be queued there later. */
bool node_link(struct node *n)
{
	struct node *up = n->parent;
	for (unsigned i = 0; up && i < LANES; i++) {
		size_t keys = node_is_leaf(up) ? node_leaf(up)->keys.n + OVERFLOW_KEYS : 0;
		if (!fq_reserve(up->lane[i].fq, up->branch->n_children + 1 + keys))
			return false;
	}
	if (up) {
		list_push_tail(&up->branch->children, &n->sibling);
		up->branch->n_children++;
	}
	return true;
}

void node_unlink(struct node *n)
{
	if (!n->parent || list_empty(&n->sibling))
		return;
	list_remove(&n->sibling);
	n->parent->branch->n_children--;
}
