/* SPDX-License-Identifier: MIT */
/* The gate as a single request sees it, one promise per test. */
#include "unit/gate_check.h"
#include "unit/world.h"

/* A world with one mount, set up and taken down around each test. */
static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;
static struct gate_mount_config cfg;

static void up(void)
{
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
}

static void down(void)
{
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}

static void with(enum limit_kind kind, uint64_t rate)
{
	cfg = mount_config();
	set_limit(&cfg.limits, kind, rate);
}

static enum gate_verdict ask(struct work *k, enum cost_class cls, uint64_t bytes, uint64_t key)
{
	return work_submit(&w, k, m, cls, bytes, key);
}

/* --- admitted immediately, waiting, admitted later --- */

START_TEST(unlimited_goes_at_once_and_reads_no_clock)
{
	struct work k = {0};
	cfg = mount_config();
	up();
	ck_assert(gate_unlimited(m, COST_READ));
	unsigned reads = w.clock.reads;
	ck_assert_int_eq(ask(&k, COST_READ, MIB, 1), GATE_GO);
	ck_assert_ptr_null(k.job.grant.chain);
	ck_assert_uint_eq(w.clock.arms, 0);
	ck_assert_uint_eq(w.clock.reads, reads);
	ck_assert_uint_eq(gate_piece_bytes(m, COST_READ, &nobody, 1), UINT64_MAX);
	down();
}
END_TEST

START_TEST(a_parked_job_goes_at_the_very_moment_its_token_comes)
{
	struct work k[3] = {0};
	with(LIMIT_IOPS, 10); /* capacity 1 */
	up();
	uint64_t t0 = w.clock.now;
	ck_assert_int_eq(ask(&k[0], COST_META, 0, 1), GATE_GO);
	ck_assert_int_eq(ask(&k[1], COST_META, 0, 1), GATE_PARKED);
	ck_assert_int_eq(ask(&k[2], COST_META, 0, 1), GATE_PARKED);
	world_until(&w, t0 + 100 * MS - 1);
	ck_assert_int_eq(k[1].fate, PENDING);
	world_until(&w, t0 + SEC);
	ck_assert_uint_eq(k[1].end_ns - t0, 100 * MS);
	ck_assert_uint_eq(k[2].end_ns - t0, 200 * MS);
	ck_assert_uint_eq(w.clock.armed_ns, NEVER);
	down();
}
END_TEST

START_TEST(newcomers_do_not_overtake_who_waits)
{
	struct work k[3] = {0};
	with(LIMIT_READ_BPS, MIB);
	up();
	ask(&k[0], COST_READ, 100 * KIB, 1);
	ck_assert_int_eq(ask(&k[1], COST_READ, 100 * KIB, 1), GATE_PARKED);
	/* there are enough tokens for this one */
	ck_assert_int_eq(ask(&k[2], COST_READ, 1, 1), GATE_PARKED);
	struct cost one = {COST_READ, 1, 1};
	struct grant g;
	const struct caller same = {.tid = 1};
	ck_assert_int_eq(gate_try_nonblocking(m, &one, &same, 4096, &g), GATE_WOULD_BLOCK);
	world_pass(&w, SEC);
	ck_assert_uint_lt(k[1].order, k[2].order);
	down();
}
END_TEST

START_TEST(a_late_wake_up_loses_no_tokens)
{
	struct work k[200] = {0};
	with(LIMIT_IOPS, 10);
	cfg.limits.limit[LIMIT_IOPS].rate_per_sec = 1000;
	cfg.limits.window_ns =
		MS; /* capacity 1: a token would be lost if a late wake-up counted in full */
	up();
	for (unsigned i = 0; i < 200; i++)
		ask(&k[i], COST_META, 0, 1);
	uint64_t t0 = w.clock.now;
	while (w.clock.armed_ns != NEVER) { /* each one 3 ms late */
		w.clock.now = w.clock.armed_ns + 3 * MS;
		w.clock.armed_ns = NEVER;
		gate_step(w.gate, w.clock.now);
	}
	ck_assert_uint_le(k[199].end_ns - t0, 204 * MS);
	ck_assert_uint_ge(k[199].end_ns - t0, 199 * MS);
	down();
}
END_TEST

START_TEST(a_wake_up_much_too_late_counts_five_milliseconds)
{
	struct work k[50] = {0};
	with(LIMIT_IOPS, 1000);
	cfg.limits.window_ns = MS;
	up();
	for (unsigned i = 0; i < 50; i++)
		ask(&k[i], COST_META, 0, 1);
	w.clock.now += SEC;
	gate_step(w.gate, w.clock.now);
	unsigned ran = 0;
	for (unsigned i = 0; i < 50; i++)
		ran += k[i].fate == RAN;
	ck_assert_uint_ge(ran, 1 + 5);
	ck_assert_uint_le(ran, 1 + 7);
	world_pass(&w, SEC);
	down();
}
END_TEST

START_TEST(wake_ups_are_coalesced)
{
	static struct work k[2000];
	memset(k, 0, sizeof(k));
	with(LIMIT_IOPS, 100000);
	cfg.limits.window_ns = 1; /* capacity 1 */
	up();
	for (unsigned i = 0; i < 2000; i++)
		ask(&k[i], COST_META, 0, i % 7);
	unsigned before = w.clock.arms;
	world_pass(&w, SEC);
	ck_assert_int_eq(k[1999].fate, RAN);
	ck_assert_uint_le(w.clock.arms - before, 120); /* 20 ms at 0.2 ms each */
	down();
}
END_TEST

START_TEST(a_request_larger_than_the_capacity_waits_for_a_full_bucket)
{
	struct work k[2] = {0};
	with(LIMIT_WRITE_BPS, MIB); /* capacity 102.4 KiB */
	up();
	uint64_t t0 = w.clock.now;
	ask(&k[0], COST_WRITE, 10 * KIB, 1);
	ck_assert_int_eq(ask(&k[1], COST_WRITE, 4 * MIB, 2), GATE_PARKED);
	world_pass(&w, SEC);
	ck_assert_uint_ge(k[1].end_ns - t0, 9 * MS);
	ck_assert_uint_le(k[1].end_ns - t0, 10 * MS);
	struct work after = {0};
	ask(&after, COST_WRITE, 1, 1);
	world_pass(&w, 10 * SEC); /* the debt is paid first */
	ck_assert_uint_ge(after.end_ns - t0, 3900 * MS);
	down();
}
END_TEST

/* The worked examples at the top of sched/node.h. */
START_TEST(a_request_that_waits_at_two_scopes_goes_the_way_of_the_example)
{
	struct work first = {0}, other = {0}, a = {0}, b = {0};
	struct limiter_config global = {0};
	struct gate_mount_config unlimited = mount_config();
	with(LIMIT_IOPS, 1);
	up();
	set_limit(&global, LIMIT_BPS, 100);
	ck_assert_int_eq(gate_set_global(w.gate, &global), 0);
	struct gate_mount *second = gate_mount_new(fs, "second", &unlimited);
	ck_assert_ptr_nonnull(second);
	const struct node *mount = &m->leaf.node, *root = &w.gate->global;
	const struct resource *iops = mount->res[LIMIT_IOPS * BUCKET_ROLES];
	const struct resource *bps = root->res[LIMIT_BPS * BUCKET_ROLES];

	ck_assert_int_eq(ask(&first, COST_META, 0, 9), GATE_GO);
	world_pass(&w, 500 * MS);
	uint64_t start_ns = w.clock.now;
	ck_assert_int_eq(work_submit(&w, &other, second, COST_READ, 60, 9), GATE_GO);
	ck_assert_int_eq(ask(&a, COST_READ, 40, 1), GATE_PARKED);
	ck_assert_int_eq(ask(&b, COST_READ, 40, 2), GATE_PARKED);
	unsigned lane = w.gate->lane_of[COST_READ];
	ck_assert_ptr_eq(mount->lane[lane].blocked, iops);
	ck_assert_ptr_null(root->lane[lane].blocked);

	world_pass(&w, 500 * MS);
	ck_assert_ptr_null(mount->lane[lane].blocked);
	ck_assert_uint_eq(mount->lane[lane].had_turn, 1U << iops->index);
	ck_assert_ptr_eq(root->lane[lane].blocked, bps);
	ck_assert_uint_eq(resource_held(iops, &m->leaf.node.lane[lane]), 1);

	world_pass(&w, 2 * SEC);
	ck_assert_uint_eq(a.end_ns - start_ns, 600 * MS);
	ck_assert_uint_eq(b.end_ns - start_ns, 1500 * MS);
	gate_mount_free(second);
	down();
}
END_TEST

START_TEST(a_probe_leaves_a_voucher_as_in_the_example)
{
	struct work first = {0}, p = {0}, c = {0};
	with(LIMIT_BPS, 100);
	up();
	uint64_t start_ns = w.clock.now;
	ck_assert_int_eq(ask(&first, COST_READ, 10, 1), GATE_GO);
	p.job.probe = true;
	ck_assert_int_eq(ask(&p, COST_READ, 6, 2), GATE_PARKED);
	ck_assert_int_eq(ask(&c, COST_READ, 6, 3), GATE_PARKED);
	world_pass(&w, SEC);
	ck_assert_uint_eq(p.end_ns - start_ns, 60 * MS);
	ck_assert_uint_eq(c.end_ns - start_ns, 80 * MS);
	down();
}
END_TEST

START_TEST(a_copy_claims_bytes_as_in_the_example)
{
	struct work copy = {0}, k[7] = {0};
	with(LIMIT_READ_BPS, 100);
	set_limit(&cfg.limits, LIMIT_WRITE_BPS, 100);
	up();
	uint64_t start_ns = w.clock.now;
	ck_assert_int_eq(ask(&k[0], COST_READ, 10, 1), GATE_GO);
	ck_assert_int_eq(ask(&k[1], COST_WRITE, 10, 2), GATE_GO);
	ck_assert_int_eq(ask(&k[2], COST_WRITE, 10, 2), GATE_PARKED);
	ck_assert_int_eq(ask(&copy, COST_COPY, 10, 3), GATE_PARKED);
	world_until(&w, start_ns + 150 * MS); /* it waits for write_bps */
	ck_assert_int_eq(k[2].fate, RAN);
	ck_assert_int_eq(ask(&k[3], COST_READ, 10, 1), GATE_GO);
	world_until(&w, start_ns + 220 * MS); /* it waits for read_bps */
	ck_assert_int_eq(ask(&k[4], COST_WRITE, 10, 2), GATE_GO);
	world_until(&w, start_ns + 260 * MS); /* it waits for write_bps, and claims */
	ck_assert_int_eq(ask(&k[5], COST_READ, 2, 1), GATE_GO);
	world_until(&w, start_ns + 300 * MS);
	ck_assert_int_eq(ask(&k[6], COST_READ, 5, 1), GATE_PARKED);
	world_pass(&w, SEC);
	near((double)(copy.end_ns - start_ns), 320 * MS, 0.01);
	ck_assert_uint_gt(k[6].end_ns, copy.end_ns);
	down();
}
END_TEST

/* --- leaving --- */

START_TEST(a_cancelled_job_spends_nothing)
{
	struct work k[3] = {0};
	with(LIMIT_READ_BPS, MIB);
	up();
	uint64_t t0 = w.clock.now;
	for (unsigned i = 0; i < 3; i++)
		ask(&k[i], COST_READ, MIB, i);
	ck_assert(gate_cancel(w.gate, &k[1].job));
	ck_assert(!gate_cancel(w.gate, &k[1].job));
	world_pass(&w, 10 * SEC);
	ck_assert_int_eq(k[2].fate, RAN);
	ck_assert_uint_le(k[2].end_ns - t0, SEC + MS);
	ck_assert_uint_eq(k[1].ends, 0);
	ck_assert(!gate_cancel(w.gate, &k[2].job));
	down();
}
END_TEST

START_TEST(a_cancelled_front_lets_the_next_one_go_at_once)
{
	struct work k[3] = {0};
	with(LIMIT_READ_BPS, MIB);
	up();
	ask(&k[0], COST_READ, 50 * KIB, 0);
	ask(&k[1], COST_READ, MIB, 1);
	ask(&k[2], COST_READ, 10 * KIB, 1);
	ck_assert_int_eq(k[2].fate, PENDING);
	ck_assert(gate_cancel(w.gate, &k[1].job));
	ck_assert_int_eq(k[2].fate, RAN);
	down();
}
END_TEST

START_TEST(who_waits_longer_than_max_wait_is_refused)
{
	struct work k[3] = {0}, must_run = {0};
	with(LIMIT_IOPS, 10);
	cfg.max_wait_ns = 150 * MS;
	up();
	uint64_t t0 = w.clock.now;
	for (unsigned i = 0; i < 3; i++)
		ask(&k[i], COST_META, 0, 1);
	must_run.job.must_run = true;
	ask(&must_run, COST_META, 0, 1);
	world_pass(&w, SEC);
	ck_assert_int_eq(k[1].fate, RAN);
	ck_assert_int_eq(k[2].fate, REFUSED);
	ck_assert_int_eq(k[2].why, GRANT_TIMED_OUT);
	ck_assert_uint_eq(k[2].end_ns - t0, 150 * MS);
	ck_assert_int_eq(must_run.fate, RAN);
	down();
}
END_TEST

START_TEST(a_new_max_wait_counts_for_those_who_wait)
{
	struct work k[2] = {0};
	with(LIMIT_IOPS, 1);
	up();
	ask(&k[0], COST_META, 0, 1);
	ask(&k[1], COST_META, 0, 1);
	world_pass(&w, 100 * MS);
	cfg.max_wait_ns = 200 * MS;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	world_pass(&w, 99 * MS);
	ck_assert_int_eq(k[1].fate, PENDING);
	world_pass(&w, 2 * MS);
	ck_assert_int_eq(k[1].fate, REFUSED);
	down();
}
END_TEST

START_TEST(bounds_on_what_is_parked_refuse_the_rest)
{
	struct work k[4] = {0};
	with(LIMIT_IOPS, 1);
	cfg.max_parked = 2;
	up();
	ask(&k[0], COST_META, 0, 1);
	ck_assert_int_eq(ask(&k[1], COST_META, 0, 1), GATE_PARKED);
	ck_assert_int_eq(ask(&k[2], COST_META, 0, 1), GATE_PARKED);
	ck_assert_int_eq(ask(&k[3], COST_META, 0, 1), GATE_NO_ROOM);
	cfg.max_parked = 0;
	cfg.max_parked_bytes = 250;
	gate_set_mount(m, &cfg);
	ck_assert_int_eq(ask(&k[3], COST_META, 0, 1), GATE_NO_ROOM); /* 100 bytes each */
	world_pass(&w, 5 * SEC);
	struct scope_stats st;
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_META].no_room, 2);
	down();
}
END_TEST

START_TEST(a_cost_against_a_rate_of_zero_is_a_misconfiguration)
{
	struct work k[2] = {0};
	with(LIMIT_READ_BPS, 1000);
	up();
	ask(&k[0], COST_READ, 100, 1);
	ck_assert_int_eq(ask(&k[1], COST_READ, 100, 1), GATE_PARKED);
	cfg.limits.limit[LIMIT_READ_BPS].rate_per_sec = 0;
	gate_set_mount(m, &cfg);
	ck_assert_int_eq(k[1].fate, REFUSED);
	ck_assert_int_eq(k[1].why, GRANT_MISCONFIGURED);
	ck_assert_int_eq(ask(&k[0], COST_READ, 100, 1), GATE_MISCONFIGURED);
	ck_assert_int_eq(ask(&k[0], COST_META, 0, 1), GATE_GO);
	down();
}
END_TEST

/* --- permits --- */

START_TEST(max_inflight_waits_for_a_permit_and_its_end_wakes_the_next)
{
	struct work k[3] = {0};
	cfg = mount_config();
	cfg.limits.max_inflight = 2;
	up();
	w.keep = true;
	ck_assert_int_eq(ask(&k[0], COST_READ, KIB, 1), GATE_GO);
	ck_assert_int_eq(ask(&k[1], COST_META, 0, 1), GATE_GO);
	ck_assert_int_eq(ask(&k[2], COST_META, 0, 1), GATE_PARKED);
	ck_assert_uint_eq(w.clock.armed_ns, NEVER); /* only an event can help */
	gate_done(&k[0].job.grant, OUTCOME_FAILED, 0);
	ck_assert_int_eq(k[2].fate, RAN);
	gate_done(&k[1].job.grant, OUTCOME_OK, 0);
	gate_done(&k[2].job.grant, OUTCOME_CANCELLED, 0);
	struct scope_stats st;
	gate_stats_mount(m, &st);
	ck_assert_int_eq(st.inflight.in_flight, 0);
	ck_assert_uint_eq(st.cls[COST_READ].failed, 1);
	ck_assert_uint_eq(st.cls[COST_META].ok, 1);
	ck_assert_uint_eq(st.cls[COST_META].aborted, 1);
	down();
}
END_TEST

START_TEST(the_end_of_an_operation_gives_one_permit_back)
{
	struct work k[4] = {0};
	cfg = mount_config();
	cfg.limits.max_inflight = 3;
	up();
	w.keep = true;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(ask(&k[i], COST_META, 0, 1), GATE_GO);
	for (unsigned i = 0; i < 3; i++) {
		struct scope_stats st;
		gate_done(&k[i].job.grant, OUTCOME_OK, 0);
		gate_stats_mount(m, &st);
		ck_assert_int_eq(st.inflight.in_flight, 2 - i);
	}
	down();
}
END_TEST

START_TEST(on_full_reject_turns_away_at_once)
{
	struct work k[2] = {0};
	cfg = mount_config();
	cfg.limits.max_inflight = 1;
	cfg.full_rejects = true;
	up();
	w.keep = true;
	ck_assert_int_eq(ask(&k[0], COST_READ, KIB, 1), GATE_GO);
	ck_assert_int_eq(ask(&k[1], COST_READ, KIB, 1), GATE_FULL);
	gate_done(&k[0].job.grant, OUTCOME_OK, KIB);
	ck_assert_int_eq(ask(&k[1], COST_READ, KIB, 1), GATE_GO);
	gate_done(&k[1].job.grant, OUTCOME_OK, KIB);
	down();
}
END_TEST

START_TEST(open_handles_are_counted_at_every_scope)
{
	struct limiter_config global = {.max_open = 2};
	cfg = mount_config();
	cfg.limits.max_open = 3;
	up();
	gate_set_global(w.gate, &global);
	const struct scope_way *where = gate_open_try(m, &nobody);
	ck_assert(where && gate_open_try(m, &nobody));
	ck_assert(!gate_open_try(m, &nobody));
	struct scope_stats st;
	gate_stats_mount(m, &st);
	ck_assert_int_eq(st.open.in_flight, 2); /* the failed attempt took nothing */
	gate_open_release(where);
	ck_assert(gate_open_try(m, &nobody));
	gate_open_release(where);
	gate_open_release(where);
	down();
}
END_TEST

/* --- settling --- */

START_TEST(bytes_not_moved_come_back_and_wake_who_waits)
{
	struct work k[2] = {0};
	with(LIMIT_READ_BPS, MIB);
	up();
	w.keep = true;
	ask(&k[0], COST_READ, 100 * KIB, 1);
	ck_assert_int_eq(ask(&k[1], COST_READ, 50 * KIB, 2), GATE_PARKED);
	gate_done(&k[0].job.grant, OUTCOME_OK, 10 * KIB);
	ck_assert_int_eq(k[1].fate, RAN);
	gate_done(&k[1].job.grant, OUTCOME_FAILED, 50 * KIB); /* a failure moves nothing */
	struct scope_stats st;
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_READ].bytes, 10 * KIB);
	ck_assert_int_eq(st.limit[LIMIT_READ_BPS].level,
			 (int64_t)(st.limit[LIMIT_READ_BPS].capacity - 10 * KIB));
	down();
}
END_TEST

/* --- changes --- */

START_TEST(a_new_limit_is_felt_at_once_by_those_who_wait)
{
	struct work k[2] = {0};
	with(LIMIT_READ_BPS, KIB);
	up();
	ask(&k[0], COST_READ, MIB, 1);
	ask(&k[1], COST_READ, KIB, 1); /* due in a quarter of an hour */
	world_pass(&w, SEC);
	ck_assert_int_eq(k[1].fate, PENDING);
	cfg.limits.limit[LIMIT_READ_BPS].rate_per_sec = MIB;
	gate_set_mount(m, &cfg);
	world_pass(&w, 999 * MS);
	ck_assert_int_eq(k[1].fate, PENDING); /* the debt stays */
	world_pass(&w, 10 * MS);
	ck_assert_int_eq(k[1].fate, RAN);
	ask(&k[0], COST_READ, MIB, 1);
	ask(&k[1], COST_READ, KIB, 1);
	cfg.limits.limit[LIMIT_READ_BPS].enabled = false;
	gate_set_mount(m, &cfg);
	ck_assert_int_eq(k[1].fate, RAN);
	down();
}
END_TEST

START_TEST(order_within_a_key_survives_new_lanes)
{
	struct work k[30] = {0};
	with(LIMIT_IOPS, 10);
	up();
	for (unsigned i = 0; i < 30; i++)
		ask(&k[i], i % 3 ? COST_READ : COST_META, 0, 1);
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB); /* reads get a lane of their own */
	gate_set_mount(m, &cfg);
	gate_check(w.gate);
	cfg.limits.limit[LIMIT_READ_BPS].enabled = false; /* and lose it again */
	gate_set_mount(m, &cfg);
	gate_check(w.gate);
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i + 1 < 30; i++)
		ck_assert_uint_lt(k[i].order, k[i + 1].order);
	down();
}
END_TEST

START_TEST(a_paused_scope_admits_nothing_until_it_is_resumed)
{
	struct work k[3] = {0};
	cfg = mount_config();
	up();
	ck_assert_int_eq(gate_pause_mount(m, true), 0);
	ck_assert(!gate_unlimited(m, COST_META));
	ck_assert_int_eq(ask(&k[0], COST_META, 0, 1), GATE_PARKED);
	gate_pause_global(w.gate, true);
	gate_pause_mount(m, false);
	ck_assert_int_eq(ask(&k[1], COST_READ, MIB, 1), GATE_PARKED);
	world_pass(&w, 100 * SEC);
	ck_assert_int_eq(k[0].fate, PENDING);
	gate_pause_global(w.gate, false);
	ck_assert_int_eq(k[0].fate, RAN);
	ck_assert_int_eq(k[1].fate, RAN);
	ck_assert(gate_unlimited(m, COST_META));
	down();
}
END_TEST

START_TEST(draining_ends_what_is_parked_and_lifts_no_limit)
{
	for (int run = 0; run <= 1; run++) {
		struct work k[20] = {0}, later = {0};
		with(LIMIT_IOPS, 1);
		up();
		k[19].job.must_run = true; /* may not be refused */
		for (unsigned i = 0; i < 20; i++)
			ask(&k[i], COST_META, 0, i % 3);
		gate_pause_mount(m, true);
		gate_mount_drain(m, run);
		for (unsigned i = 1; i < 20; i++)
			ck_assert_int_eq(k[i].fate, run || i == 19 ? RAN : REFUSED);
		gate_pause_mount(m, false);
		ck_assert_int_eq(ask(&later, COST_META, 0, 1), GATE_PARKED);
		gate_mount_drain(m, false);
		down();
	}
}
END_TEST

START_TEST(a_dry_run_waits_for_nothing_and_says_what_it_would_have_waited)
{
	struct work k[3] = {0};
	struct scope_stats st;
	with(LIMIT_IOPS, 10);
	cfg.dry_run = true;
	up();
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(ask(&k[i], COST_META, 0, 1), GATE_GO);
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_META].ops, 3);
	ck_assert_uint_eq(st.cls[COST_META].parked, 0);
	ck_assert_uint_eq(st.cls[COST_META].at_once, 1);
	ck_assert_uint_eq(st.cls[COST_META].would_wait.total, 2);
	ck_assert_uint_eq(st.cls[COST_META].would_wait.sum_ns, 200 * MS);
	down();
}
END_TEST

START_TEST(a_dry_run_names_the_limit_and_who_would_have_waited)
{
	struct grant g[3];
	const struct caller who = {.tid = 7};
	struct scope_limits limits[3];
	struct key_stats key;
	with(LIMIT_IOPS, 10);
	cfg.dry_run = true;
	up();
	for (unsigned i = 0; i < 3; i++) {
		struct cost c = {COST_META, 1, 0};
		ck_assert_int_eq(gate_try(m, &c, &who, &g[i]), GATE_GO);
		gate_done(&g[i], OUTCOME_OK, 0);
	}
	ck_assert_uint_eq(gate_limits_mount(m, limits), 3);
	ck_assert_uint_eq(limits[0].limit[LIMIT_IOPS].would_wait, 2);
	ck_assert_uint_eq(limits[1].limit[LIMIT_IOPS].would_wait, 0);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, &key, 1), 1);
	ck_assert_uint_eq(key.key.id, 7);
	ck_assert_uint_eq(key.would_wait, 2);
	ck_assert_uint_eq(key.would_wait_ns, 200 * MS);
	down();
}
END_TEST

START_TEST(a_plain_error_is_no_failure_and_gives_its_bytes_back)
{
	struct cost c = {COST_READ, 1, KIB};
	struct grant g;
	struct scope_stats st;
	with(LIMIT_READ_BPS, 100 * KIB);
	up();
	ck_assert_int_eq(gate_try(m, &c, &nobody, &g), GATE_GO);
	gate_done(&g, OUTCOME_ERROR, 0);
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_READ].ok, 1);
	ck_assert_uint_eq(st.cls[COST_READ].failed, 0);
	ck_assert_uint_eq(st.cls[COST_READ].bytes, 0);
	ck_assert_int_eq(st.limit[LIMIT_READ_BPS].level,
			 (int64_t)st.limit[LIMIT_READ_BPS].capacity);
	down();
}
END_TEST

START_TEST(a_dry_run_leaves_no_debt_to_those_who_really_wait)
{
	struct work k[50] = {0}, real = {0};
	with(LIMIT_IOPS, 10);
	cfg.dry_run = true;
	up();
	for (unsigned i = 0; i < 50; i++)
		ask(&k[i], COST_META, 0, 1);
	cfg.dry_run = false;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	uint64_t t0 = w.clock.now;
	ck_assert_int_eq(ask(&real, COST_META, 0, 1), GATE_PARKED);
	world_pass(&w, SEC);
	ck_assert_uint_eq(real.end_ns - t0, 100 * MS);
	down();
}
END_TEST

/* --- keys --- */

START_TEST(keys_past_the_bound_share_and_idle_ones_are_forgotten)
{
	struct work k[200] = {0};
	struct scope_stats st;
	with(LIMIT_IOPS, 1000);
	cfg.max_keys = 10;
	up();
	for (unsigned i = 0; i < 200; i++)
		ask(&k[i], COST_META, 0, i);
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.keys_now, 10);
	world_pass(&w, SEC);
	for (unsigned i = 0; i < 200; i++)
		ck_assert_int_eq(k[i].fate, RAN); /* nobody was refused */
	for (unsigned i = 0; i < 150; i++)
		ask(&k[i], COST_META, 0, 1000 + i);
	struct key_stats top[40];
	unsigned n = gate_stats_keys(m, NULL, top, 40), fresh = 0;
	for (unsigned i = 0; i < n; i++)
		fresh += top[i].key.kind == FAIR_PROCESS && top[i].key.id >= 1000;
	ck_assert_uint_eq(fresh, 10); /* the old ones made room */
	world_pass(&w, SEC);
	down();
}
END_TEST

START_TEST(the_keys_that_waited_most_come_first)
{
	struct work k[6] = {0};
	struct key_stats top[2];
	struct weight_rule rule = {{FAIR_PROCESS, 2}, NULL, 5};
	with(LIMIT_IOPS, 10);
	cfg.weights = &rule;
	cfg.n_weights = 1;
	up();
	ask(&k[0], COST_META, 0, 1);
	for (unsigned i = 1; i < 6; i++)
		ask(&k[i], COST_META, 0, i == 1 ? 1 : 2);
	world_pass(&w, SEC);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, 2), 2);
	ck_assert_uint_eq(top[0].key.id, 2);
	ck_assert_uint_eq(top[0].weight, 5);
	ck_assert_uint_eq(top[0].parked, 4);
	ck_assert_uint_ge(top[0].wait_ns, top[1].wait_ns);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, 1), 1);
	ck_assert_uint_eq(top[0].key.id, 2);
	down();
}
END_TEST

/* --- statistics --- */

START_TEST(a_job_counts_in_its_mount_its_fs_and_globally)
{
	struct work k[3] = {0};
	struct scope_stats st[3];
	with(LIMIT_IOPS, 10);
	up();
	for (unsigned i = 0; i < 3; i++)
		ask(&k[i], COST_WRITE, 100, 1);
	gate_stats_mount(m, &st[0]);
	ck_assert_uint_eq(st[0].parked_now, 2);
	ck_assert_uint_eq(st[0].parked_bytes_now, 200);
	world_pass(&w, SEC);
	gate_stats_mount(m, &st[0]);
	gate_stats_fs(fs, &st[1]);
	gate_stats_global(w.gate, &st[2]);
	for (unsigned i = 0; i < 3; i++) {
		const struct class_stats *c = &st[i].cls[COST_WRITE];
		ck_assert_uint_eq(c->ops, 3);
		ck_assert_uint_eq(c->bytes, 300);
		ck_assert_uint_eq(c->at_once, 1);
		ck_assert_uint_eq(c->parked, 2);
		ck_assert_uint_eq(c->ok, 3);
		ck_assert_uint_eq(c->wait.total, 2);
		ck_assert_uint_eq(c->wait.sum_ns, 300 * MS);
		ck_assert_uint_eq(st[i].parked_now, 0);
	}
	ck_assert_uint_eq(st[0].limit[LIMIT_IOPS].blocking_ns, 200 * MS);
	gate_stats_reset(w.gate);
	gate_stats_fs(fs, &st[1]);
	ck_assert_uint_eq(st[1].cls[COST_WRITE].ops, 0);
	ck_assert_uint_eq(st[1].cls[COST_WRITE].wait.total, 0);
	down();
}
END_TEST

START_TEST(a_histogram_quantile_is_off_by_at_most_an_eighth)
{
	struct histogram h = {0};
	for (uint64_t i = 1; i <= 1000; i++)
		histogram_add(&h, i * 1000);
	static const unsigned at[] = {1, 100, 500, 990, 1000};
	for (unsigned i = 0; i < 5; i++) {
		uint64_t got = histogram_quantile_ns(&h, at[i]), want = at[i] * 1000;
		ck_assert_uint_ge(got, want - want / 8);
		ck_assert_uint_le(got, want + want / 8);
	}
	struct histogram sum = {0};
	histogram_merge(&sum, &h);
	histogram_add(&sum, UINT64_MAX);
	ck_assert_uint_eq(sum.total, 1001);
	ck_assert_uint_eq(sum.max_ns, UINT64_MAX);
	ck_assert_uint_eq(histogram_quantile_ns(&(struct histogram){0}, 500), 0);
}
END_TEST

/* --- non-blocking --- */

START_TEST(a_partial_transfer_takes_what_is_there)
{
	struct cost c = {COST_READ, 1, MIB};
	struct grant g;
	with(LIMIT_READ_BPS, MIB);
	up();
	ck_assert_int_eq(gate_try_nonblocking(m, &c, &nobody, 4096, &g), GATE_GO);
	ck_assert_uint_eq(g.cost.bytes, MIB / 10);
	gate_done(&g, OUTCOME_OK, g.cost.bytes);
	ck_assert_int_eq(gate_try_nonblocking(m, &c, &nobody, 4096, &g), GATE_WOULD_BLOCK);
	struct scope_stats st;
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_READ].would_block, 1);
	world_pass(&w, SEC);
	down();
}
END_TEST

START_TEST(a_probe_goes_when_a_transfer_could_and_costs_nothing)
{
	struct work k = {0}, probe = {.job.probe = true};
	with(LIMIT_READ_BPS, MIB);
	up();
	ask(&k, COST_READ, 200 * KIB, 1);
	ck_assert_int_eq(ask(&probe, COST_READ, 4 * KIB, 1), GATE_PARKED);
	world_pass(&w, 95 * MS);
	ck_assert_int_eq(probe.fate, PENDING);
	world_pass(&w, 10 * MS);
	ck_assert_int_eq(probe.fate, RAN);
	struct scope_stats st;
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_READ].ops, 1);
	ck_assert_int_ge(st.limit[LIMIT_READ_BPS].level, (int64_t)(4 * KIB));
	down();
}
END_TEST

/* A client that polls, and submits its transfer a millisecond after it was told; the others never stop. */
START_TEST(a_poller_gets_its_share_beside_a_queue)
{
	struct work bulk[64] = {0};
	struct cost c = {COST_READ, 1, 64 * KIB};
	uint64_t got = 0;
	with(LIMIT_READ_BPS, MIB);
	up();
	for (unsigned i = 0; i < 64; i++)
		ask(&bulk[i], COST_READ, 16 * KIB, 1);
	for (unsigned turn = 0; turn < 20; turn++) {
		struct work probe = {.job.probe = true};
		struct grant g;
		ask(&probe, COST_READ, 4 * KIB, 2);
		for (unsigned i = 0; i < 100 && probe.fate == PENDING; i++)
			world_pass(&w, MS);
		ck_assert_int_eq(probe.fate, RAN);
		world_pass(&w, MS);
		struct work again = {.job.probe = true};
		ck_assert_int_eq(ask(&again, COST_READ, 4 * KIB, 2), GATE_GO);
		if (gate_try_nonblocking(m, &c, &(struct caller){.tid = 2}, 4096, &g) == GATE_GO) {
			got += g.cost.bytes;
			gate_done(&g, OUTCOME_OK, g.cost.bytes);
		}
	}
	ck_assert_uint_ge(got, 20 * 4 * KIB);
	world_pass(&w, 10 * SEC);
	down();
}
END_TEST

UNIT_MAIN("gate", unlimited_goes_at_once_and_reads_no_clock,
	  a_parked_job_goes_at_the_very_moment_its_token_comes, newcomers_do_not_overtake_who_waits,
	  a_late_wake_up_loses_no_tokens, a_wake_up_much_too_late_counts_five_milliseconds,
	  wake_ups_are_coalesced, a_request_larger_than_the_capacity_waits_for_a_full_bucket,
	  a_request_that_waits_at_two_scopes_goes_the_way_of_the_example,
	  a_probe_leaves_a_voucher_as_in_the_example, a_copy_claims_bytes_as_in_the_example,
	  a_cancelled_job_spends_nothing, a_cancelled_front_lets_the_next_one_go_at_once,
	  who_waits_longer_than_max_wait_is_refused, a_new_max_wait_counts_for_those_who_wait,
	  bounds_on_what_is_parked_refuse_the_rest,
	  a_cost_against_a_rate_of_zero_is_a_misconfiguration,
	  max_inflight_waits_for_a_permit_and_its_end_wakes_the_next,
	  the_end_of_an_operation_gives_one_permit_back, on_full_reject_turns_away_at_once,
	  open_handles_are_counted_at_every_scope, bytes_not_moved_come_back_and_wake_who_waits,
	  a_new_limit_is_felt_at_once_by_those_who_wait, order_within_a_key_survives_new_lanes,
	  a_paused_scope_admits_nothing_until_it_is_resumed,
	  draining_ends_what_is_parked_and_lifts_no_limit,
	  a_dry_run_waits_for_nothing_and_says_what_it_would_have_waited,
	  a_dry_run_names_the_limit_and_who_would_have_waited,
	  a_plain_error_is_no_failure_and_gives_its_bytes_back,
	  a_dry_run_leaves_no_debt_to_those_who_really_wait,
	  keys_past_the_bound_share_and_idle_ones_are_forgotten,
	  the_keys_that_waited_most_come_first, a_job_counts_in_its_mount_its_fs_and_globally,
	  a_histogram_quantile_is_off_by_at_most_an_eighth, a_partial_transfer_takes_what_is_there,
	  a_probe_goes_when_a_transfer_could_and_costs_nothing,
	  a_poller_gets_its_share_beside_a_queue)
