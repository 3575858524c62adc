/* SPDX-License-Identifier: MIT */
/* The one-time burst is a second counter that only shrinks.  A grant that needs it takes from it first and
 * then moves `used`; if the second step fails, the first is undone.  So other threads may see too little
 * of the burst for a moment, but never too much.
 *
 * Counters wrap, so only differences have a meaning, and these must stay below 2^63.  The supply of a bucket
 * that is not used runs away from `used`: at 100 GB/s by 2^63 in three years.  So each line has a horizon
 * (2^62 tokens).  Past it, the level is computed in 128 bits, and before tokens are taken the bucket is
 * settled: it gets a new line that starts close to `used`.  (Moving `used` instead would need two words to
 * change together.) */
#include "limit/bucket_view.h"

#define HORIZON_TOKENS	 (1ULL << 62)
#define STEP_BACK_PAUSES 64

/* --- the line --- */

struct params {
	u128 base, rate; /* 64.64 */
	uint64_t capacity, rate_per_sec, epoch_ns, horizon_ns;
};

static struct params read_line(const struct bucket *b)
{
	struct params p;
	uint32_t seq;
	do {
		seq = atomic_load_explicit(&b->seq, memory_order_acquire);
		const struct bucket_line *l = &b->line[seq & 1];
		p.base = (u128)atomic_load_explicit(&l->base, memory_order_acquire) << 64;
		p.base |= atomic_load_explicit(&l->base_part, memory_order_acquire);
		p.rate = (u128)atomic_load_explicit(&l->rate, memory_order_acquire) << 64;
		p.rate |= atomic_load_explicit(&l->rate_part, memory_order_acquire);
		p.capacity = atomic_load_explicit(&l->capacity, memory_order_acquire);
		p.rate_per_sec = atomic_load_explicit(&l->rate_per_sec, memory_order_acquire);
		p.epoch_ns = atomic_load_explicit(&l->epoch_ns, memory_order_acquire);
		p.horizon_ns = atomic_load_explicit(&l->horizon_ns, memory_order_acquire);
	} while (atomic_load_explicit(&b->seq, memory_order_relaxed) != seq);
	return p;
}

static void write_line(struct bucket_line *l, const struct params *p)
{
	atomic_store_explicit(&l->base, (uint64_t)(p->base >> 64), memory_order_release);
	atomic_store_explicit(&l->base_part, (uint64_t)p->base, memory_order_release);
	atomic_store_explicit(&l->rate, (uint64_t)(p->rate >> 64), memory_order_release);
	atomic_store_explicit(&l->rate_part, (uint64_t)p->rate, memory_order_release);
	atomic_store_explicit(&l->capacity, p->capacity, memory_order_release);
	atomic_store_explicit(&l->rate_per_sec, p->rate_per_sec, memory_order_release);
	atomic_store_explicit(&l->epoch_ns, p->epoch_ns, memory_order_release);
	atomic_store_explicit(&l->horizon_ns, p->horizon_ns, memory_order_release);
}

/* When the supply ends: at the end of a lease; NEVER for a line without one. */
static uint64_t end_ns(const struct params *p)
{
	return p->epoch_ns == BUCKET_LEASED ? p->horizon_ns : NEVER;
}

static u128 supply_at(const struct params *p, uint64_t now_ns)
{
	return p->base + min_u64(now_ns, end_ns(p)) * p->rate;
}

/* A line through `supply` at now_ns.  The rate is rounded up, so that the next token of a 1000/s bucket
 * comes after 1 ms and not after 1 ms + 1 ns.  In a century this adds up to 0.17 tokens. */
static struct params line_through(u128 supply, uint64_t now_ns, const struct bucket_config *cfg)
{
	uint64_t per_sec = min_u64(cfg->rate_per_sec, BUCKET_RATE_MAX);
	struct params p = {
		.rate = (((u128)per_sec << 64) + NSEC_PER_SEC - 1) / NSEC_PER_SEC,
		.capacity = min_u64(max_u64(cfg->capacity, 1), BUCKET_CAPACITY_MAX),
		.rate_per_sec = per_sec,
		.epoch_ns = now_ns,
	};
	p.base = supply - now_ns * p.rate;
	if (per_sec) {
		u128 ns = (u128)HORIZON_TOKENS * NSEC_PER_SEC / per_sec + now_ns;
		p.horizon_ns = ns < UINT64_MAX ? (uint64_t)ns : UINT64_MAX;
	}
	return p;
}

/* The same for a lease.  A lease that ends does so long before the horizon of its line, so
 * horizon_ns holds the end of the lease instead. */
static struct params leased_line_through(u128 supply, uint64_t now_ns, const struct bucket_lease *l)
{
	uint64_t milli = min_u64(l->milli_per_sec, BUCKET_RATE_MAX);
	struct bucket_config nominal = {max_u64(milli / 1000, 1), l->capacity, 0};
	struct params p = line_through(supply, now_ns, &nominal);
	p.rate = (((u128)milli << 64) + 1000 * NSEC_PER_SEC - 1) / (1000 * NSEC_PER_SEC);
	p.base = supply - now_ns * p.rate;
	if (!p.rate || l->until_ns != NEVER) {
		p.epoch_ns = BUCKET_LEASED;
		p.horizon_ns = p.rate ? max_u64(l->until_ns, now_ns) : 0;
	}
	return p;
}

void bucket_init(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns)
{
	struct params p = line_through(0, now_ns, cfg);
	atomic_init(&b->used, -p.capacity); /* full */
	atomic_init(&b->once, min_u64(cfg->once, BUCKET_CAPACITY_MAX));
	atomic_init(&b->once_left, min_u64(cfg->once, BUCKET_CAPACITY_MAX));
	atomic_init(&b->waiters, 0);
	atomic_init(&b->seq, 0);
	atomic_init(&b->writing, 0);
	write_line(&b->line[0], &p);
	write_line(&b->line[1], &p);
}

/* Exact however long the bucket was idle: past the horizon the level is computed in 128 bits. */
static struct bucket_view view_of(const struct params *p, uint64_t seen, uint64_t now_ns)
{
	struct bucket_view v = {
		.seen = seen,
		.from = seen,
		.supply = (uint64_t)(supply_at(p, now_ns) >> 64),
		.capacity = p->capacity,
		.past_horizon = p->rate && now_ns >= p->horizon_ns && p->epoch_ns != BUCKET_LEASED,
	};
	i128 level = (int64_t)(v.supply - seen);
	if (v.past_horizon) { /* supplied since the line began, minus used since then */
		u128 start = supply_at(p, p->epoch_ns);
		uint64_t dt = now_ns - p->epoch_ns;
		u128 part = (u128)dt * (uint64_t)p->rate + (uint64_t)start;
		level = (i128)((u128)dt * (uint64_t)(p->rate >> 64) + (part >> 64)) -
			(int64_t)(seen - (uint64_t)(start >> 64));
	}
	if (level > (i128)p->capacity)
		v.from = v.supply - p->capacity;
	return v;
}

struct bucket_view bucket_view(const struct bucket *b, uint64_t now_ns)
{
	struct params p = read_line(b);
	return view_of(&p, atomic_load(&b->used), now_ns);
}

static bool try_writing(struct bucket *b)
{
	return atomic_exchange_explicit(&b->writing, 1, memory_order_acquire) == 0;
}

/* A spin lock: held for a few instructions only, by a thread that changes or settles the bucket. */
static void begin_writing(struct bucket *b)
{
	while (!try_writing(b))
		;
}

static void end_writing(struct bucket *b)
{
	atomic_store_explicit(&b->writing, 0, memory_order_release);
}

static void publish_line(struct bucket *b, const struct params *p)
{
	uint32_t seq = atomic_load_explicit(&b->seq, memory_order_relaxed) + 1;
	write_line(&b->line[seq & 1], p);
	atomic_store_explicit(&b->seq, seq, memory_order_release);
}

/* Past the horizon only refunds change `used`, and they are relative, so it is safe to replace the line. */
static void settle_locked(struct bucket *b, uint64_t now_ns)
{
	struct params old = read_line(b);
	struct bucket_view v = view_of(&old, atomic_load(&b->used), now_ns);
	if (!v.past_horizon)
		return;
	struct bucket_config same = {old.rate_per_sec, old.capacity, 0};
	u128 supply = (u128)(v.seen + (uint64_t)bucket_view_level(&v)) << 64;
	supply |= (uint64_t)supply_at(&old, now_ns);
	struct params next = line_through(supply, now_ns, &same);
	publish_line(b, &next);
}

static struct bucket_view settle_and_view(struct bucket *b, uint64_t now_ns)
{
	struct bucket_view v;
	for (v = bucket_view(b, now_ns); v.past_horizon; v = bucket_view(b, now_ns)) {
		begin_writing(b);
		settle_locked(b, now_ns);
		end_writing(b);
	}
	return v;
}

/* The view from which tokens may be taken: never past the horizon. */
ALWAYS_INLINE struct bucket_view settled_view(struct bucket *b, uint64_t now_ns)
{
	struct bucket_view v;
	return LIKELY(bucket_view_plain(b, now_ns, &v)) ? v : settle_and_view(b, now_ns);
}

/* Discards the tokens that have overflowed by now_ns. */
static void spill(struct bucket *b, uint64_t now_ns)
{
	struct bucket_view v;
	do
		v = bucket_view(b, now_ns);
	while (v.from != v.seen && !bucket_swap(b, &v, v.from));
}

/* A change of the line is begin_change, which returns the supply at now_ns, then end_change with a
 * new line through that supply, so that both lines agree at now_ns to the last fraction of a token.
 * Overflow is discarded first by the old capacity, so that a larger one creates no tokens, and then
 * by the new one. */
static u128 begin_change(struct bucket *b, uint64_t now_ns)
{
	begin_writing(b);
	settle_locked(b, now_ns);
	struct params old = read_line(b);
	spill(b, now_ns);
	return supply_at(&old, now_ns);
}

static void end_change(struct bucket *b, const struct params *next, uint64_t now_ns)
{
	publish_line(b, next);
	spill(b, now_ns);
	end_writing(b);
}

static void change(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns)
{
	struct params next = line_through(begin_change(b, now_ns), now_ns, cfg);
	end_change(b, &next, now_ns);
}

void bucket_lease(struct bucket *b, const struct bucket_lease *lease, uint64_t now_ns)
{
	struct params next = leased_line_through(begin_change(b, now_ns), now_ns, lease);
	end_change(b, &next, now_ns);
}

void bucket_init_leased(struct bucket *b, uint64_t now_ns)
{
	const struct bucket_lease none = {.capacity = 1, .until_ns = NEVER};
	bucket_init(b, &(struct bucket_config){.capacity = 1}, now_ns);
	bucket_take(b, 1, now_ns);
	bucket_lease(b, &none, now_ns);
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

void bucket_step_back(void)
{
	for (unsigned i = 0; i < STEP_BACK_PAUSES; i++)
		cpu_pause();
}

static void return_once(struct bucket *b, uint64_t part)
{
	uint64_t left = atomic_load(&b->once_left), to;
	do /* bounded, because the burst may have been reconfigured meanwhile */
		to = min_u64(left + part, max_u64(left, atomic_load(&b->once)));
	while (!atomic_compare_exchange_weak(&b->once_left, &left, to));
}

/* Takes steady tokens first, then one-time burst, then (if forced) goes into debt. */
static bool take_with_once(struct bucket *b, uint64_t tokens, uint64_t now_ns, bool forced,
			   uint64_t *once_part)
{
	for (;;) {
		struct bucket_view v = settled_view(b, now_ns);
		uint64_t left = atomic_load(&b->once_left);
		int64_t level = bucket_view_level(&v);
		int64_t need = (int64_t)min_u64(tokens, v.capacity + left);
		if (!forced && level + (int64_t)left < need)
			return false;
		int64_t missing = (int64_t)tokens - level;
		uint64_t part = missing > 0 ? min_u64((uint64_t)missing, left) : 0;
		if (part && !atomic_compare_exchange_strong(&b->once_left, &left, left - part))
			continue;
		if (bucket_swap(b, &v, v.from + tokens - part)) {
			*once_part = part;
			return true;
		}
		if (part)
			return_once(b, part);
	}
}

bool bucket_try_taken(struct bucket *b, uint64_t tokens, uint64_t now_ns, struct bucket_taken *t)
{
	*t = (struct bucket_taken){.tokens = tokens};
	for (;;) {
		struct bucket_view v = settled_view(b, now_ns);
		if (bucket_view_level(&v) < (int64_t)tokens) {
			if (atomic_load(&b->once_left))
				return take_with_once(b, tokens, now_ns, false, &t->once_part);
			if (!bucket_view_grants(&v, tokens))
				return false;
		}
		if (bucket_swap(b, &v, v.from + tokens))
			return true;
	}
}

bool bucket_try(struct bucket *b, uint64_t tokens, uint64_t now_ns)
{
	struct bucket_taken t;
	return bucket_try_taken(b, tokens, now_ns, &t);
}

void bucket_undo(struct bucket *b, const struct bucket_taken *t)
{
	atomic_fetch_sub(&b->used, t->tokens - t->once_part);
	if (t->once_part)
		return_once(b, t->once_part);
}

void bucket_take(struct bucket *b, uint64_t tokens, uint64_t now_ns)
{
	uint64_t once_part;
	take_with_once(b, tokens, now_ns, true, &once_part);
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
		v = settled_view(b, now_ns);
		room = v.from - (v.supply - v.capacity);
	} while (!bucket_swap(b, &v, v.from - min_u64(tokens, room)));
}

/* --- looking --- */

/* The smallest d with supply(now + d) − supply(now) ≥ tokens, in whole tokens. */
static uint64_t supply_time_ns(const struct params *p, uint64_t now_ns, uint64_t tokens)
{
	if (tokens == 0)
		return 0;
	if (!p->rate)
		return NEVER;
	uint64_t begun = (uint64_t)supply_at(p, now_ns);
	u128 due = (((u128)tokens << 64) - begun + p->rate - 1) / p->rate;
	if (end_ns(p) != NEVER && now_ns + due > end_ns(p))
		return NEVER;
	return due < NEVER ? (uint64_t)due : NEVER;
}

uint64_t bucket_wait_ns(const struct bucket *b, uint64_t tokens, uint64_t now_ns)
{
	struct params p = read_line(b);
	struct bucket_view v = view_of(&p, atomic_load(&b->used), now_ns);
	uint64_t left = atomic_load(&b->once_left);
	int64_t need = (int64_t)min_u64(tokens, v.capacity + left);
	int64_t missing = need - bucket_view_level(&v) - (int64_t)left;
	return missing > 0 ? supply_time_ns(&p, now_ns, (uint64_t)missing) : 0;
}

uint64_t bucket_refill_ns(const struct bucket *b, uint64_t now_ns)
{
	struct params p = read_line(b);
	struct bucket_view v = view_of(&p, atomic_load(&b->used), now_ns);
	return supply_time_ns(&p, now_ns, (uint64_t)((int64_t)v.capacity - bucket_view_level(&v)));
}

int64_t bucket_level(const struct bucket *b, uint64_t now_ns)
{
	struct bucket_view v = bucket_view(b, now_ns);
	return bucket_view_level(&v) + (int64_t)atomic_load(&b->once_left);
}

uint64_t bucket_capacity(const struct bucket *b)
{
	return read_line(b).capacity;
}

uint64_t bucket_rate(const struct bucket *b)
{
	return read_line(b).rate_per_sec;
}

uint64_t bucket_once_left(const struct bucket *b)
{
	return atomic_load(&b->once_left);
}
