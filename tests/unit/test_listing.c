/* SPDX-License-Identifier: MIT */
#include "fs/listing.h"

#include "unit/unit.h"

#define KIB 1024U

static struct listings listings;

START_TEST(an_unknown_directory_may_need_what_is_asked_for)
{
	ck_assert_uint_eq(listing_expect(&listings, 7, 512 * KIB), 512 * KIB);
	listing_gave(&listings, 7 + LISTING_SLOTS, 512 * KIB, 100, false); /* another one's slot */
	ck_assert_uint_eq(listing_expect(&listings, 7, 512 * KIB), 512 * KIB);
}
END_TEST

START_TEST(a_directory_is_expected_to_give_what_it_gave_at_the_most)
{
	listing_gave(&listings, 8, 512 * KIB, 20 * KIB, false);
	listing_gave(&listings, 8, 20 * KIB, 0, false); /* the end of the listing */
	ck_assert_uint_eq(listing_expect(&listings, 8, 512 * KIB), 20 * KIB);
	ck_assert_uint_eq(listing_expect(&listings, 8, 4 * KIB), 4 * KIB);
}
END_TEST

START_TEST(an_empty_directory_is_expected_to_give_an_entry)
{
	listing_gave(&listings, 9, 512 * KIB, 0, false);
	ck_assert_uint_eq(listing_expect(&listings, 9, 512 * KIB), LISTING_LEAST);
	ck_assert_uint_eq(listing_expect(&listings, 9, 300), 300);
}
END_TEST

START_TEST(a_listing_that_was_cut_gets_twice_as_much_the_next_time)
{
	listing_gave(&listings, 10, 512 * KIB, 3 * KIB, false);
	listing_gave(&listings, 10, 3 * KIB, 3 * KIB - 8, true);
	ck_assert_uint_eq(listing_expect(&listings, 10, 512 * KIB), 6 * KIB);
	for (unsigned i = 0; i < 40; i++) {
		size_t size = listing_expect(&listings, 10, 512 * KIB);
		listing_gave(&listings, 10, size, size - 8, true);
	}
	ck_assert_uint_eq(listing_expect(&listings, 10, 512 * KIB), 512 * KIB);
}
END_TEST

UNIT_MAIN("listing", an_unknown_directory_may_need_what_is_asked_for,
	  a_directory_is_expected_to_give_what_it_gave_at_the_most,
	  an_empty_directory_is_expected_to_give_an_entry,
	  a_listing_that_was_cut_gets_twice_as_much_the_next_time)
