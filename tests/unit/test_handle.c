/* SPDX-License-Identifier: MIT */
/* The numbers of open files. */
#include "fs/handle.h"

#include <errno.h>
#include <string.h>

#include "unit/unit.h"

#define MANY 5000

static struct handle_table table;

static struct handle *new_handles(unsigned n)
{
	struct handle *h = calloc(n, sizeof(*h));
	ck_assert_ptr_nonnull(h);
	for (unsigned i = 0; i < n; i++)
		h[i].fd = (int)i;
	return h;
}

START_TEST(a_number_finds_its_handle_and_no_other)
{
	struct handle *h = new_handles(MANY);
	handle_table_init(&table);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_int_eq(handle_table_add(&table, &h[i]), 0);
	for (unsigned i = 0; i < MANY; i++)
		UNIT_REQUIRE(handle_find(&table, h[i].number) == &h[i]);
	handle_table_free(&table);
	free(h);
}
END_TEST

START_TEST(a_number_is_stale_once_its_handle_is_closed_and_stays_so)
{
	struct handle h = {.fd = 3}, next = {.fd = 3};
	handle_table_init(&table);
	ck_assert_int_eq(handle_table_add(&table, &h), 0);
	uint64_t old = h.number;
	handle_table_remove(&table, &h);
	ck_assert_ptr_null(handle_find(&table, old));
	ck_assert_int_eq(handle_table_add(&table, &next), 0);
	ck_assert_uint_eq((uint32_t)next.number, (uint32_t)old); /* the same place */
	ck_assert_uint_ne(next.number, old);
	ck_assert_ptr_null(handle_find(&table, old));
	ck_assert_ptr_eq(handle_find(&table, next.number), &next);
	handle_table_free(&table);
}
END_TEST

START_TEST(numbers_that_were_made_up_find_nothing)
{
	struct handle h = {.fd = 5};
	handle_table_init(&table);
	ck_assert_ptr_null(handle_find(&table, 0));
	ck_assert_ptr_null(handle_find(&table, 5));
	ck_assert_int_eq(handle_table_add(&table, &h), 0);
	uint64_t x = unit_seed();
	for (unsigned i = 0; i < 1000000; i++) {
		uint64_t guess = unit_random(&x);
		if (guess != h.number)
			UNIT_REQUIRE(!handle_find(&table, guess));
	}
	ck_assert_ptr_null(handle_find(&table, (uint32_t)h.number)); /* generation 0 */
	ck_assert_ptr_null(handle_find(&table, UINT64_MAX));
	handle_table_free(&table);
}
END_TEST

START_TEST(a_table_that_is_read_back_knows_the_same_numbers_and_gives_out_others)
{
	struct handle *h = new_handles(MANY);
	struct handle again = {.fd = 1}, fresh[2 * HANDLE_SHARDS] = {{0}};
	handle_table_init(&table);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_int_eq(handle_table_add(&table, &h[i]), 0);
	handle_table_free(&table);
	memset(&table, 0, sizeof(table));
	handle_table_init(&table);
	for (unsigned i = MANY; i-- > 0; i -= i > 0) /* every second one was open */
		ck_assert_int_eq(handle_table_restore(&table, &h[i]), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(fresh); i++) {
		fresh[i].fd = (int)i;
		ck_assert_int_eq(handle_table_add(&table, &fresh[i]), 0);
	}
	for (unsigned i = MANY; i-- > 0; i -= i > 0)
		UNIT_REQUIRE(handle_find(&table, h[i].number) == &h[i]);
	again.number = h[MANY - 1].number;
	ck_assert_int_eq(handle_table_restore(&table, &again), -EEXIST);
	again.number &= UINT32_MAX;
	ck_assert_int_eq(handle_table_restore(&table, &again), -EINVAL);
	handle_table_free(&table);
	free(h);
}
END_TEST

UNIT_MAIN("handle", a_number_finds_its_handle_and_no_other,
	  a_number_is_stale_once_its_handle_is_closed_and_stays_so,
	  numbers_that_were_made_up_find_nothing,
	  a_table_that_is_read_back_knows_the_same_numbers_and_gives_out_others)
