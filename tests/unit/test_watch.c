/* SPDX-License-Identifier: MIT */
#include "fs/watch.h"

#include <stdlib.h>

#include "unit/unit.h"

#define MANY 2000

static bool no_memory;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size); /* -Wl,--wrap=malloc */
void *__wrap_malloc(size_t size)
{
	return no_memory ? NULL : __real_malloc(size);
}

static struct watch w;
static struct watched many[MANY], one, other;

static void setup(void)
{
	watch_init(&w);
	for (int i = 0; i < MANY; i++)
		many[i] = (struct watched){0};
	one = other = (struct watched){0};
}

static void teardown(void)
{
	for (int i = 0; i < MANY; i++)
		watch_remove(&w, &many[i]);
	watch_remove(&w, &one);
	watch_remove(&w, &other);
	ck_assert(!watch_any(&w));
}

/* A caller of `uid` that has been looked at and found to be of this process. */
static void known(struct watched *c, uint32_t uid, uint32_t process, uint64_t now_ns)
{
	watch_add(&w, c, uid, 0, true, now_ns);
	watch_stays(&w, c, process, now_ns);
}

/* Looks until it is c's turn, and says how many looks went before. */
static int looks_before(const struct watched *c, uint64_t now_ns)
{
	for (int n = 0; n < 10 * MANY; n++) {
		struct watched *next = watch_next(&w, true, now_ns);
		ck_assert_ptr_nonnull(next);
		if (next == c)
			return n;
		watch_stays(&w, next, 1, now_ns);
	}
	return -1;
}

START_TEST(nobody_is_due_before_the_time)
{
	setup();
	known(&one, 1, 10, 0);
	ck_assert_ptr_null(watch_next(&w, true, WATCH_EVERY_NS - 1));
	ck_assert_ptr_eq(watch_next(&w, true, WATCH_EVERY_NS), &one);
	ck_assert_ptr_null(watch_next(&w, true, WATCH_EVERY_NS));
	ck_assert_ptr_eq(watch_next(&w, true, 2 * WATCH_EVERY_NS), &one);
	teardown();
}
END_TEST

START_TEST(fresh_callers_need_not_be_due)
{
	setup();
	watch_add(&w, &one, 1, 0, true, 0);
	ck_assert_ptr_eq(watch_next(&w, false, 0), &one);
	watch_stays(&w, &one, 10, 0);
	ck_assert_ptr_null(watch_next(&w, false, WATCH_EVERY_NS));
	teardown();
}
END_TEST

START_TEST(many_processes_of_one_user_do_not_delay_another_user)
{
	setup();
	for (int i = 0; i < MANY; i++)
		known(&many[i], 1, 100 + (uint32_t)i, 0);
	known(&one, 2, 10, 0);
	ck_assert_int_le(looks_before(&one, WATCH_EVERY_NS), 1);
	teardown();
}
END_TEST

START_TEST(many_fresh_callers_of_one_user_do_not_delay_another_user)
{
	setup();
	for (int i = 0; i < MANY; i++)
		watch_add(&w, &many[i], 1, 0, true, 0);
	watch_add(&w, &one, 2, 0, true, 0);
	ck_assert_int_le(looks_before(&one, 0), 1);
	teardown();
}
END_TEST

START_TEST(many_threads_of_one_process_do_not_delay_another_process_of_the_user)
{
	setup();
	for (int i = 0; i < MANY; i++)
		known(&many[i], 1, 100, 0);
	known(&one, 1, 10, 0);
	ck_assert_int_le(looks_before(&one, WATCH_EVERY_NS), 1);
	teardown();
}
END_TEST

START_TEST(all_threads_of_a_process_get_their_look_in_time_that_is_left)
{
	setup();
	for (int i = 0; i < MANY; i++)
		known(&many[i], 1, 100, 0);
	for (int i = 0; i < MANY; i++)
		ck_assert_ptr_eq(watch_next(&w, true, WATCH_EVERY_NS), &many[i]);
	ck_assert_ptr_null(watch_next(&w, true, WATCH_EVERY_NS));
	teardown();
}
END_TEST

START_TEST(one_look_is_enough_for_callers_that_depend_on_their_process_only)
{
	setup();
	for (int i = 0; i < MANY; i++) {
		many[i].by_process = true;
		watch_add(&w, &many[i], 1, 100, false, 0);
	}
	ck_assert_ptr_nonnull(watch_next(&w, true, WATCH_EVERY_NS));
	ck_assert_ptr_null(watch_next(&w, true, WATCH_EVERY_NS));
	/* The kernel reports a signal of one of them: that one has to be looked at. */
	watch_add(&w, &many[7], 1, 0, true, WATCH_EVERY_NS);
	ck_assert_ptr_eq(watch_next(&w, true, WATCH_EVERY_NS), &many[7]);
	watch_stays(&w, &many[7], 100, WATCH_EVERY_NS);
	ck_assert_int_ge(looks_before(&many[7], 2 * WATCH_EVERY_NS), 0);
	/* When it has gone, one look is enough again. */
	watch_remove(&w, &many[7]);
	ck_assert_ptr_nonnull(watch_next(&w, true, 3 * WATCH_EVERY_NS));
	ck_assert_ptr_null(watch_next(&w, true, 3 * WATCH_EVERY_NS));
	teardown();
}
END_TEST

START_TEST(who_is_fresh_does_not_keep_the_others_of_its_user_from_their_look)
{
	setup();
	known(&one, 1, 10, 0);
	for (int i = 0; i < MANY; i++)
		watch_add(&w, &many[i], 1, 0, true, 0);
	ck_assert_int_le(looks_before(&one, WATCH_EVERY_NS), 2);
	teardown();
}
END_TEST

START_TEST(the_callers_of_a_killed_process_leave_without_a_look)
{
	setup();
	for (int i = 0; i < 3; i++)
		known(&many[i], 1, 100, 0);
	known(&one, 1, 10, 0);
	watch_killed(&w, &many[0], 100);
	watch_remove(&w, &many[0]);
	ck_assert(watch_urgent(&w));
	for (int i = 1; i < 3; i++) {
		ck_assert_ptr_eq(watch_next(&w, false, 0), &many[i]);
		ck_assert(many[i].leaves);
		watch_remove(&w, &many[i]);
	}
	ck_assert(!watch_urgent(&w));
	ck_assert_ptr_eq(watch_next(&w, true, WATCH_EVERY_NS), &one);
	ck_assert(!one.leaves);
	teardown();
}
END_TEST

START_TEST(who_waits_for_the_end_of_its_process_is_not_taken_along_by_a_signal)
{
	setup();
	known(&many[0], 1, 100, 0);
	watch_add(&w, &one, 1, 100, false, 0);
	watch_add(&w, &other, 1, 100, false, 0);
	watch_killed(&w, &many[0], 100);
	ck_assert(many[0].leaves && !one.leaves && !other.leaves);
	watch_killed(&w, &one, 100);
	ck_assert(one.leaves && other.leaves);
	teardown();
}
END_TEST

START_TEST(who_gets_a_signal_while_it_is_watched_is_fresh)
{
	setup();
	watch_add(&w, &one, 1, 100, false, 0);
	ck_assert(!watch_urgent(&w));
	watch_add(&w, &one, 1, 0, true, 0);
	ck_assert_ptr_eq(watch_next(&w, false, 0), &one);
	watch_stays(&w, &one, 100, 0);
	watch_add(&w, &one, 1, 0, true, 0);
	ck_assert_ptr_null(watch_next(&w, false, 0));
	teardown();
}
END_TEST

START_TEST(without_memory_callers_are_watched_all_the_same)
{
	setup();
	no_memory = true;
	for (int i = 0; i < 3; i++)
		known(&many[i], (uint32_t)i, (uint32_t)i, 0);
	no_memory = false;
	for (int i = 0; i < 3; i++)
		ck_assert_ptr_eq(watch_next(&w, true, WATCH_EVERY_NS), &many[i]);
	ck_assert_ptr_null(watch_next(&w, true, WATCH_EVERY_NS));
	teardown();
}
END_TEST

UNIT_MAIN("watch", nobody_is_due_before_the_time, fresh_callers_need_not_be_due,
	  many_processes_of_one_user_do_not_delay_another_user,
	  many_fresh_callers_of_one_user_do_not_delay_another_user,
	  many_threads_of_one_process_do_not_delay_another_process_of_the_user,
	  all_threads_of_a_process_get_their_look_in_time_that_is_left,
	  one_look_is_enough_for_callers_that_depend_on_their_process_only,
	  who_is_fresh_does_not_keep_the_others_of_its_user_from_their_look,
	  the_callers_of_a_killed_process_leave_without_a_look,
	  who_waits_for_the_end_of_its_process_is_not_taken_along_by_a_signal,
	  who_gets_a_signal_while_it_is_watched_is_fresh,
	  without_memory_callers_are_watched_all_the_same)
