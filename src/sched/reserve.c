/* SPDX-License-Identifier: MIT */
/* Reservations: a class that has one is served when its next request is due, before weights
 * decide.
 *
 *	due     when the next request must be served at the latest
 *	serve   at t: due = min(due, t) + the time that the request takes at the reserved rate
 *	wait    when a request arrives and none was waiting: due = max(due, now).  But a caller
 *	        with one request at a time is absent only while it handles the reply: if the class
 *	        was idle for less than FQ_PAUSE_NS, `due` may stay in the past by up to that time.
 *
 * A request that was served late does not postpone the next one, so that in any time t during which
 * the class waits, it gets at least rate × t minus one request of its own and the requests of
 * others that were admitted just before it was due.  A request that was served early, by weight,
 * postpones the next one by its own time only, so that earlier service is no disadvantage. Nodes
 * above the class use the earliest date of the classes below them: a reservation is honoured
 * wherever the limit is that makes its requests wait, with one exception: the limits for each key
 * of a scope above the class (outer.c) are divided by weight alone.
 *
 * A request that is served by a reservation is charged to the share of its class, which thus gets
 * the larger of its share and its reservation.  It is not charged to the shares of the scopes
 * above: a reservation is granted before weights divide the rest.  Otherwise a large reservation of
 * one class could use up the share of its mount, and the other classes of that mount would get
 * nothing.  Example: two mounts share 10 MB/s.  In one of them, class a has a reservation of 6 MB/s
 * and b has none: a gets 6, and the mounts share the other 4 equally, so b gets 2 and the other
 * mount 2.
 *
 * What a class is owed is bounded.  Otherwise, a class that was not served for long, because its
 * mount was paused, say, would take everything afterwards. */
#include "sched/gate_internal.h"

#define RESERVE_LATE_NS NSEC_PER_SEC

static uint64_t time_of(uint64_t n, uint64_t per_sec)
{
	return per_sec ? (uint64_t)((u128)n * NSEC_PER_SEC / per_sec) : 0;
}

static bool is_reserved(const struct reservation *r, const struct cost *c)
{
	return (r->bps && c->bytes) || (r->iops && c->ops);
}

bool reserve_is_due(const struct node *n, const struct cost *c, uint64_t at_ns)
{
	const struct reservation *r = n->branch ? &n->branch->reserve : NULL;
	return r && is_reserved(r, c) && r->due_ns <= at_ns;
}

uint64_t lane_reserved_ns(struct lane *l, uint64_t at_ns)
{
	if (!l->node->branch)
		return NEVER;
	const struct reservation *r = &l->node->branch->reserve;
	uint64_t below_ns = fq_due_ns(l->fq);
	if (!r->bps && !r->iops)
		return below_ns;
	return is_reserved(r, &lane_front(l, at_ns)->cost) ? min_u64(r->due_ns, below_ns)
							   : below_ns;
}

static bool anything_waits(const struct node *n)
{
	for (unsigned i = 0; i < LANES; i++)
		if (!lane_empty(&n->lane[i]))
			return true;
	return false;
}

/* A lane that only moves, from the line of a limit to a queue, say, has not begun to wait. */
void reserve_begin(struct node *n, uint64_t at_ns)
{
	if (!n->branch || (!n->branch->reserve.bps && !n->branch->reserve.iops))
		return;
	struct reservation *r = &n->branch->reserve;
	if (r->waits)
		return;
	r->waits = true;
	uint64_t away_ns = at_ns > r->idle_ns ? at_ns - r->idle_ns : 0;
	uint64_t behind_ns = away_ns < FQ_PAUSE_NS ? min_u64(FQ_PAUSE_NS, at_ns) : 0;
	r->due_ns = max_u64(r->due_ns, at_ns - behind_ns);
}

void reserve_end(struct node *n, uint64_t at_ns)
{
	struct reservation *r = n->branch ? &n->branch->reserve : NULL;
	if (!r || !r->waits || anything_waits(n))
		return;
	r->waits = false;
	r->idle_ns = at_ns;
}

/* How late a request may be served although its reservation is honoured: requests of others that
 * were admitted before it was due delay it by their cost. */
static uint64_t most_late_ns(const struct node *n)
{
	uint64_t largest = 0;
	for (n = n->parent; n; n = n->parent)
		for (unsigned i = 0; i < LANES; i++)
			largest = max_u64(largest, n->lane[i].fq->largest);
	return RESERVE_LATE_NS + LANES * (largest >> FQ_SHIFT);
}

/* The date of the node's next request has changed, and with it that of the nodes above it. */
static void set_dates(struct lane *l, uint64_t at_ns)
{
	for (struct lane *up; (up = lane_parent(l)) && fq_queued(&l->item); l = up)
		fq_set_due(up->fq, &l->item, lane_reserved_ns(l, at_ns));
}

void reserve_serve(struct node *n, const struct cost *c, uint64_t at_ns)
{
	struct reservation *r = n->branch ? &n->branch->reserve : NULL;
	if (!r || !is_reserved(r, c))
		return;
	uint64_t takes_ns = max_u64(time_of(c->bytes, r->bps), time_of(c->ops, r->iops));
	uint64_t late_ns = min_u64(most_late_ns(n), at_ns);
	uint64_t due_ns = max_u64(min_u64(r->due_ns, at_ns), at_ns - late_ns);
	r->due_ns = add_sat_u64(due_ns, takes_ns);
	for (unsigned i = 0; i < LANES; i++)
		set_dates(&n->lane[i], at_ns);
}
