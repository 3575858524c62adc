/* SPDX-License-Identifier: MIT */
#include "ratelimit/io_check.h"

static struct ratelimit_io *ops_limiter(uint64_t size, uint64_t now_ns)
{
	struct ratelimit_io_config c = {.ops = {.size = size, .refill_per_sec = 1000}};
	return io_make(&c, now_ns);
}

static int64_t ops_left(const struct ratelimit_io *io, uint64_t now_ns)
{
	struct ratelimit_io_state s;
	ratelimit_io_look(io, now_ns, &s);
	return s.ops.budget;
}

START_TEST(a_request_is_charged_to_all_scopes_or_to_none)
{
	struct ratelimit_io *path[] = {ops_limiter(100, PAST), ops_limiter(10, PAST),
				       ops_limiter(50, PAST)};
	struct ratelimit_chain *ch;
	struct ratelimit_refusal why;
	ck_assert_int_eq(ratelimit_chain_new(&ch, path, 3), 0);
	ck_assert_int_eq(ratelimit_chain_consume(ch, 10, 0, PAST, &why), 0);
	ck_assert_int_eq(ratelimit_chain_consume(ch, 5, 0, PAST, &why), -EAGAIN);
	ck_assert_uint_eq(why.scope, 1);
	ck_assert_int_eq(why.limit, RATELIMIT_OPS);
	ck_assert_uint_eq(why.wait_ns, 5 * NSEC_PER_MSEC);
	ck_assert_int_eq(ops_left(path[0], PAST), 90);
	ck_assert_int_eq(ops_left(path[1], PAST), 0);
	ck_assert_int_eq(ops_left(path[2], PAST), 40);
	ck_assert_int_eq(ratelimit_chain_undo(ch, 10, 0), 0);
	ck_assert_int_eq(ops_left(path[0], PAST), 100);
	ck_assert_int_eq(ops_left(path[1], PAST), 10);
	ck_assert_int_eq(ratelimit_chain_force_consume(ch, 60, 0, PAST), 0);
	ck_assert_int_eq(ops_left(path[1], PAST), -50);
	ck_assert_int_eq(ops_left(path[2], PAST), -10);
	ratelimit_chain_free(ch);
	ratelimit_chain_free(NULL);
	for (int i = 0; i < 3; i++)
		ratelimit_io_free(path[i]);
}
END_TEST

START_TEST(the_widest_scope_that_refuses_is_named_with_the_longest_wait)
{
	struct ratelimit_io *path[] = {ops_limiter(10, PAST), ops_limiter(10, PAST)};
	struct ratelimit_chain *ch;
	struct ratelimit_refusal why;
	ck_assert_int_eq(ratelimit_chain_new(&ch, path, 2), 0);
	ck_assert_int_eq(ratelimit_io_force_consume(path[0], 10, 0, PAST), 0);
	ck_assert_int_eq(ratelimit_io_force_consume(path[1], 30, 0, PAST), 0);
	ck_assert_int_eq(ratelimit_chain_consume(ch, 1, 0, PAST, &why), -EAGAIN);
	ck_assert_uint_eq(why.scope, 0);
	ck_assert_uint_eq(why.wait_ns, 21 * NSEC_PER_MSEC);
	ratelimit_chain_free(ch);
	ratelimit_io_free(path[0]);
	ratelimit_io_free(path[1]);
}
END_TEST

START_TEST(what_one_chain_gives_back_wakes_the_others_that_share_the_limiter)
{
	uint64_t now_ns = future();
	const struct ratelimit_io_config c = {.bytes = {.size = 100, .refill_per_sec = 1},
					      .max_inflight = 1};
	struct ratelimit_io *shared = io_make(&c, now_ns);
	struct ratelimit_io *own[] = {ops_limiter(10, now_ns), ops_limiter(10, now_ns)};
	struct ratelimit_chain *ch[2];
	struct ratelimit_refusal why;
	for (int i = 0; i < 2; i++) {
		struct ratelimit_io *path[] = {shared, own[i]};
		ck_assert_int_eq(ratelimit_chain_new(&ch[i], path, 2), 0);
	}
	int fd = ratelimit_chain_fd(ch[1]);
	ck_assert_int_eq(ratelimit_chain_consume(ch[0], 1, 100, now_ns, NULL), 0);
	ck_assert_int_eq(ratelimit_chain_consume(ch[1], 1, 10, now_ns, &why), -EAGAIN);
	ck_assert_uint_eq(why.scope, 0);
	ck_assert_int_eq(ratelimit_chain_blocked(ch[1]), 1);
	ck_assert_int_eq(ratelimit_chain_blocked(ch[0]), 0);
	ck_assert_int_eq(readable(fd), 0);
	ratelimit_chain_release(ch[0]); /* the permit came back, the bytes are still missing */
	ck_assert_int_eq(readable(fd), 1);
	ck_assert_int_eq(ratelimit_chain_event(ch[1]), 0);
	ck_assert_int_eq(ratelimit_chain_event(ch[1]), -EAGAIN);
	ck_assert_int_eq(ratelimit_chain_consume(ch[1], 1, 10, now_ns, &why), -EAGAIN);
	ck_assert_int_eq(why.limit, RATELIMIT_BYTES);
	ck_assert_int_eq(readable(fd), 0);
	ck_assert_int_eq(ratelimit_chain_refund_bytes(ch[0], 50), 0);
	ck_assert_int_eq(readable(fd), 1);
	ck_assert_int_eq(ratelimit_chain_event(ch[1]), 0);
	ck_assert_int_eq(ratelimit_chain_consume(ch[1], 1, 10, now_ns, &why), 0);
	ck_assert_int_eq(ops_left(own[1], now_ns), 9); /* refusals took nothing there */
	for (int i = 0; i < 2; i++) {
		ratelimit_chain_free(ch[i]);
		ratelimit_io_free(own[i]);
	}
	ratelimit_io_free(shared);
}
END_TEST

START_TEST(a_chain_has_one_to_sixteen_different_limiters)
{
	struct ratelimit_io *io = ops_limiter(1, PAST);
	struct ratelimit_io *twice[] = {io, io}, *path[RATELIMIT_CHAIN_MAX + 1] = {io};
	struct ratelimit_refusal why;
	struct ratelimit_chain *ch;
	for (unsigned i = 1; i <= RATELIMIT_CHAIN_MAX; i++)
		path[i] = ops_limiter(i == 9 ? 1 : 2, PAST);
	ck_assert_int_eq(ratelimit_chain_new(&ch, path, 0), -EINVAL);
	ck_assert_int_eq(ratelimit_chain_new(&ch, twice, 2), -EINVAL);
	ck_assert_int_eq(ratelimit_chain_new(&ch, path, RATELIMIT_CHAIN_MAX + 1), -EINVAL);
	ck_assert_ptr_null(ch);
	ck_assert_int_eq(ratelimit_chain_new(&ch, path + 1, RATELIMIT_CHAIN_MAX), 0);
	ck_assert_int_eq(ratelimit_chain_consume(ch, 1, 0, PAST, &why), 0);
	ck_assert_int_eq(ratelimit_chain_consume(ch, 1, 0, PAST, &why), -EAGAIN);
	ck_assert_uint_eq(why.scope, 8);
	ratelimit_chain_free(ch);
	for (unsigned i = 1; i <= RATELIMIT_CHAIN_MAX; i++)
		ratelimit_io_free(path[i]);
	ck_assert_int_eq(ratelimit_chain_new(&ch, path, 1), 0);
	uint64_t many = RATELIMIT_TOKENS_MAX + 1;
	ck_assert_int_eq(ratelimit_chain_consume(ch, 1, many, PAST, NULL), -EINVAL);
	ck_assert_int_eq(ratelimit_chain_force_consume(ch, 1, many, PAST), -EINVAL);
	ck_assert_int_eq(ratelimit_chain_undo(ch, 1, many), -EINVAL);
	ck_assert_int_eq(ratelimit_chain_refund_bytes(ch, many), -EINVAL);
	ratelimit_chain_free(ch);
	ratelimit_io_free(io);
}
END_TEST

UNIT_MAIN("ratelimit_chain", a_request_is_charged_to_all_scopes_or_to_none,
	  the_widest_scope_that_refuses_is_named_with_the_longest_wait,
	  what_one_chain_gives_back_wakes_the_others_that_share_the_limiter,
	  a_chain_has_one_to_sixteen_different_limiters)
