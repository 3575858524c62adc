/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <ratelimit/permits.h>

#include "unit/unit.h"

static struct ratelimit_permits_state look(const struct ratelimit_permits *p)
{
	struct ratelimit_permits_state s;
	ratelimit_permits_look(p, &s);
	return s;
}

START_TEST(permits_are_refused_immediately_above_the_limit)
{
	struct ratelimit_permits *p;
	ck_assert_int_eq(ratelimit_permits_new(&p, 2), 0);
	ck_assert_int_eq(ratelimit_permits_acquire(p), 0);
	ck_assert_int_eq(ratelimit_permits_acquire(p), 0);
	ck_assert_int_eq(ratelimit_permits_acquire(p), -EAGAIN);
	ck_assert_int_eq(look(p).limit, 2);
	ck_assert_int_eq(look(p).in_flight, 2);
	ck_assert_int_eq(look(p).available, 0);
	ratelimit_permits_release(p);
	ck_assert_int_eq(ratelimit_permits_acquire(p), 0);
	ratelimit_permits_free(p);
	ratelimit_permits_free(NULL);
}
END_TEST

START_TEST(a_forced_permit_exceeds_the_limit)
{
	struct ratelimit_permits *p;
	ck_assert_int_eq(ratelimit_permits_new(&p, 0), 0);
	ratelimit_permits_force_acquire(p);
	ck_assert_int_eq(look(p).in_flight, 1);
	ck_assert_int_eq(ratelimit_permits_acquire(p), -EAGAIN);
	ratelimit_permits_release(p);
	ck_assert_int_eq(look(p).in_flight, 0);
	ratelimit_permits_free(p);
}
END_TEST

START_TEST(holders_above_a_lowered_limit_keep_their_permits)
{
	struct ratelimit_permits *p;
	ck_assert_int_eq(ratelimit_permits_new(&p, 2), 0);
	ck_assert_int_eq(ratelimit_permits_acquire(p), 0);
	ck_assert_int_eq(ratelimit_permits_acquire(p), 0);
	ck_assert_int_eq(ratelimit_permits_set_limit(p, 1), 0);
	ck_assert_int_eq(look(p).in_flight, 2);
	ratelimit_permits_release(p);
	ck_assert_int_eq(ratelimit_permits_acquire(p), -EAGAIN);
	ratelimit_permits_free(p);
}
END_TEST

START_TEST(a_negative_limit_is_refused)
{
	struct ratelimit_permits *p;
	ck_assert_int_eq(ratelimit_permits_new(&p, -1), -EINVAL);
	ck_assert_ptr_null(p);
	ck_assert_int_eq(ratelimit_permits_new(&p, 1), 0);
	ck_assert_int_eq(ratelimit_permits_set_limit(p, -1), -EINVAL);
	ck_assert_int_eq(look(p).limit, 1);
	ratelimit_permits_free(p);
}
END_TEST

UNIT_MAIN("ratelimit_permits", permits_are_refused_immediately_above_the_limit,
	  a_forced_permit_exceeds_the_limit, holders_above_a_lowered_limit_keep_their_permits,
	  a_negative_limit_is_refused)
