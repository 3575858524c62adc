/* SPDX-License-Identifier: MIT */
/* The one-time burst is a second counter that only shrinks.  A grant that needs it takes from it
 * first and then moves `used`; when the second step fails the first is undone.  So a rival may see
 * the burst too small for a moment, never too large.
 *
 * Counters wrap: only differences have a meaning, and they must stay below 2^63.  A bucket that
 * nobody touches falls behind its supply without end, at 100 GB/s by 2^63 in three years.  So a
 * line has a horizon (2^62 tokens): past it the level is computed in 128 bits, and the first grant
 * begins a new line. */
#include "limit/bucket_view.h"

#define HORIZON_TOKENS (1ULL << 62)
#define HORIZON_NS_MAX (1ULL << 62)

static bool swap_used(struct bucket *b, const struct bucket_view *v, uint64_t to)
{
	uint64_t seen = v->seen;
	return atomic_compare_exchange_strong(&b->used, &seen, to);
}

/* --- the line --- */

/* The fraction is rounded up: the next token of a 1000/s bucket comes after 1 ms, not 1 ms + 1 ns.
 * A century of that is 0.17 of a token. */
static struct bucket_params params_for(const struct bucket_config *cfg)
{
	uint64_t rate = min_u64(cfg->rate_per_sec, BUCKET_RATE_MAX);
	u128 part = (u128)(rate % NSEC_PER_SEC) << 64;
	struct bucket_params p = {
		.whole = rate / NSEC_PER_SEC,
		.fraction = (uint64_t)((part + NSEC_PER_SEC - 1) / NSEC_PER_SEC),
		.capacity = min_u64(max_u64(cfg->capacity, 1), BUCKET_CAPACITY_MAX),
	};
	if (rate) {
		u128 ns = (u128)HORIZON_TOKENS * NSEC_PER_SEC / rate;
		p.horizon_ns = ns < HORIZON_NS_MAX ? (uint64_t)ns : HORIZON_NS_MAX;
	}
	return p;
}

static void write_line(struct bucket_line *l, const struct bucket_params *p, uint64_t rate_per_sec)
{
	atomic_store_explicit(&l->epoch_ns, p->epoch_ns, memory_order_release);
	atomic_store_explicit(&l->horizon_ns, p->horizon_ns, memory_order_release);
	atomic_store_explicit(&l->base, p->base, memory_order_release);
	atomic_store_explicit(&l->whole, p->whole, memory_order_release);
	atomic_store_explicit(&l->fraction, p->fraction, memory_order_release);
	atomic_store_explicit(&l->capacity, p->capacity, memory_order_release);
	atomic_store_explicit(&l->rate_per_sec, rate_per_sec, memory_order_release);
}

void bucket_init(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns)
{
	struct bucket_params p = params_for(cfg);
	p.epoch_ns = now_ns;
	p.base = p.capacity; /* used is 0: full */
	atomic_init(&b->used, 0);
	atomic_init(&b->once, min_u64(cfg->once, BUCKET_CAPACITY_MAX));
	atomic_init(&b->once_left, min_u64(cfg->once, BUCKET_CAPACITY_MAX));
	atomic_init(&b->gate, 0);
	atomic_init(&b->seq, 0);
	atomic_init(&b->writing, 0);
	write_line(&b->line[0], &p, cfg->rate_per_sec);
	write_line(&b->line[1], &p, cfg->rate_per_sec);
}

/* Time on the line; a late clock stands still. */
static uint64_t line_dt(const struct bucket_params *p, uint64_t now_ns)
{
	uint64_t dt = now_ns - p->epoch_ns;
	return (int64_t)dt < 0 ? 0 : dt;
}

static u128 line_supplied(const struct bucket_params *p, uint64_t dt)
{
	return (u128)dt * p->whole + ((u128)dt * p->fraction >> 64);
}

struct bucket_view bucket_view_odd(const struct bucket_params *p, uint64_t seen, uint64_t now_ns)
{
	u128 supplied = line_supplied(p, line_dt(p, now_ns));
	struct bucket_view v = {
		.seen = seen,
		.from = seen,
		.supply = p->base + (uint64_t)supplied,
		.capacity = p->capacity,
		.odd = true,
	};
	if ((i128)supplied - (int64_t)(seen - p->base) > (i128)p->capacity)
		v.from = v.supply - p->capacity;
	return v;
}

static uint32_t rate_slot(const struct bucket *b)
{
	return atomic_load_explicit(&b->seq, memory_order_acquire) & 1;
}

/* Ends the line at now_ns and begins another there; both agree on the supply at that moment.  What
 * has overflowed is lost under the old capacity: a larger one mints nothing.  Needs `writing`. */
static void begin_line(struct bucket *b, struct bucket_params *next, uint64_t rate_per_sec,
		       uint64_t now_ns)
{
	struct bucket_params old = bucket_params(b);
	uint64_t dt = line_dt(&old, now_ns), part = (uint64_t)((u128)dt * old.fraction);
	struct bucket_view v;
	do
		v = bucket_view_odd(&old, atomic_load(&b->used), now_ns);
	while (v.from != v.seen && !swap_used(b, &v, v.from));

	next->base = v.supply;
	next->epoch_ns = old.epoch_ns + dt;
	/* The part of a token that the old line had begun: dated back, or many changes in a row
	 * would starve a slow bucket. */
	if (!next->whole && next->fraction)
		next->epoch_ns -= part / next->fraction;
	uint32_t seq = atomic_load_explicit(&b->seq, memory_order_relaxed) + 1;
	write_line(&b->line[seq & 1], next, rate_per_sec);
	atomic_store_explicit(&b->seq, seq, memory_order_release);
}

static bool try_writing(struct bucket *b)
{
	return atomic_exchange_explicit(&b->writing, 1, memory_order_acquire) == 0;
}

static void end_writing(struct bucket *b)
{
	atomic_store_explicit(&b->writing, 0, memory_order_release);
}

void bucket_settle(struct bucket *b, uint64_t now_ns)
{
	if (!try_writing(b))
		return; /* being done */
	struct bucket_params p = bucket_params(b);
	if (p.horizon_ns && line_dt(&p, now_ns) > p.horizon_ns)
		begin_line(b, &p, bucket_rate(b), now_ns);
	end_writing(b);
}

static void change(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns)
{
	struct bucket_params next = params_for(cfg);
	while (!try_writing(b))
		; /* a settler, a handful of instructions */
	begin_line(b, &next, cfg->rate_per_sec, now_ns);
	end_writing(b);
}

static void set_once(struct bucket *b, uint64_t once)
{
	atomic_store(&b->once, once);
	atomic_store(&b->once_left, once);
}

void bucket_reconfigure(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns)
{
	uint64_t once = min_u64(cfg->once, BUCKET_CAPACITY_MAX);
	change(b, cfg, now_ns);
	if (once != atomic_load(&b->once))
		set_once(b, once);
}

void bucket_restart(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns)
{
	change(b, cfg, now_ns);
	bucket_replenish(b, UINT64_MAX, now_ns);
	set_once(b, min_u64(cfg->once, BUCKET_CAPACITY_MAX));
}

/* --- taking --- */

static void return_once(struct bucket *b, uint64_t part)
{
	uint64_t left = atomic_load(&b->once_left), to;
	do /* the bound matters when it was configured anew in between */
		to = min_u64(left + part, max_u64(left, atomic_load(&b->once)));
	while (!atomic_compare_exchange_weak(&b->once_left, &left, to));
}

enum once_mode { ONCE_TRY, ONCE_TAKE };

/* Grants out of steady tokens first, then one-time burst, then (ONCE_TAKE) debt. */
static bool take_with_once(struct bucket *b, uint64_t tokens, uint64_t now_ns, enum once_mode mode,
			   uint64_t *once_part)
{
	for (;;) {
		struct bucket_view v = bucket_view(b, now_ns);
		uint64_t left = atomic_load(&b->once_left);
		int64_t level = bucket_view_level(&v);
		int64_t need = (int64_t)min_u64(tokens, v.capacity + left);
		if (mode == ONCE_TRY && level + (int64_t)left < need)
			return false;
		int64_t missing = (int64_t)tokens - level;
		uint64_t part = missing > 0 ? min_u64((uint64_t)missing, left) : 0;
		if (part && !atomic_compare_exchange_strong(&b->once_left, &left, left - part))
			continue;
		if (swap_used(b, &v, v.from + tokens - part)) {
			if (v.odd)
				bucket_settle(b, now_ns);
			*once_part = part;
			return true;
		}
		if (part)
			return_once(b, part);
	}
}

bool bucket_try_part(struct bucket *b, uint64_t tokens, uint64_t now_ns, uint64_t *once_part)
{
	*once_part = 0;
	for (;;) {
		struct bucket_view v = bucket_view(b, now_ns);
		if (UNLIKELY(tokens > v.capacity || !bucket_view_grants(&v, tokens))) {
			if (atomic_load(&b->once_left))
				return take_with_once(b, tokens, now_ns, ONCE_TRY, once_part);
			if (!bucket_view_grants(&v, tokens))
				return false;
		}
		if (LIKELY(swap_used(b, &v, v.from + tokens))) {
			if (v.odd)
				bucket_settle(b, now_ns);
			return true;
		}
	}
}

void bucket_undo(struct bucket *b, uint64_t tokens, uint64_t once_part)
{
	atomic_fetch_sub(&b->used, tokens - once_part);
	if (once_part)
		return_once(b, once_part);
}

bool bucket_try(struct bucket *b, uint64_t tokens, uint64_t now_ns)
{
	uint64_t once_part;
	return bucket_try_part(b, tokens, now_ns, &once_part);
}

void bucket_take(struct bucket *b, uint64_t tokens, uint64_t now_ns)
{
	uint64_t once_part;
	take_with_once(b, tokens, now_ns, ONCE_TAKE, &once_part);
}

void bucket_refund(struct bucket *b, uint64_t tokens)
{
	atomic_fetch_sub(&b->used, tokens);
}

void bucket_replenish(struct bucket *b, uint64_t tokens, uint64_t now_ns)
{
	struct bucket_view v;
	uint64_t room;
	do {
		v = bucket_view(b, now_ns);
		room = v.from - (v.supply - v.capacity);
	} while (!swap_used(b, &v, v.from - min_u64(tokens, room)));
	if (v.odd)
		bucket_settle(b, now_ns);
}

/* --- looking --- */

/* The smallest d with supply(now + d) − supply(now) ≥ tokens. */
static uint64_t supply_time_ns(const struct bucket_params *p, uint64_t now_ns, uint64_t tokens)
{
	if (tokens == 0)
		return 0;
	if (!p->horizon_ns)
		return NEVER;
	uint64_t dt = line_dt(p, now_ns), begun = (uint64_t)((u128)dt * p->fraction);
	uint64_t behind = (int64_t)(now_ns - p->epoch_ns) < 0 ? p->epoch_ns - now_ns : 0;
	u128 rate = (u128)p->whole << 64 | p->fraction;
	u128 due = (((u128)tokens << 64) - begun + rate - 1) / rate;
	return due >= NEVER ? NEVER : add_sat_u64((uint64_t)due, behind);
}

uint64_t bucket_wait_ns(const struct bucket *b, uint64_t tokens, uint64_t now_ns)
{
	struct bucket_params p = bucket_params(b);
	struct bucket_view v = bucket_view_odd(&p, atomic_load(&b->used), now_ns);
	uint64_t left = atomic_load(&b->once_left);
	int64_t need = (int64_t)min_u64(tokens, v.capacity + left);
	int64_t missing = need - bucket_view_level(&v) - (int64_t)left;
	return missing > 0 ? supply_time_ns(&p, now_ns, (uint64_t)missing) : 0;
}

uint64_t bucket_refill_ns(const struct bucket *b, uint64_t now_ns)
{
	struct bucket_params p = bucket_params(b);
	struct bucket_view v = bucket_view_odd(&p, atomic_load(&b->used), now_ns);
	return supply_time_ns(&p, now_ns, (uint64_t)((int64_t)v.capacity - bucket_view_level(&v)));
}

int64_t bucket_level(const struct bucket *b, uint64_t now_ns)
{
	struct bucket_view v = bucket_view(b, now_ns);
	return bucket_view_level(&v) + (int64_t)atomic_load(&b->once_left);
}

uint64_t bucket_capacity(const struct bucket *b)
{
	return bucket_params(b).capacity;
}

uint64_t bucket_rate(const struct bucket *b)
{
	return atomic_load_explicit(&b->line[rate_slot(b)].rate_per_sec, memory_order_acquire);
}

uint64_t bucket_once_left(const struct bucket *b)
{
	return atomic_load(&b->once_left);
}
