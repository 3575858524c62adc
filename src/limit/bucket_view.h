/* SPDX-License-Identifier: MIT */
/* Private to src/limit: reading a bucket and taking from it.  Inline, because every request does it once per
 * limit.
 *
 *	view, decide, one compare-and-swap of `used` from v.seen to v.from + tokens
 *
 * Order    All access to `used` is sequentially consistent.  A request that parks increments `waiters` and
 *          then looks at the bucket again; a refund returns tokens and then looks at `waiters`.  With any weaker
 *          order both could miss each other.  The line needs acquire and release only: a reader that sees a
 *          value of a newer line also sees the newer seq, and reads again. */
#ifndef LIMIT_BUCKET_VIEW_H
#define LIMIT_BUCKET_VIEW_H

#include "limit/bucket.h"

#define LIKELY(x)     __builtin_expect(!!(x), 1)
#define UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* What a bucket looks like at one moment.  level = supply − from ≤ capacity. */
struct bucket_view {
	uint64_t seen; /* `used` as read */
	uint64_t from; /* `used` once overflow has been discarded */
	uint64_t supply;
	uint64_t capacity;
	bool past_horizon; /* this view may only be read: settle the bucket before taking from it */
};

/* Handles every case, with 128-bit arithmetic. */
struct bucket_view bucket_view(const struct bucket *b, uint64_t now_ns);

/* The same in 64 bits.  False: the rate is 0, or the horizon or the end of a lease is past; use
 * bucket_view. */
ALWAYS_INLINE bool bucket_view_plain(const struct bucket *b, uint64_t now_ns, struct bucket_view *v)
{
	uint64_t horizon_ns, base, base_part, rate, rate_part, capacity;
	uint32_t seq;
	do {
		seq = atomic_load_explicit(&b->seq, memory_order_acquire);
		const struct bucket_line *l = &b->line[seq & 1];
		horizon_ns = atomic_load_explicit(&l->horizon_ns, memory_order_acquire);
		base = atomic_load_explicit(&l->base, memory_order_acquire);
		base_part = atomic_load_explicit(&l->base_part, memory_order_acquire);
		rate = atomic_load_explicit(&l->rate, memory_order_acquire);
		rate_part = atomic_load_explicit(&l->rate_part, memory_order_acquire);
		capacity = atomic_load_explicit(&l->capacity, memory_order_acquire);
	} while (UNLIKELY(atomic_load_explicit(&b->seq, memory_order_relaxed) != seq));
	uint64_t seen = atomic_load(&b->used);
	u128 part = (u128)now_ns * rate_part;
	bool carry = (uint64_t)part + base_part < base_part;
	uint64_t supply = base + now_ns * rate + (uint64_t)(part >> 64) + carry;
	uint64_t floor = supply - capacity;
	uint64_t from = (int64_t)(seen - floor) < 0 ? floor : seen;
	*v = (struct bucket_view){seen, from, supply, capacity, false};
	return LIKELY(now_ns < horizon_ns);
}

ALWAYS_INLINE int64_t bucket_view_level(const struct bucket_view *v)
{
	return (int64_t)(v->supply - v->from);
}

/* True if steady tokens suffice.  A request larger than the capacity needs a full bucket. */
ALWAYS_INLINE bool bucket_view_grants(const struct bucket_view *v, uint64_t tokens)
{
	return bucket_view_level(v) >= (int64_t)min_u64(tokens, v->capacity);
}

/* Waits about a microsecond after losing a race for a bucket, so that its cache line stays with the winner
 * for several requests instead of moving between CPUs for each. */
void bucket_step_back(void);

/* Moves `used` unless another thread has moved it since the view was taken. */
ALWAYS_INLINE bool bucket_swap(struct bucket *b, const struct bucket_view *v, uint64_t to)
{
	uint64_t seen = v->seen;
	if (LIKELY(atomic_compare_exchange_strong(&b->used, &seen, to)))
		return true;
	bucket_step_back();
	return false;
}

/* What a grant took, so that all of it can be returned. */
struct bucket_taken {
	uint64_t tokens, once_part;
};
bool bucket_try_taken(struct bucket *b, uint64_t tokens, uint64_t now_ns, struct bucket_taken *t);
void bucket_undo(struct bucket *b, const struct bucket_taken *t);

#endif
