/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <ratelimit/bulkhead.h>

#include "unit/unit.h"

static struct ratelimit_bulkhead_state look(const struct ratelimit_bulkhead *b)
{
	struct ratelimit_bulkhead_state s;
	ratelimit_bulkhead_look(b, &s);
	return s;
}

static struct ratelimit_bulkhead *make(int64_t limit)
{
	struct ratelimit_bulkhead *b;
	ck_assert_int_eq(ratelimit_bulkhead_new(&b, limit, NULL, 0), 0);
	return b;
}

START_TEST(operations_above_the_limit_are_refused_and_counted)
{
	struct ratelimit_bulkhead *b = make(1);
	struct ratelimit_admission first = RATELIMIT_ADMISSION_INIT,
				   second = RATELIMIT_ADMISSION_INIT;
	ck_assert_int_eq(ratelimit_bulkhead_enter(b, &first), 0);
	ck_assert_int_eq(ratelimit_bulkhead_enter(b, &second), -EAGAIN);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&second, RATELIMIT_SUCCESS), -EINVAL);
	struct ratelimit_bulkhead_state s = look(b);
	ck_assert_int_eq(s.limit, 1);
	ck_assert_int_eq(s.in_flight, 1);
	ck_assert_int_eq(s.available, 0);
	ck_assert_uint_eq(s.admitted, 1);
	ck_assert_uint_eq(s.refused, 1);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&first, RATELIMIT_SUCCESS), 0);
	ck_assert_int_eq(ratelimit_bulkhead_enter(b, &second), 0);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&second, RATELIMIT_SUCCESS), 0);
	ratelimit_bulkhead_free(b);
	ratelimit_bulkhead_free(NULL);
}
END_TEST

START_TEST(each_end_is_counted_as_one_kind)
{
	struct ratelimit_bulkhead *b = make(1);
	struct ratelimit_admission a = RATELIMIT_ADMISSION_INIT;
	static const enum ratelimit_outcome ends[] = {RATELIMIT_SUCCESS,   RATELIMIT_FAILURE,
						      RATELIMIT_FAILURE,   RATELIMIT_CANCELLED,
						      RATELIMIT_CANCELLED, RATELIMIT_CANCELLED};
	for (unsigned i = 0; i < ARRAY_SIZE(ends); i++) {
		ck_assert_int_eq(ratelimit_bulkhead_enter(b, &a), 0);
		ck_assert_int_eq(ratelimit_bulkhead_leave(&a, ends[i]), 0);
	}
	struct ratelimit_bulkhead_state s = look(b);
	ck_assert_uint_eq(s.admitted, 6);
	ck_assert_uint_eq(s.succeeded, 1);
	ck_assert_uint_eq(s.failed, 2);
	ck_assert_uint_eq(s.cancelled, 3);
	ck_assert_int_eq(s.in_flight, 0);
	ratelimit_bulkhead_free(b);
}
END_TEST

START_TEST(only_the_first_end_of_an_admission_has_an_effect)
{
	struct ratelimit_bulkhead *b = make(2);
	struct ratelimit_admission a = RATELIMIT_ADMISSION_INIT, other = RATELIMIT_ADMISSION_INIT;
	ck_assert_int_eq(ratelimit_bulkhead_leave(&a, RATELIMIT_SUCCESS), -EINVAL);
	ck_assert_int_eq(ratelimit_bulkhead_enter(b, &a), 0);
	ck_assert_int_eq(ratelimit_bulkhead_enter(b, &a), -EBUSY);
	ck_assert_int_eq(ratelimit_bulkhead_enter(b, &other), 0);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&a, (enum ratelimit_outcome)3), -EINVAL);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&a, RATELIMIT_CANCELLED), 0);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&a, RATELIMIT_SUCCESS), -EALREADY);
	struct ratelimit_bulkhead_state s = look(b);
	ck_assert_int_eq(s.in_flight, 1); /* the other one */
	ck_assert_uint_eq(s.cancelled, 1);
	ck_assert_uint_eq(s.succeeded, 0);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&other, RATELIMIT_SUCCESS), 0);
	ratelimit_bulkhead_free(b);
}
END_TEST

struct heard {
	struct ratelimit_bulkhead_event event[8];
	unsigned n;
};

static void hear(void *data, const struct ratelimit_bulkhead_event *event)
{
	struct heard *h = data;
	h->event[h->n++ % 8] = *event;
}

/* As badly as a listener can: ends the admission itself, another way, and spoils the event. */
static struct ratelimit_admission *victim;
static int victim_result;
static void meddle(void *data, const struct ratelimit_bulkhead_event *event)
{
	struct ratelimit_bulkhead_event *spoilt = (struct ratelimit_bulkhead_event *)event;
	if (event->kind == RATELIMIT_BULKHEAD_ENDED)
		victim_result = ratelimit_bulkhead_leave(victim, RATELIMIT_FAILURE);
	spoilt->outcome = RATELIMIT_FAILURE;
	spoilt->in_flight = 77;
}

START_TEST(listeners_hear_of_everything_and_cannot_change_the_outcome)
{
	struct heard h = {.n = 0};
	struct ratelimit_bulkhead_listener listeners[] = {{meddle, NULL}, {hear, &h}};
	struct ratelimit_admission a = RATELIMIT_ADMISSION_INIT, b = RATELIMIT_ADMISSION_INIT;
	struct ratelimit_bulkhead *bulkhead;
	ck_assert_int_eq(ratelimit_bulkhead_new(&bulkhead, 1, listeners, 2), 0);
	listeners[1].call = NULL; /* they were copied */
	victim = &a;
	ck_assert_int_eq(ratelimit_bulkhead_enter(bulkhead, &a), 0);
	ck_assert_int_eq(ratelimit_bulkhead_enter(bulkhead, &b), -EAGAIN);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&a, RATELIMIT_SUCCESS), 0);
	ck_assert_int_eq(victim_result, -EALREADY);
	ck_assert_uint_eq(h.n, 3);
	ck_assert_int_eq(h.event[0].kind, RATELIMIT_BULKHEAD_ADMITTED);
	ck_assert_int_eq(h.event[0].in_flight, 1);
	ck_assert_int_eq(h.event[1].kind, RATELIMIT_BULKHEAD_REFUSED);
	ck_assert_int_eq(h.event[2].kind, RATELIMIT_BULKHEAD_ENDED);
	ck_assert_int_eq(h.event[2].outcome, RATELIMIT_SUCCESS);
	ck_assert_int_eq(h.event[2].in_flight, 0);
	ck_assert_int_eq(h.event[2].limit, 1);
	ck_assert_uint_eq(look(bulkhead).succeeded, 1);
	ck_assert_uint_eq(look(bulkhead).failed, 0);
	ratelimit_bulkhead_free(bulkhead);
}
END_TEST

START_TEST(a_lowered_limit_ends_nobody)
{
	struct ratelimit_bulkhead *b = make(2);
	struct ratelimit_admission a[3] = {RATELIMIT_ADMISSION_INIT, RATELIMIT_ADMISSION_INIT,
					   RATELIMIT_ADMISSION_INIT};
	ck_assert_int_eq(ratelimit_bulkhead_enter(b, &a[0]), 0);
	ck_assert_int_eq(ratelimit_bulkhead_enter(b, &a[1]), 0);
	ck_assert_int_eq(ratelimit_bulkhead_set_limit(b, 1), 0);
	ck_assert_int_eq(look(b).in_flight, 2);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&a[0], RATELIMIT_SUCCESS), 0);
	ck_assert_int_eq(ratelimit_bulkhead_enter(b, &a[2]), -EAGAIN);
	ck_assert_int_eq(ratelimit_bulkhead_set_limit(b, -1), -EINVAL);
	ck_assert_int_eq(ratelimit_bulkhead_leave(&a[1], RATELIMIT_SUCCESS), 0);
	ratelimit_bulkhead_free(b);
	ck_assert_int_eq(ratelimit_bulkhead_new(&b, -1, NULL, 0), -EINVAL);
	ck_assert_ptr_null(b);
}
END_TEST

UNIT_MAIN("ratelimit_bulkhead", operations_above_the_limit_are_refused_and_counted,
	  each_end_is_counted_as_one_kind, only_the_first_end_of_an_admission_has_an_effect,
	  listeners_hear_of_everything_and_cannot_change_the_outcome, a_lowered_limit_ends_nobody)
