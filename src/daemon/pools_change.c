/* SPDX-License-Identifier: MIT */
/* Adds, removes and changes pools while serving. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "daemon/limits_out.h"
#include "daemon/options.h"
#include "daemon/pool_config.h"
#include "daemon/pools_internal.h"
#include "daemon/registry.h"
#include "fs/mount.h"

/* pool_config_join, as if `changed` (NULL: none) had the settings new. */
static int join(const struct pools *ps, const struct pool *changed, const struct settings *new,
		struct settings *s, struct error *err)
{
	unsigned n = ps ? ps->n : 0;
	AUTO_FREE struct settings *all = calloc(n + 1, sizeof(*all));
	if (!all)
		return error_set(err, "out of memory");
	for (unsigned i = 0; i < n; i++) { /* borrowed: not to be freed */
		const struct pool *p = ps->pool[i];
		bool changes = changed && p == changed;
		all[i] = changes ? *new : p->s;
		if (!changes)
			all[i].limits = p->enforced;
	}
	return pool_config_join(s, all, n, err);
}

int pools_join(const struct pools *ps, struct settings *s, struct error *err)
{
	return join(ps, NULL, NULL, s, err);
}

void pool_take_limits(struct pool *p)
{
	struct pool_limits limits;
	pool_member_limits(&p->member, &limits);
	pool_config_take(&p->s, &limits);
}

static bool differs(const struct settings *a, const struct settings *b, const char *option)
{
	return !option_equal(option_find(option), a, b);
}

/* Whether the pool is another one with these settings. */
static bool moves(const struct pool *p, const struct settings *s)
{
	static const char *const where[] = {"server",	"key",	   "auth_file", "tls_ca",
					    "tls_cert", "tls_key", "lease"};
	bool any = false;
	for (unsigned i = 0; i < ARRAY_SIZE(where); i++)
		any |= differs(&p->s, s, where[i]);
	return any;
}

/* The limits that scopes enforce once the settings s of a file are in force: in addition, those in force that only other hosts
 * have set, which a reload does not change. */
static void limits_after_reload(const struct pool *p, const struct settings *s,
				struct limiter_config *out)
{
	*out = s->limits;
	if (moves(p, s))
		return;
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		if (!out->limit[k].enabled && !p->member.cfg.limits.rate[k])
			out->limit[k] = p->s.limits.limit[k];
}

/* Leaves the old server and joins the new one with a fresh member.  The sequence numbers of calls
 * continue, because the new server may be the old one under another name. */
static void move(struct pool *p, const struct pool_member_config *cfg)
{
	pool_leave(p);
	uint64_t seq = p->member.seq, lost_ns = p->member.lost_sum_ns;
	pool_member_init(&p->member, cfg, monotonic_ns());
	memset(&p->use, 0, sizeof(p->use)); /* a fresh member has used nothing */
	p->member.seq = seq;
	p->member.lost_sum_ns = lost_ns;
	p->told_limits = cfg->limits;
	p->told_answer = false;
	p->listed_ns = 0;
	p->error[0] = '\0';
	p->told_pause_ns = 0;
	p->was_leased = false;
	p->learning_ns = 0;
	pool_helper_renew(p);
}

/* Replaces the limits that the command, whose settings are `s`, does not change by those of `from`.  What this host would make
 * of them can differ from what is in force: with another `window`, it cannot express their capacity. */
static void keep_limits(const struct pool *p, const struct settings *s,
			const struct pool_limits *from, struct pool_limits *limits)
{
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		const struct limit_config *a = &p->s.limits.limit[k], *b = &s->limits.limit[k];
		if (a->enabled != b->enabled || a->rate_per_sec != b->rate_per_sec ||
		    a->burst != b->burst || p->s.limits.window_ns != s->limits.window_ns)
			continue;
		limits->rate[k] = from->rate[k];
		limits->capacity[k] = from->capacity[k];
	}
}

/* `command`: by ratefsctl set, and not by a file. */
static void change(struct pool *p, struct settings *s, bool command)
{
	struct pool_member_config cfg = p->member.cfg;
	bool elsewhere = moves(p, s);
	struct pool_limits in_force;
	struct limiter_config enforced = s->limits;
	if (!command)
		limits_after_reload(p, s, &enforced);
	pool_member_limits(&p->member, &in_force);
	pool_member_config_of(s, &cfg);
	/* A reload compares the file with what this host has configured or set itself, not with what others have set. */
	if (command)
		keep_limits(p, s, elsewhere ? &in_force : &p->member.cfg.limits, &cfg.limits);
	if (elsewhere)
		move(p, &cfg);
	else
		pool_member_configure(&p->member, &cfg, monotonic_ns());
	settings_free(&p->s);
	p->s = *s;
	p->enforced = enforced;
	settings_init(s);
	pool_take_limits(p);
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

static int join_all(struct configuration *c, const struct settings *pool, struct error *err)
{
	int rc = pool_config_join(&c->global, pool, c->n_pools, err);
	for (unsigned i = 0; i < c->n_fs && rc == 0; i++)
		rc = pool_config_join(&c->fs[i], pool, c->n_pools, err);
	for (unsigned i = 0; i < c->n_mounts && rc == 0; i++)
		rc = pool_config_join(&c->mount[i], pool, c->n_pools, err);
	return rc;
}

int pools_join_all(const struct pools *ps, struct configuration *c, struct error *err)
{
	AUTO_FREE struct settings *pool = calloc(c->n_pools + 1, sizeof(*pool));
	if (!pool)
		return error_set(err, "nothing was changed: out of memory");
	for (unsigned i = 0; i < c->n_pools; i++) { /* borrowed: not to be freed */
		const struct pool *p = pool_find(ps, c->pool[i].name);
		pool[i] = c->pool[i];
		if (p)
			limits_after_reload(p, &c->pool[i], &pool[i].limits);
	}
	return join_all(c, pool, err);
}

bool pools_copy(const struct pools *ps, struct configuration *c)
{
	for (unsigned i = 0; ps && i < ps->n; i++) {
		const struct pool *p = ps->pool[i];
		struct settings *s = configuration_add_pool(c);
		if (!s || !settings_copy(s, &p->s))
			return false;
		/* Not the limits in force: a reload compares these with what this host has configured or set itself, and what
		 * others have set would become its own. */
		pool_config_take(s, &p->member.cfg.limits);
	}
	return true;
}

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
			change(one->pool, &one->s, false);
		one->fresh = false;
	}
	free(ps->pool);
	ps->pool = plan->pool;
	ps->n = plan->n;
	plan->pool = NULL;
	pools_set_timer(ps);
}

/* --- ratefsctl set --- */

static bool takes_part(const struct settings *s, const char *pool)
{
	bool any = s->pool && strcmp(s->pool, pool) == 0;
	for (unsigned i = 0; i < s->n_classes; i++)
		any |= s->class[i].pool && strcmp(s->class[i].pool, pool) == 0;
	return any;
}

/* Adds a scope that takes part in the pool to the change: the limits that it enforces follow those
 * of the pool. */
static int add_scope(struct registry_change *c, struct served_fs *fs, struct served_mount *m,
		     const struct pool *p, const struct settings *new, struct error *err)
{
	const struct settings *s = m ? &m->s : fs ? &fs->s : &c->registry->global;
	if (!takes_part(s, p->s.name))
		return 0;
	if (!registry_change_add(c, fs, m, s))
		return error_set(err, "out of memory");
	return join(p->all, p, new, &c->scope[c->n - 1].s, err);
}

static int add_scopes(struct registry_change *c, const struct pool *p, const struct settings *new,
		      struct error *err)
{
	int rc = add_scope(c, NULL, NULL, p, new, err);
	list_for_each (it, &c->registry->fs)
		if (rc == 0)
			rc = add_scope(c, list_entry(it, struct served_fs, link), NULL, p, new,
				       err);
	list_for_each (it, &c->registry->mounts)
		if (rc == 0)
			rc = add_scope(c, NULL, list_entry(it, struct served_mount, link), p, new,
				       err);
	return rc;
}

/* The scopes that take part enforce the limits of `new`.  0, or -1 with err, and nothing has changed. */
static int change_scopes(const struct pool *p, const struct settings *new, struct error *err)
{
	struct registry_change c;
	registry_change_init(&c, p->all->registry);
	if (add_scopes(&c, p, new, err) < 0 || registry_change_apply(&c, err) < 0) {
		registry_change_free(&c);
		return -1;
	}
	registry_change_finish(&c);
	return 0;
}

static bool has_part_in(const struct served_mount *m, const char *pool)
{
	return takes_part(&m->s, pool) || takes_part(&m->registry->global, pool) ||
	       (m->fs && takes_part(&m->fs->s, pool));
}

/* Files that were opened while nothing limited data are in kernel passthrough, and whoever has set the limit is on another host. */
static void tell_bypassing(const struct pool *p)
{
	list_for_each (it, &p->all->registry->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		struct fs_counts counts;
		if (!m->session || !has_part_in(m, p->s.name) || !limits_data(m))
			continue;
		fs_mount_look(m->session, &counts);
		uint64_t n = counts.passthrough_handles;
		if (n)
			log_warning("mount '%s': %" PRIu64
				    " open file%s limits on reads and writes until closed",
				    m->s.name, n, n == 1 ? " bypasses" : "s bypass");
	}
}

void pool_enforce_limits(struct pool *p)
{
	struct error err = ERROR_INIT;
	bool missing = false;
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		missing |= p->s.limits.limit[k].enabled && !p->enforced.limit[k].enabled;
	if (!missing)
		return;
	if (change_scopes(p, &p->s, &err) < 0) { /* tried again after the next answer */
		log_warning("pool '%s': cannot enforce new limits: %s", p->s.name, err.text);
		return;
	}
	p->enforced = p->s.limits;
	tell_bypassing(p);
}

/* The scopes are prepared first; once the gate has taken their limits, nothing can fail. */
int pools_set(struct pools *ps, const char *name, struct settings *s, struct error *err)
{
	struct pool *p = pool_find(ps, name);
	if (!p)
		return error_set(err, "there is no pool '%s'", name);
	if (pool_config_check(s, err) < 0)
		return -1;
	if (change_scopes(p, s, err) < 0)
		return -1;
	struct pool_limits limits, in_force;
	pool_member_limits(&p->member, &in_force);
	pool_config_limits(s, &limits);
	keep_limits(p, s, &in_force, &limits);
	change(p, s, true);
	pool_member_set(&p->member, &limits, monotonic_ns());
	pool_take_limits(p);
	pools_set_timer(ps);
	return 0;
}
