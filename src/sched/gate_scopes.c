/* SPDX-License-Identifier: MIT */
/* What holds for a scope, and how that changes at run time: chains and routes, limits, settings,
 * pausing, draining. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

/* --- chains --- */

static struct chain *cache_find(struct gate_mount *m, const struct chain *like)
{
	list_for_each (it, &m->chains) {
		struct cached_chain *cc = list_entry(it, struct cached_chain, link);
		if (chain_equal(cc->chain, like))
			return cc->chain;
	}
	return NULL;
}

/* Grants name their chain, so a chain lives as long as its mount; equal ones are one. */
static int cache_chain(struct gate_mount *m, struct chain *ch, const struct chain **out)
{
	*out = ch ? cache_find(m, ch) : NULL;
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
	list_push_tail(&m->chains, &cc->link);
	*out = ch;
	return 0;
}

static void mount_compile(struct gate_mount *m, void *arg)
{
	struct scope *fs = m->scope.parent;
	int *rc = arg;
	for (unsigned c = 0; c < COST_CLASSES && *rc == 0; c++) {
		bool oom = false;
		struct chain *ch = chain_compile(c, &fs->parent->limiter, &m->scope.limiter,
						 &fs->limiter, &oom);
		*rc = oom ? -ENOMEM : cache_chain(m, ch, &m->compiled[c]);
	}
}

int chains_compile(struct scope *s)
{
	int rc = 0;
	mounts_each(s, mount_compile, &rc);
	return rc;
}

/* --- routes --- */

static void route_add(struct route *rt, struct resource *r, unsigned per_op, unsigned per_byte)
{
	rt->hop[rt->n++] = (struct hop){r, (uint8_t)per_op, (uint8_t)per_byte};
}

/* Ops before bytes, so that they can be prepaid.  Not a limit of rate 0: who needs tokens of it is
 * refused before (route_misconfigured), who needs none must not wait for its debt to go away. */
static void route_add_scope(struct route *rt, struct scope *s, const struct chain *ch)
{
	for (int bytes = 0; bytes <= 1; bytes++)
		for (unsigned i = 0; i < ch->links; i++) {
			const struct chain_link *l = &ch->link[i];
			if (l->limiter == &s->limiter && limit_kind_is_bytes(l->kind) == bytes &&
			    bucket_rate(l->bucket))
				route_add(rt, &s->res[l->kind], l->per_op, l->per_byte);
		}
	for (unsigned i = 0; i < ch->permits; i++)
		if (ch->permit[i] == &s->limiter.inflight)
			route_add(rt, &s->res[RES_INFLIGHT], 0, 0);
}

static uint64_t token_ns(uint64_t rate_per_sec)
{
	return rate_per_sec ? (NSEC_PER_SEC << 32) / rate_per_sec : 0;
}

/* How long an op and a byte take on the tightest limit of this scope and those above it. */
static void route_costs(struct route *rt, const struct chain *ch)
{
	uint64_t op_ns = 0, byte_ns = 0;
	for (int level = LEVEL_GLOBAL; level >= 0; level--) {
		for (unsigned i = 0; i < ch->links; i++) {
			const struct chain_link *l = &ch->link[i];
			uint64_t ns = token_ns(bucket_rate(l->bucket));
			if (container_of(l->limiter, struct scope, limiter)->level !=
			    (enum level)level)
				continue;
			op_ns = max_u64(op_ns, ns * l->per_op);
			byte_ns = max_u64(byte_ns, ns * l->per_byte);
			rt->zero_op |= !ns && l->per_op;
			rt->zero_byte |= !ns && l->per_byte;
		}
		rt->op_ns[level] = op_ns;
		rt->byte_ns[level] = byte_ns;
	}
}

static void route_make(struct route *rt, struct gate_mount *m, const struct chain *ch)
{
	bool dry_run = atomic_load_explicit(&m->dry_run, memory_order_relaxed);
	*rt = (struct route){0};
	for (struct scope *s = &m->scope; s; s = s->parent) {
		if (s->paused)
			route_add(rt, &s->res[RES_PAUSE], 0, 0);
		if (ch && !dry_run)
			route_add_scope(rt, s, ch);
		rt->end[s->level] = rt->n;
	}
	if (ch && !dry_run)
		route_costs(rt, ch);
}

static void mount_publish(struct gate_mount *m, void *arg)
{
	if (m->draining)
		memset(m->compiled, 0, sizeof(m->compiled));
	bool paused = !m->draining &&
		      (m->scope.paused || m->scope.parent->paused || m->scope.gate->global.paused);
	for (unsigned c = 0; c < COST_CLASSES; c++) {
		const struct chain *ch = m->compiled[c];
		route_make(&m->route[c], m, ch);
		atomic_store_explicit(&m->limits[c], ch, memory_order_release);
		atomic_store_explicit(&m->chain[c], paused ? m->scope.gate->paused : ch,
				      memory_order_release);
	}
}

void chains_publish(struct scope *s)
{
	mounts_each(s, mount_publish, NULL);
}

/* --- changes --- */

uint32_t kinds_enabled(const struct limiter_config *cfg)
{
	uint32_t kinds = 0;
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		kinds |= (uint32_t)cfg->limit[k].enabled << k;
	return kinds;
}

static void refuse_misconfigured(struct job *j, void *arg)
{
	struct gate_mount *m = j->mount;
	if (route_misconfigured(&m->route[j->cost.cls], &j->cost))
		job_refuse_locked(m->scope.gate, j, GRANT_MISCONFIGURED, *(uint64_t *)arg);
}

static void mount_refuse_misconfigured(struct gate_mount *m, void *arg)
{
	jobs_each(m, refuse_misconfigured, arg);
}

static void job_new_deadline(struct job *j, void *arg)
{
	job_set_deadline(j->mount->scope.gate, j->mount, j);
}

static void key_new_weight(struct key *key, void *arg)
{
	struct gate_mount *m = arg;
	if (keys_is_overflow(&m->keys, key))
		return;
	for (unsigned i = 0; i < LANES; i++)
		fq_set_weight(&m->scope.lane[i].fq, &key->queue[i].item,
			      keys_weight(&m->keys, key->id));
}

void mount_settings(struct gate_mount *m, const struct gate_mount_config *cfg)
{
	m->scope.weight = cfg->weight ? cfg->weight : 1;
	m->max_wait_ns = cfg->max_wait_ns;
	m->max_parked = cfg->max_parked ? cfg->max_parked : GATE_MAX_PARKED_DEFAULT;
	m->max_parked_bytes =
		cfg->max_parked_bytes ? cfg->max_parked_bytes : GATE_MAX_PARKED_BYTES_DEFAULT;
	m->keys.max = cfg->max_keys ? cfg->max_keys : GATE_MAX_KEYS_DEFAULT;
	atomic_store_explicit(&m->full_rejects, cfg->full_rejects, memory_order_relaxed);
	atomic_store_explicit(&m->dry_run, cfg->dry_run, memory_order_relaxed);
}

/* What comes with the new limits. */
struct change {
	const struct limiter_config *limits; /* NULL: as they are */
	const struct gate_mount_config *mount;
	struct weight_rule *rules; /* to be owned */
	int paused;		   /* -1: as it is */
};

static void apply(struct scope *s, const struct change *ch)
{
	if (ch->paused >= 0)
		s->paused = ch->paused;
	if (!ch->mount)
		return;
	struct gate_mount *m = scope_mount(s);
	free(m->keys.rules);
	m->keys.rules = ch->rules;
	m->keys.n_rules = ch->mount->n_weights;
	mount_settings(m, ch->mount);
	keys_each(&m->keys, key_new_weight, m);
	jobs_each(m, job_new_deadline, NULL);
}

static int scope_change_locked(struct scope *s, const struct change *ch, uint64_t now_ns)
{
	struct gate *g = s->gate;
	const struct limiter_config old = s->limiter.config;
	bool kinds = ch->limits && kinds_enabled(ch->limits) != kinds_enabled(&old);
	struct scope *root = kinds ? &g->global : s;
	change_begin(root, now_ns);
	if (ch->limits)
		limiter_configure(&s->limiter, ch->limits, now_ns);
	int rc = chains_compile(s);
	if (rc == 0) {
		apply(s, ch);
		chains_publish(s);
		if (kinds)
			gate_lanes_locked(g, now_ns);
	} else if (ch->limits) {
		limiter_configure(&s->limiter, &old, now_ns);
	}
	change_end(root, now_ns);
	mounts_each(s, mount_refuse_misconfigured, &now_ns);
	return rc;
}

static int scope_change(struct scope *s, const struct change *ch)
{
	struct gate *g = s->gate;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	int rc = scope_change_locked(s, ch, now_ns);
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
	return rc;
}

int gate_set_global(struct gate *g, const struct limiter_config *cfg)
{
	return scope_change(&g->global, &(struct change){.limits = cfg, .paused = -1});
}

int gate_set_fs(struct gate_fs *fs, const struct limiter_config *cfg)
{
	return scope_change(&fs->scope, &(struct change){.limits = cfg, .paused = -1});
}

int gate_set_mount(struct gate_mount *m, const struct gate_mount_config *cfg)
{
	struct change ch = {.limits = &cfg->limits, .mount = cfg, .paused = -1};
	int rc = keys_rules_copy(cfg->weights, cfg->n_weights, &ch.rules);
	if (rc == 0)
		rc = scope_change(&m->scope, &ch);
	if (rc < 0)
		free(ch.rules);
	return rc;
}

int gate_pause_global(struct gate *g, bool paused)
{
	return scope_change(&g->global, &(struct change){.paused = paused});
}

int gate_pause_fs(struct gate_fs *fs, bool paused)
{
	return scope_change(&fs->scope, &(struct change){.paused = paused});
}

int gate_pause_mount(struct gate_mount *m, bool paused)
{
	return scope_change(&m->scope, &(struct change){.paused = paused});
}

/* --- draining --- */

struct drain {
	struct gate *g;
	bool run;
	uint64_t now_ns;
};

static void drain_job(struct job *j, void *arg)
{
	const struct drain *d = arg;
	if (!d->run) {
		job_refuse_locked(d->g, j, GRANT_CANCELLED, d->now_ns);
		return;
	}
	job_dequeue(j, d->now_ns);
	job_count_admitted(j, j->mount);
	if (!j->probe)
		mount_waited(j->mount, j->cost.cls, d->now_ns - j->parked_ns);
	j->grant = (struct grant){.cost = j->cost, .probe = j->probe};
	j->state = JOB_READY;
	list_push_tail(&d->g->ready, &j->link);
}

void gate_mount_drain(struct gate_mount *m, bool run)
{
	struct gate *g = m->scope.gate;
	gate_lock(g);
	struct drain d = {g, run, clock_now(g->clock)};
	change_begin(&m->scope, d.now_ns);
	m->draining = true;
	chains_publish(&m->scope);
	change_end(&m->scope, d.now_ns);
	jobs_each(m, drain_job, &d);
	gate_dispatch_locked(g, d.now_ns, d.now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
}
