/* SPDX-License-Identifier: MIT */
/* Lanes: what refuses them, where they wait, what they hold meanwhile. */
#include "sched/lane.h"

__extension__ typedef unsigned __int128 u128;

/* --- resources --- */

/* Newcomers see the gate before they look at the tokens, waiters look at the tokens after setting
 * it: no wake-up is lost. */
static void res_gate(struct resource *r, int by)
{
	if (is_bucket(r))
		atomic_fetch_add(&res_bucket(r)->gate, (uint32_t)by);
	else if (r->kind == RES_INFLIGHT)
		atomic_fetch_add(&r->scope->limiter.inflight.gate, (uint32_t)by);
}

void set_due(struct resource *r, uint64_t due_ns)
{
	struct heap *h = &r->scope->gate->due;
	if (due_ns == NEVER) {
		if (heap_contains(&r->due))
			heap_remove(h, &r->due);
		return;
	}
	r->due.key = due_ns;
	if (heap_contains(&r->due))
		heap_update(h, &r->due);
	else
		heap_push(h, &r->due);
}

void resource_kick(struct resource *r)
{
	if (!list_empty(&r->waiters))
		set_due(r, 0);
}

/* --- holding --- */

void drop_held(struct lane *l, unsigned kind)
{
	struct resource *r = &l->scope->res[kind];
	if (!l->held[kind])
		return;
	if (is_bytes(r))
		res_gate(r, -1);
	else
		bucket_refund(res_bucket(r), l->held[kind]);
	l->held[kind] = 0;
	resource_kick(r);
}

static void drop_all_held(struct lane *l)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		drop_held(l, k);
}

static void hold(struct lane *l, const struct hop *h, const struct cost *c, uint64_t v)
{
	struct resource *r = h->res;
	uint64_t tokens = hop_tokens(h, c), *held = &l->held[r->kind];
	if (!is_bytes(r)) {
		if (!*held && bucket_try(res_bucket(r), tokens, v))
			*held = tokens;
		return;
	}
	res_gate(r, !!tokens - !!*held);
	if (tokens < *held)
		resource_kick(r);
	*held = tokens;
}

/* Of its own scope's hops before `end`: prepays ops, and claims bytes for a date (0: does not). */
void lane_hold(struct lane *l, const struct route *rt, unsigned end, uint64_t date_ns,
	       const struct job *j, uint64_t v)
{
	if (j->probe)
		return;
	for (unsigned i = first_hop(rt, l->scope->level); i < end; i++) {
		const struct resource *r = rt->hop[i].res;
		if (is_bucket(r) && is_shared(r) && (date_ns || !is_bytes(r)))
			hold(l, &rt->hop[i], &j->cost, v);
	}
	if (date_ns)
		l->held_due_ns = date_ns;
}

/* --- asking --- */

/* 0 when what ready lanes have claimed stays there, or will be back by the date for which they have
 * claimed it; else the time until that date, and after it NEVER: until they have gone. */
static uint64_t claims_wait_ns(const struct lane *l, const struct resource *r, uint64_t tokens,
			       uint64_t v)
{
	const struct bucket *b = res_bucket(r);
	uint64_t wait_ns = 0;
	for (unsigned i = 0; i < LANES; i++) {
		const struct lane *o = &r->scope->lane[i];
		uint64_t claim = min_u64(o->held[r->kind], bucket_capacity(b));
		if (o == l || !claim || !fq_queued(&o->item))
			continue;
		uint64_t until_ns = o->held_due_ns > v ? o->held_due_ns - v : 0;
		int64_t missing =
			(int64_t)(claim + tokens + 1) - bucket_level(b, v); /* 1: rounding */
		if (missing > 0 && (u128)missing * NSEC_PER_SEC > (u128)bucket_rate(b) * until_ns)
			wait_ns = max_u64(wait_ns, until_ns ? until_ns : NEVER);
	}
	return wait_ns;
}

/* When one limit grants the job, in ns from v: 0 now, NEVER on an event only. */
uint64_t hop_wait_ns(const struct lane *l, const struct hop *h, const struct job *j, uint64_t v)
{
	const struct resource *r = h->res;
	if (r->kind == RES_PAUSE)
		return NEVER;
	if (r->kind == RES_INFLIGHT) {
		const struct permits *p = &r->scope->limiter.inflight;
		return atomic_load(&p->in_flight) < atomic_load(&p->limit) ? 0 : NEVER;
	}
	uint64_t held = l->held[r->kind], tokens = hop_tokens(h, &j->cost);
	if (held && !is_bytes(r))
		return 0;
	if (j->probe && r->vouchers && r->voucher_tokens + tokens > bucket_capacity(res_bucket(r)))
		return NEVER;
	uint64_t wait_ns = bucket_wait_ns(res_bucket(r), tokens + r->voucher_tokens, v);
	return wait_ns || !is_bytes(r) || !is_shared(r) ? wait_ns : claims_wait_ns(l, r, tokens, v);
}

static bool must_queue(const struct lane *l, const struct resource *r)
{
	return !list_empty(&r->waiters) && l->turn != r && !(is_bucket(r) && l->held[r->kind]);
}

/* The first hop of the lane's own scope that refuses; rt->end[level] when none does. */
unsigned lane_ask(const struct lane *l, const struct route *rt, const struct job *j, uint64_t v)
{
	unsigned i = first_hop(rt, l->scope->level);
	for (; i < rt->end[l->scope->level]; i++)
		if (must_queue(l, rt->hop[i].res) || hop_wait_ns(l, &rt->hop[i], j, v))
			break;
	return i;
}

/* --- lanes --- */

struct job *lane_front(struct lane *l)
{
	struct fq_item *it = fq_front(&l->fq);
	while (l->scope->level != LEVEL_MOUNT) {
		l = container_of(it, struct lane, item);
		it = fq_front(&l->fq);
	}
	return list_first(&container_of(it, struct key_queue, item)->jobs, struct job, link);
}

void lane_unblock(struct lane *l, uint64_t v)
{
	struct resource *r = l->blocked;
	bool was_first = first_waiter(r) == l;
	list_remove(&l->wait);
	l->blocked = NULL;
	res_gate(r, -1);
	if (list_empty(&r->waiters)) {
		r->refused_ns += v > r->blocked_ns ? v - r->blocked_ns : 0;
		set_due(r, NEVER);
	} else if (was_first) {
		resource_kick(r); /* who leaves a place in the line wakes the next */
	}
}

static void leave_parent(struct lane *l, uint64_t v)
{
	struct lane *up = lane_parent(l);
	if (!up || !fq_queued(&l->item))
		return;
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		if (l->held[k])
			resource_kick(&l->scope->res[k]); /* its claim no longer counts */
	fq_remove(&up->fq, &l->item, v);
	lane_touch(up, v);
}

/* Refused by the hop at index `at` of its own scope. */
void lane_block(struct lane *l, const struct route *rt, unsigned at, const struct job *j,
		uint64_t v)
{
	struct resource *r = rt->hop[at].res;
	lane_hold(l, rt, at, 0, j, v);
	if (list_empty(&r->waiters))
		r->blocked_ns = v;
	if (l->turn == r || (is_bucket(r) && l->held[r->kind]))
		list_push_head(&r->waiters, &l->wait);
	else
		list_push_tail(&r->waiters, &l->wait);
	l->blocked = r;
	l->turn = NULL;
	res_gate(r, 1);
	if (first_waiter(r) == l)
		resource_kick(r); /* looks again, now that newcomers see the gate */
	leave_parent(l, v);
}

/* Ready below a scope that is out of tokens: keeps what it needs until its turn there, about. */
static void hold_for_turn(struct lane *l, const struct route *rt, const struct job *j, uint64_t v)
{
	struct lane *up = lane_parent(l), *b = up;
	while (b && !b->blocked)
		b = lane_parent(b);
	if (!b || !heap_contains(&b->blocked->due))
		return;
	uint64_t turn_ns = add_sat_u64(v, fq_eligible_ns(&up->fq, &l->item));
	lane_hold(l, rt, rt->end[l->scope->level], max_u64(turn_ns, b->blocked->due.key), j, v);
}

static void lane_went_idle(struct lane *l, uint64_t v)
{
	if (l->blocked)
		lane_unblock(l, v);
	drop_all_held(l);
	l->turn = NULL;
	leave_parent(l, v);
}

static uint32_t lane_weight(const struct lane *l)
{
	/* mounts share the global limit as equals, however many are on one fs */
	uint64_t w = l->scope->level == LEVEL_FS ? l->fq.weights : l->scope->weight;
	return (uint32_t)min_u64(w, UINT32_MAX);
}

void lane_touch(struct lane *l, uint64_t v)
{
	if (fq_empty(&l->fq)) {
		lane_went_idle(l, v);
		return;
	}
	if (l->blocked) {
		if (first_waiter(l->blocked) == l)
			resource_kick(l->blocked); /* its front may be another one now */
		return;
	}
	struct lane *up = lane_parent(l);
	if (!up)
		return; /* the release loop sees it */
	struct job *j = lane_front(l);
	const struct route *rt = job_route(j);
	uint64_t cost = route_cost(rt, up->scope->level, &j->cost);
	fq_set_weight(&up->fq, &l->item, lane_weight(l));
	if (fq_queued(&l->item)) {
		fq_set_cost(&up->fq, &l->item, cost);
	} else {
		unsigned at = lane_ask(l, rt, j, v);
		if (at < rt->end[l->scope->level]) {
			lane_block(l, rt, at, j, v);
			return;
		}
		fq_add(&up->fq, &l->item, cost, v);
		hold_for_turn(l, rt, j, v);
	}
	lane_touch(up, v);
}

void lane_reset(struct lane *l, uint64_t v)
{
	struct lane *up = lane_parent(l);
	if (l->blocked)
		lane_unblock(l, v);
	drop_all_held(l);
	l->turn = NULL;
	if (up && fq_queued(&l->item))
		fq_remove(&up->fq, &l->item, v);
}
