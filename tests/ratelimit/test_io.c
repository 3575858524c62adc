/* SPDX-License-Identifier: MIT */
#include "ratelimit/io_check.h"

#include <dlfcn.h>
#include <pthread.h>

static const struct ratelimit_io_config both = {
	.ops = {.size = 10, .refill_per_sec = 1000},
	.bytes = {.size = 4096, .refill_per_sec = 1000000},
};
static const struct ratelimit_io_config one_in_flight = {.max_inflight = 1};

START_TEST(ops_and_bytes_are_taken_together_or_not_at_all)
{
	struct ratelimit_io *io = io_make(&both, PAST);
	struct ratelimit_refusal why;
	struct ratelimit_io_state s;
	ck_assert_int_eq(ratelimit_io_consume(io, 1, 4096, PAST, &why), 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 1, 1000, PAST, &why), -EAGAIN);
	ck_assert_int_eq(why.limit, RATELIMIT_BYTES);
	ck_assert_uint_eq(why.scope, 0);
	ck_assert_uint_eq(why.wait_ns, NSEC_PER_MSEC);
	ratelimit_io_look(io, PAST, &s);
	ck_assert_int_eq(s.ops.budget, 9); /* the refused request took no operation */
	ck_assert_int_eq(s.bytes.budget, 0);
	ck_assert_int_eq(s.max_inflight, 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 9, 0, PAST, &why),
			 0); /* bytes block bytes only */
	ck_assert_int_eq(ratelimit_io_consume(io, 2, 0, PAST, &why), -EAGAIN);
	ck_assert_int_eq(why.limit, RATELIMIT_OPS);
	ck_assert_uint_eq(why.wait_ns, 2 * NSEC_PER_MSEC);
	ck_assert_int_eq(ratelimit_io_consume(io, 2, 0, PAST + 2 * NSEC_PER_MSEC, NULL), 0);
	ratelimit_io_free(io);
	ratelimit_io_free(NULL);
}
END_TEST

START_TEST(a_limiter_without_limits_grants_everything)
{
	const struct ratelimit_io_config none = {0};
	struct ratelimit_io *io = io_make(&none, PAST);
	struct ratelimit_io_state s;
	ck_assert_int_eq(ratelimit_io_consume(io, UINT32_MAX, RATELIMIT_TOKENS_MAX, PAST, NULL), 0);
	ck_assert_int_eq(ratelimit_io_force_consume(io, 1, 1, PAST), 0);
	ck_assert_int_eq(ratelimit_io_undo(io, 1, 1), 0);
	ck_assert_int_eq(ratelimit_io_refund_bytes(io, 1), 0);
	ratelimit_io_release(io);
	ratelimit_io_look(io, PAST, &s);
	ck_assert_uint_eq(s.ops.size, 0);
	ratelimit_io_free(io);
}
END_TEST

START_TEST(the_descriptor_becomes_readable_when_the_request_would_be_granted)
{
	uint64_t now_ns = future();
	struct ratelimit_io *io = io_make(&both, now_ns);
	int fd = ratelimit_io_fd(io);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ratelimit_io_fd(io), fd);
	ck_assert_int_eq(ratelimit_io_consume(io, 10, 0, now_ns, NULL), 0);
	ck_assert_int_eq(ratelimit_io_blocked(io), 0);
	ck_assert_uint_eq(readable_in_ns(fd), 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 7, 0, now_ns, NULL), -EAGAIN);
	ck_assert_int_eq(ratelimit_io_blocked(io), 1);
	ck_assert_int_eq(readable(fd), 0);
	ck_assert_int_eq(ratelimit_io_event(io), -EAGAIN);
	/* The hour, less what has passed since: the test may be slow, the timer may not be late. */
	uint64_t in_ns = readable_in_ns(fd), real_ns = ratelimit_now_ns();
	ck_assert_uint_ge(real_ns + in_ns, now_ns + 7 * NSEC_PER_MSEC);
	ck_assert_uint_le(in_ns, HOUR + 7 * NSEC_PER_MSEC);
	ratelimit_io_free(io);
}
END_TEST

START_TEST(the_smallest_of_the_refused_requests_sets_the_time)
{
	uint64_t now_ns = future();
	struct ratelimit_io *io = io_make(&both, now_ns);
	int fd = ratelimit_io_fd(io);
	ck_assert_int_eq(ratelimit_io_force_consume(io, 100010, 0, now_ns), 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 5, 0, now_ns, NULL), -EAGAIN);
	uint64_t five_ns = readable_in_ns(fd);
	ck_assert_uint_gt(five_ns, HOUR - 5 * NSEC_PER_SEC + 100 * NSEC_PER_SEC);
	ck_assert_int_eq(ratelimit_io_consume(io, 10, 0, now_ns, NULL), -EAGAIN);
	ck_assert_uint_le(readable_in_ns(fd), five_ns);
	ck_assert_int_eq(ratelimit_io_consume(io, 1, 0, now_ns, NULL), -EAGAIN);
	ck_assert_uint_le(readable_in_ns(fd), five_ns - 4 * NSEC_PER_MSEC);
	ratelimit_io_free(io);
}
END_TEST

START_TEST(an_event_ends_the_block_and_the_request_can_be_tried_again)
{
	struct ratelimit_io *io = io_make(&both, PAST);
	int fd = ratelimit_io_fd(io);
	ck_assert_int_eq(ratelimit_io_event(io), -EAGAIN);
	ck_assert_int_eq(ratelimit_io_consume(io, 10, 0, PAST, NULL), 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 10, 0, PAST, NULL), -EAGAIN);
	ck_assert_int_eq(readable(fd), 1); /* that time is over */
	ck_assert_int_eq(ratelimit_io_event(io), 0);
	ck_assert_int_eq(ratelimit_io_blocked(io), 0);
	ck_assert_int_eq(readable(fd), 0);
	ck_assert_int_eq(ratelimit_io_event(io), -EAGAIN);
	uint64_t early_ns = PAST + 10 * NSEC_PER_MSEC - 1;
	ck_assert_int_eq(ratelimit_io_consume(io, 10, 0, early_ns, NULL), -EAGAIN);
	ck_assert_int_eq(readable(fd), 1); /* set anew */
	ck_assert_int_eq(ratelimit_io_event(io), 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 10, 0, early_ns + 1, NULL), 0);
	ratelimit_io_free(io);
}
END_TEST

START_TEST(a_descriptor_that_is_asked_for_late_misses_no_refusal)
{
	struct ratelimit_io *io = io_make(&both, PAST);
	ck_assert_int_eq(ratelimit_io_event(io), -EAGAIN);
	ck_assert_int_eq(ratelimit_io_force_consume(io, 20, 0, PAST), 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 1, 0, PAST, NULL), -EAGAIN);
	ck_assert_int_eq(readable(ratelimit_io_fd(io)), 1);
	ratelimit_io_free(io);
}
END_TEST

START_TEST(a_permit_that_comes_back_makes_the_descriptor_readable)
{
	uint64_t now_ns = future();
	struct ratelimit_io *io = io_make(&one_in_flight, now_ns);
	struct ratelimit_refusal why;
	struct ratelimit_io_state s;
	int fd = ratelimit_io_fd(io);
	ck_assert_int_eq(ratelimit_io_consume(io, 1, 1, now_ns, NULL), 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 1, 1, now_ns, &why), -EAGAIN);
	ck_assert_int_eq(why.limit, RATELIMIT_INFLIGHT);
	ck_assert_uint_eq(why.wait_ns, RATELIMIT_NEVER);
	ck_assert_int_eq(readable(fd), 0);
	ck_assert_uint_eq(readable_in_ns(fd), 0);
	ratelimit_io_look(io, now_ns, &s);
	ck_assert_int_eq(s.in_flight, 1);
	ck_assert_int_eq(s.max_inflight, 1);
	ratelimit_io_release(io);
	ck_assert_int_eq(readable(fd), 1);
	ck_assert_int_eq(ratelimit_io_event(io), 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 1, 1, now_ns, NULL), 0);
	ratelimit_io_release(io); /* nobody waits */
	ck_assert_int_eq(readable(fd), 0);
	ratelimit_io_free(io);
}
END_TEST

#ifndef RATEFS_SANITIZER /* which have a pthread_mutex_lock of their own */
/* The library calls this one: so something can happen between a refusal and what the limiter does about it. */
static struct ratelimit_io *give_back_to;

int pthread_mutex_lock(pthread_mutex_t *lock)
{
	static int (*real)(pthread_mutex_t * lock);
	struct ratelimit_io *io = give_back_to;
	give_back_to = NULL;
	if (io)
		ratelimit_io_release(io);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	return real(lock);
}

START_TEST(a_permit_that_comes_back_during_a_refusal_is_not_missed)
{
	uint64_t now_ns = future();
	struct ratelimit_io *io = io_make(&one_in_flight, now_ns);
	int fd = ratelimit_io_fd(io);
	ck_assert_int_eq(ratelimit_io_consume(io, 1, 1, now_ns, NULL), 0);
	give_back_to = io;
	int rc = ratelimit_io_consume(io, 1, 1, now_ns, NULL);
	ck_assert_ptr_null(give_back_to);
	ck_assert(rc == 0 || readable(fd) == 1);
	ck_assert_int_eq(ratelimit_io_blocked(io), rc != 0);
	ratelimit_io_free(io);
}
END_TEST
#endif

/* Blocks, gives something back by `how`, and expects an event. */
static void expect_event_after(void (*how)(struct ratelimit_io *io, uint64_t now_ns))
{
	uint64_t now_ns = future();
	struct ratelimit_io *io = io_make(&both, now_ns);
	int fd = ratelimit_io_fd(io);
	ck_assert_int_eq(ratelimit_io_consume(io, 10, 4096, now_ns, NULL), 0);
	ck_assert_int_eq(ratelimit_io_consume(io, 5, 100, now_ns, NULL), -EAGAIN);
	ck_assert_int_eq(readable(fd), 0);
	how(io, now_ns);
	ck_assert_int_eq(readable(fd), 1);
	ck_assert_int_eq(ratelimit_io_event(io), 0);
	ratelimit_io_free(io);
}

static void undo(struct ratelimit_io *io, uint64_t now_ns)
{
	struct ratelimit_io_state s;
	ck_assert_int_eq(ratelimit_io_undo(io, 10, 4096), 0);
	ratelimit_io_look(io, now_ns, &s);
	ck_assert_int_eq(s.ops.budget, 10);
	ck_assert_int_eq(s.bytes.budget, 4096);
}

static void refund(struct ratelimit_io *io, uint64_t now_ns)
{
	struct ratelimit_io_state s;
	ck_assert_int_eq(ratelimit_io_refund_bytes(io, 96), 0);
	ratelimit_io_look(io, now_ns, &s);
	ck_assert_int_eq(s.ops.budget, 0);
	ck_assert_int_eq(s.bytes.budget, 96);
}

static void replenish(struct ratelimit_io *io, uint64_t now_ns)
{
	struct ratelimit_io_state s;
	ck_assert_int_eq(ratelimit_io_force_replenish(io, RATELIMIT_OPS, 3, now_ns), 0);
	ck_assert_int_eq(ratelimit_io_force_replenish(io, RATELIMIT_BYTES, 5000, now_ns), 0);
	ratelimit_io_look(io, now_ns, &s);
	ck_assert_int_eq(s.ops.budget, 3);
	ck_assert_int_eq(s.bytes.budget, 4096);
}

static void speed_up(struct ratelimit_io *io, uint64_t now_ns)
{
	struct ratelimit_io_config c = both;
	struct ratelimit_io_state s;
	c.ops.refill_per_sec = 5000;
	c.ops.size = 50;
	ck_assert_int_eq(ratelimit_io_reconfigure(io, &c, now_ns), 0);
	ratelimit_io_look(io, now_ns, &s);
	ck_assert_int_eq(s.ops.budget, 0); /* nothing is refilled */
	ck_assert_uint_eq(s.ops.size, 50);
	ck_assert_uint_eq(s.ops.refill_per_sec, 5000);
}

START_TEST(whatever_comes_back_makes_the_descriptor_readable)
{
	expect_event_after(undo);
	expect_event_after(refund);
	expect_event_after(replenish);
	expect_event_after(speed_up);
}
END_TEST

START_TEST(numbers_out_of_range_are_refused)
{
	struct ratelimit_io *io = io_make(&one_in_flight, PAST), *none = io;
	struct ratelimit_io_config c = {.ops = {.size = 1}};
	ck_assert_int_eq(ratelimit_io_new(&none, &c, PAST), -EINVAL); /* a rate of 0 */
	ck_assert_ptr_null(none);
	c = (struct ratelimit_io_config){.bytes = {.refill_per_sec = 1}};
	ck_assert_int_eq(ratelimit_io_new(&none, &c, PAST), -EINVAL);
	c = (struct ratelimit_io_config){.max_inflight = -1};
	ck_assert_int_eq(ratelimit_io_new(&none, &c, PAST), -EINVAL);
	ck_assert_int_eq(ratelimit_io_reconfigure(io, &c, PAST), -EINVAL);
	ck_assert_int_eq(ratelimit_io_reconfigure(io, &both, PAST), -EINVAL); /* other limits */
	uint64_t many = RATELIMIT_TOKENS_MAX + 1;
	ck_assert_int_eq(ratelimit_io_consume(io, 1, many, PAST, NULL), -EINVAL);
	ck_assert_int_eq(ratelimit_io_force_consume(io, 1, many, PAST), -EINVAL);
	ck_assert_int_eq(ratelimit_io_undo(io, 1, many), -EINVAL);
	ck_assert_int_eq(ratelimit_io_refund_bytes(io, many), -EINVAL);
	ck_assert_int_eq(ratelimit_io_force_replenish(io, RATELIMIT_OPS, 1, PAST), -EINVAL);
	ck_assert_int_eq(ratelimit_io_force_replenish(io, RATELIMIT_INFLIGHT, 1, PAST), -EINVAL);
	ratelimit_io_free(io);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		ops_and_bytes_are_taken_together_or_not_at_all,
		a_limiter_without_limits_grants_everything,
		the_descriptor_becomes_readable_when_the_request_would_be_granted,
		the_smallest_of_the_refused_requests_sets_the_time,
		an_event_ends_the_block_and_the_request_can_be_tried_again,
		a_descriptor_that_is_asked_for_late_misses_no_refusal,
		a_permit_that_comes_back_makes_the_descriptor_readable,
#ifndef RATEFS_SANITIZER
		a_permit_that_comes_back_during_a_refusal_is_not_missed,
#endif
		whatever_comes_back_makes_the_descriptor_readable,
		numbers_out_of_range_are_refused,
	};
	return unit_run("ratelimit_io", tests, ARRAY_SIZE(tests));
}
