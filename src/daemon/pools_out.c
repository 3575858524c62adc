/* SPDX-License-Identifier: MIT */
/* Statistics of pools as JSON. */
#include <stdlib.h>
#include <string.h>

#include "daemon/pools.h"

static void put_limits(struct json_out o, const struct pool_look *l)
{
	const struct pool_member *m = l->member;
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		if (!m->limits.rate[k])
			continue;
		struct json_out one = put_object(o, limit_kind_name(k));
		put_text(one, "unit", limit_kind_is_bytes(k) ? "bytes" : "ops");
		put_real(one, "rate", (double)m->limits.rate[k] / POOL_MILLI);
		put_bool(one, "limited_here", l->rate[k] < POOL_DEMAND_ALL);
		if (l->rate[k] < POOL_DEMAND_ALL)
			put_real(one, "granted", (double)l->rate[k] / POOL_MILLI);
		put_bool(one, "wants_all", m->limited[k]);
		if (!m->limited[k])
			put_real(one, "demand", (double)m->demand[k] / POOL_MILLI);
	}
}

static int by_share(const void *a, const void *b)
{
	const struct pool_listed *m = a, *n = b;
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		if (m->charged[k] != n->charged[k])
			return m->charged[k] < n->charged[k] ? 1 : -1;
	return strcmp(m->who, n->who);
}

/* Puts the members of a pool, largest share first. */
static void put_members(struct json_out list, const struct pool_look *l)
{
	struct pool_listing sorted = *l->listing;
	qsort(sorted.member, sorted.n, sizeof(sorted.member[0]), by_share);
	for (unsigned i = 0; i < sorted.n; i++) {
		const struct pool_listed *m = &sorted.member[i];
		struct json_out one = put_object(list, NULL);
		put_text(one, "host", m->who);
		put_u64(one, "weight", m->weight);
		put_u64(one, "age_ns", m->age_us * 1000 + l->now_ns - l->listed_ns);
		struct json_out share = put_object(one, "share");
		for (unsigned k = 0; k < POOL_LIMITS; k++)
			if (l->member->limits.rate[k])
				put_real(share, limit_kind_name(k),
					 (double)m->charged[k] / POOL_MILLI);
	}
}

static void put_pool(struct json_out o, const struct pool_look *l)
{
	const struct pool_member *m = l->member;
	put_text(o, "name", l->settings->name);
	put_text(o, "server", l->settings->server);
	put_text(o, "key", l->settings->key);
	put_text(o, "mode", pool_mode_name(l->mode));
	put_bool(o, "learning", m->learning);
	put_u64(o, "members", m->members);
	put_u64(o, "weight", m->cfg.weight);
	put_u64(o, "scopes", l->scopes);
	put_u64(o, "lease_ns", l->settings->lease_ns);
	if (m->answered_ns)
		put_u64(o, "answer_age_ns", l->now_ns - m->answered_ns);
	put_u64(o, "lost_ns", m->lost_ns && l->now_ns > m->lost_ns ? l->now_ns - m->lost_ns : 0);
	put_u64(o, "lost_before_ns", m->lost_sum_ns);
	put_text(o, "limits_set_by", m->set_by);
	put_u64(o, "helper_starts", l->restarts);
	put_text(o, "error", l->error);
	put_u64(o, "errors", l->errors);
	put_limits(put_object(o, "limits"), l);
	put_bool(o, "who_omitted", m->members > POOL_LISTED);
	if (l->listing && m->members <= POOL_LISTED)
		put_members(put_array(o, "who"), l);
}

void put_pools(struct json_out o, const struct pools *ps, const struct settings *only)
{
	if (!pools_count(ps))
		return;
	struct json_out list = put_array(o, "pools");
	for (unsigned i = 0; i < pools_count(ps); i++) {
		struct pool_look l;
		pools_look(ps, i, &l);
		if (!only || strcmp(only->name, l.settings->name) == 0)
			put_pool(put_object(list, NULL), &l);
	}
}
