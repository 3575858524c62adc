/* SPDX-License-Identifier: MIT */
/* A weighted fair queue (WF2Q+): whose turn it is among competitors for one resource.
 *
 *	virtual time V: service given so far, per unit of weight
 *	each item:      start tag S, finish tag F = S + cost of its next request / weight
 *	pick:           among the eligible (S ≤ V) the smallest F; none eligible: the smallest S
 *
 * Why not round robin or plain start tags: next to 64 bulk keys, a small request would wait for a whole
 * round instead of about one bulk request.
 *
 * Idle items.  An item that leaves keeps its start tag, so that it has neither credit nor penalty for
 * its absence when it returns.  While the queue is empty, V advances with the clock: a gap of
 * microseconds does not erase who is ahead, a real pause does.
 * A caller with one request at a time leaves after each request and returns as soon as it has its
 * reply.  If it returns within FQ_PAUSE_NS, it may start behind V by up to the largest request seen;
 * otherwise bulk requests would take its turns while it prepares the next request.  An item that is
 * removed and added at the same time keeps its place.
 *
 * Reservations.  An item with a date (fq_set_due) is picked before all others once the date has come,
 * the earliest date first.  This does not change the order of the others, and puts the item's own tag
 * at most one request ahead.  It thus gets the larger of its reservation and its share, and weights
 * divide the rest.
 *
 * Units    costs and tags in ns << FQ_SHIFT; tags wrap and are compared by signed difference.
 *          Weights in 1/FQ_WHOLE.
 * Locking  none: the owner's.  All operations are O(log n); only fq_reserve allocates. */
#ifndef SCHED_FAIR_QUEUE_H
#define SCHED_FAIR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/util.h"

#define FQ_SHIFT    8
#define FQ_WHOLE    4096	 /* a weight of 1: an item may have a fraction of it */
#define FQ_COST_MAX (1ULL << 58) /* about 13 days on the tightest limit */
#define FQ_PAUSE_NS (50 * NSEC_PER_MSEC)

struct fq_item {
	struct heap_item at;
	uint64_t start, finish;
	uint64_t left_ns;     /* when it last left the queue; 0: never */
	uint32_t weight;      /* ≥ 1; change it with fq_set_weight while queued */
	bool eligible;	      /* which of the two heaps */
	struct heap_item due; /* in fq->reserved */
};

struct fq {
	uint64_t vtime;
	uint64_t weights; /* sum over all queued items */
	uint64_t idle_ns; /* when the queue became empty */
	uint64_t largest; /* largest cost served at a time; decays slowly */
	uint64_t ties; /* number of items ever added: equal tags are served in order of arrival */
	struct heap eligible; /* by finish tag */
	struct heap later;    /* by start tag */
	/* items with a date, by date; they are in one of the other heaps as well */
	struct heap reserved;
};

void fq_init(struct fq *q, uint64_t now_ns);
void fq_free(struct fq *q);
void fq_item_init(struct fq_item *it, uint32_t weight);

/* Makes sure that n items fit; false: out of memory. */
bool fq_reserve(struct fq *q, size_t n);

static inline bool fq_empty(const struct fq *q)
{
	return q->eligible.n + q->later.n == 0;
}

static inline bool fq_queued(const struct fq_item *it)
{
	return heap_contains(&it->at);
}

/* Adds an item; `cost` is that of its next request. */
void fq_add(struct fq *q, struct fq_item *it, uint64_t cost, uint64_t now_ns);
void fq_remove(struct fq *q, struct fq_item *it, uint64_t now_ns);
/* The item's next request has changed: sets its cost. */
void fq_set_cost(struct fq *q, struct fq_item *it, uint64_t cost);
void fq_set_weight(struct fq *q, struct fq_item *it, uint32_t weight);

/* From due_ns on, a queued item is picked before others; NEVER: only by its tags. */
void fq_set_due(struct fq *q, struct fq_item *it, uint64_t due_ns);
/* The earliest date; NEVER: no item has one. */
uint64_t fq_due_ns(const struct fq *q);

/* The item whose turn it is at now_ns; changes nothing that callers can notice.  NULL: empty. */
struct fq_item *fq_front(struct fq *q, uint64_t now_ns);
/* `it`, the front at now_ns, has received `cost`.  Call fq_set_cost or fq_remove next. */
void fq_serve(struct fq *q, struct fq_item *it, uint64_t cost, uint64_t now_ns);

/* How far an item's start tag is ahead of V (negative: behind), and the reverse.  An item that is
 * behind when it is added is treated like one that returns, as described above. */
int64_t fq_lead(const struct fq *q, const struct fq_item *it, uint64_t now_ns);
void fq_set_lead(const struct fq *q, struct fq_item *it, int64_t lead);

/* How long it takes until a queued item is eligible, if all others stay. */
uint64_t fq_eligible_ns(const struct fq *q, const struct fq_item *it);

/* True: an item that is not queued could be forgotten without any effect. */
bool fq_settled(const struct fq *q, const struct fq_item *it, uint64_t now_ns);

#endif
