/* SPDX-License-Identifier: MIT */
/* Inside src/limit: how a bucket is read and moved.  Inline, because a chain does it once per limit
 * on every request.
 *
 *	view, decide, one compare-and-swap of `used` from v.seen to v.from + tokens
 *
 * Order    everything about `used` is sequentially consistent: whoever parks sets the gate and then
 *          looks again, whoever refunds lets go and then looks at the gate; with anything weaker
 *          they may miss each other.  The line needs acquire and release only: a reader that meets
 *          a value of a newer line sees the newer seq, too, and reads again. */
#ifndef LIMIT_BUCKET_VIEW_H
#define LIMIT_BUCKET_VIEW_H

#include "limit/bucket.h"

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* One consistent copy of a line. */
struct bucket_params {
	uint64_t epoch_ns, horizon_ns, base, whole, fraction, capacity;
};

static inline struct bucket_params bucket_params(const struct bucket *b)
{
	struct bucket_params p;
	uint32_t seq;
	do {
		seq = atomic_load_explicit(&b->seq, memory_order_acquire);
		const struct bucket_line *l = &b->line[seq & 1];
		p.epoch_ns = atomic_load_explicit(&l->epoch_ns, memory_order_acquire);
		p.horizon_ns = atomic_load_explicit(&l->horizon_ns, memory_order_acquire);
		p.base = atomic_load_explicit(&l->base, memory_order_acquire);
		p.whole = atomic_load_explicit(&l->whole, memory_order_acquire);
		p.fraction = atomic_load_explicit(&l->fraction, memory_order_acquire);
		p.capacity = atomic_load_explicit(&l->capacity, memory_order_acquire);
	} while (UNLIKELY(atomic_load_explicit(&b->seq, memory_order_relaxed) != seq));
	return p;
}

/* What a bucket looks like at one moment.  level = supply − from ≤ capacity. */
struct bucket_view {
	uint64_t seen;	   /* `used` as read */
	uint64_t from;	   /* the same, after what has overflowed is lost */
	uint64_t supply;
	uint64_t capacity;
	bool odd;	   /* clock behind the epoch, past the horizon, or rate 0 */
};

/* The same for the odd cases. */
struct bucket_view bucket_view_odd(const struct bucket_params *p, uint64_t seen, uint64_t now_ns);
/* Begins a new line at now_ns if the old one is past its horizon. */
void bucket_settle(struct bucket *b, uint64_t now_ns);

/* Both at once: a clock before the epoch gives a huge difference. */
static inline bool bucket_params_odd(const struct bucket_params *p, uint64_t now_ns)
{
	return UNLIKELY(now_ns - p->epoch_ns > p->horizon_ns);
}

static inline struct bucket_view bucket_view(const struct bucket *b, uint64_t now_ns)
{
	const struct bucket_params p = bucket_params(b);
	uint64_t seen = atomic_load(&b->used);
	if (bucket_params_odd(&p, now_ns)) {
		const struct bucket_params copy = p; /* so that p can stay in registers */
		return bucket_view_odd(&copy, seen, now_ns);
	}
	uint64_t dt = now_ns - p.epoch_ns;
	uint64_t supply = p.base + dt * p.whole + (uint64_t)((u128)dt * p.fraction >> 64);
	uint64_t floor = supply - p.capacity;
	uint64_t from = (int64_t)(seen - floor) < 0 ? floor : seen;
	return (struct bucket_view){seen, from, supply, p.capacity, false};
}

static inline int64_t bucket_view_level(const struct bucket_view *v)
{
	return (int64_t)(v->supply - v->from);
}

/* Steady tokens suffice; a request larger than the capacity needs a full bucket. */
static inline bool bucket_view_grants(const struct bucket_view *v, uint64_t tokens)
{
	return bucket_view_level(v) >= (int64_t)min_u64(tokens, v->capacity);
}

/* bucket_try that tells how much of the one-time burst it took, so that it can be undone whole. */
bool bucket_try_part(struct bucket *b, uint64_t tokens, uint64_t now_ns, uint64_t *once_part);
void bucket_undo(struct bucket *b, uint64_t tokens, uint64_t once_part);

#endif
