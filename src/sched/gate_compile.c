/* SPDX-License-Identifier: MIT */
/* Compiles the limits of nodes into chains.
 *
 *	node->own      the node's own limits, one chain per class: used by the scheduler
 *	leaf->limits   all limits from the leaf to the root, one chain per class: the fast path
 *	leaf->chain    the same; while something on the way is paused, a chain that refuses everything
 *	leaf->way      the scopes from the leaf to the root: they count open handles, and may have
 *	               limits for each key */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

/* --- the chains of a leaf --- */

struct cached_chain {
	struct list link;
	struct chain *chain;
};

static struct chain *cache_find(struct leaf *f, const struct chain *like)
{
	list_for_each (it, &f->chains) {
		struct cached_chain *cc = list_entry(it, struct cached_chain, link);
		if (chain_equal(cc->chain, like))
			return cc->chain;
	}
	return NULL;
}

/* Grants refer to their chain, so a chain lives as long as its leaf.  Equal chains are shared. */
static int cache_chain(struct leaf *f, struct chain *ch, const struct chain **out)
{
	*out = ch ? cache_find(f, ch) : NULL;
	if (!ch || *out) {
		free(ch);
		return 0;
	}
	struct cached_chain *cc = malloc(sizeof(*cc));
	if (!cc) {
		free(ch);
		return -ENOMEM;
	}
	cc->chain = ch;
	list_push_tail(&f->chains, &cc->link);
	*out = ch;
	return 0;
}

void leaf_free_chains(struct leaf *f)
{
	list_for_each_safe (it, &f->chains) {
		struct cached_chain *cc = list_entry(it, struct cached_chain, link);
		free(cc->chain);
		free(cc);
	}
	list_init(&f->chains);
	list_for_each_safe (it, &f->ways)
		free(list_entry(it, struct scope_way, link));
	list_init(&f->ways);
}

/* Open handles refer to the scopes that count them, so these lists live as long as the leaf,
 * too. */
static int compile_way(struct leaf *f, struct node *const way[], unsigned n)
{
	size_t size = n * sizeof(way[0]);
	list_for_each (it, &f->ways) {
		struct scope_way *o = list_entry(it, struct scope_way, link);
		if (o->n == n && memcmp(o->node, way, size) == 0) {
			f->compiled_way = o;
			return 0;
		}
	}
	struct scope_way *o = malloc(sizeof(*o) + size);
	if (!o)
		return -ENOMEM;
	o->n = n;
	memcpy(o->node, way, size);
	list_push_tail(&f->ways, &o->link);
	f->compiled_way = o;
	return 0;
}

int leaf_compile(struct leaf *f, struct node *const way[], unsigned n)
{
	struct limiter *limiter[CHAIN_SCOPES_MAX];
	for (unsigned i = 0; i < n; i++)
		limiter[i] = way[i]->limiter;
	int rc = compile_way(f, way, n);
	for (unsigned c = 0; c < COST_CLASSES && rc == 0; c++) {
		bool oom = false;
		struct chain *ch = chain_compile(c, limiter, n, &oom);
		rc = oom ? -ENOMEM : cache_chain(f, ch, &f->compiled[c]);
	}
	return rc;
}

/* --- the own chains of a node --- */

int own_compile(struct node *n)
{
	struct branch *b = n->branch;
	for (unsigned c = 0; c < COST_CLASSES; c++) {
		bool oom = false;
		free(b->next_own[c]);
		b->next_own[c] = chain_compile(c, &n->limiter, 1, &oom);
		if (oom)
			return -ENOMEM;
	}
	return 0;
}

static uint64_t token_ns(uint64_t rate_per_sec)
{
	return rate_per_sec ? (NSEC_PER_SEC << 32) / rate_per_sec : 0;
}

/* The rate by which turns are weighed.  For a pool it is the rate of the whole pool, because leases
 * change all the time. */
static uint64_t link_rate(const struct chain_link *l)
{
	return l->role == BUCKET_POOL ? l->limiter->config.limit[l->kind].pool_per_sec
				      : bucket_rate(l->bucket);
}

static struct turn_cost tightest(const struct node *n, enum cost_class cls)
{
	const struct chain *own = n->own[cls];
	struct turn_cost t = n->parent ? n->parent->branch->cost[cls] : (struct turn_cost){0};
	for (unsigned i = 0; own && i < own->links; i++) {
		uint64_t ns = token_ns(link_rate(&own->link[i]));
		t.op_ns = max_u64(t.op_ns, ns * own->link[i].per_op);
		t.byte_ns = max_u64(t.byte_ns, ns * own->link[i].per_byte);
	}
	return t;
}

static void own_publish(struct node *n)
{
	struct branch *b = n->branch;
	for (unsigned c = 0; c < COST_CLASSES; c++) {
		free(n->own[c]);
		n->own[c] = b->next_own[c];
		b->next_own[c] = NULL;
		b->cost[c] = tightest(n, c);
	}
}

/* --- the tree --- */

static int leaf_compile_in_tree(struct leaf *f)
{
	struct node *way[CHAIN_SCOPES_MAX];
	unsigned n = 0;
	for (struct node *at = &f->node; at; at = at->parent)
		way[n++] = at;
	return leaf_compile(f, way, n);
}

int tree_compile(struct node *n)
{
	int rc = own_compile(n);
	if (rc == 0 && node_is_leaf(n))
		rc = leaf_compile_in_tree(node_leaf(n));
	list_for_each (it, &n->branch->children)
		if (rc == 0)
			rc = tree_compile(list_entry(it, struct node, sibling));
	return rc;
}

static bool is_paused(const struct node *n)
{
	for (; n; n = n->parent)
		if (n->paused)
			return true;
	return false;
}

/* Publishes what was compiled for one leaf, after the scopes above it. */
static void leaf_publish(struct leaf *f)
{
	bool paused = is_paused(&f->node);
	uint32_t above = f->node.kind == SCOPE_CLASS ? node_leaf(f->node.parent)->each : 0;
	atomic_store_explicit(&f->way, f->compiled_way, memory_order_release);
	atomic_store_explicit(&f->each, f->each_here | above, memory_order_release);
	for (unsigned c = 0; c < COST_CLASSES; c++) {
		const struct chain *ch = f->compiled[c];
		atomic_store_explicit(&f->limits[c], ch, memory_order_release);
		atomic_store_explicit(&f->chain[c], paused ? f->node.gate->paused : ch,
				      memory_order_release);
	}
}

static void add_limited(struct leaf *f, void *limited)
{
	for (unsigned c = 0; c < COST_CLASSES; c++)
		if (leaf_limits_class(f, c))
			*(uint32_t *)limited |= 1U << c;
}

/* Publishes which classes of operations anything on the mount limits. */
static void mount_publish_limited(struct gate_mount *m)
{
	uint32_t limited = 0;
	leaves_each(&m->leaf.node, add_limited, &limited);
	if (atomic_load(&m->model) == GATE_MODEL_TIME)
		limited = (1U << COST_CLASSES) - 1;
	atomic_store(&m->limited, limited);
}

static void publish_below(struct node *n)
{
	own_publish(n);
	if (node_is_leaf(n))
		leaf_publish(node_leaf(n));
	list_for_each (it, &n->branch->children)
		publish_below(list_entry(it, struct node, sibling));
	if (n->kind == SCOPE_MOUNT)
		mount_publish_limited(node_leaf(n)->mount);
}

void tree_publish(struct node *n)
{
	publish_below(n);
	if (n->kind == SCOPE_CLASS)
		mount_publish_limited(node_leaf(n)->mount);
}
