/* SPDX-License-Identifier: MIT */
#include "daemon/limits_out.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "daemon/pools.h"
#include "daemon/served_space.h"
#include "sched/gate.h"

#define MET_PER_LEVEL (3 * LIMIT_KINDS + 2)

/* One scope whose limits apply. */
struct level {
	enum scope_kind scope;
	const char *name;
	const struct settings *s;
	struct scope_limits now;
	bool known; /* false: not mounted, `now` is empty */
};

struct met {
	const struct level *level;
	const struct option_def *option;
	const struct limit_stats *limit;    /* a rate … */
	const struct permit_stats *permits; /* … or max_inflight, max_open */
	const struct settings *pool;	    /* a rate of this pool, which the scope takes part in */
	bool each;			    /* a rate for each key: has no single level */
	uint64_t blocking_ns;		    /* time during which requests waited for it … */
	double share;			    /* … as a share of the whole time */
	uint64_t would_wait;		    /* requests, in a dry run */
};

static double share_of(uint64_t part_ns, const struct scope_limits *now)
{
	uint64_t all = now->now_ns - now->since_ns;
	return all ? (double)min_u64(part_ns, all) / all : 0;
}

static struct met met_rate(const struct level *l, enum limit_kind kind, bool each)
{
	char name[40];
	snprintf(name, sizeof(name), "%s%s", each ? "each." : "", limit_kind_name(kind));
	struct met met = {.level = l, .option = option_find(name), .each = each};
	if (l->known) {
		met.limit = each ? &l->now.each[kind] : &l->now.limit[kind];
		met.blocking_ns = met.limit->blocking_ns;
		met.share = share_of(met.blocking_ns, &l->now);
		met.would_wait = met.limit->would_wait;
	}
	return met;
}

static struct met met_pool(const struct level *l, enum limit_kind kind, const struct settings *pool)
{
	struct met met = {.level = l, .option = option_find(limit_kind_name(kind)), .pool = pool};
	if (l->known) {
		met.limit = &l->now.pool[kind];
		met.blocking_ns = met.limit->blocking_ns;
		met.share = share_of(met.blocking_ns, &l->now);
		met.would_wait = met.limit->would_wait;
	}
	return met;
}

static struct met met_permits(const struct level *l, const char *option,
			      const struct permit_stats *permits)
{
	struct met met = {.level = l, .option = option_find(option)};
	if (l->known) {
		met.permits = permits;
		met.blocking_ns = permits->blocking_ns;
		met.share = share_of(met.blocking_ns, &l->now);
		met.would_wait = permits->would_wait;
	}
	return met;
}

static unsigned collect(const struct registry *r, const struct level *level, unsigned levels,
			struct met *met)
{
	unsigned n = 0;
	for (const struct level *l = level; l < level + levels; l++) {
		const struct limiter_config *cfg = &l->s->limits;
		const struct settings *pool = l->s->pool ? pools_find(r->pools, l->s->pool) : NULL;
		for (int k = 0; pool && k < LIMIT_KINDS; k++)
			if (cfg->limit[k].pool_per_sec)
				met[n++] = met_pool(l, k, pool);
		for (int k = 0; k < LIMIT_KINDS; k++)
			if (cfg->limit[k].enabled)
				met[n++] = met_rate(l, k, false);
		for (int k = 0; k < LIMIT_KINDS; k++)
			if (l->s->each.limit[k].enabled)
				met[n++] = met_rate(l, k, true);
		if (cfg->max_inflight)
			met[n++] = met_permits(l, "max_inflight", &l->now.inflight);
		if (cfg->max_open)
			met[n++] = met_permits(l, "max_open", &l->now.open);
	}
	return n;
}

/* --- the limit that makes requests wait most ------------------------------------------------- */

static bool is_same(const struct met *m, const struct waited_limit *w)
{
	const char *name = m->option->name;
	enum scope_kind scope = m->pool ? SCOPE_POOL : m->level->scope;
	const char *of = m->pool ? m->pool->name : scope == SCOPE_CLASS ? m->level->name : "";
	return w->each == m->each && w->scope == scope && strcmp(w->of, of) == 0 &&
	       strcmp(w->name, m->each ? name + strlen("each.") : name) == 0;
}

/* How long requests of the target waited for the limit; n limits are in `waited`. */
static uint64_t waited_ns(const struct met *m, const struct waited_limit *waited, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (is_same(m, &waited[i]))
			return waited[i].wait_ns;
	return 0;
}

/* Of a mount or class, the limit that its own requests waited for longest, or in a dry run would have: others may wait
 * for limits of the scopes around it without any effect on it.  Of other scopes, the limit that made requests wait for
 * the largest share of the time.  NULL: none. */
static const struct met *bottleneck(const struct target *t, const struct met *met, unsigned n)
{
	unsigned room = n + WAITED_LIMITS_MAX; /* some may have been removed since */
	AUTO_FREE struct waited_limit *waited = calloc(room, sizeof(*waited));
	const struct met *worst = NULL;
	uint64_t worst_ns = 0;
	unsigned known = 0;
	if (waited && t->mount && t->mount->gate_mount)
		known = gate_waited_limits(t->mount->gate_mount, t->class ? t->class->name : NULL,
					   t->mount->s.dry_run, waited, room);
	for (const struct met *m = met; m < met + n; m++) {
		uint64_t ns = t->mount ? waited_ns(m, waited, known) : m->blocking_ns;
		if (ns > worst_ns) {
			worst = m;
			worst_ns = ns;
		}
	}
	return worst;
}

/* --- printing ------------------------------------------------------------------------------- */

static void put_rate(struct json_out o, const struct met *m)
{
	put_text(o, "unit", limit_kind_is_bytes(m->option->kind) ? "bytes" : "ops");
	put_u64(o, "rate", m->limit->rate_per_sec);
	if (m->limit->peak_per_sec)
		put_u64(o, "peak", m->limit->peak_per_sec);
	if (!m->each)
		put_i64(o, "level", m->limit->level);
	put_u64(o, "capacity", m->limit->capacity);
}

static void put_met(struct json_out o, const struct met *m, bool worst)
{
	AUTO_FREE char *value = option_text(m->option, m->pool ? m->pool : m->level->s);
	put_text(o, "scope", scope_kind_name(m->pool ? SCOPE_POOL : m->level->scope));
	put_text(o, "of", m->pool ? m->pool->name : m->level->name);
	if (m->pool) {
		put_text(o, "joined_by", scope_kind_name(m->level->scope));
		put_text(o, "joined_by_name", m->level->name);
	}
	put_text(o, "name", m->option->name);
	put_text(o, "value", value);
	if (!value)
		*o.failed = true;
	if (m->limit)
		put_rate(o, m);
	if (m->permits) {
		put_i64(o, "limit", m->permits->now.limit);
		put_i64(o, "now", m->permits->now.in_flight);
	}
	put_u64(o, "blocking_ns", m->blocking_ns);
	put_real(o, "blocking_share", m->share);
	put_u64(o, "would_wait", m->would_wait);
	put_bool(o, "bottleneck", worst);
}

/* --- the way -------------------------------------------------------------------------------- */

static const struct served_fs *fs_of(const struct target *t)
{
	const struct served_mount *m = t->mount;
	if (!m)
		return t->fs;
	return m->fs	 ? m->fs
	       : m->s.fs ? registry_find_fs(t->registry, m->s.fs)
			 : registry_find_own_fs(t->registry, m->s.name, true);
}

static void add_level(struct level *level, unsigned *n, enum scope_kind scope, const char *name,
		      const struct settings *s)
{
	level[(*n)++] = (struct level){.scope = scope, .name = name, .s = s};
}

/* The scopes whose limits apply to every request of the target, narrowest first. */
static unsigned add_way(const struct target *t, struct level *level)
{
	const struct settings *mount = t->mount ? &t->mount->s : NULL;
	const struct served_fs *fs = fs_of(t);
	struct scope_limits now[CHAIN_SCOPES_MAX];
	unsigned n = 0, known = 0;
	for (const struct settings *s = t->class; s;
	     s = s->parent ? settings_find_class(mount, s->parent) : NULL)
		add_level(level, &n, SCOPE_CLASS, s->name, s);
	if (mount)
		add_level(level, &n, SCOPE_MOUNT, mount->name, mount);
	if (fs)
		add_level(level, &n, SCOPE_FS, fs->s.name, &fs->s);
	add_level(level, &n, SCOPE_GLOBAL, "global", &t->registry->global);
	if (t->class && t->mount && t->mount->gate_mount)
		known = gate_limits_class(t->mount->gate_mount, t->class->name, now);
	else if (t->mount && t->mount->gate_mount)
		known = gate_limits_mount(t->mount->gate_mount, now);
	else if (!t->mount)
		known = t->fs ? gate_limits_fs(t->fs->gate, now)
			      : gate_limits_global(t->registry->gate, now);
	for (unsigned i = 0; i < n && known == n; i++) {
		level[i].now = now[i];
		level[i].known = true;
	}
	return n;
}

/* The classes of a mount, whose limits apply to the requests that they match. */
static unsigned add_classes(const struct served_mount *m, struct level *level)
{
	struct scope_limits now[CHAIN_SCOPES_MAX];
	unsigned n = 0;
	for (unsigned i = 0; i < m->s.n_classes; i++) {
		const struct settings *s = &m->s.class[i];
		add_level(level, &n, SCOPE_CLASS, s->name, s);
		level[i].known = m->gate_mount && gate_limits_class(m->gate_mount, s->name, now);
		if (level[i].known)
			level[i].now = now[0];
	}
	return n;
}

void put_limits_met(struct json_out o, const struct target *t)
{
	struct json_out list = put_array(o, "limits_met");
	bool all = t->mount && !t->class; /* a mount is shown with the limits of its classes */
	unsigned room = CHAIN_SCOPES_MAX + (all ? t->mount->s.n_classes : 0), levels = 0;
	AUTO_FREE struct level *level = calloc(room, sizeof(*level));
	AUTO_FREE struct met *met = calloc((size_t)room * MET_PER_LEVEL, sizeof(*met));
	if (!level || !met) {
		*o.failed = true;
		return;
	}
	if (all)
		levels = add_classes(t->mount, level);
	levels += add_way(t, level + levels);
	unsigned n = collect(t->registry, level, levels, met);
	const struct met *worst = bottleneck(t, met, n);
	for (unsigned i = 0; i < n; i++)
		put_met(put_object(list, NULL), &met[i], &met[i] == worst);
}

bool limits_data(const struct served_mount *m)
{
	return !gate_unlimited(m->gate_mount, COST_READ) ||
	       !gate_unlimited(m->gate_mount, COST_WRITE) || served_space_limited(m);
}
