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

#define LIKELY(x)     __builtin_expect(!!(x), 1)
#define UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The two functions that every request goes through: where they lie is worth a tenth of them. */
#define HOT __attribute__((hot, aligned(CACHE_LINE)))

/* What a bucket looks like at one moment.  level = supply − from ≤ capacity. */
struct bucket_view {
	uint64_t seen; /* `used` as read */
	uint64_t from; /* the same, after what has overflowed is lost */
	uint64_t supply;
	uint64_t capacity;
	bool odd; /* past the horizon: only for looking */
};

/* The view in every case. */
struct bucket_view bucket_view(const struct bucket *b, uint64_t now_ns);

/* The view in 64 bits; false: rate 0 or past the horizon, take the other one. */
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

/* Steady tokens suffice; a request larger than the capacity needs a full bucket. */
ALWAYS_INLINE bool bucket_view_grants(const struct bucket_view *v, uint64_t tokens)
{
	return bucket_view_level(v) >= (int64_t)min_u64(tokens, v->capacity);
}

/* Who loses a race for a bucket lets the others go on for about a microsecond: the cache lines then
 * stay where they are, instead of going to and fro with every request. */
void bucket_step_back(void);

/* Moves `used` if nobody has since the view. */
ALWAYS_INLINE bool bucket_swap(struct bucket *b, const struct bucket_view *v, uint64_t to)
{
	uint64_t seen = v->seen;
	if (LIKELY(atomic_compare_exchange_strong(&b->used, &seen, to)))
		return true;
	bucket_step_back();
	return false;
}

/* What a grant took, so that it can be undone whole. */
struct bucket_taken {
	uint64_t tokens, once_part;
};
bool bucket_try_taken(struct bucket *b, uint64_t tokens, uint64_t now_ns, struct bucket_taken *t);
void bucket_undo(struct bucket *b, const struct bucket_taken *t);

#endif
