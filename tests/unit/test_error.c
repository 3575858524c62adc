/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "unit/unit.h"

START_TEST(an_error_says_where_and_what)
{
	struct error e = ERROR_INIT;
	ck_assert(!error_is_set(&e));
	ck_assert_int_eq(error_set(&e, "'%s': unknown suffix '%c'", "10Q", 'Q'), -1);
	ck_assert_int_eq(error_prefix(&e, "[mount:%s] %s", "data", "write_bps"), -1);
	ck_assert_str_eq(e.text, "[mount:data] write_bps: '10Q': unknown suffix 'Q'");
	ck_assert(error_is_set(&e));
}
END_TEST

START_TEST(what_is_wrong_and_the_remedy_can_be_told_apart)
{
	struct error e = ERROR_INIT;
	ck_assert_str_eq(error_remedy(&e), "");
	error_set(&e, "'%s': not a number; write for example %s", "a; b", "10; 20");
	error_prefix(&e, "%s", "one; two");
	ck_assert_str_eq(e.text, "one; two: 'a; b': not a number; write for example 10; 20");
	ck_assert_str_eq(error_remedy(&e), "write for example 10; 20");
	ck_assert_uint_eq(e.what, strlen("one; two: 'a; b': not a number"));
	error_set(&e, "'%s' is wrong", "a; b");
	ck_assert_str_eq(error_remedy(&e), "");
}
END_TEST

START_TEST(a_remedy_that_was_cut_off_is_none)
{
	struct error e = ERROR_INIT;
	char longish[sizeof(e.text)];
	memset(longish, 'x', sizeof(longish) - 1);
	longish[sizeof(longish) - 1] = '\0';
	error_set(&e, "'%s' is too long; shorten it", longish);
	ck_assert_str_eq(error_remedy(&e), "");
	ck_assert_uint_eq(strlen(e.text), sizeof(e.text) - 1);
}
END_TEST

START_TEST(nobody_has_to_listen_to_an_error)
{
	ck_assert_int_eq(error_set(NULL, "lost"), -1);
	ck_assert_int_eq(error_prefix(NULL, "nowhere"), -1);
}
END_TEST

START_TEST(a_long_error_is_cut_and_keeps_its_place)
{
	struct error e = ERROR_INIT;
	char longish[2000];
	memset(longish, 'x', sizeof(longish) - 1);
	longish[sizeof(longish) - 1] = '\0';
	error_set(&e, "%s", longish);
	ck_assert_uint_eq(strlen(e.text), sizeof(e.text) - 1);
	error_prefix(&e, "%s", "here");
	ck_assert_int_eq(strncmp(e.text, "here: xxx", 9), 0);
	ck_assert_uint_lt(strlen(e.text), sizeof(e.text));
	error_prefix(&e, "%s", longish);
	ck_assert_uint_lt(strlen(e.text), sizeof(e.text));
}
END_TEST

START_TEST(a_message_is_one_line_with_the_name_in_front_and_below_the_level_silent)
{
	int ends[2];
	char text[200] = "";
	ck_assert_int_eq(pipe(ends), 0);
	int saved = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	log_set_level(LOG_LEVEL_WARNING);
	log_info("not heard");
	log_warning("%d of %d", 1, 2);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	ssize_t n = read(ends[0], text, sizeof(text) - 1);
	close(ends[0]);
	ck_assert_int_gt(n, 0);
	ck_assert_str_eq(text, "test_error: 1 of 2\n");
	ck_assert(log_enabled(LOG_LEVEL_ERROR));
	ck_assert(!log_enabled(LOG_LEVEL_INFO));
}
END_TEST

UNIT_MAIN("error", an_error_says_where_and_what, what_is_wrong_and_the_remedy_can_be_told_apart,
	  a_remedy_that_was_cut_off_is_none, nobody_has_to_listen_to_an_error,
	  a_long_error_is_cut_and_keeps_its_place,
	  a_message_is_one_line_with_the_name_in_front_and_below_the_level_silent)
