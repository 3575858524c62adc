/* SPDX-License-Identifier: MIT */
#include "fs/habit.h"
#include "unit/unit.h"

#define TID 4711

/* Lists a directory of n files; how many came with attributes. */
static int list(struct habits *h, int n)
{
	int with = 0;
	habit_begin(h, TID);
	for (int i = 0; i < n; i++)
		with += habit_wants_attributes(h, TID);
	return with;
}

START_TEST(the_first_directory_comes_with_attributes_however_large_it_is)
{
	struct habits h = {0};
	ck_assert_int_eq(list(&h, 100 * HABIT_SAMPLE), 100 * (HABIT_SAMPLE - 1));
}
END_TEST

START_TEST(who_never_asks_for_what_was_left_out_gets_names_only)
{
	struct habits h = {0};
	for (int i = 0; i < HABIT_UNASKED; i++)
		ck_assert_int_gt(list(&h, HABIT_SAMPLE), 0);
	ck_assert_int_eq(list(&h, HABIT_SAMPLE), 0);
}
END_TEST

START_TEST(who_asks_after_each_directory_keeps_getting_attributes)
{
	struct habits h = {0};
	for (int i = 0; i < 100; i++) {
		ck_assert_int_ge(list(&h, 1000), 1000 - 1000 / HABIT_SAMPLE - 1);
		habit_asked(&h, TID);
	}
}
END_TEST

START_TEST(one_question_brings_attributes_back)
{
	struct habits h = {0};
	list(&h, HABIT_UNASKED * HABIT_SAMPLE);
	ck_assert_int_eq(list(&h, 10), 0);
	habit_asked(&h, TID);
	ck_assert_int_eq(list(&h, 10), 10);
}
END_TEST

START_TEST(the_habit_of_one_thread_is_not_that_of_another)
{
	struct habits h = {0};
	list(&h, HABIT_UNASKED * HABIT_SAMPLE);
	ck_assert_int_eq(list(&h, 10), 0);
	habit_begin(&h, TID + 1);
	ck_assert(habit_wants_attributes(&h, TID + 1));
}
END_TEST

UNIT_MAIN("habit", the_first_directory_comes_with_attributes_however_large_it_is,
	  who_never_asks_for_what_was_left_out_gets_names_only,
	  who_asks_after_each_directory_keeps_getting_attributes,
	  one_question_brings_attributes_back, the_habit_of_one_thread_is_not_that_of_another)
