/* SPDX-License-Identifier: MIT */
/* Loads of requests, large and small, on the hosts of a pool: how much of its rate is used. */
#include <math.h>

#include "unit/pool_world.h"

#define BLOCK 16384
#define FARM  (1024 * BLOCK * POOL_MILLI) /* 16 MiB/s */

static struct world *farm_new(unsigned n)
{
	struct world *w = world_new(0);
	w->rate = FARM;
	for (unsigned i = 0; i < n; i++) {
		join(w, &w->user[i], 1);
		w->user[i].wants = 0;
	}
	return w;
}

/* Runs for `seconds`; returns the sum in relation to the rate, and in *most that of the worst second. */
static double farm_run(struct world *w, unsigned seconds, double *most)
{
	double before = used_sum(w);
	for (unsigned i = 0; i < seconds; i++) {
		double from = used_sum(w);
		run(w, 1000 * MS);
		*most = fmax(*most, (used_sum(w) - from) * POOL_MILLI / FARM);
	}
	return (used_sum(w) - before) / seconds * POOL_MILLI / FARM;
}

static void busy(struct world *w, unsigned i)
{
	load(w, i, BLOCK, 0);
}

static void idle(struct world *w, unsigned i)
{
	load(w, i, BLOCK, 3600 * NSEC_PER_SEC);
	w->user[i].load.next_ns = NEVER;
}

/* The bars that bench_pool.sh measures with real mounts: the sum within 1 % of the rate, no second more than 2 % above. */
static void check_bars(double sum, double most, double least, const char *what, unsigned n)
{
	ck_assert_msg(sum > least && sum < 1.001, "%s, %u hosts: sum %f", what, n, sum);
	ck_assert_msg(most < 1.02, "%s, %u hosts: %f in a second", what, n, most);
}

/* A third of the hosts is busy, a third reads 0.3/n of the rate each, a third is idle. */
static void check_uneven(unsigned n)
{
	struct world *w = farm_new(n);
	double most = 0;
	for (unsigned i = 0; i < n; i++)
		if (i % 3 == 0)
			busy(w, i);
		else if (i % 3 == 1)
			load(w, i, BLOCK, (uint64_t)(n / 0.3 * BLOCK * POOL_MILLI / FARM * 1e9));
	run(w, 3000 * MS);
	double sum = farm_run(w, 20, &most);
	check_bars(sum, most, 0.99, "uneven", n);
	world_free(w);
}

/* Four phases; in each, another third of the hosts is idle, and in the last one none, as in bench_pool.sh.  Whenever a share
 * moves from one host to another, about 55 ms of the rate are lost, half of them before the first host has noticed that it is
 * idle, so shorter phases have a lower sum. */
static void check_changing(unsigned n, unsigned phase, double least)
{
	const struct {
		unsigned from, to;
	} pause[] = {{3 + phase, 3 + 2 * phase},
		     {3 + 2 * phase, 3 + 3 * phase},
		     {0, 3 + phase}}; /* seconds in which a host does nothing */
	struct world *w = farm_new(n);
	double most = 0, sum = 0;
	run(w, below(LEASE)); /* so that the phases do not begin with a call */
	for (unsigned s = 0; s < 3 + 4 * phase; s++) {
		for (unsigned i = 0; i < n; i++)
			if (s == pause[i % 3].from)
				idle(w, i);
			else if (s == pause[i % 3].to || s == 0)
				busy(w, i);
		double before = used_sum(w), one = 0;
		farm_run(w, 1, &one);
		if (s < 3)
			continue;
		most = fmax(most, one);
		sum += (used_sum(w) - before) / (4 * phase) * POOL_MILLI / FARM;
	}
	check_bars(sum, most, least, "changing", n);
	world_free(w);
}

START_TEST(the_sum_is_within_one_per_cent_with_changing_demand)
{
	seed = unit_seed();
	for (unsigned round = 0; round < 10; round++) {
		check_changing(3, 5, 0.99);
		check_changing(16, 5, 0.99);
		check_changing(3, 2, 0.975);
		check_changing(16, 2, 0.975);
	}
}
END_TEST

START_TEST(the_sum_is_within_one_per_cent_with_uneven_demand)
{
	seed = unit_seed();
	for (unsigned round = 0; round < 10; round++) {
		check_uneven(3);
		check_uneven(16);
	}
}
END_TEST

/* Every other host has one request now and then; the rest is busy. */
static void check_few(unsigned n, uint64_t every_ns, unsigned size, double least)
{
	struct world *w = farm_new(n);
	double most = 0;
	uint64_t longest_ns = 0;
	for (unsigned i = 0; i < n; i++)
		if (i % 2)
			busy(w, i);
		else
			load(w, i, size, every_ns);
	run(w, 3000 * MS);
	for (unsigned i = 0; i < n; i++)
		w->user[i].load.longest_ns = 0;
	double sum = farm_run(w, 20, &most);
	for (unsigned i = 0; i < n; i++)
		longest_ns = max_u64(longest_ns, w->user[i].load.longest_ns);
	ck_assert_msg(sum > least, "%u hosts, %llu ms: sum %f", n,
		      (unsigned long long)(every_ns / MS), sum);
	ck_assert_msg(longest_ns < LEASE, "%u hosts, %llu ms: a request waited %llu ms", n,
		      (unsigned long long)(every_ns / MS), (unsigned long long)(longest_ns / MS));
	world_free(w);
}

/* Every other host is busy but pauses three times per second; the rest is busy. */
static void check_pauses(unsigned n, uint64_t pause_ns, double least)
{
	struct world *w = farm_new(n);
	double before = 0;
	for (unsigned i = 0; i < n; i++)
		busy(w, i);
	for (unsigned s = 0; s < 69; s++) {
		if (s == 9)
			before = used_sum(w);
		for (unsigned i = 0; i < n; i += 2)
			idle(w, i);
		run(w, pause_ns);
		for (unsigned i = 0; i < n; i += 2)
			busy(w, i);
		run(w, 333 * MS - pause_ns);
	}
	double sum = (used_sum(w) - before) / (60 * 0.333) * POOL_MILLI / FARM;
	ck_assert_msg(sum > least, "%u hosts, pauses of %llu ms: sum %f", n,
		      (unsigned long long)(pause_ns / MS), sum);
	world_free(w);
}

START_TEST(hosts_that_pause_for_a_moment_keep_their_shares)
{
	seed = unit_seed();
	for (unsigned n = 4; n <= 16; n *= 4) {
		check_pauses(n, 20 * MS, 0.98);
		check_pauses(n, 40 * MS, 0.94);
		check_pauses(n, 80 * MS,
			     0.8); /* as long as the interval of calls: the worst case */
		check_pauses(n, 120 * MS, 0.9);
	}
}
END_TEST

START_TEST(hosts_with_few_requests_take_little_from_busy_ones_and_do_not_wait_long)
{
	seed = unit_seed();
	for (unsigned round = 0; round < 5; round++) {
		check_few(4, 1000 * MS, BLOCK, 0.995);
		check_few(4, 200 * MS, BLOCK, 0.98);
		check_few(16, 3000 * MS, BLOCK, 0.995);
		check_few(16, 1000 * MS, BLOCK, 0.99);
		check_few(16, 700 * MS, BLOCK, 0.985);
		check_few(16, 200 * MS, BLOCK, 0.985);
		check_few(16, 300 * MS, BLOCK / 4, 0.995);
		check_few(16, 2000 * MS, 8 * BLOCK, 0.98);
		check_few(16, 2000 * MS, 64 * BLOCK, 0.96);
	}
}
END_TEST

UNIT_MAIN("pool_farm", hosts_that_pause_for_a_moment_keep_their_shares,
	  the_sum_is_within_one_per_cent_with_uneven_demand,
	  the_sum_is_within_one_per_cent_with_changing_demand,
	  hosts_with_few_requests_take_little_from_busy_ones_and_do_not_wait_long)
