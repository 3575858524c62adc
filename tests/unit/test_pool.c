/* SPDX-License-Identifier: MIT */
/* Members and server of a pool in typical situations. */
#include <stdio.h>
#include <string.h>

#include "pool/divide.h"
#include "pool/wire.h"
#include "unit/pool_world.h"

START_TEST(a_share_is_divided_by_the_members_of_the_last_leases)
{
	struct world *w = world_new(2);
	run(w, 4 * LEASE);
	w->user[1].alive = false; /* cut off: to the server, dead */
	run(w, 2 * LEASE);
	ck_assert_uint_eq(w->user[0].m.members, 1);
	w->loss = 100;
	run(w, 3 * LEASE);
	ck_assert_uint_eq(w->user[0].now.rate[0], RATE / 2);
	w->loss = 0;
	run(w, 30 * LEASE);
	w->loss = 100;
	run(w, 3 * LEASE);
	ck_assert_uint_eq(w->user[0].now.rate[0], RATE);
	world_free(w);
}
END_TEST

START_TEST(a_failed_call_is_repeated_immediately_but_once)
{
	struct world *w = world_new(1);
	struct pool_member *m = &w->user[0].m;
	struct pool_call call;
	const struct pool_use use = {0};
	run(w, 4 * LEASE);
	pool_member_call(m, &use, w->now_ns, &call);
	pool_member_failed(m, call.seq - 1, w->now_ns + 30 * MS);
	ck_assert_uint_eq(pool_member_due_ns(m), w->now_ns + LEASE / 8 * 5);
	pool_member_failed(m, call.seq, w->now_ns + 30 * MS);
	ck_assert_uint_eq(pool_member_due_ns(m), w->now_ns + 30 * MS);
	pool_member_call(m, &use, w->now_ns + 30 * MS, &call);
	pool_member_failed(m, call.seq, w->now_ns + 60 * MS);
	ck_assert_uint_eq(pool_member_due_ns(m), w->now_ns + 30 * MS + LEASE / 2);
	world_free(w);
}
END_TEST

/* A member calls; its lease ends before the call arrives, and others get its share.  A server that has lost its data answers
 * the call and believes that the member still holds the share. */
START_TEST(a_lease_that_has_ended_does_not_come_back_from_a_server_that_learns)
{
	struct world *w = world_new(1);
	struct pool_member *m = &w->user[0].m;
	struct pool_call call;
	struct pool_rates rates;
	w->user[0].m.cfg.on_lost = POOL_LOST_STOP;
	run(w, 4 * LEASE);
	struct pool_use use = w->user[0].use;
	uint64_t now_ns = m->ends_ns - 10 * MS;
	use.blocking_ns[0] += now_ns - w->now_ns;
	pool_member_call(m, &use, now_ns, &call);
	ck_assert_uint_gt(call.hold[0], RATE / 2);
	struct pool_answer answer = {.seq = call.seq,
				     .status = POOL_LEARNING,
				     .members = 1,
				     .limits = call.limits,
				     .version = 1};
	answer.grant[0] = call.hold[0];
	now_ns = m->ends_ns + 10 * MS;
	pool_member_answer(m, &answer, now_ns);
	pool_member_rates(m, now_ns, &rates);
	ck_assert_uint_eq(rates.rate[0], 0);
	world_free(w);
}
END_TEST

/* --- shares in typical situations --- */

static double rate_over(struct world *w, unsigned i, uint64_t ns)
{
	double before = w->user[i].used;
	run(w, ns);
	return (w->user[i].used - before) * 1e9 / (double)ns * POOL_MILLI / (double)RATE;
}

START_TEST(a_lone_member_gets_everything_after_one_lease)
{
	struct world *w = world_new(1);
	run(w, LEASE + LEASE / 8 + 10 * MS);
	ck_assert_uint_eq(w->user[0].now.rate[0], RATE);
	double share = rate_over(w, 0, 10000 * MS);
	ck_assert(share > 0.999 && share < 1.0001);
	world_free(w);
}
END_TEST

START_TEST(shares_follow_weights)
{
	struct world *w = world_new(0);
	join(w, &w->user[0], 1);
	join(w, &w->user[1], 2);
	join(w, &w->user[2], 5);
	run(w, 4 * LEASE);
	double before[3], sum = 0;
	for (unsigned i = 0; i < 3; i++)
		before[i] = w->user[i].used;
	run(w, 10000 * MS);
	for (unsigned i = 0; i < 3; i++) {
		double share = (w->user[i].used - before[i]) / 10 / (double)(RATE / POOL_MILLI);
		static const double fair[] = {1 / 8.0, 2 / 8.0, 5 / 8.0};
		ck_assert(share > fair[i] * 0.99 && share < fair[i] * 1.01);
		sum += share;
	}
	ck_assert(sum > 0.99);
	world_free(w);
}
END_TEST

START_TEST(what_a_member_does_not_need_is_used_by_others_within_two_leases)
{
	struct world *w = world_new(3);
	run(w, 4 * LEASE);
	w->user[0].wants = 0;
	w->user[1].wants = RATE / 10;
	run(w, 2 * LEASE);
	double share = rate_over(w, 2, 5000 * MS);
	ck_assert_msg(share > 0.89 && share <= 0.9, "%f", share);
	/* and back */
	w->user[0].wants = POOL_DEMAND_ALL;
	run(w, 2 * LEASE);
	share = rate_over(w, 0, 5000 * MS);
	ck_assert_msg(share > 0.445 && share <= 0.45, "%f", share);
	world_free(w);
}
END_TEST

START_TEST(a_newcomer_has_its_share_within_a_second_and_nobody_stops_meanwhile)
{
	struct world *w = world_new(3);
	run(w, 4 * LEASE);
	join(w, &w->user[3], 1);
	uint64_t from = w->now_ns;
	double before = used_sum(w);
	run(w, 1000 * MS);
	ck_assert_uint_ge(w->user[3].now.rate[0], RATE / 4 * 99 / 100);
	double used = (used_sum(w) - before) * 1e9 / (double)(w->now_ns - from);
	ck_assert(used > 0.97 * RATE / POOL_MILLI);
	world_free(w);
}
END_TEST

START_TEST(one_who_leaves_frees_its_share_at_once_one_who_dies_after_a_lease)
{
	struct world *w = world_new(3);
	run(w, 4 * LEASE);
	post_call(w, 0, true);
	w->user[0].alive = false;
	run(w, LEASE / 2 + 60 * MS);
	ck_assert_uint_ge(w->user[1].now.rate[0], RATE / 2 * 99 / 100);
	w->user[1].alive = false; /* dies */
	run(w, LEASE / 2);
	ck_assert_uint_le(w->user[2].now.rate[0], RATE / 2);
	run(w, LEASE + 50 * MS);
	ck_assert_uint_eq(w->user[2].now.rate[0], RATE);
	world_free(w);
}
END_TEST

START_TEST(without_a_server_a_lease_runs_out_and_then_the_fallback_holds)
{
	struct world *w = world_new(4);
	w->user[1].m.cfg.on_lost = POOL_LOST_STOP;
	w->user[2].m.cfg.on_lost = POOL_LOST_OPEN;
	run(w, 4 * LEASE);
	w->loss = 100;
	run(w, LEASE / 4);
	ck_assert_int_eq(w->user[0].now.mode, POOL_MODE_LEASED);
	run(w, LEASE);
	ck_assert_int_eq(w->user[0].now.mode, POOL_MODE_WAITING);
	ck_assert_uint_eq(w->user[0].now.rate[0], 0);
	ck_assert_uint_gt(w->user[0].m.lost_ns, 0);
	run(w, LEASE);
	ck_assert_int_eq(w->user[0].now.mode, POOL_MODE_SHARE);
	ck_assert_uint_eq(w->user[0].now.rate[0], RATE / 4);
	ck_assert_int_eq(w->user[1].now.mode, POOL_MODE_STOP);
	ck_assert_uint_eq(w->user[1].now.rate[0], 0);
	ck_assert_uint_eq(w->user[2].now.rate[0], POOL_DEMAND_ALL);
	ck_assert_uint_gt(w->user[0].m.lost_ns, 0);
	w->loss = 0;
	run(w, 3 * LEASE);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(w->user[i].now.mode, POOL_MODE_LEASED);
		ck_assert_uint_eq(w->user[i].m.lost_ns, 0);
	}
	world_free(w);
}
END_TEST

/* Another member has turned one of two limits off; then the server is lost. */
START_TEST(a_limit_that_was_turned_off_does_not_return_with_the_fallback)
{
	struct world *w = world_new(2);
	struct pool_limits both = w->user[0].m.cfg.limits, one = both;
	both.rate[1] = RATE;
	both.capacity[1] = both.capacity[0];
	run(w, 4 * LEASE);
	pool_member_set(&w->user[0].m, &both, w->now_ns);
	run(w, 2 * LEASE);
	ck_assert_uint_lt(w->user[0].now.rate[1], POOL_DEMAND_ALL);
	pool_member_set(&w->user[1].m, &one, w->now_ns);
	run(w, 2 * LEASE);
	ck_assert_uint_eq(w->user[0].now.rate[1], POOL_DEMAND_ALL);
	w->loss = 100;
	run(w, 4 * LEASE);
	ck_assert_int_eq(w->user[0].now.mode, POOL_MODE_SHARE);
	ck_assert_uint_eq(w->user[0].now.rate[0], RATE / 2);
	ck_assert_uint_eq(w->user[0].now.rate[1], POOL_DEMAND_ALL);
	world_free(w);
}
END_TEST

/* Otherwise no answer would ever be in time, even from a server that is merely overloaded. */
START_TEST(answers_that_take_more_than_half_a_lease_are_waited_for)
{
	struct world *w = world_new(2);
	w->least_ns = LEASE * 3 / 10; /* each way */
	run(w, 6 * LEASE);
	double before = used_sum(w);
	run(w, 20 * LEASE);
	double used = (used_sum(w) - before) / (double)(RATE / POOL_MILLI * 20 * LEASE_MS) * 1000;
	ck_assert_msg(used > 0.4 && used < 1, "%f of the rate", used);
	world_free(w);
}
END_TEST

START_TEST(a_member_that_never_reached_the_server_has_no_share)
{
	struct world *w = world_new(1);
	w->loss = 100;
	run(w, 3 * LEASE);
	ck_assert_int_eq(w->user[0].now.mode, POOL_MODE_STOP);
	world_free(w);
}
END_TEST

START_TEST(new_limits_reach_all_within_a_lease)
{
	struct world *w = world_new(3);
	struct pool_limits half = w->user[0].m.cfg.limits;
	run(w, 4 * LEASE);
	half.rate[0] = RATE / 2;
	pool_member_set(&w->user[1].m, &half, w->now_ns);
	run(w, LEASE);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 2);
	run(w, LEASE);
	ck_assert_uint_le(leased_sum(w), RATE / 2);
	ck_assert_uint_eq(w->user[1].m.set[0], 0);
	world_free(w);
}
END_TEST

/* The command arrives between a call and its answer, which still has the old limits. */
START_TEST(a_change_during_a_call_goes_with_the_next_one)
{
	struct world *w = world_new(2);
	struct pool_member *m = &w->user[0].m;
	struct pool_limits half = m->cfg.limits, known;
	struct pool_call call;
	struct pool_answer answer;
	run(w, 4 * LEASE);
	half.rate[0] = RATE / 2;
	pool_member_call(m, &w->user[0].use, w->now_ns, &call);
	pool_serve(&w->server, &call, server_us(w), false, &answer);
	pool_member_set(m, &half, w->now_ns);
	ck_assert(pool_member_answer(m, &answer, w->now_ns + MS));
	pool_member_limits(m, &known);
	ck_assert_uint_eq(known.rate[0], RATE / 2);
	run(w, LEASE);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 2);
	ck_assert_uint_eq(m->set[0], 0);
	world_free(w);
}
END_TEST

/* Another member has set new limits; this one sets those that it began with. */
START_TEST(a_member_can_set_the_limits_of_its_own_configuration_again)
{
	struct world *w = world_new(2);
	const struct pool_limits first = w->user[0].m.cfg.limits;
	struct pool_limits half = first;
	half.rate[0] = RATE / 2;
	run(w, 4 * LEASE);
	pool_member_set(&w->user[1].m, &half, w->now_ns);
	run(w, LEASE);
	ck_assert_uint_eq(w->user[0].m.limits.rate[0], RATE / 2);
	pool_member_configure(&w->user[0].m, &w->user[0].m.cfg,
			      w->now_ns); /* an unchanged reload */
	run(w, LEASE);
	ck_assert_uint_eq(w->user[1].m.limits.rate[0], RATE / 2);
	pool_member_set(&w->user[0].m, &half, w->now_ns);
	ck_assert_uint_eq(w->user[0].m.set[0],
			  0); /* in force already: an older set must not be repeated */
	pool_member_set(&w->user[0].m, &first, w->now_ns);
	run(w, LEASE);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE);
	world_free(w);
}
END_TEST

/* Another member has set one limit, this one sets another; then it loads its configuration, which has not changed, again. */
START_TEST(a_reload_does_not_undo_what_others_have_set)
{
	struct world *w = world_new(2);
	const struct pool_member_config file = w->user[0].m.cfg;
	struct pool_limits half = file.limits, both;
	half.rate[0] = RATE / 2;
	run(w, 4 * LEASE);
	pool_member_set(&w->user[1].m, &half, w->now_ns);
	run(w, LEASE);
	pool_member_limits(&w->user[0].m, &both);
	both.rate[1] = RATE / 10;
	both.capacity[1] = 10;
	pool_member_set(&w->user[0].m, &both, w->now_ns);
	run(w, LEASE);
	pool_member_configure(&w->user[0].m, &file, w->now_ns);
	run(w, LEASE);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 2);
		ck_assert_uint_eq(w->user[i].m.limits.rate[1], 0); /* as the file says */
	}
	world_free(w);
}
END_TEST

START_TEST(two_members_change_two_limits_at_the_same_time)
{
	struct world *w = world_new(3);
	struct pool_limits first = w->user[0].m.cfg.limits, second = first;
	run(w, 4 * LEASE);
	first.rate[0] = RATE / 2;
	second.rate[1] = RATE / 10;
	second.capacity[1] = 10;
	pool_member_set(&w->user[0].m, &first, w->now_ns);
	pool_member_set(&w->user[1].m, &second, w->now_ns);
	run(w, LEASE);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 2);
		ck_assert_uint_eq(w->user[i].m.limits.rate[1], RATE / 10);
	}
	world_free(w);
}
END_TEST

/* The answer to the first call that sets a limit is lost, another member sets the same limit, and then the first member
 * repeats its call. */
START_TEST(a_repeated_change_does_not_undo_a_later_one)
{
	struct world *w = world_new(2);
	struct pool_limits first = w->user[0].m.cfg.limits, later = first;
	struct pool_call call;
	struct pool_answer lost;
	run(w, 4 * LEASE);
	first.rate[0] = RATE / 2;
	later.rate[0] = RATE / 4;
	pool_member_set(&w->user[0].m, &first, w->now_ns);
	pool_member_call(&w->user[0].m, &w->user[0].use, w->now_ns, &call);
	pool_serve(&w->server, &call, server_us(w), false, &lost);
	ck_assert_uint_eq(lost.limits.rate[0], RATE / 2);
	pool_member_set(&w->user[1].m, &later, w->now_ns);
	run(w, 2 * LEASE);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 4);
	world_free(w);
}
END_TEST

/* The server has lost its data, and a member that has just started calls it first. */
START_TEST(limits_in_force_return_to_a_server_that_has_lost_its_data)
{
	struct world *w = world_new(2);
	struct pool_limits half = w->user[0].m.cfg.limits;
	run(w, 4 * LEASE);
	half.rate[0] = RATE / 2;
	pool_member_set(&w->user[0].m, &half, w->now_ns);
	run(w, 2 * LEASE);
	pool_server_free(&w->server);
	join(w, &w->user[2], 1);
	post_call(w, 2, false);
	run(w, 2 * LEASE);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 2);
	world_free(w);
}
END_TEST

/* The same, but nobody has changed them: they are as the first member configured them. */
START_TEST(a_newcomer_does_not_replace_the_limits_when_the_server_has_lost_its_data)
{
	struct world *w = world_new(2);
	run(w, 4 * LEASE);
	pool_server_free(&w->server);
	w->rate = 2 * RATE;
	join(w, &w->user[2], 1);
	w->rate = RATE;
	post_call(w, 2, false);
	run(w, 2 * LEASE);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE);
	world_free(w);
}
END_TEST

START_TEST(a_late_or_repeated_answer_changes_nothing)
{
	struct world *w = world_new(1);
	struct pool_member *m = &w->user[0].m;
	struct pool_call call;
	struct pool_answer answer = {.status = POOL_GRANTED, .members = 1, .version = 1};
	run(w, 2 * LEASE);
	struct pool_use use = {.waiting = {true}};
	pool_member_call(m, &use, w->now_ns, &call);
	answer.limits = call.limits;
	answer.grant[0] = RATE;
	answer.seq = call.seq - 1;
	ck_assert(!pool_member_answer(m, &answer, w->now_ns));
	answer.seq = call.seq;
	ck_assert(pool_member_answer(m, &answer, w->now_ns + MS));
	uint64_t ends_ns = m->ends_ns;
	ck_assert(!pool_member_answer(m, &answer, w->now_ns + 2 * MS));
	ck_assert_uint_eq(m->ends_ns, ends_ns);
	ck_assert_uint_lt(ends_ns, w->now_ns + LEASE);
	pool_member_call(m, &use, w->now_ns + 3 * MS, &call);
	answer.seq = call.seq;
	ck_assert(!pool_member_answer(m, &answer, w->now_ns + 3 * MS + LEASE));
	ck_assert_uint_eq(m->ends_ns, ends_ns);
	world_free(w);
}
END_TEST

START_TEST(a_thousand_members_share_ten_operations)
{
	struct pool_server s;
	struct pool_answer a;
	uint64_t sum = 0;
	pool_server_init(&s);
	for (unsigned round = 0; round < 4; round++) {
		sum = 0;
		for (unsigned i = 0; i < 1000; i++) {
			struct pool_call c = {.seq = round + 1, .lease_ms = LEASE_MS, .weight = 1};
			c.limits.rate[0] = 10 * POOL_MILLI;
			c.demand[0] = POOL_DEMAND_ALL;
			snprintf(c.id, sizeof(c.id), "%u", i);
			pool_serve(&s, &c, 1000000 + round * 400000 + i * 100, false, &a);
			sum += a.grant[0];
		}
	}
	ck_assert_uint_eq(sum, 10 * POOL_MILLI);
	ck_assert_uint_eq(a.members, 1000);
	pool_server_free(&s);
}
END_TEST

/* All hosts lose power and return, with new ids, before the server has dropped any of the old ones. */
START_TEST(a_full_pool_takes_new_members_when_the_old_ones_are_dead)
{
	struct pool_server s;
	struct pool_answer a;
	struct pool_call c = {.seq = 1, .lease_ms = LEASE_MS, .weight = 1};
	int64_t now_us = 1000000;
	pool_server_init(&s);
	c.limits.rate[0] = RATE;
	for (unsigned i = 0; i < POOL_MEMBERS_MAX; i++) {
		snprintf(c.id, sizeof(c.id), "%u", i);
		pool_serve(&s, &c, now_us, false, &a);
		ck_assert_int_ne(a.status, POOL_FULL);
	}
	snprintf(c.id, sizeof(c.id), "new");
	pool_serve(&s, &c, now_us + LEASE_MS * 900, false, &a);
	ck_assert_int_eq(a.status, POOL_FULL);
	pool_serve(&s, &c, now_us + LEASE_MS * 1500, false, &a);
	ck_assert_int_ne(a.status, POOL_FULL);
	ck_assert_uint_eq(a.members, 1);
	pool_server_free(&s);
}
END_TEST

/* One host had a lease of a minute, and has left; then the server restarts. */
START_TEST(a_server_learns_for_the_longest_lease_of_its_members_and_not_of_earlier_ones)
{
	struct world *w = world_new(2);
	struct pool_call c = {.id = "long", .seq = 1, .lease_ms = 60000, .weight = 1};
	struct pool_answer a;
	run(w, 4 * LEASE);
	c.limits = w->server.limits;
	pool_serve(&w->server, &c, server_us(w), false, &a);
	ck_assert_int_eq(w->server.lease_us, 60000000);
	run(w, 4 * LEASE);
	ck_assert_int_eq(w->server.lease_us, 60000000);
	c.leave = true;
	c.seq++;
	pool_serve(&w->server, &c, server_us(w), false, &a);
	run(w, 2 * LEASE);
	w->doubtful = true;
	run(w, LEASE / 2);
	ck_assert(w->user[0].m.learning);
	run(w, LEASE);
	ck_assert(!w->user[0].m.learning);
	world_free(w);
}
END_TEST

START_TEST(max_min_meets_small_demands_and_levels_the_rest)
{
	struct pool_wish wish[] = {
		{10, 1, false}, {1000, 1, false}, {40, 1, false}, {1000, 2, false}};
	struct pool_level l = pool_divide(350, wish, 4);
	static const double share[] = {10, 100, 40, 200};
	for (unsigned i = 0; i < 4; i++)
		ck_assert(pool_share(&l, 350, wish[i].demand, wish[i].weight) == share[i]);
	/* what is left over is divided by weight */
	wish[1].demand = wish[3].demand = 0;
	l = pool_divide(350, wish, 4);
	ck_assert(pool_share(&l, 350, 0, 2) == 120);
	ck_assert(pool_share(&l, 350, 10, 1) == 70);
}
END_TEST

START_TEST(a_host_divides_its_lease_between_its_scopes)
{
	uint64_t demand[] = {POOL_DEMAND_ALL, 100, POOL_DEMAND_ALL}, share[3];
	uint64_t weight[] = {1, 1, 1};
	struct pool_wish scratch[3];
	pool_split(1100, demand, weight, 3, scratch, share);
	ck_assert_uint_eq(share[0], 500);
	ck_assert_uint_eq(share[1], 100);
	ck_assert_uint_eq(share[2], 500);
	weight[2] = 4;
	pool_split(1100, demand, weight, 3, scratch, share);
	ck_assert_uint_eq(share[0], 200);
	ck_assert_uint_eq(share[1], 100);
	ck_assert_uint_eq(share[2], 800);
}
END_TEST

/* The helper reads the network: the daemon trusts nothing that it sends. */
START_TEST(a_report_that_is_out_of_range_is_not_sound)
{
	struct pool_report r = {.version = POOL_WIRE_VERSION, .answered = true};
	const struct pool_report good = r;
	ck_assert(pool_report_is_sound(&r));
	r.answer.limits.rate[6] = POOL_DEMAND_ALL + 1;
	ck_assert(!pool_report_is_sound(&r));
	r = good;
	r.answer.limits.capacity[0] = POOL_CAPACITY_MAX + 1;
	ck_assert(!pool_report_is_sound(&r));
	r = good;
	r.answer.grant[3] = 1; /* of a limit of 0 */
	ck_assert(!pool_report_is_sound(&r));
	r = good;
	r.answer.status = (enum pool_status)(POOL_FULL + 1);
	ck_assert(!pool_report_is_sound(&r));
	r = good;
	memset(&r.answer.wants_more, 2, 1);
	ck_assert(!pool_report_is_sound(&r));
	r = good;
	r.version++;
	ck_assert(!pool_report_is_sound(&r));
	r = good;
	memset(r.answer.who, 'x', sizeof(r.answer.who));
	ck_assert(!pool_report_is_sound(&r));
	r.answer.who[POOL_WHO_MAX - 1] = '\0';
	ck_assert(pool_report_is_sound(&r));
	r.answer.who[3] = '\n';
	ck_assert(!pool_report_is_sound(&r));
}
END_TEST

/* A helper serves whoever may connect to its socket. */
START_TEST(a_call_that_is_out_of_range_is_not_sound)
{
	struct pool_call c = {.id = "id", .who = "host", .seq = 1, .lease_ms = 500, .weight = 1};
	c.limits.rate[0] = POOL_MILLI;
	const struct pool_call good = c;
	ck_assert(pool_call_is_sound(&c));
	memset(&c.leave, 2, 1);
	ck_assert(!pool_call_is_sound(&c));
	c = good;
	c.who[1] = '\033';
	ck_assert(!pool_call_is_sound(&c));
	c = good;
	memset(c.id, 'x', sizeof(c.id));
	ck_assert(!pool_call_is_sound(&c));
	c = good;
	c.lease_ms = POOL_LEASE_MAX_MS + 1;
	ck_assert(!pool_call_is_sound(&c));
	c = good;
	c.weight = 0;
	ck_assert(!pool_call_is_sound(&c));
	c = good;
	c.version = POOL_VERSION_MAX + 1;
	ck_assert(!pool_call_is_sound(&c));
	c = good;
	c.limits.rate[0] = 1; /* less than one token per second: hosts would take it for none */
	ck_assert(!pool_call_is_sound(&c));
	c = good;
	c.hold[6] = POOL_DEMAND_ALL + 1;
	ck_assert(!pool_call_is_sound(&c));
}
END_TEST

/* Otherwise the answers to all members would be out of range, for as long as they go on calling. */
START_TEST(the_version_of_the_limits_does_not_grow_out_of_range)
{
	struct world *w = world_new(1);
	struct pool_call c = {.id = "other",
			      .seq = 1,
			      .lease_ms = LEASE_MS,
			      .weight = 1,
			      .version = POOL_VERSION_MAX};
	struct pool_answer a;
	run(w, 4 * LEASE);
	c.limits = w->server.limits;
	for (; c.seq < 4; c.seq++) {
		c.set[0] = c.seq;
		c.limits.rate[0] -= POOL_MILLI;
		pool_serve(&w->server, &c, server_us(w), false, &a);
		ck_assert_uint_eq(a.limits.rate[0], c.limits.rate[0]);
		ck_assert(pool_answer_is_sound(&a));
	}
	world_free(w);
}
END_TEST

UNIT_MAIN("pool", answers_that_take_more_than_half_a_lease_are_waited_for,
	  a_report_that_is_out_of_range_is_not_sound,
	  a_lease_that_has_ended_does_not_come_back_from_a_server_that_learns,
	  max_min_meets_small_demands_and_levels_the_rest,
	  a_host_divides_its_lease_between_its_scopes,
	  a_lone_member_gets_everything_after_one_lease, shares_follow_weights,
	  what_a_member_does_not_need_is_used_by_others_within_two_leases,
	  a_newcomer_has_its_share_within_a_second_and_nobody_stops_meanwhile,
	  one_who_leaves_frees_its_share_at_once_one_who_dies_after_a_lease,
	  without_a_server_a_lease_runs_out_and_then_the_fallback_holds,
	  a_member_that_never_reached_the_server_has_no_share, new_limits_reach_all_within_a_lease,
	  a_member_can_set_the_limits_of_its_own_configuration_again,
	  a_change_during_a_call_goes_with_the_next_one,
	  a_reload_does_not_undo_what_others_have_set,
	  two_members_change_two_limits_at_the_same_time,
	  a_repeated_change_does_not_undo_a_later_one,
	  limits_in_force_return_to_a_server_that_has_lost_its_data,
	  a_newcomer_does_not_replace_the_limits_when_the_server_has_lost_its_data,
	  a_late_or_repeated_answer_changes_nothing, a_thousand_members_share_ten_operations,
	  a_full_pool_takes_new_members_when_the_old_ones_are_dead,
	  a_failed_call_is_repeated_immediately_but_once,
	  a_limit_that_was_turned_off_does_not_return_with_the_fallback,
	  a_share_is_divided_by_the_members_of_the_last_leases,
	  a_call_that_is_out_of_range_is_not_sound,
	  the_version_of_the_limits_does_not_grow_out_of_range,
	  a_server_learns_for_the_longest_lease_of_its_members_and_not_of_earlier_ones)
