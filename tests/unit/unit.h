/* SPDX-License-Identifier: MIT */
/* The frame of a unit test program: list the tests, get a main.
 *
 *	START_TEST(a_sentence_about_the_module) { ... } END_TEST
 *	UNIT_MAIN("bucket", a_sentence_about_the_module, another_one)
 */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include <check.h>
#include <stdlib.h>

#include "base/util.h"

static inline int unit_run(const char *name, const TTest *const *tests, size_t n)
{
	Suite *suite = suite_create(name);
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

#define UNIT_MAIN(name, ...)                                                                       \
	int main(void)                                                                             \
	{                                                                                          \
		const TTest *const tests[] = {__VA_ARGS__};                                        \
		return unit_run(name, tests, ARRAY_SIZE(tests));                                   \
	}

#endif
