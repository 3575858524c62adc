/* SPDX-License-Identifier: MIT */
/* Lanes and the resources that they wait for, for gate_lane.c and gate_step.c alone; see
 * gate_internal.h for what they are.  Everything with the gate's lock held. */
#ifndef SCHED_LANE_H
#define SCHED_LANE_H

#include "sched/gate_internal.h"

static inline bool is_bucket(const struct resource *r)
{
	return r->kind < LIMIT_KINDS;
}

static inline bool is_bytes(const struct resource *r)
{
	return is_bucket(r) && limit_kind_is_bytes(r->kind);
}

static inline bool is_shared(const struct resource *r)
{
	return r->lanes & (r->lanes - 1);
}

static inline struct bucket *res_bucket(const struct resource *r)
{
	return &r->scope->limiter.bucket[r->kind];
}

static inline struct lane *first_waiter(const struct resource *r)
{
	return list_first(&r->waiters, struct lane, wait);
}

static inline unsigned first_hop(const struct route *rt, enum level level)
{
	return level ? rt->end[level - 1] : 0;
}

static inline const struct route *job_route(const struct job *j)
{
	return &j->mount->route[j->cost.cls];
}

/* When to look at the first waiter; NEVER: when kicked. */
void set_due(struct resource *r, uint64_t due_ns);

/* When one limit grants the job, in ns from v: 0 now, NEVER on an event only. */
uint64_t hop_wait_ns(const struct lane *l, const struct hop *h, const struct job *j, uint64_t v);
/* The first hop of the lane's own scope that refuses; rt->end[level] when none does. */
unsigned lane_ask(const struct lane *l, const struct route *rt, const struct job *j, uint64_t v);
/* The job whose turn it is below this lane, which is not empty. */
struct job *lane_front(struct lane *l);

/* Refused by the hop at index `at` of its own scope. */
void lane_block(struct lane *l, const struct route *rt, unsigned at, const struct job *j,
		uint64_t v);
void lane_unblock(struct lane *l, uint64_t v);

/* Of its own scope's hops before `end`: prepays ops, and claims bytes for a date (0: does not). */
void lane_hold(struct lane *l, const struct route *rt, unsigned end, uint64_t date_ns,
	       const struct job *j, uint64_t v);
/* Gives one of these back. */
void drop_held(struct lane *l, unsigned kind);

#endif
