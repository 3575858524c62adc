/* SPDX-License-Identifier: MIT */
/* Dispatch.  Nothing is decided before the moment of release:
 *
 *	descend from a root lane to the front job by the fair queues;
 *	ask every node on its way, from the key to the root;
 *	one refuses: the lane of that node leaves its parent's queue and waits in line at the
 *	             resource (line.c); descend again, since others may have what they need;
 *	all grant:   take everything, update the tags on the path, deliver the job.
 *
 * Only the first waiter of a resource has a due time, and only a lower bound of it is stored: when
 * that is reached, or the resource is kicked, the exact time is computed. */
#include "sched/gate_internal.h"

/* --- taking: from the lane of the job's key up to the root --- */

static bool is_prepaid(const struct resource *r, const struct lane *l)
{
	return !r->bytes && resource_held(r, l);
}

/* A job that pays a debt needs no permit: the request that it pays for had one. */
static bool take_link(const struct chain_link *link, const struct lane *l, const struct job *j,
		      uint64_t at_ns)
{
	const struct resource *r = link_resource(link);
	if (!r->bucket)
		return job_is_debt(j) || permits_try(&link->limiter->inflight);
	return is_prepaid(r, l) || !bucket_rate(r->bucket) ||
	       bucket_try(r->bucket, chain_tokens(link, &j->cost), at_ns);
}

static void untake_link(const struct chain_link *link, const struct lane *l, const struct job *j)
{
	const struct resource *r = link_resource(link);
	if (!r->bucket && !job_is_debt(j))
		permits_release(&link->limiter->inflight);
	else if (r->bucket && !is_prepaid(r, l) && bucket_rate(r->bucket))
		bucket_refund(r->bucket, chain_tokens(link, &j->cost));
}

/* Returns what was taken from the limits before `end`. */
static void untake(struct lane *l, const struct chain_link *end, const struct job *j)
{
	for (; l; l = lane_parent(l)) {
		struct lane_limits limits = lane_limits(l, j);
		for (const struct chain_link *link; (link = next_limit(&limits));) {
			if (link == end)
				return;
			untake_link(link, l, j);
		}
	}
}

/* Takes everything or nothing.  Returns the resource that refused (a newcomer was faster), or
 * NULL. */
static struct resource *take_way_up(struct lane *bottom, const struct job *j, uint64_t at_ns)
{
	for (struct lane *l = bottom; l; l = lane_parent(l)) {
		struct lane_limits limits = lane_limits(l, j);
		for (const struct chain_link *link; (link = next_limit(&limits));) {
			if (take_link(link, l, j, at_ns))
				continue;
			untake(bottom, link, j);
			return link_resource(link);
		}
	}
	return NULL;
}

/* Settles what the lane held for this job, now that the job is admitted; a prepaid amount may
 * differ from the job's cost. */
static void settle_held(struct lane *l, const struct job *j, uint64_t at_ns)
{
	struct lane_limits limits = lane_limits(l, j);
	for (const struct chain_link *link; (link = next_limit(&limits));) {
		struct resource *r = link_resource(link);
		struct hold *h = resource_hold(r, l);
		uint64_t tokens = chain_tokens(link, &j->cost);
		if (!h)
			continue;
		if (!r->bytes) {
			if (tokens > h->tokens)
				bucket_take(r->bucket, tokens - h->tokens, at_ns);
			h->tokens -= min_u64(tokens, h->tokens);
		}
		resource_drop_held(r, l);
	}
}

/* --- releasing --- */

static void count_admission(struct key *key, const struct job *j, uint64_t at_ns, uint64_t now_ns)
{
	uint64_t wait_ns = now_ns - j->parked_ns, ns[WAIT_ROWS];
	job_count_admitted(j);
	if (j->probe || !j->waited)
		return;
	leaf_waited(j->leaf, j->cost.cls, wait_ns);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): every lane has a node */
	key->ops += j->cost.ops;
	atomic_fetch_add_explicit(&key->bytes, j->cost.bytes, memory_order_relaxed);
	key->uid = j->caller.uid;
	job_clock_read(j, at_ns, wait_ns, ns);
	key_waited(key, ns, wait_ns);
	event_of_job(EVENT_ADMITTED, j, ns, now_ns);
}

/* Records what was taken, to be settled later.  A dry run has taken nothing. */
static void fill_grant(struct job *j, struct leaf *f, struct key *key)
{
	struct grant *grant = &j->grant;
	leaf_grant_begin(f);
	if (mount_is_dry(f->mount))
		return;
	grant->chain = leaf_limits(f, j->cost.cls);
	grant->key[0].key = key;
	grant->waited = j->waited && j->cost.bytes && !j->probe;
	if (!j->outer_keys && !key->node.own[j->cost.cls] && !leaf_is_watched(f) && !grant->waited)
		return;
	for (; grant->keys <= j->outer_keys; grant->keys++) {
		struct granted_key *k = &grant->key[grant->keys];
		k->chain = k->key->node.own[j->cost.cls];
		key_pin(k->key);
	}
}

/* The lanes of a node share its limits by what they have used of them: tokens, or a permit for each request. */
static void charge_turns(const struct lane *l, const struct job *j)
{
	struct lane_limits limits = lane_limits(l, j);
	for (const struct chain_link *link; (link = next_limit(&limits));) {
		struct resource *r = link_resource(link);
		line_charge(r, l, r->bucket ? chain_tokens(link, &j->cost) : 1);
	}
}

static void admit_job(struct gate *g, struct lane *bottom, struct job *j, uint64_t at_ns,
		      uint64_t now_ns)
{
	struct leaf *f = j->leaf;
	struct key *key = lane_key(bottom);
	unsigned outer_keys = j->outer_keys;
	bool reserved = false; /* by a reservation below this lane */
	grant_init(&j->grant, f, &j->cost);
	j->grant.probe = j->probe;
	for (struct lane *l = bottom, *up; l; l = up) {
		up = lane_parent(l);
		if (!j->probe) {
			settle_held(l, j, at_ns);
			if (!reserved)
				charge_turns(l, j);
		}
		bool due = reserve_is_due(l->node, &j->cost, at_ns);
		if (up && (due || !reserved))
			fq_serve(up->fq, &l->item, turn_cost(up->node, j), at_ns);
		reserved |= due;
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): every lane has a node */
		if (l->node->branch)
			l->node->branch->sample[l->index] = j->cost;
		if (!j->probe)
			reserve_serve(l->node, &j->cost, at_ns);
		l->had_turn = 0;
	}
	if (job_is_debt(j)) {
		debt_paid(j, at_ns);
		return;
	}
	if (!j->probe)
		fill_grant(j, f, key);
	count_admission(key, j, at_ns, now_ns);
	job_dequeue(j, at_ns);
	if (!job_enter_device(j, at_ns)) {
		j->state = JOB_READY;
		if (!j->own)
			list_push_tail(&g->ready, &j->link);
	}
	if (j->probe)
		voucher_issue(key, j, outer_keys, at_ns);
}

/* Releases the job at the front of a root lane, or blocks the lane whose node refuses it. */
static void release_front(struct gate *g, struct lane *root, uint64_t at_ns, uint64_t now_ns)
{
	struct lane *bottom = lane_bottom(root, at_ns), *l = bottom;
	struct job *j = list_first(&bottom->jobs, struct job, link);
	struct resource *refuses = NULL;
	for (; l; l = lane_parent(l)) {
		refuses = lane_ask(l, j, at_ns);
		if (refuses)
			break;
	}
	if (!refuses && !j->probe)
		refuses = take_way_up(bottom, j, at_ns);
	if (refuses && refuses->node->kind == SCOPE_KEY && refuses->node != bottom->node)
		lane_block(bottom, refuses, j, at_ns); /* an outer key refuses */
	else if (refuses)
		lane_block(&refuses->node->lane[root->index], refuses, j, at_ns);
	else
		admit_job(g, bottom, j, at_ns, now_ns);
}

static void release_all(struct gate *g, uint64_t at_ns, uint64_t now_ns)
{
	bool more;
	do { /* one job of each lane in turn */
		more = false;
		for (unsigned i = 0; i < g->lanes; i++) {
			struct lane *root = &g->global.lane[i];
			if (!root->blocked && !lane_empty(root)) {
				release_front(g, root, at_ns, now_ns);
				more = true;
			}
		}
	} while (more);
}

/* The front job will have its turn at a known date: the lanes below hold what it needs until
 * then. */
static void hold_below(struct lane *l, uint64_t date_ns, const struct job *j, uint64_t at_ns)
{
	while (l->fq) {
		l = container_of(fq_front(l->fq, at_ns), struct lane, item);
		lane_hold(l, NULL, date_ns, j, at_ns);
	}
}

static void note_turn(struct lane *l, const struct resource *r, struct job *j)
{
	if (l->node == r->node)
		l->had_turn |= 1U << r->index;
	else
		outer_note_turn(j, r);
}

/* The next waiter may be able to proceed now. */
static void resource_due(struct resource *r, uint64_t at_ns)
{
	struct lane *l = line_next(r, at_ns);
	struct job *j = lane_front(l, at_ns);
	const struct chain_link *link = r->index == RES_PAUSE ? NULL : lane_link(l, r, j);
	uint64_t wait_ns = link ? resource_wait_ns(r, l, link, j, at_ns) : 0;
	if (r->index == RES_PAUSE && l->node->paused)
		wait_ns = NEVER;
	if (wait_ns) {
		uint64_t due_ns = add_sat_u64(at_ns, wait_ns);
		resource_set_due(r, due_ns);
		lane_claim(l, r, j, due_ns, at_ns);
		hold_below(l, due_ns == NEVER ? 0 : due_ns, j, at_ns);
		return;
	}
	if (link && r->bucket)
		line_serve(r, l, chain_tokens(link, &j->cost));
	lane_unblock(l, at_ns);
	note_turn(l, r, j);
	lane_touch(l, at_ns);
}

/* --- time --- */

static uint64_t top_ns(const struct heap *h)
{
	const struct heap_item *top = heap_top(h);
	return top ? top->key : NEVER;
}

/* Processes events in the order of their times; those before at_ns as if they happened at at_ns. */
static void dispatch_events(struct gate *g, uint64_t at_ns, uint64_t now_ns, bool deadlines_too)
{
	for (;;) {
		release_all(g, at_ns, now_ns);
		uint64_t due = top_ns(&g->due),
			 deadline = deadlines_too ? top_ns(&g->deadlines) : NEVER;
		uint64_t expires = top_ns(&g->vouchers), done = top_ns(&g->dates);
		uint64_t next = min_u64(min_u64(due, done), min_u64(deadline, expires));
		if (next > now_ns)
			return;
		at_ns = max_u64(at_ns, next);
		if (next == due)
			resource_due(container_of(heap_top(&g->due), struct resource, due), at_ns);
		else if (next == done)
			job_leave_device(g, container_of(heap_top(&g->dates), struct job, date),
					 now_ns);
		else if (next == deadline)
			job_refuse_locked(
				g, container_of(heap_top(&g->deadlines), struct job, deadline),
				GRANT_TIMED_OUT, at_ns);
		else
			voucher_expire(
				container_of(heap_top(&g->vouchers), struct account, expiry));
	}
}

void gate_dispatch_locked(struct gate *g, uint64_t at_ns, uint64_t now_ns)
{
	dispatch_events(g, at_ns, now_ns, true);
}

void gate_release_locked(struct gate *g, uint64_t at_ns, uint64_t now_ns)
{
	dispatch_events(g, at_ns, now_ns, false);
}

void gate_catch_up_locked(struct gate *g, uint64_t now_ns)
{
	gate_dispatch_locked(g, now_ns > BACKDATE_NS ? now_ns - BACKDATE_NS : 0, now_ns);
}

void gate_arm_locked(struct gate *g)
{
	uint64_t date_ns = top_ns(&g->dates);
	uint64_t next_ns =
		min_u64(top_ns(&g->due), min_u64(top_ns(&g->deadlines), top_ns(&g->vouchers)));
	uint64_t arm_ns = min_u64(max_u64(next_ns, add_sat_u64(g->stepped_ns, COALESCE_NS)),
				  max_u64(date_ns, add_sat_u64(g->stepped_ns, COALESCE_DATES_NS)));
	next_ns = min_u64(next_ns, date_ns);
	if (next_ns == g->next_ns && arm_ns >= g->armed_ns)
		return;
	g->next_ns = next_ns;
	if (arm_ns != g->armed_ns) {
		g->armed_ns = arm_ns;
		g->clock->arm(g->clock, arm_ns);
	}
}

uint64_t gate_step(struct gate *g, uint64_t now_ns)
{
	gate_lock(g);
	g->stepped_ns = now_ns;
	if (g->armed_ns <= now_ns) { /* the alarm has gone off: the next event must set it again */
		g->armed_ns = NEVER;
		g->next_ns = NEVER;
	}
	gate_catch_up_locked(g, now_ns);
	gate_arm_locked(g);
	uint64_t armed_ns = g->armed_ns;
	gate_unlock_deliver(g);
	return armed_ns;
}
