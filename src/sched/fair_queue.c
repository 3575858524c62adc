/* SPDX-License-Identifier: MIT */
#include "sched/fair_queue.h"

#include "base/util.h"

/* Tags wrap after about a year; an item that was absent for longer than this starts anew. */
#define STALE_NS (24 * 3600 * NSEC_PER_SEC)

static bool away_too_long(const struct fq_item *it, uint64_t now_ns)
{
	return now_ns > it->left_ns && now_ns - it->left_ns > STALE_NS;
}

static bool after(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) > 0;
}

/* Never 0: a tag that does not advance would let the item monopolize the queue. */
static uint64_t share(uint64_t cost, uint64_t weight)
{
	u128 s = (u128)min_u64(cost, FQ_COST_MAX) * FQ_WHOLE / weight;
	return s > FQ_COST_MAX ? FQ_COST_MAX : s ? (uint64_t)s : 1;
}

void fq_init(struct fq *q, uint64_t now_ns)
{
	*q = (struct fq){.idle_ns = now_ns};
	heap_init(&q->eligible);
	heap_init(&q->later);
	heap_init(&q->reserved);
}

void fq_free(struct fq *q)
{
	heap_free(&q->eligible);
	heap_free(&q->later);
	heap_free(&q->reserved);
}

void fq_item_init(struct fq_item *it, uint32_t weight)
{
	*it = (struct fq_item){.weight = weight ? weight : 1};
}

bool fq_reserve(struct fq *q, size_t n)
{
	return heap_reserve(&q->eligible, n) && heap_reserve(&q->later, n) &&
	       heap_reserve(&q->reserved, n);
}

/* The current virtual time; while the queue is empty it advances with the clock. */
static uint64_t vtime_at(const struct fq *q, uint64_t now_ns)
{
	if (!fq_empty(q) || now_ns <= q->idle_ns)
		return q->vtime;
	return q->vtime + (min_u64(now_ns - q->idle_ns, 2 * STALE_NS) << FQ_SHIFT);
}

static void insert(struct fq *q, struct fq_item *it)
{
	it->eligible = !after(it->start, q->vtime);
	it->at.key = it->eligible ? it->finish : it->start;
	it->at.tie = it->eligible ? q->ties++ : it->finish;
	heap_push(it->eligible ? &q->eligible : &q->later, &it->at);
}

static void take_out(struct fq *q, struct fq_item *it)
{
	heap_remove(it->eligible ? &q->eligible : &q->later, &it->at);
}

/* The smallest start tag with which an item may return. */
static uint64_t oldest_claim(const struct fq *q, const struct fq_item *it, uint64_t now_ns)
{
	bool paused = it->left_ns && now_ns < it->left_ns + FQ_PAUSE_NS;
	return paused ? q->vtime - q->largest : q->vtime;
}

void fq_add(struct fq *q, struct fq_item *it, uint64_t cost, uint64_t now_ns)
{
	q->vtime = vtime_at(q, now_ns);
	uint64_t oldest = oldest_claim(q, it, now_ns);
	bool stayed = it->left_ns && it->left_ns == now_ns;
	if (!stayed && (after(oldest, it->start) || away_too_long(it, now_ns)))
		it->start = oldest;
	it->finish = it->start + share(cost, it->weight);
	q->weights += it->weight;
	insert(q, it);
}

void fq_remove(struct fq *q, struct fq_item *it, uint64_t now_ns)
{
	fq_set_due(q, it, NEVER);
	take_out(q, it);
	q->weights -= it->weight;
	it->left_ns = now_ns;
	if (fq_empty(q))
		q->idle_ns = now_ns;
}

void fq_set_cost(struct fq *q, struct fq_item *it, uint64_t cost)
{
	uint64_t finish = it->start + share(cost, it->weight);
	if (finish == it->finish)
		return;
	it->finish = finish;
	if (it->eligible)
		it->at.key = finish;
	else
		it->at.tie = finish;
	heap_update(it->eligible ? &q->eligible : &q->later, &it->at);
}

void fq_set_weight(struct fq *q, struct fq_item *it, uint32_t weight)
{
	if (!weight)
		weight = 1;
	if (fq_queued(it))
		q->weights += (uint64_t)weight - it->weight;
	it->weight = weight;
}

void fq_set_due(struct fq *q, struct fq_item *it, uint64_t due_ns)
{
	if (due_ns == NEVER) {
		if (heap_contains(&it->due))
			heap_remove(&q->reserved, &it->due);
		return;
	}
	bool queued = heap_contains(&it->due);
	if (queued && it->due.key == due_ns)
		return;
	it->due.key = due_ns;
	it->due.tie = it->start;
	if (queued)
		heap_update(&q->reserved, &it->due);
	else
		heap_push(&q->reserved, &it->due);
}

uint64_t fq_due_ns(const struct fq *q)
{
	const struct heap_item *top = heap_top(&q->reserved);
	return top ? top->key : NEVER;
}

struct fq_item *fq_front(struct fq *q, uint64_t now_ns)
{
	struct heap_item *top;
	if (fq_due_ns(q) <= now_ns)
		return container_of(heap_top(&q->reserved), struct fq_item, due);
	while ((top = heap_top(&q->later)) != NULL) {
		struct fq_item *it = container_of(top, struct fq_item, at);
		if (after(it->start, q->vtime))
			break;
		heap_remove(&q->later, top);
		insert(q, it);
	}
	/* If no item is eligible, the earliest start tag wins.  V does not advance to that tag
	 * before the item is served, so that an item with an older tag that arrives meanwhile still
	 * comes first. */
	top = heap_top(q->eligible.n ? &q->eligible : &q->later);
	return top ? container_of(top, struct fq_item, at) : NULL;
}

void fq_serve(struct fq *q, struct fq_item *it, uint64_t cost, uint64_t now_ns)
{
	bool reserved = heap_contains(&it->due) && it->due.key <= now_ns;
	take_out(q, it);
	if (reserved) {
		if (after(it->start, q->vtime))
			it->start = q->vtime;
	} else {
		if (after(it->start, q->vtime))
			q->vtime = it->start;
		q->vtime += share(cost, q->weights);
	}
	q->largest = max_u64(q->largest - q->largest / 1024, min_u64(cost, FQ_COST_MAX));
	it->start += share(cost, it->weight);
	it->finish = it->start;
	insert(q, it);
}

int64_t fq_lead(const struct fq *q, const struct fq_item *it, uint64_t now_ns)
{
	return away_too_long(it, now_ns) ? 0 : (int64_t)(it->start - vtime_at(q, now_ns));
}

void fq_set_lead(const struct fq *q, struct fq_item *it, int64_t lead)
{
	it->start = q->vtime + (uint64_t)lead;
}

uint64_t fq_eligible_ns(const struct fq *q, const struct fq_item *it)
{
	if (!after(it->start, q->vtime))
		return 0;
	u128 ns = (u128)(it->start - q->vtime) * q->weights / FQ_WHOLE >> FQ_SHIFT;
	return ns > UINT64_MAX >> FQ_SHIFT ? UINT64_MAX >> FQ_SHIFT : (uint64_t)ns;
}

bool fq_settled(const struct fq *q, const struct fq_item *it, uint64_t now_ns)
{
	if (it->left_ns && now_ns < it->left_ns + FQ_PAUSE_NS)
		return false; /* it may still return with its old tag */
	return !after(it->start, vtime_at(q, now_ns)) || away_too_long(it, now_ns);
}
