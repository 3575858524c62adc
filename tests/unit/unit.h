/* SPDX-License-Identifier: MIT */
/* The frame of a unit test program: UNIT_MAIN makes a main from the list of tests.
 *
 *	START_TEST(a_sentence_about_the_module) { ... } END_TEST
 *	UNIT_MAIN("bucket", a_sentence_about_the_module, another_one)
 *
 * Random numbers in tests start from unit_seed, so that they are the same in every run; UNIT_SEED=n in the environment gives
 * others, and SCHED_SEED=n in those of the scheduler.  RATEFS_ROUNDS=n sets how often random changes of a gate are tried (test_class, test_gate_outer, test_gate_random):
 * RATEFS_ROUNDS=200000 takes hours. */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"

static inline uint64_t unit_seed(void)
{
	const char *text = getenv("UNIT_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20240229;
	return seed ? seed : 1;
}

/* For tests of the scheduler, which begin elsewhere in each run of scripts/test. */
static inline uint64_t unit_sched_seed(void)
{
	const char *text = getenv("SCHED_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : unit_seed();
	printf("# SCHED_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout); /* before a test fails */
	return seed ? seed : 1;
}

/* How many of `usual` rounds are tried: with UNIT_PART=n in the environment, an nth part, at least one.  The sanitizers try a part,
 * because they look at how memory is used, which the first rounds show; `make check` tries all of them. */
static inline uint64_t unit_part(uint64_t usual)
{
	const char *text = getenv("UNIT_PART");
	uint64_t part = text ? strtoull(text, NULL, 0) : 1;
	return part > 1 ? usual / part + 1 : usual;
}

static inline uint64_t unit_rounds(uint64_t usual)
{
	const char *text = getenv("RATEFS_ROUNDS");
	return text ? strtoull(text, NULL, 0) : unit_part(usual);
}

static inline uint64_t unit_random(uint64_t *x) /* xorshift64* */
{
	*x ^= *x >> 12;
	*x ^= *x << 25;
	*x ^= *x >> 27;
	return *x * 0x2545f4914f6cdd1dULL;
}

/* Adds the tests to a suite that may have others, runs and frees it. */
static inline int unit_run_suite(Suite *suite, const char *name, const TTest *const *tests,
				 size_t n)
{
	TCase *tc = tcase_create(name);
	tcase_set_timeout(tc, 300);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline int unit_run(const char *name, const TTest *const *tests, size_t n)
{
	return unit_run_suite(suite_create(name), name, tests, n);
}

/* For conditions in long loops: ck_assert reports every success to its runner,
 * which takes a microsecond. */
#define UNIT_REQUIRE(cond)                                                                         \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ck_abort_msg("%s", "not true: " #cond);                                    \
	} while (0)

#define UNIT_MAIN(name, ...)                                                                       \
	int main(void)                                                                             \
	{                                                                                          \
		const TTest *const tests[] = {__VA_ARGS__};                                        \
		return unit_run(name, tests, ARRAY_SIZE(tests));                                   \
	}

#endif
