/* SPDX-License-Identifier: MIT */
/* Properties under random schedules, with a fake clock.
 *
 * Each bucket has a shadow, an independent model of the window invariant: the largest value, over all intervals
 * that end now, of the net amount granted minus rate × length.  It falls at the rate, a grant raises it, a
 * refund lowers it, and it is never below 0 (the empty interval).  It must never exceed its bound. */
#include "limit/chain.h"

#include <string.h>

#include "unit/unit.h"

#define SEC  NSEC_PER_SEC
#define YEAR (31557600ULL * SEC)

static uint64_t seed;

static uint64_t below(uint64_t n)
{
	return unit_random(&seed) % n;
}

/* A random number below 2^bits; all orders of magnitude are equally likely. */
static uint64_t magnitude(unsigned bits)
{
	return (unit_random(&seed) >> 1) >> (63 - below(bits + 1));
}

struct shadow {
	i128 x;	    /* in tokens / 10^9 */
	i128 bound; /* the capacity, or an earlier, larger one whose tokens may still be there */
	uint64_t rate, capacity, at_ns;
};

static void shadow_leak(struct shadow *s, uint64_t now_ns)
{
	s->x -= (i128)s->rate * (now_ns - s->at_ns);
	s->at_ns = now_ns;
	if (s->x <= 0) {
		s->x = 0;
		s->bound = (i128)s->capacity * (int64_t)SEC;
	}
}

static void shadow_grant(struct shadow *s, uint64_t tokens, uint64_t now_ns)
{
	shadow_leak(s, now_ns);
	/* one token for rounding, and what the rounded-up rate gains in decades */
	i128 room = s->bound + (int64_t)(SEC + SEC / 8);
	UNIT_REQUIRE(s->x + (i128)min_u64(tokens, s->capacity) * (int64_t)SEC <= room);
	s->x += (i128)tokens * (int64_t)SEC;
}

static void shadow_refund(struct shadow *s, uint64_t tokens, uint64_t now_ns)
{
	shadow_leak(s, now_ns);
	s->x -= (i128)tokens * (int64_t)SEC;
	if (s->x < 0)
		s->x = 0;
}

static void shadow_change(struct shadow *s, const struct bucket *b, uint64_t now_ns)
{
	shadow_leak(s, now_ns);
	s->rate = bucket_rate(b);
	s->capacity = bucket_capacity(b);
	i128 level = bucket_level(b, now_ns) > 0 ? bucket_level(b, now_ns) : 0;
	i128 now = s->x + level * (int64_t)SEC, cap = (i128)s->capacity * (int64_t)SEC;
	s->bound = now > cap ? now : cap;
}

START_TEST(a_wait_is_exact_to_the_nanosecond_at_any_rate_and_age)
{
	seed = unit_seed();
	for (unsigned i = 0; i < 200000; i++) {
		struct bucket b;
		struct bucket_config cfg = {1 + magnitude(52), 1 + magnitude(50), 0};
		uint64_t now_ns = magnitude(61);
		bucket_init(&b, &cfg, now_ns);
		now_ns += magnitude(50);
		bucket_take(&b, cfg.capacity + magnitude(40), now_ns);
		now_ns += magnitude(34);
		uint64_t tokens = 1 + magnitude(40);
		uint64_t wait_ns = bucket_wait_ns(&b, tokens, now_ns);
		if (wait_ns > 200 * YEAR) /* beyond the range of the clock */
			continue;
		UNIT_REQUIRE(wait_ns == 0 || !bucket_try(&b, tokens, now_ns + wait_ns - 1));
		UNIT_REQUIRE(bucket_try(&b, tokens, now_ns + wait_ns));
	}
}
END_TEST

START_TEST(no_interval_grants_more_than_rate_and_capacity_allow)
{
	seed = unit_seed();
	for (unsigned run = 0; run < 300; run++) {
		struct bucket b;
		struct bucket_config cfg = {1 + magnitude(40), 1 + magnitude(36), 0};
		uint64_t now_ns = magnitude(58);
		bucket_init(&b, &cfg, now_ns);
		struct shadow s = {
			.rate = cfg.rate_per_sec, .capacity = cfg.capacity, .at_ns = now_ns};
		uint64_t full_ns = cfg.capacity * SEC / cfg.rate_per_sec + 1;
		for (unsigned i = 0; i < 1000; i++) {
			now_ns += magnitude(63) % (full_ns < SEC << 20 ? full_ns : SEC);
			uint64_t tokens = 1 + magnitude(38) % (2 * cfg.capacity);
			if (below(8) == 0)
				now_ns += min_u64(bucket_wait_ns(&b, tokens, now_ns), YEAR);
			if (below(50) == 0) {
				cfg.rate_per_sec = 1 + magnitude(40);
				cfg.capacity = 1 + magnitude(36);
				full_ns = cfg.capacity * SEC / cfg.rate_per_sec + 1;
				bucket_reconfigure(&b, &cfg, now_ns);
				shadow_change(&s, &b, now_ns);
			}
			if (!bucket_try(&b, tokens, now_ns))
				continue;
			shadow_grant(&s, tokens, now_ns);
			uint64_t unused = below(4) ? 0 : below(tokens + 1);
			bucket_refund(&b, unused);
			shadow_refund(&s, unused, now_ns);
		}
	}
}
END_TEST

START_TEST(one_time_burst_adds_once_to_what_the_rate_allows)
{
	seed = unit_seed();
	for (unsigned run = 0; run < 300; run++) {
		struct bucket b;
		struct bucket_config cfg = {1 + magnitude(30), 1 + magnitude(24), magnitude(26)};
		uint64_t now_ns = magnitude(58), begin_ns = now_ns, left = cfg.once;
		bucket_init(&b, &cfg, now_ns);
		i128 granted = 0;
		for (unsigned i = 0; i < 1000; i++) {
			now_ns += magnitude(63) % (cfg.capacity * SEC / cfg.rate_per_sec + 1);
			uint64_t tokens = 1 + magnitude(26) % cfg.capacity;
			int64_t before = bucket_level(&b, now_ns);
			if (!bucket_try(&b, tokens, now_ns))
				continue;
			granted += tokens;
			UNIT_REQUIRE(bucket_level(&b, now_ns) == before - (int64_t)tokens);
			uint64_t steady = (uint64_t)before - left;
			uint64_t expect = tokens > steady ? left - (tokens - steady) : left;
			UNIT_REQUIRE(
				bucket_once_left(&b) ==
				expect); /* the one-time burst is spent last, and never grows */
			left = expect;
			UNIT_REQUIRE(granted <=
				     (i128)cfg.rate_per_sec * (now_ns - begin_ns) / (i128)SEC +
					     cfg.capacity + cfg.once + 1);
		}
	}
}
END_TEST

START_TEST(the_rate_is_exact_after_years_for_every_rate)
{
	static const uint64_t rates[] = {1,	  3,	    7,		1000,	     300000,
					 7000000, 10000000, 3000000000, 100000000000};
	for (unsigned i = 0; i < ARRAY_SIZE(rates); i++) {
		for (uint64_t age = 1; age <= 100; age *= 10) {
			struct bucket b;
			struct bucket_config cfg = {rates[i], max_u64(rates[i] / 10, 1), 0};
			bucket_init(&b, &cfg, 0);
			uint64_t begin_ns = age * YEAR, now_ns = begin_ns;
			bucket_take(&b, cfg.capacity, now_ns);
			uint64_t tokens = max_u64(rates[i] / 1000, 1);
			for (unsigned n = 0; n < 2000; n++) {
				now_ns += bucket_wait_ns(&b, tokens, now_ns);
				UNIT_REQUIRE(bucket_try(&b, tokens, now_ns));
			}
			i128 due_ns = ((i128)2000 * tokens * SEC) / rates[i];
			i128 off = (i128)(now_ns - begin_ns) - due_ns;
			/* early by one token at most, because part of it was there already; late by less than a millionth */
			UNIT_REQUIRE(off >= -(i128)(SEC / rates[i]) - 1 &&
				     off <= 1 + due_ns / 1000000);
		}
	}
}
END_TEST

START_TEST(a_bucket_idle_for_a_century_is_full_and_no_more)
{
	static const uint64_t rates[] = {1, 1000, 100000000000, BUCKET_RATE_MAX};
	for (unsigned i = 0; i < ARRAY_SIZE(rates); i++) {
		struct bucket b;
		struct bucket_config cfg = {rates[i], 1000, 0};
		bucket_init(&b, &cfg, 5 * SEC);
		UNIT_REQUIRE(bucket_try(&b, 700, 5 * SEC));
		uint64_t now_ns = 5 * SEC;
		for (uint64_t years = 1; years <= 100; years *= 3) {
			now_ns += years * YEAR;
			ck_assert_int_eq(bucket_level(&b, now_ns), 1000);
			ck_assert_uint_eq(bucket_wait_ns(&b, 1000, now_ns), 0);
			UNIT_REQUIRE(bucket_try(&b, 1000, now_ns));
			ck_assert_int_eq(bucket_level(&b, now_ns), 0);
			UNIT_REQUIRE(!bucket_try(&b, 1, now_ns));
		}
	}
}
END_TEST

/* --- chains --- */

#define NODES 12
#define DEPTH 6

/* A random tree of scopes; requests enter at any node and meet all limits up to the root. */
struct tree {
	struct limiter node[NODES];
	unsigned parent[NODES], depth[NODES];
	struct limiter_config config[NODES];
	struct shadow shadow[NODES][LIMIT_KINDS][BUCKET_ROLES];
	struct chain *chain[NODES][COST_CLASSES];
};

static void random_config(struct limiter_config *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	cfg->window_ns = 1 + magnitude(30);
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		bool bytes = limit_kind_is_bytes((enum limit_kind)k);
		cfg->limit[k] = (struct limit_config){
			.enabled = below(3) == 0,
			.rate_per_sec = 1 + magnitude(bytes ? 34 : 22),
			.burst = below(2) ? magnitude(bytes ? 24 : 8) : 0,
		};
		if (below(3) == 0)
			cfg->limit[k].peak_per_sec = cfg->limit[k].rate_per_sec + magnitude(30);
	}
}

static unsigned tree_way(struct tree *t, unsigned i, struct limiter *way[DEPTH])
{
	unsigned n = 0;
	for (; i; i = t->parent[i])
		way[n++] = &t->node[i];
	way[n++] = &t->node[0];
	return n;
}

static void tree_compile(struct tree *t)
{
	struct limiter *way[DEPTH];
	for (unsigned i = 0; i < NODES; i++)
		for (unsigned c = 0; c < COST_CLASSES; c++) {
			free(t->chain[i][c]);
			t->chain[i][c] =
				chain_compile((enum cost_class)c, way, tree_way(t, i, way), NULL);
		}
}

static void tree_place(struct tree *t, unsigned i)
{
	do
		t->parent[i] = i ? (unsigned)below(i) : 0;
	while (i && t->depth[t->parent[i]] == DEPTH - 1);
	t->depth[i] = i ? t->depth[t->parent[i]] + 1 : 0;
}

static void tree_init(struct tree *t, uint64_t now_ns)
{
	for (unsigned i = 0; i < NODES; i++) {
		struct limiter *l = &t->node[i];
		tree_place(t, i);
		random_config(&t->config[i]);
		limiter_fini(l);
		UNIT_REQUIRE(
			limiter_init(l, i ? SCOPE_CLASS : SCOPE_GLOBAL, &t->config[i], now_ns));
		for (unsigned k = 0; k < LIMIT_KINDS; k++)
			for (unsigned r = 0; r < BUCKET_ROLES; r++)
				if (l->bucket[k][r])
					t->shadow[i][k][r] = (struct shadow){
						.rate = bucket_rate(l->bucket[k][r]),
						.capacity = bucket_capacity(l->bucket[k][r]),
						.at_ns = now_ns};
	}
	tree_compile(t);
}

static struct shadow *tree_shadow(struct tree *t, const struct chain_link *l)
{
	return &t->shadow[l->limiter - t->node][l->kind][l->role];
}

/* Changes the numbers of limits; which of them are enabled and have a peak stays. */
static void tree_change(struct tree *t, uint64_t now_ns)
{
	unsigned i = (unsigned)below(NODES);
	struct limiter_config next;
	struct limiter *l = &t->node[i];
	random_config(&next);
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		next.limit[k].enabled = t->config[i].limit[k].enabled;
		next.limit[k].peak_per_sec = t->config[i].limit[k].peak_per_sec
						     ? next.limit[k].rate_per_sec + magnitude(30)
						     : 0;
	}
	limiter_configure(l, &next, now_ns);
	t->config[i] = next;
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		for (unsigned r = 0; r < BUCKET_ROLES; r++)
			if (l->bucket[k][r])
				shadow_change(&t->shadow[i][k][r], l->bucket[k][r], now_ns);
}

static void check_refusal(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			  const struct refusal *why)
{
	struct refusal then;
	UNIT_REQUIRE(why->result == GRANT_WOULD_BLOCK);
	UNIT_REQUIRE(why->limiter);
	UNIT_REQUIRE(why->wait_ns > 0);
	if (why->wait_ns > YEAR)
		return;
	UNIT_REQUIRE(chain_look(ch, c, now_ns + why->wait_ns, &then) == GRANT_OK);
	UNIT_REQUIRE(chain_look(ch, c, now_ns + why->wait_ns - 1, &then) == GRANT_WOULD_BLOCK);
}

static void tree_request(struct tree *t, uint64_t now_ns)
{
	struct cost c = {(enum cost_class)below(COST_CLASSES), 1, 0};
	if (c.cls != COST_META && c.cls != COST_OPENCLOSE)
		c.bytes = magnitude(21);
	const struct chain *ch = t->chain[below(NODES)][c.cls];
	if (!ch)
		return;
	struct refusal why = {.result = GRANT_OK};
	bool partial = below(4) == 0;
	enum grant_result r = partial ? chain_try_partial(ch, &c, 4096, now_ns, &why)
				      : chain_try(ch, &c, now_ns, &why);
	if (r != GRANT_OK) {
		if (!partial)
			check_refusal(ch, &c, now_ns, &why);
		return;
	}
	for (unsigned i = 0; i < ch->links; i++)
		shadow_grant(tree_shadow(t, &ch->link[i]), chain_tokens(&ch->link[i], &c), now_ns);
	if (below(8))
		return;
	uint64_t unused = below(c.bytes + 1);
	chain_refund_bytes(ch, unused);
	for (unsigned i = 0; i < ch->links; i++)
		shadow_refund(tree_shadow(t, &ch->link[i]), unused * ch->link[i].per_byte, now_ns);
}

START_TEST(no_interval_grants_more_anywhere_in_a_random_tree_of_scopes)
{
	static struct tree t;
	seed = unit_seed();
	for (unsigned run = 0; run < 200; run++) {
		uint64_t now_ns = magnitude(58);
		unsigned pace = (unsigned)(10 + below(18));
		tree_init(&t, now_ns);
		for (unsigned i = 0; i < 2000; i++) {
			now_ns += magnitude(pace);
			if (below(200) == 0)
				tree_change(&t, now_ns);
			tree_request(&t, now_ns);
		}
	}
	for (unsigned i = 0; i < NODES; i++) {
		limiter_fini(&t.node[i]);
		for (unsigned c = 0; c < COST_CLASSES; c++)
			free(t.chain[i][c]);
	}
}
END_TEST

UNIT_MAIN("limit_random", a_wait_is_exact_to_the_nanosecond_at_any_rate_and_age,
	  no_interval_grants_more_than_rate_and_capacity_allow,
	  one_time_burst_adds_once_to_what_the_rate_allows,
	  the_rate_is_exact_after_years_for_every_rate,
	  a_bucket_idle_for_a_century_is_full_and_no_more,
	  no_interval_grants_more_anywhere_in_a_random_tree_of_scopes)
