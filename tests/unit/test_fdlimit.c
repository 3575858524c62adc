/* SPDX-License-Identifier: MIT */
#include "fs/fdlimit.h"
#include "unit/unit.h"

#define ALICE 1001
#define BOB   1002
#define CAROL 1003

/* 1000 for clients. */
static void room(void)
{
	fdlimit_set(1000 + 256);
}

static unsigned open_all(uid_t uid)
{
	unsigned n = 0;
	while (n < 10000 && fdlimit_client_try(uid))
		n++;
	return n;
}

static void close_all(uid_t uid, unsigned n)
{
	while (n--)
		fdlimit_client_done(uid);
}

START_TEST(one_user_gets_three_quarters_and_the_others_still_have_room)
{
	room();
	unsigned alice = open_all(ALICE), bob = open_all(BOB), carol = open_all(CAROL);
	ck_assert_uint_eq(alice, 750);
	ck_assert_uint_eq(bob, 125);
	ck_assert_uint_ge(carol, 62);
	/* however many users take all that they can get, one more opens its first */
	for (uid_t uid = 2000; uid < 2006; uid++)
		ck_assert_uint_gt(open_all(uid), 0);
}
END_TEST

START_TEST(root_gets_nearly_all_and_the_others_still_have_room)
{
	room();
	unsigned alice = open_all(ALICE);
	ck_assert_uint_eq(alice + open_all(0), 1000 - 1000 / 16);
	ck_assert_uint_gt(open_all(BOB), 0);
}
END_TEST

START_TEST(what_is_closed_can_be_opened_again)
{
	room();
	for (unsigned i = 0; i < 3; i++) {
		unsigned n = open_all(ALICE);
		ck_assert_uint_eq(n, 750);
		close_all(ALICE, n);
	}
	ck_assert_uint_eq(open_all(BOB), 750);
}
END_TEST

UNIT_MAIN("fdlimit", one_user_gets_three_quarters_and_the_others_still_have_room,
	  root_gets_nearly_all_and_the_others_still_have_room, what_is_closed_can_be_opened_again)
