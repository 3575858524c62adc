/* SPDX-License-Identifier: MIT */
/* Scopes come and go. */
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

static bool scope_init(struct scope *s, struct gate *g, struct scope *parent, const char *name,
		       const struct limiter_config *cfg, uint64_t now_ns)
{
	static const enum limiter_scope kind[LEVELS] = {SCOPE_MOUNT, SCOPE_FS, SCOPE_GLOBAL};
	enum level level = parent ? parent->level - 1 : LEVEL_GLOBAL;
	*s = (struct scope){
		.gate = g, .parent = parent, .level = level, .weight = 1, .since_ns = now_ns};
	list_init(&s->children);
	list_init(&s->sibling);
	limiter_init(&s->limiter, kind[level], cfg, now_ns);
	for (unsigned k = 0; k < RESOURCES; k++) {
		s->res[k].scope = s;
		s->res[k].kind = k;
		list_init(&s->res[k].waiters);
	}
	for (unsigned i = 0; i < LANES; i++) {
		s->lane[i].scope = s;
		s->lane[i].index = i;
		list_init(&s->lane[i].wait);
		fq_init(&s->lane[i].fq, now_ns);
		fq_item_init(&s->lane[i].item, 1);
	}
	s->name = strdup(name);
	return s->name;
}

static void scope_fini(struct scope *s)
{
	for (unsigned i = 0; i < LANES; i++)
		fq_free(&s->lane[i].fq);
	free(s->name);
}

/* Whatever may be queued of it later has its place from now on.  Lock held. */
static bool scope_link(struct scope *s)
{
	struct gate *g = s->gate;
	if (!heap_reserve(&g->due, (g->n_scopes + 1) * RESOURCES) ||
	    !heap_reserve(&g->vouchers, (g->n_scopes + 1) * COST_CLASSES))
		return false;
	for (unsigned i = 0; s->parent && i < LANES; i++)
		if (!fq_reserve(&s->parent->lane[i].fq, s->parent->n_children + 1))
			return false;
	g->n_scopes++;
	if (s->parent) {
		list_push_tail(&s->parent->children, &s->sibling);
		s->parent->n_children++;
	}
	return true;
}

static void scope_unlink(struct scope *s)
{
	s->gate->n_scopes--;
	if (s->parent) {
		list_remove(&s->sibling);
		s->parent->n_children--;
	}
}

/* A scope with limits has come or gone. */
static void relane_locked(struct gate *g, uint64_t now_ns)
{
	change_begin(&g->global, now_ns);
	gate_lanes_locked(g, now_ns);
	change_end(&g->global, now_ns);
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
}

struct gate *gate_new(const struct clock *clock, void (*dispatch)(void *ctx, struct list *ready),
		      void *ctx)
{
	static const struct limiter_config none;
	struct gate *g = aligned_alloc(CACHE_LINE, sizeof(*g));
	if (!g)
		return NULL;
	*g = (struct gate){.clock = clock,
			   .dispatch = dispatch,
			   .ctx = ctx,
			   .next_ns = NEVER,
			   .armed_ns = NEVER};
	pthread_mutex_init(&g->lock, NULL);
	list_init(&g->ready);
	list_init(&g->refused);
	limiter_init(&g->closed, SCOPE_GLOBAL, &none, clock_now(clock));
	permits_set_limit(&g->closed.inflight, 0);
	g->paused = chain_compile(COST_META, &g->closed, NULL, NULL, NULL);
	if (!scope_init(&g->global, g, NULL, "global", &none, clock_now(clock)) || !g->paused ||
	    !scope_link(&g->global)) {
		gate_free(g);
		return NULL;
	}
	gate_lanes_locked(g, clock_now(clock));
	return g;
}

void gate_free(struct gate *g)
{
	if (!g)
		return;
	scope_fini(&g->global);
	heap_free(&g->due);
	heap_free(&g->deadlines);
	heap_free(&g->vouchers);
	free(g->paused);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

struct gate_fs *gate_fs_new(struct gate *g, const char *name, const struct limiter_config *cfg)
{
	struct gate_fs *fs = aligned_alloc(CACHE_LINE, sizeof(*fs));
	if (!fs)
		return NULL;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	if (!scope_init(&fs->scope, g, &g->global, name, cfg, now_ns) || !scope_link(&fs->scope)) {
		gate_unlock_deliver(g);
		scope_fini(&fs->scope);
		free(fs);
		return NULL;
	}
	if (kinds_enabled(cfg))
		relane_locked(g, now_ns);
	gate_unlock_deliver(g);
	return fs;
}

static void scope_leave(struct scope *s)
{
	struct gate *g = s->gate;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	scope_unlink(s);
	counter_sums_add(&s->parent->gone, &s->gone);
	if (s->level == LEVEL_MOUNT) {
		counters_sum(&scope_mount(s)->counters, &s->parent->gone);
		s->parent->keys_now -= s->keys_now;
		g->global.keys_now -= s->keys_now;
	}
	if (kinds_enabled(&s->limiter.config))
		relane_locked(g, now_ns);
	gate_unlock_deliver(g);
}

void gate_fs_free(struct gate_fs *fs)
{
	if (!fs)
		return;
	scope_leave(&fs->scope);
	scope_fini(&fs->scope);
	free(fs);
}

static void mount_fini(struct gate_mount *m)
{
	list_for_each_safe (it, &m->chains) {
		struct cached_chain *cc = list_entry(it, struct cached_chain, link);
		free(cc->chain);
		free(cc);
	}
	keys_free(&m->keys);
	scope_fini(&m->scope);
	free(m);
}

static bool mount_init(struct gate_mount *m, struct gate_fs *fs, const char *name,
		       const struct gate_mount_config *cfg, uint64_t now_ns)
{
	memset(m, 0, sizeof(*m));
	list_init(&m->chains);
	if (!scope_init(&m->scope, fs->scope.gate, &fs->scope, name, &cfg->limits, now_ns) ||
	    !keys_init(&m->keys, cfg->max_keys, cfg->weights, cfg->n_weights))
		return false;
	for (unsigned i = 0; i < LANES; i++)
		if (!fq_reserve(&m->scope.lane[i].fq, OVERFLOW_KEYS))
			return false;
	mount_settings(m, cfg);
	return chains_compile(&m->scope) == 0 && scope_link(&m->scope);
}

struct gate_mount *gate_mount_new(struct gate_fs *fs, const char *name,
				  const struct gate_mount_config *cfg)
{
	struct gate *g = fs->scope.gate;
	struct gate_mount *m = aligned_alloc(CACHE_LINE, sizeof(*m));
	if (!m)
		return NULL;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	bool ok = mount_init(m, fs, name, cfg, now_ns);
	if (ok) {
		chains_publish(&m->scope);
		if (kinds_enabled(&cfg->limits))
			relane_locked(g, now_ns);
	}
	gate_unlock_deliver(g);
	if (ok)
		return m;
	mount_fini(m);
	return NULL;
}

void gate_mount_free(struct gate_mount *m)
{
	if (!m)
		return;
	scope_leave(&m->scope);
	mount_fini(m);
}
