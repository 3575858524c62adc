/* SPDX-License-Identifier: MIT */
/* Lanes: what refuses them, where they wait, and what they hold meanwhile. */
#include "sched/gate_internal.h"

/* --- holding --- */

static void drop_held_of(const struct lane *l, const struct node *n)
{
	for (unsigned i = 0; i < RES_INFLIGHT; i++)
		if (n->res[i])
			resource_drop_held(n->res[i], l);
}

static void kick_held_of(const struct lane *l, const struct node *n)
{
	for (unsigned i = 0; i < RES_INFLIGHT; i++)
		if (n->res[i] && resource_held(n->res[i], l))
			resource_kick(n->res[i]);
}

/* Calls fn for every node whose tokens the lane may hold. */
static void holders_each(const struct lane *l,
			 void (*fn)(const struct lane *l, const struct node *n))
{
	fn(l, l->node);
	const struct job *j = l->fq ? NULL : list_first(&l->jobs, struct job, link);
	for (unsigned i = 1; j && i <= j->outer_keys; i++)
		fn(l, &j->grant.key[i].key->node);
}

static void hold(struct lane *l, struct resource *r, uint64_t tokens, uint64_t at_ns)
{
	struct hold *h = resource_hold(r, l), *place = h ? h : resource_hold(r, NULL);
	if (!tokens) {
		resource_drop_held(r, l);
		return;
	}
	if (!place || (!r->bytes && (h || !bucket_try(r->bucket, tokens, at_ns))))
		return;
	if (r->bytes && !h)
		resource_add_waiters(r, 1);
	else if (r->bytes && tokens < h->tokens)
		resource_kick(r);
	*place = (struct hold){l, tokens};
}

struct lane_limits lane_limits(const struct lane *l, const struct job *j)
{
	struct lane_limits limits = {.job = j};
	if (mount_is_dry(j->leaf->mount))
		return limits;
	if (!lane_is_part(l))
		limits.chain = l->node->own[j->cost.cls];
	if (!l->fq) {
		limits.outer = 1;
		limits.outer_end = 1 + j->outer_keys;
	}
	return limits;
}

const struct chain_link *next_limit(struct lane_limits *limits)
{
	while (limits->link >= own_links(limits->chain)) {
		if (limits->outer == limits->outer_end)
			return NULL;
		const struct key *key = limits->job->grant.key[limits->outer++].key;
		limits->chain = key->node.own[limits->job->cost.cls];
		limits->link = 0;
	}
	return own_link(limits->chain, limits->link++);
}

static void set_claim_due(struct lane *l, uint64_t date_ns)
{
	if (date_ns > l->claim_due_ns)
		holders_each(l, kick_held_of); /* others may use what it has claimed for longer */
	l->claim_due_ns = date_ns;
}

void lane_hold(struct lane *l, const struct resource *end, uint64_t date_ns, const struct job *j,
	       uint64_t at_ns)
{
	struct lane_limits limits = lane_limits(l, j);
	if (j->probe)
		return;
	for (const struct chain_link *link; (link = next_limit(&limits));) {
		struct resource *r = link_resource(link);
		if (r == end)
			break;
		if (r->bucket && resource_is_shared(r) && (date_ns || !r->bytes))
			hold(l, r, chain_tokens(link, &j->cost), at_ns);
	}
	if (date_ns)
		set_claim_due(l, date_ns);
}

/* A lane that waits in line claims only what it asks before the resource where it waits.  If all
 * lanes do so, two of them never wait for each other's claims. */
static void drop_claims(const struct lane *l, const struct resource *from, const struct job *j)
{
	struct lane_limits limits = lane_limits(l, j);
	bool drop = !from->bucket; /* nobody knows when it will proceed */
	for (const struct chain_link *link; (link = next_limit(&limits));) {
		struct resource *r = link_resource(link);
		drop |= r == from;
		if (r->bytes && (drop || r->node != from->node))
			resource_drop_held(r, l);
	}
}

void lane_stop_claiming(struct lane *l)
{
	if (!l->claims)
		return;
	l->claims = false;
	holders_each(l, kick_held_of);
}

const struct chain_link *lane_link(const struct lane *l, const struct resource *r,
				   const struct job *j)
{
	struct lane_limits limits = lane_limits(l, j);
	const struct chain_link *link;
	do
		link = next_limit(&limits);
	while (link && link_resource(link) != r);
	return link;
}

/* --- asking --- */

static bool had_turn(const struct lane *l, const struct resource *r, const struct job *j)
{
	return l->node == r->node ? l->had_turn & 1U << r->index : outer_had_turn(j, r);
}

void lane_claim(struct lane *l, struct resource *r, const struct job *j, uint64_t date_ns,
		uint64_t at_ns)
{
	if (date_ns == NEVER || j->probe || !had_turn(l, r, j))
		return;
	struct lane_limits limits = lane_limits(l, j);
	for (const struct chain_link *link; (link = next_limit(&limits));) {
		struct resource *before = link_resource(link);
		if (before == r)
			break;
		if (before->node == r->node && before->bytes && resource_is_shared(before))
			hold(l, before, chain_tokens(link, &j->cost), at_ns);
	}
	set_claim_due(l, date_ns);
	l->claims = true;
}

/* When the resource could grant the job to a lane that is first in line; NEVER: only after an
 * event. */
static uint64_t turn_ns(const struct lane *l, const struct resource *r, const struct job *j,
			uint64_t at_ns)
{
	const struct chain_link *link = lane_link(l, r, j);
	return link ? add_sat_u64(at_ns, resource_wait_ns(r, l, link, j, at_ns)) : NEVER;
}

/* A lane that is due by a reservation does not queue behind other lanes. */
static bool must_queue(struct lane *l, const struct resource *r, const struct job *j,
		       uint64_t at_ns)
{
	return !line_would_be_first(r, l) && !had_turn(l, r, j) && !resource_held(r, l) &&
	       lane_reserved_ns(l, at_ns) > at_ns;
}

/* Skips limits of rate 0: requests that need tokens of them were refused earlier, and others must
 * not wait for their debt, which would never be paid. */
struct resource *lane_ask(struct lane *l, const struct job *j, uint64_t at_ns)
{
	struct lane_limits limits = lane_limits(l, j);
	if (l->node->paused) /* never a key */
		return l->node->res[RES_PAUSE];
	for (const struct chain_link *link; (link = next_limit(&limits));) {
		struct resource *r = link_resource(link);
		if (r->bucket && !bucket_rate(r->bucket))
			continue;
		if (must_queue(l, r, j, at_ns) || resource_wait_ns(r, l, link, j, at_ns))
			return r;
	}
	return NULL;
}

struct lane *lane_bottom(struct lane *l, uint64_t at_ns)
{
	while (l->fq)
		l = container_of(fq_front(l->fq, at_ns), struct lane, item);
	return l;
}

struct job *lane_front(struct lane *l, uint64_t at_ns)
{
	return list_first(&lane_bottom(l, at_ns)->jobs, struct job, link);
}

/* --- moving --- */

/* Waits of keys for their own limits are counted in the leaf that defines these limits. */
static struct each_wait *each_wait_of(const struct resource *r)
{
	if (r->node->kind != SCOPE_KEY || r->index >= RES_INFLIGHT)
		return NULL;
	return &node_leaf(r->node->parent)->each_wait[r->index / BUCKET_ROLES];
}

static void begin_blocking(struct resource *r, uint64_t at_ns)
{
	struct each_wait *w = each_wait_of(r);
	r->blocked_ns = at_ns;
	if (w && w->waiting++ == 0)
		w->since_ns = at_ns;
}

static void end_blocking(struct resource *r, uint64_t at_ns)
{
	struct each_wait *w = each_wait_of(r);
	r->blocking_ns += at_ns > r->blocked_ns ? at_ns - r->blocked_ns : 0;
	if (w && --w->waiting == 0)
		w->sum_ns += at_ns > w->since_ns ? at_ns - w->since_ns : 0;
}

void lane_unblock(struct lane *l, uint64_t at_ns)
{
	struct resource *r = l->blocked;
	bool was_first = first_waiter(r) == l;
	lane_stop_changes(l, at_ns);
	lane_stop_claiming(l);
	line_leave(r, l, at_ns);
	l->blocked = NULL;
	resource_add_waiters(r, -1);
	if (list_empty(&r->waiters)) {
		end_blocking(r, at_ns);
		resource_set_due(r, NEVER);
	} else if (was_first) {
		resource_kick(r); /* another lane is first in line now */
	}
}

static void leave_parent(struct lane *l, uint64_t at_ns)
{
	struct lane *up = lane_parent(l);
	if (!up || !fq_queued(&l->item))
		return;
	holders_each(l, kick_held_of); /* its claims have ended */
	fq_remove(up->fq, &l->item, at_ns);
	lane_touch(up, at_ns);
}

/* Holds operations for the front job, here and below: before other lanes get those for which these
 * lanes had their turns.  Otherwise they would be gone when the lane has its turn, and it would lose
 * that turn each time. */
static void hold_ops(struct lane *l, const struct resource *end, const struct job *j,
		     uint64_t at_ns)
{
	lane_hold(l, end, 0, j, at_ns);
	while (l->fq) {
		l = container_of(fq_front(l->fq, at_ns), struct lane, item);
		lane_hold(l, NULL, 0, j, at_ns);
	}
}

void lane_block(struct lane *l, struct resource *r, struct job *j, uint64_t at_ns)
{
	bool ahead =
		had_turn(l, r, j) || resource_held(r, l) || lane_reserved_ns(l, at_ns) <= at_ns;
	struct lane *was_first = first_waiter(r);
	lane_stop_changes(l, at_ns);
	hold_ops(l, r, j, at_ns);
	drop_claims(l, r, j);
	if (list_empty(&r->waiters))
		begin_blocking(r, at_ns);
	if (ahead)
		list_push_head(&r->waiters, &l->wait);
	else
		line_join(r, l, at_ns);
	if (!ahead || r->waiters.prev == &l->wait)
		l->in_line = ++l->node->gate->lines;
	l->blocked = r;
	resource_add_waiters(r, 1);
	if (was_first && was_first != first_waiter(r))
		lane_stop_claiming(was_first);
	if (first_waiter(r) == l) {
		if (had_turn(l, r, j)) /* now, before others take what it has waited for */
			lane_claim(l, r, j, turn_ns(l, r, j, at_ns), at_ns);
		resource_kick(r); /* checks again, now that newcomers see a waiter */
	}
	leave_parent(l, at_ns);
}

void lane_leave_outer(struct lane *l, const struct job *j, uint64_t at_ns)
{
	const struct job *next = list_first(&l->jobs, struct job, link);
	for (unsigned i = 1; i <= j->outer_keys; i++) {
		const struct node *n = &j->grant.key[i].key->node;
		if (outer_place(next, n))
			continue;
		drop_held_of(l, n);
		if (l->blocked && l->blocked->node == n)
			lane_unblock(l, at_ns);
	}
}

/* A lane that is ready below a blocked lane holds what it needs until about the time of its
 * turn. */
static void hold_for_turn(struct lane *l, const struct job *j, uint64_t at_ns)
{
	struct lane *up = lane_parent(l), *b = up;
	while (b && !b->blocked)
		b = lane_parent(b);
	if (!b || !heap_contains(&b->blocked->due))
		return;
	uint64_t turn_ns = add_sat_u64(at_ns, fq_eligible_ns(up->fq, &l->item));
	lane_hold(l, NULL, max_u64(turn_ns, b->blocked->due.key), j, at_ns);
}

static void lane_went_idle(struct lane *l, uint64_t at_ns)
{
	if (l->blocked)
		lane_unblock(l, at_ns);
	holders_each(l, drop_held_of);
	l->had_turn = 0;
	lane_clock_free(l);
	leave_parent(l, at_ns);
	reserve_end(l->node, at_ns);
}

/* True: what waits in the lane waits for this resource, or did a moment ago. */
static bool waits_at(const struct lane *l, const struct resource *r, uint64_t at_ns)
{
	uint64_t left_ns = r->tags->lane_left_ns[l->index];
	return l->blocked == r || (left_ns && at_ns < left_ns + FQ_PAUSE_NS);
}

/* True: two lanes of the node wait for the same resource, of this node or of one above. */
static bool lanes_compete(const struct node *n, unsigned a, unsigned b, uint64_t at_ns)
{
	for (; n; n = n->parent)
		for (unsigned i = 0; i <= RES_INFLIGHT; i++)
			if (n->res[i] && waits_at(&n->lane[a], n->res[i], at_ns) &&
			    waits_at(&n->lane[b], n->res[i], at_ns))
				return true;
	return false;
}

static uint64_t waiting_weight(const struct lane *l)
{
	return l->node->branch ? max_u64(l->fq->weights, 1) : FQ_WHOLE;
}

/* A node whose requests wait in several lanes for the same resource has one weight, not one in each lane: it is divided
 * among these lanes, in proportion to what waits in each. */
static uint32_t lane_weight(const struct lane *l, uint64_t at_ns)
{
	const struct node *n = l->node;
	uint64_t here = waiting_weight(l), all = here;
	/* an fs counts as much as its mounts together, so that all mounts share the global limit
	 * equally */
	if (n->kind == SCOPE_FS)
		return (uint32_t)min_u64(here, UINT32_MAX);
	for (unsigned i = 0; i < n->gate->lanes && !lane_is_part(l); i++)
		if (i != l->index && fq_queued(&n->lane[i].item) &&
		    lanes_compete(n->parent, l->index, i, at_ns))
			all += waiting_weight(&n->lane[i]);
	return (uint32_t)max_u64((uint64_t)((u128)n->weight * FQ_WHOLE * here / all), 1);
}

void lane_enter(struct lane *l, uint64_t at_ns)
{
	struct lane *up = lane_parent(l);
	if (!fq_queued(&l->item))
		reserve_begin(l->node, at_ns);
	struct job *j = lane_front(l, at_ns);
	uint64_t cost = turn_cost(up->node, j);
	fq_set_weight(up->fq, &l->item, lane_weight(l, at_ns));
	if (fq_queued(&l->item)) {
		fq_set_cost(up->fq, &l->item, cost);
		fq_set_due(up->fq, &l->item, lane_reserved_ns(l, at_ns));
		return;
	}
	struct resource *refuses = lane_ask(l, j, at_ns);
	if (refuses) {
		lane_block(l, refuses, j, at_ns);
		return;
	}
	fq_add(up->fq, &l->item, cost, at_ns);
	fq_set_due(up->fq, &l->item, lane_reserved_ns(l, at_ns));
	hold_for_turn(l, j, at_ns);
}

void lane_touch(struct lane *l, uint64_t at_ns)
{
	if (lane_empty(l)) {
		lane_went_idle(l, at_ns);
		return;
	}
	if (l->blocked) {
		line_grew(l->blocked, l);
		if (first_waiter(l->blocked) == l)
			resource_kick(l->blocked); /* its front may have changed */
		return;
	}
	struct lane *up = lane_parent(l);
	if (!up)
		return; /* a root lane: release_all finds it */
	lane_enter(l, at_ns);
	if (!l->blocked)
		lane_touch(up, at_ns);
}

void lane_reset(struct lane *l, uint64_t at_ns)
{
	struct lane *up = lane_parent(l);
	if (l->blocked)
		lane_unblock(l, at_ns);
	holders_each(l, drop_held_of);
	l->had_turn = 0;
	if (up && fq_queued(&l->item))
		fq_remove(up->fq, &l->item, at_ns);
}
