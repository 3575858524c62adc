/* SPDX-License-Identifier: MIT */
/* Creation and removal of scopes. */
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

/* Creates a node with limits that is not in the tree yet. */
static bool node_make(struct node *n, struct gate *g, struct node *parent, enum scope_kind kind,
		      const char *name, const struct limiter_config *cfg, uint64_t now_ns)
{
	return node_init(n, g, parent, kind, name, now_ns) && node_prepare(n, cfg, now_ns) == 0;
}

/* Regroups lanes after a node with limits was added or removed. */
static void relane_locked(struct gate *g, uint64_t now_ns)
{
	change_begin(&g->global, now_ns);
	gate_lanes_locked(g);
	change_end(&g->global, now_ns);
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
}

/* --- the gate --- */

static bool gate_init(struct gate *g)
{
	static const struct limiter_config none = {.max_inflight = 1};
	uint64_t now_ns = clock_now(g->clock);
	if (!node_make(&g->global, g, NULL, SCOPE_GLOBAL, "global",
		       &(const struct limiter_config){0}, now_ns) ||
	    !limiter_init(&g->closed, SCOPE_GLOBAL, &none, now_ns))
		return false;
	g->closed.owner = &g->global;
	g->paused = chain_compile(COST_META, (struct limiter *[]){&g->closed}, 1, NULL);
	permits_set_limit(&g->closed.inflight, 0);
	return g->paused && node_link(&g->global);
}

struct gate *gate_new(const struct clock *clock, void (*dispatch)(void *ctx, struct list *ready),
		      void *ctx)
{
	struct gate *g = aligned_alloc(CACHE_LINE, sizeof(*g));
	if (!g)
		return NULL;
	*g = (struct gate){.clock = clock,
			   .dispatch = dispatch,
			   .ctx = ctx,
			   .next_ns = NEVER,
			   .armed_ns = NEVER};
	pthread_mutex_init(&g->lock, NULL);
	pthread_mutex_init(&g->events.lock, NULL);
	list_init(&g->ready);
	list_init(&g->refused);
	lines_init(g);
	if (!gate_init(g)) {
		gate_free(g);
		return NULL;
	}
	gate_lanes_locked(g);
	return g;
}

void gate_free(struct gate *g)
{
	if (!g)
		return;
	node_fini(&g->global);
	limiter_fini(&g->closed);
	heap_free(&g->due);
	heap_free(&g->deadlines);
	heap_free(&g->vouchers);
	heap_free(&g->dates);
	lines_fini(g);
	free(g->paused);
	gate_events_stop(g);
	pthread_mutex_destroy(&g->events.lock);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

void gate_set_caller_ops(struct gate *g, const struct caller_ops *ops)
{
	g->callers = ops;
}

/* --- an fs --- */

struct gate_fs *gate_fs_new(struct gate *g, const char *name, const struct limiter_config *cfg)
{
	struct gate_fs *fs = malloc(sizeof(*fs));
	if (!fs)
		return NULL;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	bool ok = node_make(&fs->node, g, &g->global, SCOPE_FS, name, cfg, now_ns) &&
		  tree_compile(&fs->node) == 0 && node_link(&fs->node);
	if (ok) {
		tree_publish(&fs->node);
		if (limiter_config_kinds(cfg))
			relane_locked(g, now_ns);
	} else {
		node_fini(&fs->node);
	}
	gate_unlock_deliver(g);
	if (ok)
		return fs;
	free(fs);
	return NULL;
}

/* Takes the node out of the tree; its parent keeps what the node has counted. */
static void leave_locked(struct node *n, uint64_t now_ns)
{
	node_unlink(n);
	counter_sums_add(&n->parent->branch->gone, &n->branch->gone);
	if (node_is_leaf(n))
		leaf_sums(node_leaf(n), &n->parent->branch->gone);
	if (limiter_config_kinds(&n->limiter->config))
		relane_locked(n->gate, now_ns);
}

void gate_fs_free(struct gate_fs *fs)
{
	if (!fs)
		return;
	struct gate *g = fs->node.gate;
	gate_lock(g);
	leave_locked(&fs->node, clock_now(g->clock));
	node_fini(&fs->node);
	gate_unlock_deliver(g);
	free(fs);
}

/* --- a mount --- */

bool leaf_init(struct leaf *f, struct gate_mount *m, struct node *parent, enum scope_kind kind,
	       const char *name, const struct limiter_config *limits, uint64_t now_ns)
{
	memset(f, 0, sizeof(*f));
	list_init(&f->chains);
	list_init(&f->ways);
	list_init(&f->of_mount);
	f->n_wait_rows = 1;
	f->mount = m;
	return node_make(&f->node, parent->gate, parent, kind, name, limits, now_ns) &&
	       keys_init(f, now_ns);
}

void leaf_fini(struct leaf *f)
{
	leaf_free_chains(f);
	keys_free(&f->keys);
	node_fini(&f->node);
}

static bool mount_init(struct gate_mount *m, struct gate_fs *fs, const char *name,
		       const struct gate_mount_config *cfg, uint64_t now_ns)
{
	struct leaf *f = &m->leaf;
	struct weight_rule *rules = NULL;
	struct device *device = NULL;
	list_init(&m->class_leaves);
	list_init(&m->spare_leaves);
	list_init(&m->in_device);
	pthread_rwlock_init(&m->classes_lock, NULL);
	if (!leaf_init(f, m, &fs->node, SCOPE_MOUNT, name, &cfg->limits, now_ns) ||
	    each_prepare(f, &cfg->each, now_ns) < 0 || device_prepare(m, cfg, now_ns, &device) < 0)
		return false;
	device_apply(m, cfg, device);
	if (keys_rules_copy(cfg->weights, cfg->n_weights, &rules) < 0)
		return false;
	keys_set_rules(&f->keys, rules, cfg->n_weights);
	each_apply(f, &cfg->each, now_ns);
	mount_settings(m, cfg);
	return tree_compile(&f->node) == 0 && node_link(&f->node);
}

struct gate_mount *gate_mount_new(struct gate_fs *fs, const char *name,
				  const struct gate_mount_config *cfg)
{
	struct gate *g = fs->node.gate;
	struct gate_mount *m = aligned_alloc(CACHE_LINE, sizeof(*m));
	if (!m)
		return NULL;
	memset(m, 0, sizeof(*m));
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	bool ok = mount_init(m, fs, name, cfg, now_ns);
	if (ok) {
		tree_publish(&m->leaf.node);
		if (limiter_config_kinds(&cfg->limits) || limiter_config_kinds(&cfg->each))
			relane_locked(g, now_ns);
	} else {
		classes_free(m);
		leaf_fini(&m->leaf);
		device_free(m->device);
	}
	gate_unlock_deliver(g);
	if (ok)
		return m;
	free(m);
	return NULL;
}

static void leaf_end(struct leaf *f, void *now_ns)
{
	accounts_drop(f, *(uint64_t *)now_ns);
}

void gate_mount_free(struct gate_mount *m)
{
	if (!m)
		return;
	struct gate *g = m->leaf.node.gate;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	leaves_each(&m->leaf.node, leaf_end, &now_ns);
	list_for_each (it, &m->class_leaves)
		leaf_sums(list_entry(it, struct leaf, of_mount), &m->leaf.node.branch->gone);
	leave_locked(&m->leaf.node, now_ns);
	gate_dispatch_locked(g, now_ns, now_ns); /* its vouchers no longer hold tokens */
	gate_arm_locked(g);
	gate_unlock_deliver(g); /* others may refer to the mount until delivery is over */
	gate_lock(g);
	classes_free(m);
	leaf_fini(&m->leaf);
	device_free(m->device);
	gate_unlock_deliver(g);
	free(m);
}
