/* SPDX-License-Identifier: MIT */
#include "limit/chain.h"

#include <string.h>

#include "unit/unit.h"

#define SEC  NSEC_PER_SEC
#define MSEC NSEC_PER_MSEC

#define SCOPES (SCOPE_MOUNT + 1) /* global, fs, mount */

static struct limiter scope[SCOPES];
static struct limiter_config config[SCOPES];

/* Everything unlimited, a window of one second. */
static void setup(void)
{
	for (unsigned s = 0; s < SCOPES; s++)
		config[s] = (struct limiter_config){.window_ns = SEC};
}

static void limit(enum scope_kind s, enum limit_kind k, uint64_t rate)
{
	config[s].limit[k] = (struct limit_config){.enabled = true, .rate_per_sec = rate};
}

static struct chain *compile_again(enum cost_class cls)
{
	struct limiter *const way[] = {&scope[SCOPE_MOUNT], &scope[SCOPE_FS], &scope[SCOPE_GLOBAL]};
	return chain_compile(cls, way, SCOPES, NULL);
}

static struct chain *compile(enum cost_class cls)
{
	for (unsigned s = 0; s < SCOPES; s++) {
		limiter_fini(&scope[s]);
		ck_assert(limiter_init(&scope[s], (enum scope_kind)s, &config[s], 0));
	}
	return compile_again(cls);
}

static int64_t level(enum scope_kind s, enum limit_kind k, uint64_t now_ns)
{
	return bucket_level(scope[s].bucket[k][BUCKET_STEADY], now_ns);
}

static const struct cost read_1000 = {COST_READ, 1, 1000};

START_TEST(nothing_limited_is_no_chain)
{
	bool oom = true;
	setup();
	ck_assert_ptr_null(compile(COST_READ));
	limit(SCOPE_MOUNT, LIMIT_WRITE_BPS, 1000);
	ck_assert_ptr_null(compile(COST_READ));
	ck_assert_ptr_null(
		chain_compile(COST_READ, (struct limiter *[]){&scope[SCOPE_MOUNT]}, 1, &oom));
	ck_assert(!oom);
	ck_assert_uint_eq(chain_piece_bytes(NULL, 1), UINT64_MAX);
}
END_TEST

START_TEST(all_limits_are_taken_from_or_none)
{
	setup();
	limit(SCOPE_GLOBAL, LIMIT_BPS, 10000);
	limit(SCOPE_MOUNT, LIMIT_IOPS, 10);
	limit(SCOPE_FS, LIMIT_READ_BPS, 2500);
	struct chain *ch = compile(COST_READ);
	ck_assert_uint_eq(ch->links, 3);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, NULL), GRANT_OK);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, NULL), GRANT_OK);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, NULL), GRANT_WOULD_BLOCK);
	ck_assert_int_eq(level(SCOPE_GLOBAL, LIMIT_BPS, 0), 8000);
	ck_assert_int_eq(level(SCOPE_MOUNT, LIMIT_IOPS, 0), 8);
	ck_assert_int_eq(level(SCOPE_FS, LIMIT_READ_BPS, 0), 500);
	free(ch);
}
END_TEST

START_TEST(a_refusal_names_the_widest_scope_that_refuses)
{
	struct refusal why;
	setup();
	for (unsigned s = 0; s < SCOPES; s++)
		limit((enum scope_kind)s, LIMIT_READ_BPS, 1000);
	limit(SCOPE_MOUNT, LIMIT_IOPS, 10);
	struct chain *ch = compile(COST_READ);
	bucket_take(scope[SCOPE_MOUNT].bucket[LIMIT_IOPS][BUCKET_STEADY], 30, 0);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, &why), GRANT_WOULD_BLOCK);
	ck_assert_ptr_eq(why.limiter, &scope[SCOPE_MOUNT]);
	ck_assert_int_eq(why.kind, LIMIT_IOPS);
	ck_assert_uint_eq(why.wait_ns, 2100 * MSEC);
	ck_assert(!why.gave_back);
	bucket_take(scope[SCOPE_FS].bucket[LIMIT_READ_BPS][BUCKET_STEADY], 500, 0);
	ck_assert_int_eq(chain_look(ch, &read_1000, 0, &why), GRANT_WOULD_BLOCK);
	ck_assert_ptr_eq(why.limiter, &scope[SCOPE_FS]);
	ck_assert_int_eq(why.kind, LIMIT_READ_BPS);
	ck_assert_uint_eq(why.wait_ns, 2100 * MSEC); /* until all of them would grant */
	bucket_take(scope[SCOPE_GLOBAL].bucket[LIMIT_READ_BPS][BUCKET_STEADY], 4000, 0);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, &why), GRANT_WOULD_BLOCK);
	ck_assert_ptr_eq(why.limiter, &scope[SCOPE_GLOBAL]);
	ck_assert_uint_eq(why.wait_ns, 4 * SEC);
	ck_assert_int_eq(chain_try(ch, &read_1000, 4 * SEC - 1, NULL), GRANT_WOULD_BLOCK);
	ck_assert_int_eq(chain_try(ch, &read_1000, 4 * SEC, NULL), GRANT_OK);
	free(ch);
}
END_TEST

START_TEST(a_refusal_writes_nothing)
{
	static struct bucket before[SCOPES * 2];
	setup();
	for (unsigned s = 0; s < SCOPES; s++) {
		limit((enum scope_kind)s, LIMIT_IOPS, 100);
		limit((enum scope_kind)s, LIMIT_BPS, 5000);
	}
	config[SCOPE_GLOBAL].limit[LIMIT_BPS].once = 500;
	struct chain *ch = compile(COST_READ);
	while (chain_try(ch, &read_1000, 0, NULL) == GRANT_OK)
		;
	for (unsigned i = 0; i < ch->links; i++)
		memcpy(&before[i], ch->link[i].bucket, sizeof(before[i]));
	for (int i = 0; i < 10; i++) {
		struct cost c = read_1000;
		ck_assert_int_eq(chain_try(ch, &c, 0, NULL), GRANT_WOULD_BLOCK);
		ck_assert_int_eq(chain_try_partial(ch, &c, 4096, 0, NULL), GRANT_WOULD_BLOCK);
	}
	for (unsigned i = 0; i < ch->links; i++)
		ck_assert_int_eq(memcmp(&before[i], ch->link[i].bucket, sizeof(before[i])), 0);
	free(ch);
}
END_TEST

START_TEST(a_rate_of_zero_is_a_misconfiguration_and_not_a_stall)
{
	struct refusal why;
	setup();
	limit(SCOPE_GLOBAL, LIMIT_IOPS, 10);
	limit(SCOPE_FS, LIMIT_BPS, 0);
	struct chain *ch = compile(COST_READ);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, &why), GRANT_MISCONFIGURED);
	ck_assert_int_eq(why.result, GRANT_MISCONFIGURED);
	ck_assert_ptr_eq(why.limiter, &scope[SCOPE_FS]);
	ck_assert_int_eq(why.kind, LIMIT_BPS);
	ck_assert_uint_eq(why.wait_ns, NEVER);
	bucket_take(scope[SCOPE_GLOBAL].bucket[LIMIT_IOPS][BUCKET_STEADY], 100, 0);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, &why), GRANT_MISCONFIGURED);
	struct cost nothing = {COST_READ, 1,
			       0}; /* the byte limit applies, but nothing is charged to it */
	ck_assert_int_eq(chain_try(ch, &nothing, 20 * SEC, NULL), GRANT_OK);
	ck_assert_uint_eq(chain_take(ch, &read_1000, 0), NEVER);
	free(ch);
}
END_TEST

START_TEST(a_rate_that_becomes_zero_is_felt_by_the_next_request)
{
	setup();
	limit(SCOPE_MOUNT, LIMIT_IOPS, 1000000);
	struct chain *ch = compile(COST_READ);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, NULL), GRANT_OK);
	ck_assert_int_eq(chain_try(ch, &read_1000, 1, NULL), GRANT_OK);
	limit(SCOPE_MOUNT, LIMIT_IOPS, 0);
	limiter_configure(&scope[SCOPE_MOUNT], &config[SCOPE_MOUNT], 2);
	ck_assert_int_eq(chain_try(ch, &read_1000, 3, NULL), GRANT_MISCONFIGURED);
	free(ch);
}
END_TEST

START_TEST(a_lowered_capacity_is_felt_by_the_next_request)
{
	setup();
	limit(SCOPE_MOUNT, LIMIT_IOPS, 1000);
	struct chain *ch = compile(COST_READ);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, NULL), GRANT_OK);
	limit(SCOPE_MOUNT, LIMIT_IOPS, 5);
	limiter_configure(&scope[SCOPE_MOUNT], &config[SCOPE_MOUNT], 1);
	unsigned granted = 0;
	while (chain_try(ch, &read_1000, 2, NULL) == GRANT_OK)
		granted++;
	ck_assert_uint_eq(granted, 5);
	free(ch);
}
END_TEST

START_TEST(waiters_hold_newcomers_back_though_the_tokens_are_there)
{
	struct refusal why;
	setup();
	limit(SCOPE_FS, LIMIT_IOPS, 10);
	limit(SCOPE_GLOBAL, LIMIT_BPS, 100000);
	config[SCOPE_MOUNT].max_inflight = 5;
	struct chain *ch = compile(COST_READ);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, NULL), GRANT_OK);
	atomic_store(&scope[SCOPE_GLOBAL].bucket[LIMIT_BPS][BUCKET_STEADY]->waiters, 1);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, &why), GRANT_WOULD_BLOCK);
	ck_assert_ptr_eq(why.limiter, &scope[SCOPE_GLOBAL]);
	ck_assert_int_eq(why.kind, LIMIT_BPS);
	ck_assert_uint_eq(why.wait_ns, NEVER);
	atomic_store(&scope[SCOPE_GLOBAL].bucket[LIMIT_BPS][BUCKET_STEADY]->waiters, 0);
	atomic_store(&scope[SCOPE_MOUNT].inflight.waiters, 1);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, &why), GRANT_WOULD_BLOCK);
	ck_assert_ptr_eq(why.limiter, &scope[SCOPE_MOUNT]);
	ck_assert_int_eq(why.kind, -1);
	atomic_store(&scope[SCOPE_MOUNT].inflight.waiters, 0);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, NULL), GRANT_OK);
	ck_assert_int_eq(level(SCOPE_FS, LIMIT_IOPS, 0), 8);
	ck_assert_int_eq(permits_look(&scope[SCOPE_MOUNT].inflight).in_flight, 2);
	free(ch);
}
END_TEST

START_TEST(permits_are_held_from_the_grant_to_the_release)
{
	struct refusal why;
	setup();
	config[SCOPE_GLOBAL].max_inflight = 2;
	config[SCOPE_FS].max_inflight = 3;
	limit(SCOPE_FS, LIMIT_IOPS, 1000);
	struct chain *ch = compile(COST_META);
	struct cost stat = {COST_META, 1, 0};
	ck_assert_uint_eq(ch->permits, 2);
	ck_assert_int_eq(chain_try(ch, &stat, 0, NULL), GRANT_OK);
	ck_assert_int_eq(chain_try(ch, &stat, 0, NULL), GRANT_OK);
	ck_assert_int_eq(chain_try(ch, &stat, 0, &why), GRANT_WOULD_BLOCK);
	ck_assert_ptr_eq(why.limiter, &scope[SCOPE_GLOBAL]);
	ck_assert_int_eq(why.kind, -1);
	ck_assert_uint_eq(why.wait_ns, NEVER);
	ck_assert_int_eq(level(SCOPE_FS, LIMIT_IOPS, 0), 998);
	ck_assert_int_eq(permits_look(&scope[SCOPE_FS].inflight).in_flight, 2);
	chain_release(ch);
	ck_assert_int_eq(chain_try(ch, &stat, 0, NULL), GRANT_OK);
	ck_assert_uint_eq(chain_take(ch, &stat, 0), 1);
	for (int i = 0; i < 3; i++)
		chain_release(ch);
	ck_assert_int_eq(permits_look(&scope[SCOPE_GLOBAL].inflight).in_flight, 0);
	ck_assert_int_eq(permits_look(&scope[SCOPE_FS].inflight).in_flight, 0);
	free(ch);
}
END_TEST

START_TEST(a_refund_gives_back_all_of_it_and_a_settlement_only_bytes)
{
	setup();
	limit(SCOPE_MOUNT, LIMIT_IOPS, 10);
	limit(SCOPE_MOUNT, LIMIT_READ_BPS, 5000);
	config[SCOPE_MOUNT].max_inflight = 1;
	struct chain *ch = compile(COST_READ);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, NULL), GRANT_OK);
	chain_refund_bytes(ch, 300);
	ck_assert_int_eq(level(SCOPE_MOUNT, LIMIT_READ_BPS, 0), 4300);
	ck_assert_int_eq(level(SCOPE_MOUNT, LIMIT_IOPS, 0), 9);
	chain_release(ch);
	ck_assert_int_eq(chain_try(ch, &read_1000, 0, NULL), GRANT_OK);
	chain_refund(ch, &read_1000);
	ck_assert_int_eq(level(SCOPE_MOUNT, LIMIT_READ_BPS, 0), 4300);
	ck_assert_int_eq(level(SCOPE_MOUNT, LIMIT_IOPS, 0), 9);
	ck_assert_int_eq(permits_look(&scope[SCOPE_MOUNT].inflight).in_flight, 0);
	free(ch);
}
END_TEST

START_TEST(a_copy_is_one_op_and_its_bytes_in_both_directions)
{
	setup();
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		limit(SCOPE_MOUNT, (enum limit_kind)k, 10000);
	struct chain *ch = compile(COST_COPY);
	struct cost copy = {COST_COPY, 1, 1000};
	ck_assert_int_eq(chain_try(ch, &copy, 0, NULL), GRANT_OK);
	static const int64_t expect[LIMIT_KINDS] = {
		[LIMIT_IOPS] = 9999,	   [LIMIT_META_IOPS] = 10000, [LIMIT_READ_IOPS] = 9999,
		[LIMIT_WRITE_IOPS] = 9999, [LIMIT_BPS] = 8000,	      [LIMIT_READ_BPS] = 9000,
		[LIMIT_WRITE_BPS] = 9000,
	};
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		ck_assert_int_eq(level(SCOPE_MOUNT, (enum limit_kind)k, 0), expect[k]);
	ck_assert_uint_eq(chain_piece_bytes(ch, 1), 5000);
	ck_assert_uint_eq(chain_piece_bytes(ch, 7000), 7000);
	free(ch);
}
END_TEST

START_TEST(a_non_blocking_transfer_gets_what_the_budget_covers)
{
	setup();
	limit(SCOPE_MOUNT, LIMIT_IOPS, 100);
	limit(SCOPE_MOUNT, LIMIT_READ_BPS, 10000);
	limit(SCOPE_GLOBAL, LIMIT_BPS, 6000);
	struct chain *ch = compile(COST_READ);
	struct cost c = {COST_READ, 1, 1 << 20};
	ck_assert_int_eq(chain_try_partial(ch, &c, 4096, 0, NULL), GRANT_OK);
	ck_assert_uint_eq(c.bytes, 6000);
	ck_assert_int_eq(level(SCOPE_MOUNT, LIMIT_READ_BPS, 0), 4000);
	struct refusal why;
	c.bytes = 1 << 20;
	ck_assert_int_eq(chain_try_partial(ch, &c, 4096, 0, &why), GRANT_WOULD_BLOCK);
	ck_assert_uint_eq(c.bytes, 1 << 20);
	ck_assert_ptr_eq(why.limiter, &scope[SCOPE_GLOBAL]);
	uint64_t due_ns = why.wait_ns; /* when the smallest partial grant is possible */
	ck_assert_int_eq(chain_try_partial(ch, &c, 4096, due_ns - 1, NULL), GRANT_WOULD_BLOCK);
	ck_assert_int_eq(chain_try_partial(ch, &c, 4096, due_ns, NULL), GRANT_OK);
	ck_assert_uint_eq(c.bytes, 4096);
	c.bytes = 100; /* below the floor a request is granted whole or not at all */
	ck_assert_int_eq(chain_try_partial(ch, &c, 4096, due_ns, NULL), GRANT_WOULD_BLOCK);
	ck_assert_int_eq(chain_try_partial(ch, &c, 4096, due_ns + SEC, NULL), GRANT_OK);
	ck_assert_uint_eq(c.bytes, 100);
	free(ch);
}
END_TEST

START_TEST(a_capacity_below_the_floor_is_enough_for_progress)
{
	setup();
	limit(SCOPE_MOUNT, LIMIT_READ_BPS, 10);
	struct chain *ch = compile(COST_READ);
	struct cost c = {COST_READ, 1, 4096};
	ck_assert_int_eq(chain_try_partial(ch, &c, 4096, 0, NULL), GRANT_OK);
	ck_assert_uint_eq(c.bytes, 10);
	c.bytes = 4096;
	ck_assert_int_eq(chain_try_partial(ch, &c, 4096, SEC / 2, NULL), GRANT_WOULD_BLOCK);
	ck_assert_int_eq(chain_try_partial(ch, &c, 4096, SEC, NULL), GRANT_OK);
	free(ch);
}
END_TEST

START_TEST(a_forced_take_tells_how_long_it_would_have_waited)
{
	setup();
	limit(SCOPE_MOUNT, LIMIT_READ_BPS, 1000);
	struct chain *ch = compile(COST_READ);
	ck_assert_uint_eq(chain_take(ch, &read_1000, 0), 0);
	ck_assert_uint_eq(chain_take(ch, &read_1000, 0), SEC);
	ck_assert_uint_eq(chain_take(ch, &read_1000, 0), 2 * SEC);
	ck_assert_int_eq(level(SCOPE_MOUNT, LIMIT_READ_BPS, 0), -2000);
	free(ch);
}
END_TEST

START_TEST(equal_chains_name_the_same_buckets_in_the_same_way)
{
	setup();
	limit(SCOPE_MOUNT, LIMIT_IOPS, 1000);
	limit(SCOPE_FS, LIMIT_BPS, 1000);
	struct chain *read = compile(COST_READ);
	struct chain *write = compile_again(COST_WRITE);
	struct chain *copy = compile_again(COST_COPY);
	struct chain *meta = compile_again(COST_META);
	ck_assert(chain_equal(read, write));
	ck_assert(!chain_equal(read, copy)); /* a copy charges bps twice */
	ck_assert(!chain_equal(read, meta));
	ck_assert(!chain_equal(read, NULL));
	ck_assert(chain_equal(NULL, NULL));
	config[SCOPE_FS].max_inflight = 1;
	limiter_configure(&scope[SCOPE_FS], &config[SCOPE_FS], 0);
	struct chain *bounded = compile_again(COST_READ);
	ck_assert(!chain_equal(read, bounded));
	free(read);
	free(write);
	free(copy);
	free(meta);
	free(bounded);
}
END_TEST

UNIT_MAIN("chain", nothing_limited_is_no_chain, all_limits_are_taken_from_or_none,
	  a_refusal_names_the_widest_scope_that_refuses, a_refusal_writes_nothing,
	  a_rate_of_zero_is_a_misconfiguration_and_not_a_stall,
	  a_rate_that_becomes_zero_is_felt_by_the_next_request,
	  a_lowered_capacity_is_felt_by_the_next_request,
	  waiters_hold_newcomers_back_though_the_tokens_are_there,
	  permits_are_held_from_the_grant_to_the_release,
	  a_refund_gives_back_all_of_it_and_a_settlement_only_bytes,
	  a_copy_is_one_op_and_its_bytes_in_both_directions,
	  a_non_blocking_transfer_gets_what_the_budget_covers,
	  a_capacity_below_the_floor_is_enough_for_progress,
	  a_forced_take_tells_how_long_it_would_have_waited,
	  equal_chains_name_the_same_buckets_in_the_same_way)
