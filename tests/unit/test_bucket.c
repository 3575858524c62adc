/* SPDX-License-Identifier: MIT */
#include "limit/bucket.h"
#include "unit/unit.h"

#define SEC  NSEC_PER_SEC
#define MSEC NSEC_PER_MSEC
#define YEAR (31557600ULL * SEC)

static struct bucket new_bucket(uint64_t rate, uint64_t capacity, uint64_t once, uint64_t now_ns)
{
	struct bucket b;
	struct bucket_config cfg = {rate, capacity, once};
	bucket_init(&b, &cfg, now_ns);
	return b;
}

START_TEST(a_new_bucket_is_full)
{
	struct bucket b = new_bucket(1000, 100, 0, 7 * SEC);
	ck_assert_int_eq(bucket_level(&b, 7 * SEC), 100);
	ck_assert_uint_eq(bucket_capacity(&b), 100);
	ck_assert_uint_eq(bucket_rate(&b), 1000);
	ck_assert_uint_eq(bucket_refill_ns(&b, 7 * SEC), 0);
}
END_TEST

START_TEST(a_bucket_refills_up_to_its_capacity_and_never_beyond)
{
	struct bucket b = new_bucket(1000, 100, 0, 0);
	ck_assert(bucket_try(&b, 100, 0));
	ck_assert_int_eq(bucket_level(&b, 0), 0);
	ck_assert_uint_eq(bucket_refill_ns(&b, 0), 100 * MSEC);
	ck_assert_int_eq(bucket_level(&b, 40 * MSEC), 40);
	ck_assert_uint_eq(bucket_refill_ns(&b, 40 * MSEC), 60 * MSEC);
	ck_assert_int_eq(bucket_level(&b, 100 * MSEC), 100);
	ck_assert_int_eq(bucket_level(&b, 3600 * SEC), 100);
	ck_assert(!bucket_try(&b, 100, 99 * MSEC));
	ck_assert(bucket_try(&b, 100, 3600 * SEC));
	ck_assert(!bucket_try(&b, 1, 3600 * SEC));
}
END_TEST

START_TEST(ten_ops_per_second_let_ten_of_twenty_go_at_once)
{
	struct bucket b = new_bucket(10, 10, 0, 0);
	unsigned granted = 0;
	for (int i = 0; i < 20; i++)
		granted += bucket_try(&b, 1, 0);
	ck_assert_uint_eq(granted, 10);
	for (int i = 0; i < 20; i++)
		granted += bucket_try(&b, 1, SEC / 2);
	ck_assert_uint_eq(granted, 15);
}
END_TEST

START_TEST(an_empty_bucket_names_the_time_of_its_next_token)
{
	struct bucket b = new_bucket(1000, 10, 0, 0);
	ck_assert(bucket_try(&b, 10, 0));
	ck_assert_uint_eq(bucket_wait_ns(&b, 1, 0), MSEC);
	ck_assert_uint_eq(bucket_wait_ns(&b, 3, MSEC / 2), 2 * MSEC + MSEC / 2);
	ck_assert_uint_eq(bucket_wait_ns(&b, 0, 0), 0);
	ck_assert(!bucket_try(&b, 1, MSEC - 1));
	ck_assert(bucket_try(&b, 1, MSEC));
}
END_TEST

START_TEST(two_thousand_bytes_at_a_thousand_per_second_wait_one_second)
{
	struct bucket b = new_bucket(1000, 1000, 0, 0);
	ck_assert(bucket_try(&b, 1000, 0));
	ck_assert(!bucket_try(&b, 1000, 0));
	uint64_t wait_ns = bucket_wait_ns(&b, 1000, 0);
	ck_assert_uint_eq(wait_ns, SEC);
	ck_assert(!bucket_try(&b, 1000, wait_ns - 1));
	ck_assert(bucket_try(&b, 1000, wait_ns));
}
END_TEST

START_TEST(a_request_larger_than_the_capacity_waits_for_a_full_bucket_and_leaves_debt)
{
	struct bucket b = new_bucket(1000, 100, 0, 0);
	ck_assert(bucket_try(&b, 1, 0));
	ck_assert(!bucket_try(&b, 500, 0));
	ck_assert_uint_eq(bucket_wait_ns(&b, 500, 0), MSEC);
	ck_assert(bucket_try(&b, 500, MSEC));
	ck_assert_int_eq(bucket_level(&b, MSEC), -400);
	ck_assert_uint_eq(bucket_wait_ns(&b, 1, MSEC), 401 * MSEC);
	ck_assert(!bucket_try(&b, 0, MSEC));
	ck_assert(bucket_try(&b, 0, 401 * MSEC));
}
END_TEST

START_TEST(oversize_requests_progress_at_exactly_the_rate)
{
	struct bucket b = new_bucket(1000000, 65536, 0, 0);
	uint64_t now_ns = 0, granted = 0;
	while (now_ns < 1000 * SEC) {
		uint64_t size = granted & 1 << 20 ? 4096 : 1 << 20;
		now_ns += bucket_wait_ns(&b, size, now_ns);
		UNIT_REQUIRE(bucket_try(&b, size, now_ns));
		granted += size;
	}
	ck_assert_uint_ge(granted, 1000000000);
	ck_assert_uint_le(granted, 1000000000 + (1 << 20) + 65536);
}
END_TEST

START_TEST(a_take_goes_into_debt_and_a_refund_brings_it_back)
{
	struct bucket b = new_bucket(1000, 100, 0, 0);
	bucket_take(&b, 250, 0);
	ck_assert_int_eq(bucket_level(&b, 0), -150);
	bucket_refund(&b, 200);
	ck_assert_int_eq(bucket_level(&b, 0), 50);
	bucket_refund(&b, 50);
	ck_assert_int_eq(bucket_level(&b, 0), 100);
}
END_TEST

START_TEST(a_refund_never_fills_beyond_the_capacity)
{
	struct bucket b = new_bucket(1000, 100, 0, 0);
	ck_assert(bucket_try(&b, 80, 0));
	bucket_refund(&b, 80);
	ck_assert_int_eq(bucket_level(&b, SEC), 100);
	ck_assert(bucket_try(&b, 80, 2 * SEC));
	bucket_refund(&b, 80);
	ck_assert_int_eq(bucket_level(&b, 2 * SEC + 50 * MSEC), 100);
}
END_TEST

START_TEST(replenishing_by_hand_stops_at_the_capacity)
{
	struct bucket b = new_bucket(1, 100, 0, 0);
	ck_assert(bucket_try(&b, 100, 0));
	bucket_replenish(&b, 30, 0);
	ck_assert_int_eq(bucket_level(&b, 0), 30);
	bucket_replenish(&b, 1000, 0);
	ck_assert_int_eq(bucket_level(&b, 0), 100);
	ck_assert(bucket_try(&b, 100, 0));
	ck_assert(!bucket_try(&b, 1, 0));
}
END_TEST

START_TEST(one_time_burst_is_spent_last_and_never_comes_back)
{
	struct bucket b = new_bucket(1000, 100, 500, 0);
	ck_assert_int_eq(bucket_level(&b, 0), 600);
	ck_assert(bucket_try(&b, 60, 0));
	ck_assert_uint_eq(bucket_once_left(&b), 500);
	ck_assert(bucket_try(&b, 60, 0)); /* 40 steady, 20 of the burst */
	ck_assert_uint_eq(bucket_once_left(&b), 480);
	ck_assert_int_eq(bucket_level(&b, SEC), 580);
	ck_assert(bucket_try(&b, 580, SEC));
	ck_assert_uint_eq(bucket_once_left(&b), 0);
	ck_assert(!bucket_try(&b, 1, SEC));
	ck_assert_int_eq(bucket_level(&b, 100 * SEC), 100);
}
END_TEST

START_TEST(one_time_burst_counts_towards_an_oversize_request)
{
	struct bucket b = new_bucket(1000, 100, 50, 0);
	ck_assert(bucket_try(&b, 10, 0));
	ck_assert(!bucket_try(&b, 200, 0));
	ck_assert_uint_eq(bucket_once_left(&b), 50);
	ck_assert_uint_eq(bucket_wait_ns(&b, 200, 0), 10 * MSEC);
	ck_assert(bucket_try(&b, 200, 10 * MSEC));
	ck_assert_uint_eq(bucket_once_left(&b), 0);
	ck_assert_int_eq(bucket_level(&b, 10 * MSEC), -50);
}
END_TEST

START_TEST(a_refused_request_takes_nothing_of_the_one_time_burst)
{
	struct bucket b = new_bucket(1000, 100, 50, 0);
	ck_assert(bucket_try(&b, 100, 0));
	for (int i = 0; i < 100; i++)
		ck_assert(!bucket_try(&b, 51, 0));
	ck_assert_uint_eq(bucket_once_left(&b), 50);
	ck_assert_uint_eq(bucket_wait_ns(&b, 51, 0), MSEC);
	ck_assert(bucket_try(&b, 51, MSEC));
}
END_TEST

START_TEST(a_zero_rate_never_supplies)
{
	struct bucket b = new_bucket(0, 5, 0, 0);
	ck_assert(bucket_try(&b, 5, SEC));
	ck_assert(!bucket_try(&b, 1, YEAR));
	ck_assert_uint_eq(bucket_wait_ns(&b, 1, SEC), NEVER);
	ck_assert_uint_eq(bucket_refill_ns(&b, SEC), NEVER);
}
END_TEST

START_TEST(a_clock_that_goes_back_mints_nothing)
{
	struct bucket b = new_bucket(1000, 100, 0, 10 * SEC);
	ck_assert(bucket_try(&b, 100, 10 * SEC));
	ck_assert(!bucket_try(&b, 1, 9 * SEC));
	ck_assert_int_lt(bucket_level(&b, 0), 0);
	/* still exact: the second that the clock went back, plus 1 ms for the token */
	ck_assert_uint_eq(bucket_wait_ns(&b, 1, 9 * SEC), SEC + MSEC);
	ck_assert(bucket_try(&b, 1, 10 * SEC + MSEC));
	ck_assert(!bucket_try(&b, 1, 10 * SEC));
}
END_TEST

START_TEST(lowering_and_raising_a_limit_again_mints_nothing)
{
	struct bucket b = new_bucket(1000, 1000, 0, 0);
	struct bucket_config low = {1000, 10, 0}, high = {1000, 1000, 0};
	bucket_reconfigure(&b, &low, SEC);
	ck_assert_int_eq(bucket_level(&b, SEC), 10);
	bucket_reconfigure(&b, &high, SEC);
	ck_assert_int_eq(bucket_level(&b, SEC), 10);
	ck_assert(bucket_try(&b, 10, SEC));
	ck_assert_int_eq(bucket_level(&b, SEC + 5 * MSEC), 5);
}
END_TEST

START_TEST(debt_stays_debt_and_a_lower_rate_stretches_it)
{
	struct bucket b = new_bucket(1000, 10, 0, 0);
	bucket_take(&b, 110, 0);
	struct bucket_config cfg = {10, 10, 0};
	bucket_reconfigure(&b, &cfg, 50 * MSEC);
	ck_assert_int_eq(bucket_level(&b, 50 * MSEC), -50);
	ck_assert_uint_eq(bucket_wait_ns(&b, 1, 50 * MSEC), 5100 * MSEC);
	ck_assert_uint_eq(bucket_rate(&b), 10);
}
END_TEST

START_TEST(many_changes_in_a_row_do_not_starve_a_slow_bucket)
{
	struct bucket b = new_bucket(1, 5, 0, 0);
	ck_assert(bucket_try(&b, 5, 0));
	uint64_t now_ns = 0;
	for (int i = 1; i <= 100; i++) {
		now_ns += 70 * MSEC;
		struct bucket_config cfg = {1, 5 + i % 2, 0};
		bucket_reconfigure(&b, &cfg, now_ns);
	}
	ck_assert_int_ge(bucket_level(&b, now_ns), 5); /* seven seconds have passed: it is full */
	ck_assert(bucket_try(&b, 5, now_ns));
	for (int i = 1; i <= 9; i++) {
		now_ns += 100 * MSEC;
		struct bucket_config cfg = {1, 5 + i % 2, 0};
		bucket_reconfigure(&b, &cfg, now_ns);
	}
	ck_assert_uint_le(bucket_wait_ns(&b, 1, now_ns), 100 * MSEC + 1000);
}
END_TEST

START_TEST(one_time_burst_is_given_anew_only_when_it_was_configured_anew)
{
	struct bucket b = new_bucket(1000, 100, 50, 0);
	ck_assert(bucket_try(&b, 150, 0));
	struct bucket_config same = {2000, 100, 50}, more = {2000, 100, 80};
	bucket_reconfigure(&b, &same, 0);
	ck_assert_uint_eq(bucket_once_left(&b), 0);
	bucket_reconfigure(&b, &more, 0);
	ck_assert_uint_eq(bucket_once_left(&b), 80);
	bucket_reconfigure(&b, &same, 0);
	ck_assert_uint_eq(bucket_once_left(&b), 50);
}
END_TEST

START_TEST(a_restarted_bucket_is_full_again)
{
	struct bucket b = new_bucket(1000, 100, 50, 0);
	bucket_take(&b, 10000, 0);
	struct bucket_config cfg = {500, 70, 50};
	bucket_restart(&b, &cfg, SEC);
	ck_assert_int_eq(bucket_level(&b, SEC), 120);
	ck_assert_uint_eq(bucket_rate(&b), 500);
}
END_TEST

UNIT_MAIN("bucket", a_new_bucket_is_full, a_bucket_refills_up_to_its_capacity_and_never_beyond,
	  ten_ops_per_second_let_ten_of_twenty_go_at_once,
	  an_empty_bucket_names_the_time_of_its_next_token,
	  two_thousand_bytes_at_a_thousand_per_second_wait_one_second,
	  a_request_larger_than_the_capacity_waits_for_a_full_bucket_and_leaves_debt,
	  oversize_requests_progress_at_exactly_the_rate,
	  a_take_goes_into_debt_and_a_refund_brings_it_back,
	  a_refund_never_fills_beyond_the_capacity, replenishing_by_hand_stops_at_the_capacity,
	  one_time_burst_is_spent_last_and_never_comes_back,
	  one_time_burst_counts_towards_an_oversize_request,
	  a_refused_request_takes_nothing_of_the_one_time_burst, a_zero_rate_never_supplies,
	  a_clock_that_goes_back_mints_nothing, lowering_and_raising_a_limit_again_mints_nothing,
	  debt_stays_debt_and_a_lower_rate_stretches_it,
	  many_changes_in_a_row_do_not_starve_a_slow_bucket,
	  one_time_burst_is_given_anew_only_when_it_was_configured_anew,
	  a_restarted_bucket_is_full_again)
