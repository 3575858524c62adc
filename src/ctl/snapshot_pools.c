/* SPDX-License-Identifier: MIT */
/* The pools of a daemon, from "pools" of its answers. */
#include <stdlib.h>
#include <string.h>

#include "ctl/snapshot.h"
#include "proto/json_in.h"

static struct snap_pool_limit read_limit(const char *name, const json_t *o)
{
	return (struct snap_pool_limit){
		.name = name,
		.bytes = strcmp(get_text(o, "unit"), "bytes") == 0,
		.limited_here = get_true(o, "limited_here"),
		.wants_all = get_true(o, "wants_all"),
		.rate = get_real(o, "rate"),
		.granted = get_real(o, "granted"),
		.demand = get_real(o, "demand"),
	};
}

static bool read_limits(struct snap_pool *p, json_t *limits)
{
	const char *name;
	json_t *o;
	p->limit = calloc(json_object_size(limits) + 1, sizeof(*p->limit));
	if (!p->limit)
		return false;
	json_object_foreach (limits, name, o)
		p->limit[p->limits++] = read_limit(name, o);
	return true;
}

static bool read_members(struct snap_pool *p, const json_t *who)
{
	const json_t *o;
	size_t i;
	p->member = calloc(json_array_size(who) + 1, sizeof(*p->member));
	if (!p->member)
		return false;
	json_array_foreach (who, i, o)
		p->member[p->listed++] = (struct snap_pool_member){
			.host = get_text(o, "host"),
			.weight = get_u64(o, "weight"),
			.age_ns = get_u64(o, "age_ns"),
			.share = get_part(o, "share"),
		};
	return true;
}

double snapshot_pool_share(const struct snap_pool_member *m, const struct snap_pool_limit *l)
{
	return get_real(m->share, l->name);
}

static bool read_pool(struct snap_pool *p, const json_t *o)
{
	p->name = get_text(o, "name");
	p->server = get_text(o, "server");
	p->mode = get_text(o, "mode");
	p->error = get_text(o, "error");
	p->members = get_u64(o, "members");
	p->answered = json_object_get(o, "answer_age_ns");
	p->answer_age_ns = get_u64(o, "answer_age_ns");
	p->lost_ns = get_u64(o, "lost_ns");
	p->lost_before_ns = get_u64(o, "lost_before_ns");
	p->errors = get_u64(o, "errors");
	p->helper_starts = get_u64(o, "helper_starts");
	return read_limits(p, get_part(o, "limits")) && read_members(p, get_part(o, "who"));
}

void snapshot_free_pools(struct snap_scope *s)
{
	for (unsigned i = 0; i < s->pools; i++) {
		free(s->pool[i].limit);
		free(s->pool[i].member);
	}
	free(s->pool);
}

bool snapshot_read_pools(struct snap_scope *s, const json_t *pools)
{
	const json_t *o;
	size_t i;
	bool ok = true;
	s->pool = calloc(json_array_size(pools) + 1, sizeof(*s->pool));
	json_array_foreach (pools, i, o)
		ok = ok && s->pool && read_pool(&s->pool[s->pools++], o);
	return ok && s->pool;
}
