/* SPDX-License-Identifier: MIT */
/* Changes at run time: limits, settings, pauses.  A change first allocates all memory that it
 * needs and only then modifies anything, so that a change that fails has no effect. */
#include <errno.h>
#include <stdlib.h>

#include "sched/gate_internal.h"

struct change {
	const struct limiter_config *limits; /* NULL: unchanged */
	const struct gate_mount_config *mount;
	struct weight_rule *rules; /* will be owned by the leaf */
	struct device *device;	   /* likewise */
	int paused;		   /* -1: unchanged */
};

static void job_refuse_misconfigured(struct job *j, void *arg)
{
	if (!mount_is_dry(j->leaf->mount) &&
	    (chain_misconfigured(leaf_limits(j->leaf, j->cost.cls), &j->cost) ||
	     chain_misconfigured(j->lane->node->own[j->cost.cls], &j->cost)))
		job_refuse_locked(j->leaf->node.gate, j, GRANT_MISCONFIGURED, *(uint64_t *)arg);
}

void leaf_refuse_misconfigured(struct leaf *f, void *arg)
{
	jobs_each(f, job_refuse_misconfigured, arg);
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

static void apply(struct node *n, const struct change *ch)
{
	if (ch->paused >= 0)
		n->paused = ch->paused;
	if (!ch->mount)
		return;
	struct leaf *f = node_leaf(n);
	leaf_set_weights(f, ch->rules, ch->mount->n_weights);
	mount_settings(f->mount, ch->mount);
	device_apply(f->mount, ch->mount, ch->device);
	jobs_each(f, job_new_deadline, NULL);
}

/* Chains are compiled from the configuration in the limiter, so the limiter temporarily has the
 * new one.  Buckets and permits follow when nothing can fail any more. */
static int compile_as(struct node *n, const struct limiter_config *cfg)
{
	const struct limiter_config old = n->limiter->config;
	if (cfg)
		n->limiter->config = *cfg;
	int rc = tree_compile(n);
	n->limiter->config = old;
	return rc;
}

static int change_locked(struct node *n, struct change *ch, uint64_t now_ns)
{
	struct gate *g = n->gate;
	int rc = ch->limits ? node_prepare(n, ch->limits, now_ns) : 0;
	if (rc == 0 && ch->mount)
		rc = each_prepare(node_leaf(n), &ch->mount->each, now_ns);
	if (rc == 0)
		rc = compile_as(n, ch->limits);
	if (rc == 0 && ch->mount)
		rc = device_prepare(node_leaf(n)->mount, ch->mount, now_ns, &ch->device);
	if (rc < 0)
		return rc;
	bool kinds = (ch->limits && limiter_config_kinds(ch->limits) !=
					    limiter_config_kinds(&n->limiter->config)) ||
		     (ch->mount && limiter_config_kinds(&ch->mount->each) !=
					   limiter_config_kinds(&node_leaf(n)->each_limits));
	struct node *root = kinds ? &g->global : n;
	change_begin(root, now_ns);
	if (ch->limits)
		limiter_configure(n->limiter, ch->limits, now_ns);
	if (ch->mount)
		each_apply(node_leaf(n), &ch->mount->each, now_ns);
	apply(n, ch);
	tree_publish(n);
	if (kinds)
		gate_lanes_locked(g);
	change_end(root, now_ns);
	leaves_each(n, leaf_refuse_misconfigured, &now_ns);
	return 0;
}

static int change(struct node *n, struct change *ch)
{
	struct gate *g = n->gate;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	int rc = change_locked(n, ch, now_ns);
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
	return rc;
}

int gate_set_global(struct gate *g, const struct limiter_config *cfg)
{
	return change(&g->global, &(struct change){.limits = cfg, .paused = -1});
}

int gate_set_fs(struct gate_fs *fs, const struct limiter_config *cfg)
{
	return change(&fs->node, &(struct change){.limits = cfg, .paused = -1});
}

int gate_set_mount(struct gate_mount *m, const struct gate_mount_config *cfg)
{
	struct change ch = {.limits = &cfg->limits, .mount = cfg, .paused = -1};
	int rc = keys_rules_copy(cfg->weights, cfg->n_weights, &ch.rules);
	if (rc == 0)
		rc = change(&m->leaf.node, &ch);
	if (rc < 0)
		keys_rules_free(ch.rules, cfg->n_weights);
	return rc;
}

int gate_weights_copy(const struct weight_rule *rules, unsigned n, struct weight_rule **out)
{
	return keys_rules_copy(rules, n, out);
}

void gate_weights_free(struct weight_rule *rules, unsigned n)
{
	keys_rules_free(rules, n);
}

void gate_set_weights(struct gate_mount *m, struct weight_rule *rules, unsigned n)
{
	struct leaf *f = &m->leaf;
	struct gate *g = f->node.gate;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	change_begin(&f->node, now_ns);
	leaf_set_weights(f, rules, n);
	change_end(&f->node, now_ns);
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
}

int gate_pause_global(struct gate *g, bool paused)
{
	return change(&g->global, &(struct change){.paused = paused});
}

int gate_pause_fs(struct gate_fs *fs, bool paused)
{
	return change(&fs->node, &(struct change){.paused = paused});
}

int gate_pause_mount(struct gate_mount *m, bool paused)
{
	return change(&m->leaf.node, &(struct change){.paused = paused});
}
