/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/pools_internal.h"
#include "daemon/registry.h"

/* --- finding them --- */

/* The scopes found last time, and the list of those found this time. */
struct search {
	const struct pool *pool;
	const struct attached *old;
	unsigned n_old;
	struct attached *found;
	unsigned n;
};

static bool takes_part(const struct pool *p, const struct settings *s)
{
	return s->pool && strcmp(s->pool, p->s.name) == 0;
}

static bool same_scope(const struct attached *a, const struct gate_pool_scope *b)
{
	return a->scope.fs == b->fs && a->scope.mount == b->mount &&
	       strcmp(a->class, b->class ? b->class : "") == 0;
}

/* As if all of them waited for the same limit: a mount has its mount_weight, a class its own weight. */
static uint64_t weight_of(const struct settings *s, const struct gate_pool_scope *scope)
{
	uint64_t weight = scope->class ? s->weights.own : scope->mount ? s->mount_weight : 1;
	return max_u64(weight, 1);
}

/* Adds the scope if it takes part in the pool, and keeps what was known about it. */
static void attach(struct search *f, const struct settings *s, const struct gate_pool_scope *scope)
{
	if (!takes_part(f->pool, s))
		return;
	struct attached *a = &f->found[f->n++];
	memset(a, 0, sizeof(*a));
	for (unsigned i = 0; i < f->n_old; i++)
		if (same_scope(&f->old[i], scope))
			*a = f->old[i];
	a->scope = *scope;
	a->weight = weight_of(s, scope);
	snprintf(a->class, sizeof(a->class), "%s", scope->class ? scope->class : "");
	a->scope.class = scope->class ? a->class : NULL;
}

static void attach_mount(struct search *f, const struct served_mount *m)
{
	struct gate_pool_scope scope = {.gate = m->registry->gate, .mount = m->gate_mount};
	if (!m->gate_mount)
		return;
	attach(f, &m->s, &scope);
	for (unsigned i = 0; i < m->s.n_classes; i++) {
		scope.class = m->s.class[i].name;
		attach(f, &m->s.class[i], &scope);
	}
}

unsigned pool_scopes_count(const struct pool *p)
{
	struct registry *r = p->all->registry;
	unsigned n = takes_part(p, &r->global);
	list_for_each (it, &r->fs)
		n += takes_part(p, &list_entry(it, struct served_fs, link)->s);
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (!m->gate_mount)
			continue;
		n += takes_part(p, &m->s);
		for (unsigned i = 0; i < m->s.n_classes; i++)
			n += takes_part(p, &m->s.class[i]);
	}
	return n;
}

/* Searches for the scopes anew each time, since scopes come and go.  False: out of memory, and no
 * scope gets a lease for now. */
static bool find_scopes(struct pool *p)
{
	struct registry *r = p->all->registry;
	struct gate_pool_scope scope = {.gate = r->gate};
	struct search f = {.pool = p, .old = p->attached, .n_old = p->n_attached};
	f.found = calloc(pool_scopes_count(p) + 1, sizeof(*f.found));
	if (f.found) {
		attach(&f, &r->global, &scope);
		list_for_each (it, &r->fs) {
			const struct served_fs *fs = list_entry(it, struct served_fs, link);
			scope.fs = fs->gate;
			attach(&f, &fs->s, &scope);
		}
		list_for_each (it, &r->mounts)
			attach_mount(&f, list_entry(it, struct served_mount, link));
	}
	free(p->attached);
	p->attached = f.found;
	p->n_attached = f.n;
	return f.found;
}

/* --- use --- */

static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* Adds what has changed since the last look at this scope.  Whatever it used before the first look was not of the pool. */
static void add_changes(struct attached *a, const struct gate_pool_use *now, struct pool_use *sum,
			uint64_t blocked_ns[POOL_LIMITS])
{
	if (!a->seen)
		a->use = a->before = *now;
	a->seen = true;
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		sum->tokens[k] += now->tokens[k] - a->use.tokens[k];
		blocked_ns[k] =
			max_u64(blocked_ns[k], since(now->blocking_ns[k], a->use.blocking_ns[k]));
		sum->waiting[k] |= now->waiting[k];
		sum->need[k] = min_u64(sum->need[k] + now->need[k], POOL_RATE_MAX);
		if (now->waiting[k]) /* gets its part now, not at the next call of the server */
			a->demand[k] = POOL_DEMAND_ALL;
	}
	a->use = *now;
}

void pool_scopes_look(struct pool *p)
{
	uint64_t blocked_ns[POOL_LIMITS] = {0};
	memset(p->use.waiting, 0, sizeof(p->use.waiting));
	memset(p->use.need, 0, sizeof(p->use.need));
	find_scopes(p);
	for (unsigned i = 0; i < p->n_attached; i++) {
		struct gate_pool_use now;
		if (gate_pool_look(&p->attached[i].scope, &now))
			add_changes(&p->attached[i], &now, &p->use, blocked_ns);
	}
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		p->use.blocking_ns[k] += blocked_ns[k];
}

void pool_scopes_demand(struct pool *p, uint64_t dt_ns)
{
	for (unsigned i = 0; i < p->n_attached; i++) {
		struct attached *a = &p->attached[i];
		for (unsigned k = 0; k < POOL_LIMITS; k++) {
			uint64_t used = a->use.tokens[k] - a->before.tokens[k];
			uint64_t blocked_ns =
				since(a->use.blocking_ns[k], a->before.blocking_ns[k]);
			if (used > POOL_RATE_MAX)
				used = 0;
			used = min_u64(used + a->use.need[k], POOL_RATE_MAX);
			a->demand[k] = a->use.waiting[k] || blocked_ns > dt_ns / 10
					       ? POOL_DEMAND_ALL
					       : (uint64_t)((u128)used * POOL_MILLI * NSEC_PER_SEC /
							    dt_ns);
		}
		a->before = a->use;
	}
}

/* --- leases --- */

static struct bucket_lease lease_of(const struct pool_rates *r, unsigned k, uint64_t share)
{
	u128 capacity = (u128)r->capacity[k] * share / max_u64(r->rate[k], 1);
	return (struct bucket_lease){
		.milli_per_sec = share,
		.capacity = max_u64(1, (uint64_t)capacity),
		.until_ns = r->until_ns,
	};
}

/* Divides one limit between all scopes; false: out of memory. */
static bool split(const struct pool *p, unsigned k, struct gate_lease *lease)
{
	unsigned n = p->n_attached;
	uint64_t rate = p->rates.rate[k];
	AUTO_FREE struct pool_wish *scratch = calloc(n + 1, sizeof(*scratch));
	AUTO_FREE uint64_t *demand = calloc(n + 1, sizeof(*demand));
	AUTO_FREE uint64_t *share = calloc(n + 1, sizeof(*share));
	AUTO_FREE uint64_t *weight = calloc(n + 1, sizeof(*weight));
	if (!scratch || !demand || !share || !weight)
		return false;
	for (unsigned i = 0; i < n; i++) {
		demand[i] = p->attached[i].demand[k];
		weight[i] = p->attached[i].weight;
	}
	pool_split(rate, demand, weight, n, scratch, share);
	for (unsigned i = 0; i < n; i++)
		lease[i].limit[k] =
			lease_of(&p->rates, k, rate < POOL_DEMAND_ALL ? share[i] : rate);
	return true;
}

bool pool_scopes_lease(struct pool *p)
{
	if (!find_scopes(p)) /* since the last search a mount may have gone */
		return false;
	AUTO_FREE struct gate_lease *lease = calloc(p->n_attached + 1, sizeof(*lease));
	bool ok = lease;
	for (unsigned k = 0; ok && k < POOL_LIMITS; k++)
		ok = split(p, k, lease);
	for (unsigned i = 0; ok && i < p->n_attached; i++)
		gate_lease(&p->attached[i].scope, &lease[i]);
	return ok;
}
