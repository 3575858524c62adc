/* SPDX-License-Identifier: MIT */
/* Probes and vouchers.
 *
 * A probe (somebody polls) takes its turn like a transfer but is charged nothing: the transfer comes
 * later, as a non-blocking one, which may not overtake those that wait.  Beside a queue it would
 * be refused for ever.  So a probe that had its turn while others wait leaves a voucher: the tokens
 * that it found are left alone by everybody for a moment, and the next non-blocking transfer of that
 * class on the mount may take them past the queue.  A voucher is used once, or expires.
 * Vouchers never exceed what the bucket can hold, so a crowd of probes goes at the bucket's pace. */
#include "sched/gate_internal.h"

#define VOUCHER_NS (20 * NSEC_PER_MSEC)

static bool contested(const struct route *rt, const struct gate_mount *m, enum cost_class cls)
{
	if (atomic_load_explicit(&m->waiting, memory_order_relaxed) & 1U << cls)
		return true;
	for (unsigned i = 0; i < rt->n; i++)
		if (!list_empty(&rt->hop[i].res->waiters))
			return true;
	return false;
}

/* Adds to (or takes from) what all limits on the way must leave alone. */
static void earmark(const struct route *rt, const struct cost *c, int vouchers)
{
	for (unsigned i = 0; i < rt->n; i++) {
		struct resource *r = rt->hop[i].res;
		uint64_t tokens = hop_tokens(&rt->hop[i], c);
		if (r->kind >= LIMIT_KINDS)
			continue;
		r->voucher_tokens += vouchers > 0 ? tokens : -tokens;
		r->vouchers += (unsigned)vouchers;
		atomic_fetch_add(&r->scope->limiter.bucket[r->kind].gate, (uint32_t)vouchers);
		if (vouchers < 0)
			resource_kick(r);
	}
}

void voucher_issue(struct gate_mount *m, const struct cost *c, uint64_t v_ns)
{
	struct gate *g = m->scope.gate;
	struct voucher *vo = &m->voucher[c->cls];
	const struct route *rt = &m->route[c->cls];
	if (!contested(rt, m, c->cls))
		return;
	earmark(rt, c, 1);
	vo->n++;
	vo->sum.cls = c->cls;
	vo->sum.ops += c->ops;
	vo->sum.bytes += c->bytes;
	vo->mount = m;
	vo->expiry.key = v_ns + VOUCHER_NS;
	if (heap_contains(&vo->expiry))
		heap_update(&g->vouchers, &vo->expiry);
	else
		heap_push(&g->vouchers, &vo->expiry);
	atomic_fetch_or_explicit(&m->vouchers, 1U << c->cls, memory_order_relaxed);
}

static void give_up(struct voucher *vo, struct cost c, unsigned n)
{
	struct gate_mount *m = vo->mount;
	earmark(&m->route[c.cls], &c, -(int)n);
	vo->n -= n;
	vo->sum.ops -= c.ops;
	vo->sum.bytes -= c.bytes;
	if (vo->n)
		return;
	heap_remove(&m->scope.gate->vouchers, &vo->expiry);
	atomic_fetch_and_explicit(&m->vouchers, ~(1U << c.cls), memory_order_relaxed);
}

void voucher_expire(struct voucher *vo)
{
	give_up(vo, vo->sum, vo->n);
}

void vouchers_drop(struct gate_mount *m)
{
	for (unsigned c = 0; c < COST_CLASSES; c++)
		if (m->voucher[c].n)
			voucher_expire(&m->voucher[c]);
}

static bool take_past_queue(const struct route *rt, const struct cost *c, uint64_t now_ns)
{
	for (unsigned i = 0; i < rt->n; i++) {
		const struct resource *r = rt->hop[i].res;
		uint64_t tokens = hop_tokens(&rt->hop[i], c);
		if (r->kind < LIMIT_KINDS
			    ? bucket_try(&r->scope->limiter.bucket[r->kind], tokens, now_ns)
			    : r->kind == RES_INFLIGHT && permits_try(&r->scope->limiter.inflight))
			continue;
		while (i--) {
			r = rt->hop[i].res;
			if (r->kind < LIMIT_KINDS)
				bucket_refund(&r->scope->limiter.bucket[r->kind],
					      hop_tokens(&rt->hop[i], c));
			else
				permits_release(&r->scope->limiter.inflight);
		}
		return false;
	}
	return true;
}

static bool voucher_use_locked(struct gate_mount *m, struct grant *grant, uint64_t now_ns)
{
	struct voucher *vo = &m->voucher[grant->cost.cls];
	if (!vo->n)
		return false;
	struct cost one = {vo->sum.cls, vo->sum.ops / vo->n, vo->sum.bytes / vo->n};
	give_up(vo, one, 1);
	struct cost c = {one.cls, grant->cost.ops,
			 min_u64(grant->cost.bytes, max_u64(one.bytes, 1))};
	if (!take_past_queue(&m->route[c.cls], &c, now_ns))
		return false;
	grant->chain = atomic_load_explicit(&m->limits[c.cls], memory_order_relaxed);
	grant->cost = c;
	return true;
}

bool voucher_use(struct gate_mount *m, struct grant *grant)
{
	struct gate *g = m->scope.gate;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	bool used = voucher_use_locked(m, grant, now_ns);
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
	return used;
}
