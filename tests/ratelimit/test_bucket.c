/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <ratelimit/bucket.h>

#include "unit/unit.h"

#define T0 (5 * NSEC_PER_SEC)

static struct ratelimit_bucket *make(uint64_t size, uint64_t refill_per_sec, uint64_t burst)
{
	struct ratelimit_bucket_config c = {size, refill_per_sec, burst};
	struct ratelimit_bucket *b;
	ck_assert_int_eq(ratelimit_bucket_new(&b, &c, T0), 0);
	return b;
}

START_TEST(a_new_bucket_is_full_and_grants_its_size)
{
	struct ratelimit_bucket *b = make(10, 1000, 0);
	ck_assert_int_eq(ratelimit_bucket_budget(b, T0), 10);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 10, T0), 0);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 1, T0), -EAGAIN);
	ck_assert_int_eq(ratelimit_bucket_budget(b, T0), 0);
	ratelimit_bucket_free(b);
}
END_TEST

START_TEST(the_wait_is_exact)
{
	struct ratelimit_bucket *b = make(10, 1000, 0);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 10, T0), 0);
	ck_assert_uint_eq(ratelimit_bucket_wait_ns(b, 0, T0), 0);
	ck_assert_uint_eq(ratelimit_bucket_wait_ns(b, 3, T0), 3 * NSEC_PER_MSEC);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 3, T0 + 3 * NSEC_PER_MSEC - 1), -EAGAIN);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 3, T0 + 3 * NSEC_PER_MSEC), 0);
	ratelimit_bucket_free(b);
}
END_TEST

START_TEST(a_request_larger_than_the_bucket_waits_until_it_is_full_and_leaves_debt)
{
	struct ratelimit_bucket *b = make(10, 1000, 0);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 1, T0), 0);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 25, T0), -EAGAIN);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 25, T0 + NSEC_PER_MSEC), 0);
	ck_assert_int_eq(ratelimit_bucket_budget(b, T0 + NSEC_PER_MSEC), -15);
	ratelimit_bucket_free(b);
}
END_TEST

START_TEST(one_time_burst_is_spent_last_and_never_comes_back)
{
	struct ratelimit_bucket *b = make(10, 1000, 5);
	struct ratelimit_bucket_state s;
	ck_assert_int_eq(ratelimit_bucket_budget(b, T0), 15);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 12, T0), 0);
	ratelimit_bucket_look(b, T0, &s);
	ck_assert_uint_eq(s.burst_left, 3);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 3, T0), 0);
	ratelimit_bucket_look(b, T0 + NSEC_PER_SEC, &s);
	ck_assert_uint_eq(s.burst_left, 0);
	ck_assert_int_eq(s.budget, 10);
	ratelimit_bucket_free(b);
}
END_TEST

START_TEST(forced_consumption_leaves_debt)
{
	struct ratelimit_bucket *b = make(10, 1000, 0);
	ck_assert_int_eq(ratelimit_bucket_force_consume(b, 30, T0), 0);
	ck_assert_int_eq(ratelimit_bucket_budget(b, T0), -20);
	ck_assert_uint_eq(ratelimit_bucket_wait_ns(b, 1, T0), 21 * NSEC_PER_MSEC);
	ratelimit_bucket_free(b);
}
END_TEST

START_TEST(a_refund_gives_back_exactly_what_was_taken)
{
	struct ratelimit_bucket *b = make(10, 1000, 0);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 8, T0), 0);
	ck_assert_int_eq(ratelimit_bucket_refund(b, 5), 0);
	ck_assert_int_eq(ratelimit_bucket_budget(b, T0), 7);
	ratelimit_bucket_free(b);
}
END_TEST

START_TEST(forced_replenishment_stops_at_the_size)
{
	struct ratelimit_bucket *b = make(10, 1000, 0);
	ck_assert_int_eq(ratelimit_bucket_consume(b, 10, T0), 0);
	ck_assert_int_eq(ratelimit_bucket_force_replenish(b, 4, T0), 0);
	ck_assert_int_eq(ratelimit_bucket_budget(b, T0), 4);
	ck_assert_int_eq(ratelimit_bucket_force_replenish(b, 100, T0), 0);
	ck_assert_int_eq(ratelimit_bucket_budget(b, T0), 10);
	ratelimit_bucket_free(b);
}
END_TEST

START_TEST(a_change_of_the_configuration_refills_nothing)
{
	struct ratelimit_bucket *b = make(10, 1000, 0);
	struct ratelimit_bucket_config c = {100, 2000, 0};
	struct ratelimit_bucket_state s;
	ck_assert_int_eq(ratelimit_bucket_consume(b, 9, T0), 0);
	ck_assert_int_eq(ratelimit_bucket_reconfigure(b, &c, T0), 0);
	ratelimit_bucket_look(b, T0, &s);
	ck_assert_int_eq(s.budget, 1);
	ck_assert_uint_eq(s.size, 100);
	ck_assert_uint_eq(s.refill_per_sec, 2000);
	ck_assert_uint_eq(s.full_in_ns, 99 * NSEC_PER_SEC / 2000);
	ck_assert_uint_eq(ratelimit_bucket_wait_ns(b, 3, T0), NSEC_PER_MSEC);
	ratelimit_bucket_free(b);
}
END_TEST

START_TEST(numbers_out_of_range_are_refused)
{
	static const struct ratelimit_bucket_config wrong[] = {
		{0, 1, 0},
		{1, 0, 0},
		{RATELIMIT_TOKENS_MAX + 1, 1, 0},
		{1, RATELIMIT_RATE_MAX + 1, 0},
		{1, 1, RATELIMIT_TOKENS_MAX + 1},
	};
	struct ratelimit_bucket *b = make(10, 1000, 0), *none;
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		none = b;
		ck_assert_int_eq(ratelimit_bucket_new(&none, &wrong[i], T0), -EINVAL);
		ck_assert_ptr_null(none);
		ck_assert_int_eq(ratelimit_bucket_reconfigure(b, &wrong[i], T0), -EINVAL);
	}
	uint64_t many = RATELIMIT_TOKENS_MAX + 1;
	ck_assert_int_eq(ratelimit_bucket_consume(b, many, T0), -EINVAL);
	ck_assert_int_eq(ratelimit_bucket_force_consume(b, many, T0), -EINVAL);
	ck_assert_int_eq(ratelimit_bucket_refund(b, many), -EINVAL);
	ck_assert_int_eq(ratelimit_bucket_force_replenish(b, many, T0), -EINVAL);
	ck_assert_uint_eq(ratelimit_bucket_wait_ns(b, many, T0), RATELIMIT_NEVER);
	ck_assert_int_eq(ratelimit_bucket_budget(b, T0), 10);
	ratelimit_bucket_free(b);
	ratelimit_bucket_free(NULL);
}
END_TEST

START_TEST(the_clock_is_monotonic)
{
	uint64_t a = ratelimit_now_ns(), b = ratelimit_now_ns();
	ck_assert_uint_gt(a, 0);
	ck_assert_uint_le(a, b);
}
END_TEST

UNIT_MAIN("ratelimit_bucket", a_new_bucket_is_full_and_grants_its_size, the_wait_is_exact,
	  a_request_larger_than_the_bucket_waits_until_it_is_full_and_leaves_debt,
	  one_time_burst_is_spent_last_and_never_comes_back, forced_consumption_leaves_debt,
	  a_refund_gives_back_exactly_what_was_taken, forced_replenishment_stops_at_the_size,
	  a_change_of_the_configuration_refills_nothing, numbers_out_of_range_are_refused,
	  the_clock_is_monotonic)
