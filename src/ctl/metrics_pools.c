/* SPDX-License-Identifier: MIT */
/* Metrics of the pools that daemons take part in.  Members on other hosts
 * export their own shares. */
#include "base/util.h"
#include "ctl/metrics.h"
#include "ctl/metrics_format.h"

/* --- of a pool ----------------------------------------------------------------------------------- */

static double members(const struct snap_pool *p)
{
	return (double)p->members;
}
static double lost(const struct snap_pool *p)
{
	return p->lost_ns > 0;
}
static double lost_seconds(const struct snap_pool *p)
{
	return (double)(p->lost_before_ns + p->lost_ns) / 1e9;
}
static double answer_age(const struct snap_pool *p)
{
	return (double)p->answer_age_ns / 1e9;
}
static double errors(const struct snap_pool *p)
{
	return (double)p->errors;
}
static double helper_starts(const struct snap_pool *p)
{
	return (double)p->helper_starts;
}

static const struct pool_figure {
	const char *name, *type, *help;
	double (*of)(const struct snap_pool *p);
} pool_figures[] = {
	{"ratefs_pool_members", "gauge", "Daemons that take part in the pool.", members},
	{"ratefs_pool_lost", "gauge", "1: no lease; the fallback (on_lost) is in force.", lost},
	{"ratefs_pool_fallback_seconds_total", "counter",
	 "Time without a lease, in which the fallback was in force.", lost_seconds},
	{"ratefs_pool_answer_age_seconds", "gauge", "Age of the last answer of the server.",
	 answer_age},
	{"ratefs_pool_errors_total", "counter", "Calls of the server that failed.", errors},
	{"ratefs_pool_helper_starts_total", "counter", "Starts of the helper process, ratefs-pool.",
	 helper_starts},
};

static void put_pool(const struct snapshot *s, const struct snap_scope *c,
		     const struct pool_figure *f, FILE *out)
{
	for (unsigned i = 0; i < c->pools; i++)
		if (f->of != answer_age || c->pool[i].answered)
			metric_real(out, f->name,
				    LABELS({"daemon", snapshot_daemon_name(s, c->daemon)},
					   {"pool", c->pool[i].name}),
				    f->of(&c->pool[i]));
}

/* --- of its limits -------------------------------------------------------------------------------- */

static double rate(const struct snap_pool_limit *l)
{
	return l->rate;
}
static double granted(const struct snap_pool_limit *l)
{
	return l->granted;
}
/* A member that wants all that it can get has a demand of the whole pool. */
static double demand(const struct snap_pool_limit *l)
{
	return l->wants_all || l->demand > l->rate ? l->rate : l->demand;
}

static const struct pool_limit_figure {
	const char *name, *help;
	bool bytes;
	double (*of)(const struct snap_pool_limit *l);
} limit_figures[] = {
	{"ratefs_pool_limit_bytes_per_second", "Rate of the pool.", true, rate},
	{"ratefs_pool_limit_operations_per_second", "Rate of the pool.", false, rate},
	{"ratefs_pool_granted_bytes_per_second", "What this daemon may use of it.", true, granted},
	{"ratefs_pool_granted_operations_per_second", "What this daemon may use of it.", false,
	 granted},
	{"ratefs_pool_demand_bytes_per_second", "What this daemon asks for.", true, demand},
	{"ratefs_pool_demand_operations_per_second", "What this daemon asks for.", false, demand},
};

static void put_limits(const struct snapshot *s, const struct snap_scope *c,
		       const struct pool_limit_figure *f, FILE *out)
{
	for (unsigned i = 0; i < c->pools; i++)
		for (unsigned k = 0; k < c->pool[i].limits; k++) {
			const struct snap_pool_limit *l = &c->pool[i].limit[k];
			bool has = l->bytes == f->bytes && (f->of != granted || l->limited_here);
			if (has)
				metric_real(out, f->name,
					    LABELS({"daemon", snapshot_daemon_name(s, c->daemon)},
						   {"pool", c->pool[i].name}, {"limit", l->name}),
					    f->of(l));
		}
}

void metrics_write_pools(const struct snapshot *s, FILE *out)
{
	for (unsigned f = 0; f < ARRAY_SIZE(pool_figures); f++) {
		metric_head(out, pool_figures[f].name, pool_figures[f].type, pool_figures[f].help);
		for (unsigned i = 0; i < s->scopes; i++)
			put_pool(s, &s->scope[i], &pool_figures[f], out);
	}
	for (unsigned f = 0; f < ARRAY_SIZE(limit_figures); f++) {
		metric_head(out, limit_figures[f].name, "gauge", limit_figures[f].help);
		for (unsigned i = 0; i < s->scopes; i++)
			put_limits(s, &s->scope[i], &limit_figures[f], out);
	}
}
