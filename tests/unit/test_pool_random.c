/* SPDX-License-Identifier: MIT */
/* Random schedules: the promises of pools hold whatever happens to members, server and network. */
#include <stdio.h>
#include <string.h>

#include "unit/pool_world.h"

static void copy_server(struct pool_server *to, const struct pool_server *from)
{
	pool_server_free(to);
	*to = *from;
	to->member = malloc((from->room + 1) * sizeof(*to->member));
	to->wish = malloc((from->room + 1) * sizeof(*to->wish));
	ck_assert(to->member && to->wish);
	if (from->n)
		memcpy(to->member, from->member, from->n * sizeof(*to->member));
}

/* Any member sets another limit, but none above RATE, which is what the tests check. */
static void set_limit(struct world *w, struct user *u)
{
	struct pool_limits limits = u->m.limits;
	limits.rate[0] = below(2) ? RATE : RATE / 4 + below(RATE / 4 * 3);
	if (u->alive)
		pool_member_set(&u->m, &limits, w->now_ns);
}

/* The server loses its data, or a part of it.  Then it learns for as long as the longest lease that it knows, which may be too short
 * if members have different ones. */
static void lose_data(struct world *w, bool all)
{
	if (w->mixed)
		return;
	if (all) { /* it restarts */
		pool_server_free(&w->server);
		return;
	}
	copy_server(&w->server, &w->replica); /* a replica that missed the last calls takes over */
	w->doubtful = true;
}

/* A server can notice that its clock was set back, or forward by more than a lease, since its last call.  It cannot notice less
 * (ratefs-pool(8) says so), which two changes can add up to. */
static void set_clock(struct world *w, int64_t by_us)
{
	int64_t forward_us = w->clock_us + by_us - w->served_us;
	if (forward_us <= 0 || forward_us > 4 * LEASE_MS * 1000)
		w->clock_us += by_us;
}

static void random_event(struct world *w)
{
	struct user *u = &w->user[below(RANDOM)];
	switch (below(18)) {
	case 0:
		if (u->alive)
			break;
		join(w, u, 1 + (unsigned)below(4));
		break;
	case 1: /* dies */
		u->alive = false;
		break;
	case 2:
		if (u->alive)
			post_call(w, (unsigned)(u - w->user), true);
		u->alive = false;
		break;
	case 3:
		u->wants = below(2) ? POOL_DEMAND_ALL : below(RATE);
		break;
	case 4:
		u->wants = 0;
		break;
	case 5:
		w->loss = below(4) ? 0 : (unsigned)below(100);
		w->repeat = (unsigned)below(50);
		break;
	case 6:
		w->delay_ns = 1 + below(below(3) ? 20 * MS : 2 * LEASE);
		break;
	case 7:
		lose_data(w, true);
		break;
	case 8:
		copy_server(&w->replica, &w->server);
		break;
	case 9:
		lose_data(w, false);
		break;
	case 10: /* its clock is set back */
		set_clock(w, -(int64_t)below(10000000));
		break;
	case 11: /* a long silence: messages are lost, and time passes */
		if (below(4) == 0) {
			for (unsigned i = 0; i < MESSAGES; i++)
				w->msg[i].at_ns = 0;
			w->now_ns += LEASE + below(30 * LEASE);
		}
		break;
	case 12: /* the clock is set forward, by more than the longest lease */
		if (!w->mixed && below(4) == 0) /* else it may forget the longest lease */
			set_clock(w, 4 * LEASE_MS * 1000 + 1 + (int64_t)below(20000000));
		break;
	case 13:
		w->cut = below(2) ? 0 : (unsigned)below(30);
		break;
	case 14:
		u->paused = !u->paused;
		u->since_ns = w->now_ns;
		break;
	case 15:
		set_limit(w, u);
		break;
	default:
		break;
	}
}

static bool somebody_wants_more(const struct world *w)
{
	for (unsigned i = 0; i < MEMBERS; i++)
		if (w->user[i].alive && w->user[i].wants == POOL_DEMAND_ALL)
			return true;
	return false;
}

/* Those who want more than they get have the same per weight, and nobody gets less than it wants and less than others. */
static void check_fairness(const struct world *w)
{
	uint64_t level = 0;
	for (unsigned i = 0; i < MEMBERS; i++) {
		const struct user *u = &w->user[i];
		if (!u->alive || u->wants != POOL_DEMAND_ALL)
			continue;
		uint64_t mine = u->now.rate[0] / u->m.cfg.weight;
		UNIT_REQUIRE(!level || (mine > level - level / 50 && mine < level + level / 50));
		level = mine;
	}
	for (unsigned i = 0; i < MEMBERS; i++) {
		const struct user *u = &w->user[i];
		UNIT_REQUIRE(!u->alive || u->now.rate[0] / u->m.cfg.weight >= level - level / 50 ||
			     u->now.rate[0] >= u->wants);
	}
}

/* The network and the server are well again, and demands stay as they are: after two leases the whole rate is leased where it is
 * wanted (on average over a lease: a share that moves is leased to nobody for a moment), and after three it is divided
 * fairly. */
static void check_conservation_and_fairness(struct world *w)
{
	w->loss = w->repeat = w->cut = 0;
	w->delay_ns = MS;
	for (unsigned i = 0; i < MEMBERS; i++)
		if (w->user[i].paused) {
			w->user[i].paused = false;
			w->user[i].since_ns = w->now_ns;
		}
	run(w, 4 * LEASE); /* what is on its way, learning, members that died */
	w->user[below(RANDOM)].wants = below(2) ? POOL_DEMAND_ALL : below(RATE / 2);
	run(w, 2 * LEASE);
	if (!somebody_wants_more(w))
		return;
	double mean = 0;
	for (unsigned i = 0; i < 50; i++) {
		run(w, LEASE / 50);
		mean += (double)rates_sum(w) / 50;
	}
	UNIT_REQUIRE(mean > (double)w->server.limits.rate[0] * 0.98);
	check_fairness(w);
}

/* CI gives another seed each day; the log says which. */
static uint64_t schedule_seed(void)
{
	const char *text = getenv("POOL_SEED");
	uint64_t n = text ? strtoull(text, NULL, 0) : unit_seed();
	fprintf(stderr, "POOL_SEED=%llu\n", (unsigned long long)n);
	return n ? n : 1;
}

START_TEST(leases_never_add_up_to_more_than_the_rate)
{
	const char *text = getenv("POOL_SCHEDULES");
	unsigned schedules = text ? (unsigned)atoi(text) : (unsigned)unit_part(100000);
	seed = schedule_seed();
	for (unsigned n = 0; n < schedules; n++) {
		struct world *w = world_new(1 + (unsigned)below(4));
		w->mixed = n % 8 == 1 ? 3 : 0;
		w->on_lost = POOL_LOST_STOP; /* no fallback: check leases only */
		w->drift_ppm = (int64_t)below(20001) - 10000;
		for (unsigned i = 0; i < MEMBERS; i++)
			w->user[i].m.cfg.on_lost = POOL_LOST_STOP;
		for (unsigned i = 0; i < 12; i++) {
			random_event(w);
			for (unsigned k = (unsigned)below(12); k > 0; k--)
				step(w, below(60 * MS));
		}
		if (n % 16 == 0)
			check_conservation_and_fairness(w);
		world_free(w);
	}
}
END_TEST

/* Loads of requests in buckets: in any interval, at most rate × time + capacity, and one request of each member. */
START_TEST(what_is_used_in_any_interval_stays_below_rate_and_capacity)
{
	const uint64_t largest = RATE / POOL_MILLI / 20;
	seed = schedule_seed();
	for (unsigned n = 0; n < unit_part(3000); n++) {
		struct world *w = world_new(4);
		double lowest = 0, capacity = (double)RATE / POOL_MILLI / 10;
		uint64_t from_ns = w->now_ns;
		w->on_lost = POOL_LOST_STOP;
		for (unsigned i = 0; i < 4; i++) {
			w->user[i].m.cfg.on_lost = POOL_LOST_STOP;
			load(w, i, 1 + below(largest), below(3) ? below(200 * MS) : 0);
		}
		for (unsigned i = 0; i < 100; i++) {
			if (i % 8 == 0)
				random_event(w);
			step(w, below(30 * MS));
			double level = used_sum(w) - (double)(w->now_ns - from_ns) / 1e9 *
							     (double)(RATE / POOL_MILLI);
			lowest = level < lowest ? level : lowest;
			UNIT_REQUIRE(level - lowest <= capacity + (double)(w->lives * largest));
		}
		world_free(w);
	}
}
END_TEST

START_TEST(what_is_used_stays_below_rate_and_time_under_constant_trouble)
{
	seed = unit_seed();
	struct world *w = world_new(4);
	w->loss = 20;
	w->repeat = 20;
	for (unsigned i = 0; i < 400; i++) {
		uint64_t from = w->now_ns;
		double before = used_sum(w);
		struct user *u = &w->user[below(4)];
		if (i % 3 == 0)
			u->wants = below(3) ? POOL_DEMAND_ALL : below(RATE);
		w->delay_ns = below(100 * MS);
		for (unsigned k = 0; k < 4; k++)
			w->user[k].m.cfg.on_lost = POOL_LOST_STOP;
		run(w, 1000 * MS);
		double most = (double)(w->now_ns - from) / 1e9 * (double)RATE / POOL_MILLI;
		ck_assert(used_sum(w) - before <= most * 1.000001);
	}
	world_free(w);
}
END_TEST

/* Runs for `ns`; what part of the rate the hosts used meanwhile, and in *fallback, what they could use without a lease. */
static double used_over(struct world *w, uint64_t ns, double *fallback)
{
	double before = used_sum(w);
	*fallback = 0;
	for (uint64_t n = 0; n < ns; n += 5 * MS) {
		run(w, 5 * MS);
		*fallback +=
			(double)(rates_sum(w) - leased_sum(w)) / (double)RATE * 5 * MS / (double)ns;
	}
	return (used_sum(w) - before) * 1e9 / (double)ns * POOL_MILLI / (double)RATE;
}

/* 60 ms each way; one message in twelve breaks its connection, so that the next call must open
 * another one first.  A host that loses its lease for a moment must not use its fallback in
 * addition to what others lease.  Rarely, so many calls in a row are lost that it does. */
START_TEST(a_bad_line_makes_no_tokens)
{
	seed = unit_seed();
	double mean = 0;
	unsigned over = 0;
	for (unsigned i = 0; i < 1000; i++) {
		double fallback;
		struct world *w = world_new(2);
		w->least_ns = 60 * MS;
		w->cut = 8;
		run(w, 2000 * MS);
		double used = used_over(w, 5000 * MS, &fallback);
		ck_assert_msg(used < 1.001 + fallback, "schedule %u: %f of the rate", i, used);
		mean += used / 1000;
		over += used > 1.01;
		world_free(w);
	}
	ck_assert_msg(mean > 0.85, "%f of the rate on average", mean);
	ck_assert_msg(over <= 5, "%u of 1000 hosts exceed the rate by more than 1 %%", over);
}
END_TEST

/* The server is lost to all hosts, for a while, with or without its data; their demands change. */
START_TEST(leases_and_fallbacks_together_stay_below_the_rate_when_a_server_dies)
{
	seed = unit_seed();
	for (unsigned i = 0; i < unit_part(3000); i++) {
		unsigned n = 2 + (unsigned)below(RANDOM - 1);
		struct world *w = world_new(n);
		for (unsigned k = 0; k < n; k++)
			w->user[k].wants = below(2) ? POOL_DEMAND_ALL : below(RATE / 4);
		run(w, 3 * LEASE);
		for (unsigned k = 0; k < 400; k++) {
			if (k == 10)
				w->loss = 100;
			if (k == 20 + i % 200)
				w->loss = 0;
			if (k == 20 + i % 200 && i % 2)
				pool_server_free(&w->server);
			if (below(10) == 0)
				w->user[below(n)].wants =
					below(2) ? POOL_DEMAND_ALL : below(RATE / 4);
			step(w, below(20 * MS));
			UNIT_REQUIRE(rates_sum(w) <= RATE);
		}
		world_free(w);
	}
}
END_TEST

UNIT_MAIN("pool_random", what_is_used_in_any_interval_stays_below_rate_and_capacity,
	  leases_and_fallbacks_together_stay_below_the_rate_when_a_server_dies,
	  a_bad_line_makes_no_tokens, what_is_used_stays_below_rate_and_time_under_constant_trouble,
	  leases_never_add_up_to_more_than_the_rate)
