/* SPDX-License-Identifier: MIT */
#include "limit/permits.h"

#include <pthread.h>
#include <signal.h>

#include "base/log.h"
#include "unit/unit.h"

START_TEST(permits_are_handed_out_up_to_the_limit_and_then_refused_at_once)
{
	struct permits p;
	permits_init(&p, 2);
	ck_assert(permits_try(&p));
	ck_assert(permits_try(&p));
	ck_assert(!permits_try(&p));
	struct permits_snapshot s = permits_look(&p);
	ck_assert_int_eq(s.limit, 2);
	ck_assert_int_eq(s.in_flight, 2);
	ck_assert_int_eq(s.available, 0);
	permits_release(&p);
	ck_assert_int_eq(permits_look(&p).available, 1);
	ck_assert(permits_try(&p));
}
END_TEST

START_TEST(a_negative_limit_becomes_zero)
{
	struct permits p;
	log_set_level(LOG_LEVEL_ERROR); /* keeps the expected warning out of the output */
	permits_init(&p, -5);
	ck_assert_int_eq(permits_look(&p).limit, 0);
	ck_assert(!permits_try(&p));
	permits_set_limit(&p, 1);
	ck_assert(permits_try(&p));
	permits_set_limit(&p, INT64_MIN);
	ck_assert_int_eq(permits_look(&p).limit, 0);
}
END_TEST

START_TEST(holders_above_a_lowered_limit_keep_theirs)
{
	struct permits p;
	permits_init(&p, 3);
	for (int i = 0; i < 3; i++)
		ck_assert(permits_try(&p));
	permits_set_limit(&p, 1);
	ck_assert_int_eq(permits_look(&p).in_flight, 3);
	ck_assert_int_eq(permits_look(&p).available, 0);
	permits_release(&p);
	permits_release(&p);
	ck_assert(!permits_try(&p));
	permits_release(&p);
	ck_assert(permits_try(&p));
}
END_TEST

START_TEST(a_forced_permit_counts_above_the_limit)
{
	struct permits p;
	permits_init(&p, 1);
	permits_take(&p);
	permits_take(&p);
	ck_assert_int_eq(permits_look(&p).in_flight, 2);
	permits_release(&p);
	ck_assert(!permits_try(&p));
}
END_TEST

START_TEST(one_release_too_many)
{
	struct permits p;
	permits_init(&p, 1);
	permits_release(&p); /* in debug builds an assertion fails here */
	ck_assert_int_eq(permits_look(&p).in_flight, 0);
	ck_assert(permits_try(&p));
	ck_assert(!permits_try(&p));
#ifdef RATEFS_DEBUG
	abort();
#endif
}
END_TEST

#define THREADS 4
#define LIMIT	3

static struct permits shared;
static _Atomic int inside, most;

static void *hold_and_release(void *arg)
{
	uintptr_t grants = 0;
	for (int i = 0; i < 50000; i++) {
		if (!permits_try(&shared))
			continue;
		int now = atomic_fetch_add(&inside, 1) + 1;
		int seen = atomic_load(&most);
		while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
			;
		atomic_fetch_sub(&inside, 1);
		permits_release(&shared);
		grants++;
	}
	return (void *)grants;
}

START_TEST(many_threads_never_hold_more_than_the_limit_and_lose_none)
{
	pthread_t thread[THREADS];
	uintptr_t grants = 0;
	permits_init(&shared, LIMIT);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, hold_and_release, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		void *n;
		pthread_join(thread[i], &n);
		grants += (uintptr_t)n;
	}
	ck_assert_int_le(atomic_load(&most), LIMIT);
	ck_assert_uint_gt(grants, 0);
	ck_assert_int_eq(permits_look(&shared).in_flight, 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		permits_are_handed_out_up_to_the_limit_and_then_refused_at_once,
		a_negative_limit_becomes_zero,
		holders_above_a_lowered_limit_keep_theirs,
		a_forced_permit_counts_above_the_limit,
		many_threads_never_hold_more_than_the_limit_and_lose_none,
	};
	Suite *suite = suite_create("permits");
	TCase *tc = tcase_create("over-release");
#ifdef RATEFS_DEBUG
	tcase_add_test_raise_signal(tc, one_release_too_many, SIGABRT);
#else
	tcase_add_test(tc, one_release_too_many);
#endif
	suite_add_tcase(suite, tc);
	return unit_run_suite(suite, "permits", tests, ARRAY_SIZE(tests));
}
