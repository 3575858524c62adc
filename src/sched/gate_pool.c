/* SPDX-License-Identifier: MIT */
/* Limits that many hosts share: sets what a scope of this daemon may use of them (a lease), and
 * reports what it has used.  How a limit is divided among the hosts is decided elsewhere. */
#include <string.h>

#include "sched/gate_internal.h"

static struct node *pool_node_locked(const struct gate_pool_scope *s)
{
	struct leaf *f = s->class ? class_by_name(s->mount, s->class) : NULL;
	return s->class	  ? f ? &f->node : NULL
	       : s->mount ? &s->mount->leaf.node
	       : s->fs	  ? &s->fs->node
			  : &s->gate->global;
}

bool gate_lease(const struct gate_pool_scope *s, const struct gate_lease *lease)
{
	struct gate *g = s->gate;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	struct node *n = pool_node_locked(s);
	for (unsigned k = 0; n && k < LIMIT_KINDS; k++) {
		struct resource *r = pool_resource(n, k);
		if (!r)
			continue;
		bucket_lease(r->bucket, &lease->limit[k], now_ns);
		resource_kick(r);
	}
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
	return n;
}

static uint64_t pool_tokens(const struct node *n, const struct counter_sums *sums, unsigned kind)
{
	uint64_t tokens = 0;
	for (unsigned c = 0; c < COST_CLASSES; c++)
		if (limiter_pool_kinds_for(n->limiter, c) & 1U << kind)
			tokens += !limit_kind_is_bytes(kind) ? sums->n[c][COUNT_OPS]
				  : c == COST_COPY && kind == LIMIT_BPS
					  ? 2 * sums->n[c][COUNT_BYTES]
					  : sums->n[c][COUNT_BYTES];
	return tokens;
}

static uint64_t pool_need(const struct bucket *b, bool waiting, uint64_t now_ns)
{
	int64_t level = bucket_level(b, now_ns), full = waiting ? (int64_t)bucket_capacity(b) : 0;
	return full > level ? (uint64_t)(full - level) : 0;
}

bool gate_pool_look(const struct gate_pool_scope *s, struct gate_pool_use *out)
{
	struct counter_sums sums = {0};
	memset(out, 0, sizeof(*out));
	gate_lock(s->gate);
	uint64_t now_ns = clock_now(s->gate->clock);
	struct node *n = pool_node_locked(s);
	if (n)
		node_sums(n, &sums);
	for (unsigned k = 0; n && k < LIMIT_KINDS; k++) {
		const struct resource *r = pool_resource(n, k);
		if (!r)
			continue;
		out->tokens[k] = pool_tokens(n, &sums, k);
		out->blocking_ns[k] = resource_blocking_ns(r, now_ns);
		out->waiting[k] = !list_empty(&r->waiters);
		out->need[k] = pool_need(r->bucket, out->waiting[k], now_ns);
	}
	gate_unlock_deliver(s->gate);
	return n;
}
