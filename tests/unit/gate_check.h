/* SPDX-License-Identifier: MIT */
/* Looks inside a gate on which nothing is going on, and asserts what must hold then. */
#ifndef UNIT_GATE_CHECK_H
#define UNIT_GATE_CHECK_H

#include <check.h>

#include "sched/gate_internal.h"

/* ck_assert writes to a pipe each time it passes: too slow for millions of them. */
#define must(cond) must_say(cond, "not true: %s", #cond)
#define must_say(cond, ...)                                                                        \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ck_abort_msg(__VA_ARGS__);                                                 \
	} while (0)

static inline uint32_t res_gate_now(const struct resource *r)
{
	if (r->kind < LIMIT_KINDS)
		return atomic_load(&r->scope->limiter.bucket[r->kind].gate);
	return r->kind == RES_INFLIGHT ? atomic_load(&r->scope->limiter.inflight.gate) : 0;
}

/* The gates count waiters and claims, exactly; the first waiter of a bucket has a due time ahead;
 * nobody waits for a permit that is free or a pause that is over. */
static inline void check_resource(const struct resource *r, uint64_t now_ns)
{
	uint32_t waiters = 0, claimants = r->vouchers;
	list_for_each (it, (struct list *)(uintptr_t)&r->waiters) {
		must((list_entry(it, struct lane, wait)->blocked) == (r));
		waiters++;
	}
	bool bytes = r->kind < LIMIT_KINDS && limit_kind_is_bytes(r->kind);
	for (unsigned i = 0; bytes && i < LANES; i++)
		claimants += r->scope->lane[i].held[r->kind] != 0;
	if (r->kind != RES_PAUSE)
		must((res_gate_now(r)) == (waiters + claimants));
	if (!waiters)
		must(!heap_contains(&r->due));
	else if (r->kind < LIMIT_KINDS && claimants)
		; /* may wait for who has the claim, who may wait for anything */
	else if (r->kind < LIMIT_KINDS)
		must(heap_contains(&r->due) &&
		     (r->due.key > now_ns || now_ns < r->scope->gate->stepped_ns + COALESCE_NS));
	else if (r->kind == RES_INFLIGHT)
		must(permits_look(&r->scope->limiter.inflight).available == 0);
	else
		must(r->scope->paused);
}

static inline void check_lane(const struct lane *l)
{
	const struct lane *up = lane_parent(l);
	bool empty = fq_empty(&l->fq), queued = fq_queued(&l->item);
	if (empty) {
		must(!l->blocked && !queued && !l->turn);
		for (unsigned k = 0; k < LIMIT_KINDS; k++)
			must(l->held[k] == 0);
	} else {
		must(l->blocked ? !queued : up ? queued : false);
	}
	if (empty && l->scope->level == LEVEL_MOUNT)
		must(l->parked == 0);
}

static inline void check_scope(const struct scope *s, uint64_t now_ns)
{
	for (unsigned k = 0; k < RESOURCES; k++)
		check_resource(&s->res[k], now_ns);
	for (unsigned i = 0; i < LANES; i++)
		check_lane(&s->lane[i]);
	list_for_each (it, (struct list *)(uintptr_t)&s->children)
		check_scope(list_entry(it, struct scope, sibling), now_ns);
}

static inline void gate_check(const struct gate *g)
{
	check_scope(&g->global, g->clock->now_ns(g->clock));
	must(list_empty(&g->ready) && list_empty(&g->refused));
	const struct heap_item *due = heap_top(&g->due), *late = heap_top(&g->deadlines);
	if (due)
		must((g->next_ns) <= (due->key));
	if (late)
		must((g->next_ns) <= (late->key));
	must((g->armed_ns) <= (max_u64(g->next_ns, g->stepped_ns + COALESCE_NS)));
}

/* Nothing is parked: nothing may be left of it. */
static inline void check_scope_empty(const struct scope *s)
{
	for (unsigned k = 0; k < RESOURCES; k++) {
		must(list_empty(&s->res[k].waiters));
		must(s->res[k].voucher_tokens == 0);
		must(res_gate_now(&s->res[k]) == 0);
	}
	for (unsigned i = 0; i < LANES; i++)
		must(fq_empty(&s->lane[i].fq));
	for (unsigned c = 0; c < COST_CLASSES; c++)
		must(s->parked_now[c] == 0);
	must(s->parked_bytes_now == 0);
	if (s->level == LEVEL_MOUNT) {
		const struct gate_mount *m = container_of(s, const struct gate_mount, scope);
		must(atomic_load(&m->waiting) == 0);
		must(m->parked == 0);
	}
	list_for_each (it, (struct list *)(uintptr_t)&s->children)
		check_scope_empty(list_entry(it, struct scope, sibling));
}

static inline void gate_check_empty(const struct gate *g)
{
	gate_check(g);
	check_scope_empty(&g->global);
	must(g->parked == 0);
	must((heap_top(&g->due)) == NULL);
	must((heap_top(&g->deadlines)) == NULL);
}

#endif
