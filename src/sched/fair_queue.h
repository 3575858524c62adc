/* SPDX-License-Identifier: MIT */
/* Whose turn it is among competitors for one resource: WF2Q+, one node.
 *
 *	virtual time V: service given so far, per unit of weight
 *	each item:      start tag S, finish tag F = S + cost of its next request / weight
 *	pick:           among the eligible (S ≤ V) the smallest F; none eligible: the smallest S
 *
 * Why not round robin or plain start tags: beside 64 bulk keys a small request would wait for a
 * whole round instead of about one bulk request.
 *
 * An item that leaves keeps its start tag: who comes back gets no credit for having been away, and
 * no penalty beyond what it was really given.  While nothing competes, V runs on with the clock,
 * so that a pause of microseconds does not wipe out who is ahead, and a real one does.
 * A caller that does one thing at a time leaves after each request and is back as soon as it has
 * its answer.  It has not been away: back within FQ_PAUSE_NS it keeps what V has run ahead of it,
 * up to one request of the largest seen.  Else bulk requests would take its turns while it thinks.
 * An item that is removed and added at the same moment has not been away at all: it keeps its place.
 *
 * Reservations.  An item with a date (fq_set_due) is picked before all others once that has come,
 * the earliest first.  Being picked so leaves the others' order as it is, and puts the item's own
 * tag at most one request ahead: it gets the larger of its reservation and its share, and weights
 * divide what is left.
 *
 * Units    costs and tags in ns << FQ_SHIFT; tags wrap, compare by signed difference.
 * Locking  none: the owner's.  O(log n) each; only fq_reserve allocates. */
#ifndef SCHED_FAIR_QUEUE_H
#define SCHED_FAIR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/util.h"

#define FQ_SHIFT    8
#define FQ_COST_MAX (1ULL << 58) /* about 13 days on the bottleneck */
#define FQ_PAUSE_NS (50 * NSEC_PER_MSEC)

struct fq_item {
	struct heap_item at;
	uint64_t start, finish;
	uint64_t left_ns;     /* when it left the queue */
	uint32_t weight;      /* ≥ 1; change it with fq_set_weight while queued */
	bool eligible;	      /* which of the two heaps */
	struct heap_item due; /* in fq->reserved */
};

struct fq {
	uint64_t vtime;
	uint64_t weights;     /* of all that are queued */
	uint64_t idle_ns;     /* since when it is empty */
	uint64_t largest;     /* cost served at a time, forgotten slowly */
	uint64_t turns;	      /* ever added: equal tags go in order of arrival */
	struct heap eligible; /* by finish tag */
	struct heap later;    /* by start tag */
	struct heap reserved; /* those with a date, by date; these are in one of the others, too */
};

/* The virtual time now: while the queue is empty it runs on with the clock. */
uint64_t fq_vtime(const struct fq *q, uint64_t now_ns);

void fq_init(struct fq *q, uint64_t now_ns);
void fq_free(struct fq *q);
void fq_item_init(struct fq_item *it, uint32_t weight);

/* Makes sure that n items fit; false when memory is out. */
bool fq_reserve(struct fq *q, size_t n);

static inline bool fq_empty(const struct fq *q)
{
	return q->eligible.n + q->later.n == 0;
}

static inline bool fq_queued(const struct fq_item *it)
{
	return heap_contains(&it->at);
}

/* Joins; `cost` is that of its next request. */
void fq_add(struct fq *q, struct fq_item *it, uint64_t cost, uint64_t now_ns);
void fq_remove(struct fq *q, struct fq_item *it, uint64_t now_ns);
/* Its next request has become another one. */
void fq_set_cost(struct fq *q, struct fq_item *it, uint64_t cost);
void fq_set_weight(struct fq *q, struct fq_item *it, uint32_t weight);

/* A queued item is to be picked first from due_ns on; NEVER: as its tags say. */
void fq_set_due(struct fq *q, struct fq_item *it, uint64_t due_ns);
/* The earliest date; NEVER: nobody has one. */
uint64_t fq_due_ns(const struct fq *q);

/* Whose turn it is at now_ns; looks only (but may sort items).  NULL: empty. */
struct fq_item *fq_front(struct fq *q, uint64_t now_ns);
/* `it`, the front at now_ns, has been given `cost`.  Follow with fq_set_cost or fq_remove. */
void fq_serve(struct fq *q, struct fq_item *it, uint64_t cost, uint64_t now_ns);

/* How far an item's start tag is ahead of V (negative: behind), and the way back; what is not ahead by
 * the time it is added is worth nothing more than the rules above say. */
int64_t fq_lead(const struct fq *q, const struct fq_item *it, uint64_t now_ns);
void fq_set_lead(const struct fq *q, struct fq_item *it, int64_t lead);

/* How long until a queued item is eligible, if everybody stays. */
uint64_t fq_eligible_ns(const struct fq *q, const struct fq_item *it);

/* True when an item that is not queued could be forgotten without anybody noticing. */
bool fq_settled(const struct fq *q, const struct fq_item *it, uint64_t now_ns);

#endif
