/* SPDX-License-Identifier: MIT */
/* Changes at run time: limits, settings, pauses.  A change first allocates all memory that it
 * needs and only then modifies anything, so that a change that fails has no effect. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

/* The change of one scope. */
struct change {
	struct node *node;
	bool sets_limits;
	/* the new limits, or the old ones while chains are compiled for the new */
	struct limiter_config limits;
	const struct gate_mount_config *mount; /* NULL: unchanged */
	struct weight_rule *rules;	       /* will be owned by the leaf */
	struct device *device;		       /* likewise */
	struct class_plan *classes;	       /* NULL: unchanged */
	int paused;			       /* -1: unchanged */
};

struct changes {
	struct gate *gate;
	struct change *one;
	unsigned n;
	struct node *root; /* everything that changes is below it */
	uint64_t now_ns;
};

static bool is_misconfigured(const struct job *j)
{
	enum cost_class cls = j->cost.cls;
	bool any = chain_misconfigured(leaf_limits(j->leaf, cls), &j->cost) ||
		   chain_misconfigured(j->lane->node->own[cls], &j->cost);
	for (unsigned i = 1; i <= j->outer_keys; i++)
		any |= chain_misconfigured(j->grant.key[i].key->node.own[cls], &j->cost);
	return any;
}

static void job_refuse_misconfigured(struct job *j, void *arg)
{
	if (!mount_is_dry(j->leaf->mount) && is_misconfigured(j))
		job_refuse_locked(j->leaf->node.gate, j, GRANT_MISCONFIGURED, *(uint64_t *)arg);
}

void leaf_refuse_misconfigured(struct leaf *f, void *arg)
{
	jobs_each(f, job_refuse_misconfigured, arg);
}

static void job_new_keys(struct job *j, void *arg)
{
	outer_renew(j, *(uint64_t *)arg);
	job_tell_newcomers(j);
}

/* Limits for each key may have been set or removed, here or above. */
static void leaf_new_keys(struct leaf *f, void *arg)
{
	jobs_each(f, job_new_keys, arg);
	leaf_tell_newcomers(f);
}

static void job_new_deadline(struct job *j, void *arg)
{
	job_set_deadline(j->leaf->node.gate, j);
}

static void key_new_weight(struct key *key, void *arg)
{
	struct leaf *f = arg;
	if (!keys_is_overflow(&f->keys, key))
		key->node.weight = keys_weight(f, key->id);
}

void leaf_set_weights(struct leaf *f, struct weight_rule *rules, unsigned n)
{
	keys_set_rules(&f->keys, rules, n);
	keys_each(&f->keys, key_new_weight, f);
}

void mount_settings(struct gate_mount *m, const struct gate_mount_config *cfg)
{
	m->leaf.node.weight = cfg->weight ? cfg->weight : 1;
	atomic_store(&m->leaf.fair, cfg->fair);
	m->leaf.max_wait_ns = cfg->max_wait_ns;
	m->leaf.keys.max = cfg->max_keys ? cfg->max_keys : GATE_MAX_KEYS_DEFAULT;
	m->max_parked = cfg->max_parked ? cfg->max_parked : GATE_MAX_PARKED_DEFAULT;
	m->max_parked_bytes =
		cfg->max_parked_bytes ? cfg->max_parked_bytes : GATE_MAX_PARKED_BYTES_DEFAULT;
	atomic_store_explicit(&m->full_rejects, cfg->full_rejects, memory_order_relaxed);
	atomic_store_explicit(&m->dry_run, cfg->dry_run, memory_order_relaxed);
}

/* --- preparing: all that can fail --- */

static int prepare(struct change *ch, uint64_t now_ns)
{
	const struct gate_mount_config *cfg = ch->mount;
	struct leaf *f = cfg ? node_leaf(ch->node) : NULL;
	int rc = ch->sets_limits ? node_prepare(ch->node, &ch->limits, now_ns) : 0;
	if (rc == 0 && cfg)
		rc = each_prepare(f, &cfg->each, now_ns);
	if (rc == 0 && cfg)
		rc = keys_rules_copy(cfg->weights, cfg->n_weights, &ch->rules);
	if (rc == 0 && cfg)
		rc = device_prepare(f->mount, cfg, now_ns, &ch->device);
	if (rc == 0 && ch->classes)
		rc = class_plan_prepare(ch->classes, now_ns);
	return rc;
}

/* Chains are compiled from the configuration in the limiters, so the limiters temporarily contain
 * the new one.  Buckets and permits follow when nothing can fail any more. */
static void swap_limits(struct changes *all)
{
	for (unsigned i = 0; i < all->n; i++) {
		struct change *ch = &all->one[i];
		struct limiter *l = ch->node->limiter;
		struct limiter_config was = l->config;
		if (ch->sets_limits) {
			l->config = ch->limits;
			ch->limits = was;
		}
		if (ch->classes)
			class_plan_swap_limits(ch->classes);
	}
}

static int compile(struct changes *all)
{
	swap_limits(all);
	int rc = tree_compile(all->root);
	for (unsigned i = 0; i < all->n && rc == 0; i++)
		if (all->one[i].classes)
			rc = class_plan_compile(all->one[i].classes);
	swap_limits(all);
	return rc;
}

static int prepare_all(struct changes *all)
{
	int rc = 0;
	for (unsigned i = 0; i < all->n && rc == 0; i++)
		rc = prepare(&all->one[i], all->now_ns);
	return rc < 0 ? rc : compile(all);
}

static void drop(struct change *ch)
{
	if (ch->mount)
		keys_rules_free(ch->rules, ch->mount->n_weights);
	device_free(ch->device);
}

/* --- taking effect: nothing here can fail --- */

static bool same_buckets(const struct limiter_config *a, const struct limiter_config *b)
{
	bool same = limiter_config_kinds(a) == limiter_config_kinds(b);
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		same &= !a->limit[k].peak_per_sec == !b->limit[k].peak_per_sec;
	return same;
}

/* True: the change adds or removes limits or peaks, so classes may have to be regrouped into lanes,
 * and it must be recorded which lanes use the new ones. */
static bool regroups(const struct change *ch)
{
	return ch->classes ||
	       (ch->sets_limits && !same_buckets(&ch->limits, &ch->node->limiter->config)) ||
	       (ch->mount && !same_buckets(&ch->mount->each, &node_leaf(ch->node)->each_limits));
}

static void apply(struct change *ch, uint64_t now_ns)
{
	const struct gate_mount_config *cfg = ch->mount;
	if (ch->paused >= 0)
		ch->node->paused = ch->paused;
	if (ch->sets_limits) {
		if (strcmp(ch->limits.pool, ch->node->limiter->config.pool) != 0)
			wait_rows_unbind(ch->node);
		limiter_configure(ch->node->limiter, &ch->limits, now_ns);
	}
	if (cfg) {
		struct leaf *f = node_leaf(ch->node);
		each_apply(f, &cfg->each, now_ns);
		leaf_set_weights(f, ch->rules, cfg->n_weights);
		mount_settings(f->mount, cfg);
		device_apply(f->mount, cfg, ch->device);
		jobs_each(f, job_new_deadline, NULL);
	}
	if (ch->classes)
		class_plan_commit(ch->classes);
}

static void commit(struct changes *all)
{
	struct gate *g = all->gate;
	bool lanes = false;
	for (unsigned i = 0; i < all->n; i++) {
		lanes |= regroups(&all->one[i]);
		if (all->one[i].classes)
			class_plan_begin(all->one[i].classes);
	}
	struct node *root = lanes ? &g->global : all->root;
	change_begin(root, all->now_ns);
	if (lanes)
		lines_forget(g);
	for (unsigned i = 0; i < all->n; i++)
		apply(&all->one[i], all->now_ns);
	tree_publish(all->root);
	if (lanes)
		gate_lanes_locked(g);
	for (unsigned i = 0; i < all->n; i++)
		if (all->one[i].classes)
			class_plan_place_jobs(all->one[i].classes);
	leaves_each(all->root, leaf_new_keys, &all->now_ns);
	change_end(root, all->now_ns);
	leaves_each(all->root, leaf_refuse_misconfigured, &all->now_ns);
}

static int change_all(struct gate *g, struct change *one, unsigned n)
{
	struct changes all = {
		.gate = g, .one = one, .n = n, .root = n == 1 ? one->node : &g->global};
	gate_lock(g);
	all.now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, all.now_ns);
	int rc = prepare_all(&all);
	if (rc == 0)
		commit(&all);
	gate_dispatch_locked(g, all.now_ns, all.now_ns);
	gate_arm_locked(g);
	for (unsigned i = 0; i < n; i++) {
		if (rc < 0)
			drop(&one[i]);
		class_plan_free(one[i].classes);
	}
	gate_unlock_deliver(g);
	return rc;
}

/* --- asking for it --- */

static int change_of(struct gate *g, const struct gate_change *c, struct change *out)
{
	*out = (struct change){.node = c->mount ? &c->mount->leaf.node
				       : c->fs	? &c->fs->node
						: &g->global,
			       .mount = c->config,
			       .paused = -1};
	const struct limiter_config *limits = c->config ? &c->config->limits : c->limits;
	out->sets_limits = limits;
	if (limits)
		out->limits = *limits;
	if (c->sets_classes)
		out->classes = class_plan_new(c->mount, c->classes, c->n_classes);
	return c->sets_classes && !out->classes ? -ENOMEM : 0;
}

int gate_apply(struct gate *g, const struct gate_change *changes, unsigned n)
{
	struct change *one = n ? calloc(n, sizeof(*one)) : NULL;
	if (!one)
		return n ? -ENOMEM : 0;
	int rc = 0;
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = change_of(g, &changes[i], &one[i]);
	if (rc == 0)
		rc = change_all(g, one, n);
	else
		for (unsigned i = 0; i < n; i++)
			class_plan_free(one[i].classes);
	free(one);
	return rc;
}

int gate_set_global(struct gate *g, const struct limiter_config *cfg)
{
	return gate_apply(g, &(struct gate_change){.limits = cfg}, 1);
}

int gate_set_fs(struct gate_fs *fs, const struct limiter_config *cfg)
{
	return gate_apply(fs->node.gate, &(struct gate_change){.fs = fs, .limits = cfg}, 1);
}

int gate_set_mount(struct gate_mount *m, const struct gate_mount_config *cfg)
{
	return gate_apply(m->leaf.node.gate, &(struct gate_change){.mount = m, .config = cfg}, 1);
}

int gate_set_classes(struct gate_mount *m, const struct gate_class_config *cfg, unsigned n)
{
	const struct gate_change c = {
		.mount = m, .sets_classes = true, .classes = cfg, .n_classes = n};
	return gate_apply(m->leaf.node.gate, &c, 1);
}

static int pause_node(struct node *n, bool paused)
{
	return change_all(n->gate, &(struct change){.node = n, .paused = paused}, 1);
}

int gate_pause_global(struct gate *g, bool paused)
{
	return pause_node(&g->global, paused);
}

int gate_pause_fs(struct gate_fs *fs, bool paused)
{
	return pause_node(&fs->node, paused);
}

int gate_pause_mount(struct gate_mount *m, bool paused)
{
	return pause_node(&m->leaf.node, paused);
}

static struct leaf *find_class(struct gate_mount *m, const char *class)
{
	gate_lock(m->leaf.node.gate);
	struct leaf *f = class_by_name(m, class);
	gate_unlock_deliver(m->leaf.node.gate);
	return f;
}

int gate_pause_class(struct gate_mount *m, const char *class, bool paused)
{
	struct leaf *f = find_class(m, class);
	return f ? pause_node(&f->node, paused) : -ENOENT;
}

bool gate_class_paused(struct gate_mount *m, const char *class, bool *within)
{
	const struct leaf *f = find_class(m, class);
	*within = false;
	for (const struct node *n = f ? &f->node : NULL; n && n->kind == SCOPE_CLASS; n = n->parent)
		*within |= n->paused;
	return f && f->node.paused;
}
