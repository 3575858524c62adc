/* SPDX-License-Identifier: MIT */
#include "fs/capture.h"

#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "unit/unit.h"

/* Another thread may log while a helper runs. */
START_TEST(what_is_logged_meanwhile_goes_to_the_log_and_not_into_the_error)
{
	struct error err = ERROR_INIT;
	struct capture helper;
	char logged[200] = "";
	int ends[2];
	ck_assert_int_eq(pipe(ends), 0);
	int saved = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	capture_begin(&helper);
	log_warning("something else");
	dprintf(STDERR_FILENO, "helper: not allowed\nread the manual\n");
	capture_end(&helper, &err);
	log_warning("and more");
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	ck_assert_int_gt(read(ends[0], logged, sizeof(logged) - 1), 0);
	close(ends[0]);
	ck_assert_str_eq(err.text, "helper: not allowed");
	ck_assert_str_eq(logged, "test_capture: something else\ntest_capture: and more\n");
}
END_TEST

START_TEST(a_silent_helper_leaves_the_error_as_it_was)
{
	struct error err = ERROR_INIT;
	struct capture helper;
	capture_begin(&helper);
	capture_end(&helper, &err);
	ck_assert(!error_is_set(&err));
}
END_TEST

UNIT_MAIN("capture", what_is_logged_meanwhile_goes_to_the_log_and_not_into_the_error,
	  a_silent_helper_leaves_the_error_as_it_was)
