/* SPDX-License-Identifier: MIT */
/* A thousand members with the calls that real ones make: how many these are, and how fast shares follow demand. */
#include <stdio.h>

#include "unit/pool_world.h"

#define MANY   1000
#define FLIGHT (2 * MS) /* of a call and its answer together */

struct one {
	struct pool_member m;
	struct pool_use use;
	struct pool_rates now;
	uint64_t wants, look_ns, arrives_ns; /* arrives_ns: of the answer; 0: there is none */
	double used;
	struct pool_answer answer;
	unsigned calls;
};

struct farm {
	uint64_t now_ns;
	struct pool_server server;
	struct one one[MANY];
	double used;
};

static void use_rates(struct farm *f, struct one *o, uint64_t ns)
{
	pool_member_rates(&o->m, f->now_ns, &o->now);
	uint64_t rate = min_u64(o->wants, o->now.rate[0]);
	double used = (double)rate / POOL_MILLI * (double)ns / 1e9;
	o->used += used;
	f->used += used;
	o->use.tokens[0] = (uint64_t)o->used;
	o->use.waiting[0] = o->wants > o->now.rate[0];
	o->use.blocking_ns[0] += o->use.waiting[0] ? ns : 0;
}

static void call(struct farm *f, struct one *o)
{
	struct pool_call c;
	pool_member_call(&o->m, &o->use, f->now_ns, &c);
	pool_serve(&f->server, &c, (int64_t)(f->now_ns / 1000), false, &o->answer);
	o->arrives_ns = f->now_ns + FLIGHT;
	o->calls++;
}

static void run_farm(struct farm *f, uint64_t ns)
{
	for (uint64_t end = f->now_ns + ns; f->now_ns < end;) {
		uint64_t leased = 0;
		f->now_ns += MS;
		for (unsigned i = 0; i < MANY; i++) {
			struct one *o = &f->one[i];
			use_rates(f, o, MS);
			if (o->arrives_ns && o->arrives_ns <= f->now_ns) {
				pool_member_answer(&o->m, &o->answer, f->now_ns);
				o->arrives_ns = 0;
			}
			if (f->now_ns >= o->look_ns) {
				pool_member_look(&o->m, &o->use, f->now_ns);
				o->look_ns = f->now_ns + LEASE / LOOKS_PER_LEASE;
			}
			if (f->now_ns >= pool_member_due_ns(&o->m))
				call(f, o);
			pool_member_rates(&o->m, f->now_ns, &o->now);
			leased += o->now.rate[0];
		}
		UNIT_REQUIRE(leased <= RATE);
	}
}

/* Runs for some leases; how many calls a member made per lease, at most; and what was used of the rate. */
static double calls_per_lease(struct farm *f, unsigned leases, double *used)
{
	unsigned most = 0;
	double before = f->used;
	for (unsigned i = 0; i < MANY; i++)
		f->one[i].calls = 0;
	run_farm(f, leases * LEASE);
	for (unsigned i = 0; i < MANY; i++)
		most = f->one[i].calls > most ? f->one[i].calls : most;
	*used = (f->used - before) * 1e9 / (double)(leases * LEASE) * POOL_MILLI / (double)RATE;
	return (double)most / leases;
}

static struct farm *farm_of_many(void)
{
	struct farm *f = calloc(1, sizeof(*f));
	ck_assert_ptr_nonnull(f);
	f->now_ns = 3600 * NSEC_PER_SEC;
	for (unsigned i = 0; i < MANY; i++) {
		struct pool_member_config c = {.who = "host", .lease_ms = LEASE_MS, .weight = 1};
		snprintf(c.id, sizeof(c.id), "%u", i);
		c.limits.rate[0] = RATE;
		c.limits.capacity[0] = RATE / POOL_MILLI / 10;
		pool_member_init(&f->one[i].m, &c, f->now_ns);
		f->one[i].wants = POOL_DEMAND_ALL;
	}
	return f;
}

/* All start at the same time; then two thirds become idle; then others are busy. */
START_TEST(a_thousand_members_call_at_most_twice_per_lease)
{
	struct farm *f = farm_of_many();
	double used;
	run_farm(f, LEASE / 2);
	ck_assert_double_le(calls_per_lease(f, 4, &used), 2);
	ck_assert_double_le(calls_per_lease(f, 4, &used), 2);
	ck_assert_msg(used > 0.99, "all busy: %f", used);
	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < MANY; i++)
			f->one[i].wants = i % 3 == round % 3 ? POOL_DEMAND_ALL
					  : i % 3 == 0	     ? RATE / MANY / 10
							     : 0;
		ck_assert_double_le(calls_per_lease(f, 4, &used), 2);
		ck_assert_double_le(calls_per_lease(f, 4, &used), 2);
		ck_assert_msg(used > 0.97, "round %u: %f", round, used);
	}
	pool_server_free(&f->server);
	free(f);
}
END_TEST

UNIT_MAIN("pool_many", a_thousand_members_call_at_most_twice_per_lease)
