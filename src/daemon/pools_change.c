/* SPDX-License-Identifier: MIT */
/* Adds, removes and changes pools while serving. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "daemon/options.h"
#include "daemon/pool_config.h"
#include "daemon/pools_internal.h"
#include "daemon/registry.h"

int pools_join(const struct pools *ps, struct settings *s, struct error *err)
{
	unsigned n = ps ? ps->n : 0;
	AUTO_FREE struct settings *all = calloc(n + 1, sizeof(*all));
	if (!all)
		return error_set(err, "out of memory");
	for (unsigned i = 0; i < n; i++)
		all[i] = ps->pool[i]->s; /* borrowed: not to be freed */
	return pool_config_join(s, all, n, err);
}

static bool differs(const struct settings *a, const struct settings *b, const char *option)
{
	return !option_equal(option_find(option), a, b);
}

/* Leaves the old server and joins the new one with a fresh member.  The sequence numbers of calls
 * continue, because the new server may be the old one under another name. */
static void move(struct pool *p, const struct pool_member_config *cfg)
{
	pool_leave(p);
	uint64_t seq = p->member.seq, lost_ns = p->member.lost_sum_ns;
	pool_member_init(&p->member, cfg, monotonic_ns());
	p->member.seq = seq;
	p->member.lost_sum_ns = lost_ns;
	p->told_version = p->listed_ns = 0;
	p->error[0] = '\0';
	p->was_leased = false;
	pool_helper_renew(p);
}

static void change(struct pool *p, struct settings *s)
{
	struct pool_member_config cfg = p->member.cfg;
	bool elsewhere = differs(&p->s, s, "server") || differs(&p->s, s, "key") ||
			 differs(&p->s, s, "auth_file") || differs(&p->s, s, "tls_ca") ||
			 differs(&p->s, s, "tls_cert") || differs(&p->s, s, "tls_key") ||
			 differs(&p->s, s, "lease");
	pool_member_config_of(s, &cfg);
	if (elsewhere)
		move(p, &cfg);
	else
		pool_member_configure(&p->member, &cfg, monotonic_ns());
	settings_free(&p->s);
	p->s = *s;
	settings_init(s);
}

/* The pools of a configuration file that is about to take effect. */
struct pools_plan {
	struct pool **pool; /* the list of all pools after the reload */
	unsigned n;
	struct planned_pool {
		struct pool *pool;
		bool fresh;
		struct settings s; /* the new settings of an existing pool */
	} one[];
};

void pools_plan_free(struct pools_plan *plan)
{
	for (unsigned i = 0; plan && i < plan->n; i++) {
		settings_free(&plan->one[i].s);
		if (plan->one[i].fresh)
			pool_free(plan->one[i].pool);
	}
	if (plan)
		free(plan->pool);
	free(plan);
}

static bool plan_pool(struct pools *ps, const struct settings *s, struct planned_pool *out)
{
	out->pool = pool_find(ps, s->name);
	out->fresh = !out->pool;
	if (out->pool)
		return settings_copy(&out->s, s);
	settings_init(&out->s);
	out->pool = pool_new(ps, s);
	return out->pool;
}

int pools_plan(struct pools *ps, const struct configuration *c, struct pools_plan **out,
	       struct error *err)
{
	*out = NULL;
	struct pools_plan *plan = calloc(1, sizeof(*plan) + c->n_pools * sizeof(plan->one[0]));
	if (plan)
		plan->pool = calloc(c->n_pools + 1, sizeof(struct pool *));
	bool ok = plan && plan->pool;
	for (; ok && plan->n < c->n_pools; plan->n += ok)
		ok = plan_pool(ps, &c->pool[plan->n], &plan->one[plan->n]);
	if (ok) {
		*out = plan;
		return 0;
	}
	pools_plan_free(plan);
	return error_set(err, "out of memory");
}

static bool is_planned(const struct pools_plan *plan, const struct pool *p)
{
	for (unsigned i = 0; i < plan->n; i++)
		if (plan->one[i].pool == p)
			return true;
	return false;
}

void pools_reload(struct pools *ps, struct pools_plan *plan)
{
	if (!ps)
		return;
	for (unsigned i = 0; i < ps->n; i++)
		if (!is_planned(plan, ps->pool[i]))
			pool_free(ps->pool[i]);
	for (unsigned i = 0; i < plan->n; i++) {
		struct planned_pool *one = &plan->one[i];
		plan->pool[i] = one->pool;
		if (!one->fresh)
			change(one->pool, &one->s);
		one->fresh = false;
	}
	free(ps->pool);
	ps->pool = plan->pool;
	ps->n = plan->n;
	plan->pool = NULL;
	pools_set_timer(ps);
}

/* Applies all settings again, because the pool has limits of other kinds now, which its scopes need
 * as well. */
static int join_again(struct registry *r, struct error *err)
{
	struct settings s;
	int rc = settings_copy(&s, &r->global) ? registry_set_global(r, &s, err) : -1;
	settings_free(&s);
	list_for_each (it, &r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		if (rc == 0)
			rc = settings_copy(&s, &fs->s) ? registry_set_fs(r, fs, &s, err) : -1;
		settings_free(&s);
	}
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (rc == 0)
			rc = settings_copy(&s, &m->s) ? registry_set_mount(m, &s, err) : -1;
		settings_free(&s);
	}
	if (rc < 0 && !error_is_set(err))
		error_set(err, "out of memory");
	return rc;
}

int pools_set(struct pools *ps, const char *name, struct settings *s, struct error *err)
{
	struct pool *p = pool_find(ps, name);
	if (!p)
		return error_set(err, "there is no pool '%s'", name);
	if (pool_config_check(s, err) < 0)
		return -1;
	uint32_t kinds = limiter_config_kinds(&p->s.limits);
	change(p, s);
	pools_set_timer(ps);
	return limiter_config_kinds(&p->s.limits) == kinds ? 0 : join_again(ps->registry, err);
}
