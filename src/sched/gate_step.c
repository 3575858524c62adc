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
#include "sched/lane.h"

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
	/* a dry run has asked no limit, so that nothing was taken */
	if (!j->probe && !atomic_load_explicit(&m->dry_run, memory_order_relaxed))
		j->grant.chain =
			atomic_load_explicit(&m->limits[j->cost.cls], memory_order_relaxed);
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
		uint64_t due = top_ns(&g->due),
			 late = deadlines_too ? top_ns(&g->deadlines) : NEVER;
		uint64_t expires = top_ns(&g->vouchers);
		uint64_t next = min_u64(due, min_u64(late, expires));
		if (next > now_ns)
			return;
		v = max_u64(v, next);
		if (next == due)
			resource_due(container_of(heap_top(&g->due), struct resource, due), v);
		else if (next == late)
			job_refuse_locked(
				g, container_of(heap_top(&g->deadlines), struct job, deadline),
				GRANT_TIMED_OUT, v);
		else
			voucher_expire(
				container_of(heap_top(&g->vouchers), struct voucher, expiry));
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
	uint64_t next_ns =
		min_u64(top_ns(&g->due), min_u64(top_ns(&g->deadlines), top_ns(&g->vouchers)));
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
