/* SPDX-License-Identifier: MIT */
/* Who waited, and for which limit. */
#include "unit/gate_check.h"
#include "unit/world.h"

static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;
static struct gate_mount_config cfg;
static struct work work[3];

static void up(void)
{
	memset(work, 0, sizeof(work));
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
}

static void down(void)
{
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}

static unsigned waits(struct limit_wait wait[4])
{
	memset(wait, 0, 4 * sizeof(*wait));
	return gate_stats_waits(m, NULL, wait, 4);
}

START_TEST(wait_times_are_counted_by_limit_and_bound)
{
	struct limit_wait wait[4];
	struct key_stats key;
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	up();
	for (unsigned i = 0; i < 3; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 7);
	world_pass(&w, SEC);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, &key, 1), 1);
	ck_assert_str_eq(key.leaf, "");
	/* 100 ms and 200 ms are bounds, and bounds are inclusive */
	ck_assert_uint_eq(waits(wait), 1);
	ck_assert_int_eq(wait[0].limit.scope, SCOPE_MOUNT);
	ck_assert_str_eq(wait[0].limit.name, "iops");
	ck_assert_uint_eq(wait[0].times.sum_ns, 300 * MS);
	ck_assert_uint_eq(wait[0].times.count[6], 1);
	ck_assert_uint_eq(wait[0].times.count[7], 1);
	gate_stats_reset(w.gate);
	ck_assert_uint_eq(waits(wait), 0);
	down();
}
END_TEST

/* The last key is released with the first, and was never at the front of the line. */
START_TEST(those_in_the_queue_wait_for_what_refuses_the_first)
{
	struct limit_wait wait[4];
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, 1000);
	up();
	work_submit(&w, &work[0], m, COST_READ, 300, 7); /* a debt of 200 bytes */
	work_submit(&w, &work[1], m, COST_READ, 10, 8);
	work_submit(&w, &work[2], m, COST_READ, 10, 9);
	world_pass(&w, SEC);
	ck_assert_uint_eq(waits(wait), 1);
	ck_assert_str_eq(wait[0].limit.name, "read_bps");
	uint64_t n = 0;
	for (unsigned i = 0; i <= WAIT_BOUNDS; i++)
		n += wait[0].times.count[i];
	ck_assert_uint_eq(n, 2);
	down();
}
END_TEST

START_TEST(of_two_limits_the_last_that_refused_is_named)
{
	struct limiter_config global = {0};
	struct limit_wait wait[4];
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	up();
	set_limit(&global, LIMIT_READ_BPS, 1000);
	ck_assert_int_eq(gate_set_global(w.gate, &global), 0);
	work_submit(&w, &work[0], m, COST_READ, 300, 7); /* a debt of 200 bytes */
	work_submit(&w, &work[1], m, COST_READ, 50,
		    7); /* its op is there after 100 ms, its bytes later */
	world_pass(&w, SEC);
	ck_assert_int_eq(work[1].fate, RAN);
	ck_assert_uint_eq(waits(wait), 1);
	ck_assert_int_eq(wait[0].limit.scope, SCOPE_GLOBAL);
	ck_assert_str_eq(wait[0].limit.name, "read_bps");
	down();
}
END_TEST

START_TEST(waiting_for_a_limit_of_each_key_is_told_apart)
{
	struct limit_wait wait[4];
	cfg = mount_config();
	set_limit(&cfg.each, LIMIT_IOPS, 10);
	up();
	for (unsigned i = 0; i < 2; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 7);
	world_pass(&w, SEC);
	ck_assert_uint_eq(waits(wait), 1);
	ck_assert(wait[0].limit.each);
	ck_assert_int_eq(wait[0].limit.scope, SCOPE_MOUNT);
	down();
}
END_TEST

UNIT_MAIN("gate_waited", wait_times_are_counted_by_limit_and_bound,
	  those_in_the_queue_wait_for_what_refuses_the_first,
	  of_two_limits_the_last_that_refused_is_named,
	  waiting_for_a_limit_of_each_key_is_told_apart)
