/* SPDX-License-Identifier: MIT */
/* A scope that takes part in a limit over many hosts may use what is leased to it, and nothing else. */
#include "unit/gate_check.h"
#include "unit/world.h"

static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;
static struct gate_mount_config cfg;
static struct gate_pool_scope scope;

static void up(enum limit_kind kind, uint64_t pool_rate)
{
	cfg = mount_config();
	cfg.limits.limit[kind].pool_per_sec = pool_rate;
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	scope = (struct gate_pool_scope){.gate = w.gate, .mount = m};
}

static void down(void)
{
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}

static void lease(enum limit_kind kind, uint64_t rate, uint64_t capacity, uint64_t ns)
{
	struct gate_lease l = {0};
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		l.limit[k] = (struct bucket_lease){.capacity = 1, .until_ns = NEVER};
	l.limit[kind] = (struct bucket_lease){rate * 1000, capacity, w.clock.now + ns};
	ck_assert(gate_lease(&scope, &l));
}

static enum gate_verdict ask(struct work *k, enum cost_class cls, uint64_t bytes)
{
	return work_submit(&w, k, m, cls, bytes, 1);
}

START_TEST(without_a_lease_requests_wait_and_with_one_they_proceed_at_its_rate)
{
	struct work k[3] = {0};
	up(LIMIT_BPS, 100 * KIB);
	ck_assert(!gate_unlimited(m, COST_READ));
	ck_assert(gate_unlimited(m, COST_META));
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(ask(&k[i], COST_READ, 1000), GATE_PARKED);
	world_pass(&w, 10 * SEC);
	ck_assert_int_eq(k[0].fate, PENDING);
	uint64_t t0 = w.clock.now;
	lease(LIMIT_BPS, 10000, 1000, SEC);
	world_pass(&w, SEC);
	ck_assert_uint_eq(k[0].end_ns - t0, 100 * MS);
	ck_assert_uint_eq(k[2].end_ns - t0, 300 * MS);
	down();
}
END_TEST

START_TEST(a_lease_that_ends_admits_nothing_more_until_the_next)
{
	struct work k[4] = {0};
	up(LIMIT_IOPS, 100);
	lease(LIMIT_IOPS, 10, 1, 250 * MS);
	uint64_t t0 = w.clock.now;
	for (unsigned i = 0; i < 4; i++)
		ask(&k[i], COST_META, 0);
	world_pass(&w, 10 * SEC);
	ck_assert_uint_eq(k[0].end_ns - t0, 100 * MS);
	ck_assert_uint_eq(k[1].end_ns - t0, 200 * MS);
	ck_assert_int_eq(k[2].fate, PENDING);
	/* half a token was left */
	uint64_t t1 = w.clock.now;
	lease(LIMIT_IOPS, 10, 1, SEC);
	world_pass(&w, SEC);
	ck_assert_uint_eq(k[2].end_ns - t1, 50 * MS);
	ck_assert_uint_eq(k[3].end_ns - t1, 150 * MS);
	down();
}
END_TEST

START_TEST(leases_that_come_twice_late_or_out_of_order_create_no_tokens)
{
	static struct work k[100];
	unsigned ran = 0;
	up(LIMIT_IOPS, 100);
	memset(k, 0, sizeof(k));
	for (unsigned i = 0; i < 100; i++)
		ask(&k[i], COST_META, 0);
	/* 20/s for a second; leases are repeated, and smaller ones come in between */
	uint64_t end = w.clock.now + SEC;
	while (w.clock.now < end) {
		lease(LIMIT_IOPS, 20, 20, end - w.clock.now);
		lease(LIMIT_IOPS, 10, 1, 0);
		lease(LIMIT_IOPS, 20, 20, end - w.clock.now);
		lease(LIMIT_IOPS, 20, 20, end - w.clock.now);
		world_pass(&w, 7 * MS);
	}
	world_pass(&w, SEC);
	for (unsigned i = 0; i < 100; i++)
		ran += k[i].fate == RAN;
	ck_assert_uint_ge(ran, 19);
	ck_assert_uint_le(ran, 20);
	lease(LIMIT_IOPS, 1000000, 1, SEC);
	world_pass(&w, SEC);
	down();
}
END_TEST

START_TEST(the_scope_keeps_its_own_limits_beside_the_pool)
{
	struct work k[3] = {0};
	up(LIMIT_IOPS, 100);
	set_limit(&cfg.limits, LIMIT_IOPS, 2);
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	lease(LIMIT_IOPS, 100, 10, 100 * SEC);
	world_pass(&w, SEC);
	uint64_t t0 = w.clock.now;
	for (unsigned i = 0; i < 3; i++)
		ask(&k[i], COST_META, 0);
	world_pass(&w, 10 * SEC);
	ck_assert_uint_eq(k[0].end_ns - t0, 0);
	ck_assert_uint_eq(k[2].end_ns - t0, SEC);
	struct gate_pool_use use;
	ck_assert(gate_pool_look(&scope, &use));
	ck_assert_uint_eq(use.tokens[LIMIT_IOPS], 3);
	ck_assert_uint_eq(use.blocking_ns[LIMIT_IOPS],
			  0); /* they waited for the limit of the mount */
	down();
}
END_TEST

START_TEST(the_use_of_a_pool_is_counted_and_who_waits_for_it)
{
	struct work k[2] = {0};
	struct gate_pool_use use;
	up(LIMIT_BPS, MIB);
	lease(LIMIT_BPS, 1000, 1000, 100 * SEC);
	world_pass(&w, SEC);
	ck_assert_int_eq(ask(&k[0], COST_READ, 1000), GATE_GO);
	ck_assert_int_eq(ask(&k[1], COST_WRITE, 500), GATE_PARKED);
	ck_assert(gate_pool_look(&scope, &use));
	ck_assert(use.waiting[LIMIT_BPS]);
	world_pass(&w, SEC);
	ck_assert(gate_pool_look(&scope, &use));
	ck_assert(!use.waiting[LIMIT_BPS]);
	ck_assert_uint_eq(use.tokens[LIMIT_BPS], 1500);
	ck_assert_uint_eq(use.blocking_ns[LIMIT_BPS], 500 * MS);
	down();
}
END_TEST

START_TEST(a_scope_can_join_a_pool_and_leave_it_while_requests_wait)
{
	struct work k[2] = {0};
	up(LIMIT_IOPS, 0);
	ck_assert_int_eq(ask(&k[0], COST_META, 0), GATE_GO);
	cfg.limits.limit[LIMIT_IOPS].pool_per_sec = 100;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(ask(&k[1], COST_META, 0), GATE_PARKED);
	cfg.limits.limit[LIMIT_IOPS].pool_per_sec = 0;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(k[1].fate, RAN);
	/* joined again: nothing is left of the earlier lease */
	cfg.limits.limit[LIMIT_IOPS].pool_per_sec = 100;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	lease(LIMIT_IOPS, 100, 1, SEC);
	down();
}
END_TEST

START_TEST(metadata_meets_the_iops_of_a_pool_even_where_the_mount_has_meta_iops)
{
	struct work k = {0};
	up(LIMIT_IOPS, 100);
	set_limit(&cfg.limits, LIMIT_META_IOPS, 1000);
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(ask(&k, COST_META, 0), GATE_PARKED);
	lease(LIMIT_IOPS, 100, 1, SEC);
	world_pass(&w, SEC);
	ck_assert_int_eq(k.fate, RAN);
	down();
}
END_TEST

START_TEST(a_dry_run_counts_what_would_have_waited_for_a_pool)
{
	struct work k = {0};
	up(LIMIT_IOPS, 100);
	cfg.dry_run = true;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(ask(&k, COST_META, 0), GATE_GO);
	down();
}
END_TEST

static const struct waited_limit *longest_wait(struct key_stats *key)
{
	ck_assert_uint_eq(gate_stats_keys(m, NULL, key, 1), 1);
	return &key->limit[0];
}

/* A mount and the global scope may belong to different pools; and a scope may join another. */
START_TEST(waiting_for_a_pool_is_counted_by_its_name)
{
	struct work k[3] = {0};
	struct key_stats key;
	up(LIMIT_IOPS, 100);
	strcpy(cfg.limits.pool, "farm");
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(ask(&k[0], COST_META, 0), GATE_PARKED);
	world_pass(&w, SEC);
	lease(LIMIT_IOPS, 100, 1, SEC);
	world_pass(&w, 2 * SEC);
	ck_assert_int_eq(longest_wait(&key)->scope, SCOPE_POOL);
	ck_assert_str_eq(longest_wait(&key)->of, "farm");
	strcpy(cfg.limits.pool, "other");
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(ask(&k[1], COST_META, 0), GATE_GO); /* with what is left of the lease */
	ck_assert_int_eq(ask(&k[2], COST_META, 0), GATE_PARKED);
	world_pass(&w, 5 * SEC);
	lease(LIMIT_IOPS, 100, 1, SEC);
	world_pass(&w, SEC);
	ck_assert_str_eq(longest_wait(&key)->of, "other");
	down();
}
END_TEST

UNIT_MAIN("gate_pool", without_a_lease_requests_wait_and_with_one_they_proceed_at_its_rate,
	  a_lease_that_ends_admits_nothing_more_until_the_next,
	  leases_that_come_twice_late_or_out_of_order_create_no_tokens,
	  the_scope_keeps_its_own_limits_beside_the_pool,
	  the_use_of_a_pool_is_counted_and_who_waits_for_it,
	  a_scope_can_join_a_pool_and_leave_it_while_requests_wait,
	  metadata_meets_the_iops_of_a_pool_even_where_the_mount_has_meta_iops,
	  a_dry_run_counts_what_would_have_waited_for_a_pool,
	  waiting_for_a_pool_is_counted_by_its_name)
