/* SPDX-License-Identifier: MIT */
/* Dispatch: late binding.  Nothing is decided before the moment of release:
 *
 *	descend from a root lane to the front job by the fair queues;
 *	ask every limit on its way, narrow to wide;
 *	one refuses: the lane of that scope leaves its parent's queue and waits in the resource's
 *	             FIFO; descend again, others may have what they need;
 *	all grant:   take everything, serve the tags on the path, hand the job over.
 *
 * Only the first waiter of a resource has a due time, and only a lower bound of it is kept: when it
 * is reached (or somebody kicks the resource) the exact one is computed. */
#include "sched/gate_internal.h"

__extension__ typedef unsigned __int128 u128;

/* --- resources --- */

static bool is_bucket(const struct resource *r)
{
	return r->kind < LIMIT_KINDS;
}

static bool is_bytes(const struct resource *r)
{
	return is_bucket(r) && limit_kind_is_bytes(r->kind);
}

static bool is_shared(const struct resource *r)
{
	return r->lanes & (r->lanes - 1);
}

static struct bucket *res_bucket(const struct resource *r)
{
	return &r->scope->limiter.bucket[r->kind];
}

/* Newcomers see the gate before they look at the tokens, waiters look at the tokens after setting
 * it: no wake-up is lost. */
static void res_gate(struct resource *r, int by)
{
	if (is_bucket(r))
		atomic_fetch_add(&res_bucket(r)->gate, (uint32_t)by);
	else if (r->kind == RES_INFLIGHT)
		atomic_fetch_add(&r->scope->limiter.inflight.gate, (uint32_t)by);
}

static struct lane *first_waiter(const struct resource *r)
{
	return list_first(&r->waiters, struct lane, wait);
}

static void set_due(struct resource *r, uint64_t due_ns)
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

static void drop_held(struct lane *l, unsigned kind)
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

static unsigned first_hop(const struct route *rt, enum level level)
{
	return level ? rt->end[level - 1] : 0;
}

/* Of its own scope's hops before `end`: prepays ops, and claims bytes for a date (0: does not). */
static void lane_hold(struct lane *l, const struct route *rt, unsigned end, uint64_t date_ns,
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
		int64_t missing = (int64_t)(claim + tokens + 1) - bucket_level(b, v); /* 1: rounding */
		if (missing > 0 && (u128)missing * NSEC_PER_SEC > (u128)bucket_rate(b) * until_ns)
			wait_ns = max_u64(wait_ns, until_ns ? until_ns : NEVER);
	}
	return wait_ns;
}

/* When one limit grants the job, in ns from v: 0 now, NEVER on an event only. */
static uint64_t hop_wait_ns(const struct lane *l, const struct hop *h, const struct job *j,
			    uint64_t v)
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
static unsigned lane_ask(const struct lane *l, const struct route *rt, const struct job *j,
			 uint64_t v)
{
	unsigned i = first_hop(rt, l->scope->level);
	for (; i < rt->end[l->scope->level]; i++)
		if (must_queue(l, rt->hop[i].res) || hop_wait_ns(l, &rt->hop[i], j, v))
			break;
	return i;
}

/* --- lanes --- */

static struct job *lane_front(struct lane *l)
{
	struct fq_item *it = fq_front(&l->fq);
	while (l->scope->level != LEVEL_MOUNT) {
		l = container_of(it, struct lane, item);
		it = fq_front(&l->fq);
	}
	return list_first(&container_of(it, struct key_queue, item)->jobs, struct job, link);
}

static const struct route *job_route(const struct job *j)
{
	return &j->mount->route[j->cost.cls];
}

static void lane_unblock(struct lane *l, uint64_t v)
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
static void lane_block(struct lane *l, const struct route *rt, unsigned at, const struct job *j,
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

/* --- releasing --- */

static void untake(const struct route *rt, unsigned n, struct lane *const path[LEVELS],
		   const struct cost *c)
{
	for (unsigned i = 0; i < n; i++) {
		const struct resource *r = rt->hop[i].res;
		if (!is_bucket(r))
			permits_release(&r->scope->limiter.inflight);
		else if (is_bytes(r) || !path[r->scope->level]->held[r->kind])
			bucket_refund(res_bucket(r), hop_tokens(&rt->hop[i], c));
	}
}

/* Everything or nothing; returns the hop that refused (a newcomer was faster), or rt->n. */
static unsigned take_all(const struct route *rt, struct lane *const path[LEVELS],
			 const struct cost *c, uint64_t v)
{
	for (unsigned i = 0; i < rt->n; i++) {
		const struct resource *r = rt->hop[i].res;
		bool ok;
		if (!is_bucket(r))
			ok = permits_try(&r->scope->limiter.inflight);
		else if (!is_bytes(r) && path[r->scope->level]->held[r->kind])
			ok = true; /* prepaid */
		else
			ok = bucket_try(res_bucket(r), hop_tokens(&rt->hop[i], c), v);
		if (!ok) {
			untake(rt, i, path, c);
			return i;
		}
	}
	return rt->n;
}

/* What was held has been used; a prepaid amount may differ from what the job costs. */
static void settle_held(const struct route *rt, struct lane *const path[LEVELS],
			const struct cost *c, uint64_t v)
{
	for (unsigned i = 0; i < rt->n; i++) {
		struct resource *r = rt->hop[i].res;
		struct lane *l = path[r->scope->level];
		if (!is_bucket(r) || !l->held[r->kind])
			continue;
		uint64_t tokens = hop_tokens(&rt->hop[i], c);
		if (!is_bytes(r)) {
			if (tokens > l->held[r->kind])
				bucket_take(res_bucket(r), tokens - l->held[r->kind], v);
			l->held[r->kind] -= min_u64(tokens, l->held[r->kind]);
		}
		drop_held(l, r->kind);
	}
}

static void serve_path(struct lane *const path[LEVELS], struct key_queue *kq, const struct job *j)
{
	const struct route *rt = job_route(j);
	fq_serve(&path[LEVEL_MOUNT]->fq, &kq->item, route_cost(rt, LEVEL_MOUNT, &j->cost));
	for (enum level up = LEVEL_FS; up < LEVELS; up++) {
		fq_serve(&path[up]->fq, &path[up - 1]->item, route_cost(rt, up, &j->cost));
		path[up]->turn = NULL;
	}
	path[LEVEL_MOUNT]->turn = NULL;
}

static void count_admission(struct gate_mount *m, struct key *key, const struct job *j,
			    uint64_t wait_ns)
{
	job_count_admitted(j, m);
	if (j->probe || !j->waited)
		return;
	mount_waited(m, j->cost.cls, wait_ns);
	key->ops += j->cost.ops;
	key->bytes += j->cost.bytes;
	key->wait_ns += wait_ns;
	key->max_wait_ns = max_u64(key->max_wait_ns, wait_ns);
}

static void admit(struct gate *g, struct lane *const path[LEVELS], struct job *j, uint64_t v,
		  uint64_t now_ns)
{
	struct gate_mount *m = j->mount;
	const struct route *rt = job_route(j);
	struct key_queue *kq = j->queue;
	j->grant = (struct grant){.cost = j->cost, .probe = j->probe};
	if (!j->probe)
		settle_held(rt, path, &j->cost, v);
	serve_path(path, kq, j);
	if (!j->probe) {
		j->grant.chain = atomic_load_explicit(&m->limits[j->cost.cls], memory_order_relaxed);
		if (j->grant.chain && atomic_load_explicit(&m->dry_run, memory_order_relaxed))
			chain_take(j->grant.chain, &j->cost, v);
	}
	count_admission(m, kq->key, j, now_ns - j->parked_ns);
	job_dequeue(j, v);
	j->state = JOB_READY;
	list_push_tail(&g->ready, &j->link);
	if (j->probe)
		voucher_issue(m, &j->cost, v);
}

/* Releases the front of a root lane, or blocks the lane on its way that is refused. */
static void release_front(struct gate *g, struct lane *root, uint64_t v, uint64_t now_ns)
{
	struct lane *path[LEVELS];
	path[LEVEL_GLOBAL] = root;
	path[LEVEL_FS] = container_of(fq_front(&root->fq), struct lane, item);
	path[LEVEL_MOUNT] = container_of(fq_front(&path[LEVEL_FS]->fq), struct lane, item);
	struct job *j = lane_front(path[LEVEL_MOUNT]);
	const struct route *rt = job_route(j);

	unsigned at = rt->n;
	enum level level = LEVEL_MOUNT;
	for (; level < LEVELS; level++) {
		at = lane_ask(path[level], rt, j, v);
		if (at < rt->end[level])
			break;
	}
	if (at == rt->n && !j->probe) {
		at = take_all(rt, path, &j->cost, v);
		level = at < rt->n ? rt->hop[at].res->scope->level : LEVELS;
	}
	if (level == LEVELS)
		admit(g, path, j, v, now_ns);
	else
		lane_block(path[level], rt, at, j, v);
}

static void release_all(struct gate *g, uint64_t v, uint64_t now_ns)
{
	bool more;
	do { /* one of each lane at a time */
		more = false;
		for (unsigned i = 0; i < g->lanes; i++) {
			struct lane *root = &g->global.lane[i];
			if (!root->blocked && !fq_empty(&root->fq)) {
				release_front(g, root, v, now_ns);
				more = true;
			}
		}
	} while (more);
}

/* The front's turn has a date: what it needs of narrower scopes should be there then. */
static void hold_below(struct lane *l, uint64_t date_ns, uint64_t v)
{
	struct job *j = lane_front(l);
	const struct route *rt = job_route(j);
	while (l->scope->level != LEVEL_MOUNT) {
		l = container_of(fq_front(&l->fq), struct lane, item);
		lane_hold(l, rt, rt->end[l->scope->level], date_ns, j, v);
	}
}

/* The first waiter's moment may have come. */
static void resource_due(struct resource *r, uint64_t v)
{
	struct lane *l = first_waiter(r);
	struct job *j = lane_front(l);
	const struct route *rt = job_route(j);
	uint64_t wait_ns = 0;
	for (unsigned i = first_hop(rt, l->scope->level); i < rt->end[l->scope->level]; i++)
		if (rt->hop[i].res == r)
			wait_ns = hop_wait_ns(l, &rt->hop[i], j, v);
	if (wait_ns) {
		uint64_t due_ns = add_sat_u64(v, wait_ns);
		set_due(r, due_ns);
		hold_below(l, due_ns == NEVER ? 0 : due_ns, v);
		return;
	}
	lane_unblock(l, v);
	l->turn = r;
	lane_touch(l, v);
}

/* --- time --- */

static uint64_t top_ns(const struct heap *h)
{
	const struct heap_item *top = heap_top(h);
	return top ? top->key : NEVER;
}

/* Events in the order of their times, those before v as if at v. */
static void dispatch_events(struct gate *g, uint64_t v, uint64_t now_ns, bool deadlines_too)
{
	for (;;) {
		release_all(g, v, now_ns);
		uint64_t due = top_ns(&g->due), late = deadlines_too ? top_ns(&g->deadlines) : NEVER;
		uint64_t expires = top_ns(&g->vouchers);
		uint64_t next = min_u64(due, min_u64(late, expires));
		if (next > now_ns)
			return;
		v = max_u64(v, next);
		if (next == due)
			resource_due(container_of(heap_top(&g->due), struct resource, due), v);
		else if (next == late)
			job_refuse_locked(g, container_of(heap_top(&g->deadlines), struct job, deadline),
					  GRANT_TIMED_OUT, v);
		else
			voucher_expire(container_of(heap_top(&g->vouchers), struct voucher, expiry));
	}
}

void gate_dispatch_locked(struct gate *g, uint64_t v, uint64_t now_ns)
{
	dispatch_events(g, v, now_ns, true);
}

void gate_release_locked(struct gate *g, uint64_t v, uint64_t now_ns)
{
	dispatch_events(g, v, now_ns, false);
}

void gate_catch_up_locked(struct gate *g, uint64_t now_ns)
{
	gate_dispatch_locked(g, now_ns > BACKDATE_NS ? now_ns - BACKDATE_NS : 0, now_ns);
}

void gate_arm_locked(struct gate *g)
{
	uint64_t next_ns = min_u64(top_ns(&g->due),
				   min_u64(top_ns(&g->deadlines), top_ns(&g->vouchers)));
	if (next_ns == g->next_ns)
		return;
	g->next_ns = next_ns;
	uint64_t arm_ns = max_u64(next_ns, g->stepped_ns + COALESCE_NS);
	if (arm_ns != g->armed_ns) {
		g->armed_ns = arm_ns;
		g->clock->arm(g->clock, arm_ns);
	}
}

uint64_t gate_step(struct gate *g, uint64_t now_ns)
{
	gate_lock(g);
	g->stepped_ns = now_ns;
	if (g->armed_ns <= now_ns) { /* the alarm has gone off: any next event sets it anew */
		g->armed_ns = NEVER;
		g->next_ns = NEVER;
	}
	gate_catch_up_locked(g, now_ns);
	gate_arm_locked(g);
	uint64_t armed_ns = g->armed_ns;
	gate_unlock_deliver(g);
	return armed_ns;
}
