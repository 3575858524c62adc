/* SPDX-License-Identifier: MIT */
/* What a request meets at the gate, one promise per test. */
#include "unit/world.h"

START_TEST(unlimited_goes_at_once_and_takes_nothing)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	struct work k = {0};
	ck_assert(gate_unlimited(m, COST_READ));
	ck_assert_int_eq(work_submit(&w, &k, m, COST_READ, MIB, 1), GATE_GO);
	ck_assert_ptr_null(k.job.grant.chain);
	ck_assert_uint_eq(w.clock.arms, 0);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(a_parked_job_goes_at_the_very_moment_its_token_comes)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 10); /* capacity 1 */
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	struct work k[3] = {0};
	uint64_t t0 = w.clock.now;
	ck_assert_int_eq(work_submit(&w, &k[0], m, COST_META, 0, 1), GATE_GO);
	ck_assert_int_eq(work_submit(&w, &k[1], m, COST_META, 0, 1), GATE_PARKED);
	ck_assert_int_eq(work_submit(&w, &k[2], m, COST_META, 0, 1), GATE_PARKED);
	world_pass(&w, SEC);
	ck_assert_uint_eq(k[1].end_ns - t0, 100 * MS);
	ck_assert_uint_eq(k[2].end_ns - t0, 200 * MS);
	ck_assert_uint_eq(w.clock.armed_ns, NEVER);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(cancelled_jobs_spend_nothing)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB);
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	struct work k[3] = {0};
	uint64_t t0 = w.clock.now;
	work_submit(&w, &k[0], m, COST_READ, MIB, 1);
	work_submit(&w, &k[1], m, COST_READ, MIB, 2);
	work_submit(&w, &k[2], m, COST_READ, MIB, 3);
	ck_assert_int_eq(k[1].fate, PENDING);
	ck_assert(gate_cancel(w.gate, &k[1].job));
	ck_assert(!gate_cancel(w.gate, &k[0].job) || true);
	world_pass(&w, 10 * SEC);
	ck_assert_int_eq(k[2].fate, RAN);
	ck_assert_uint_le(k[2].end_ns - t0, SEC + MS);
	ck_assert_uint_eq(k[1].ends, 0);
	world_fini(&w, fs, m);
}
END_TEST

UNIT_MAIN("gate", unlimited_goes_at_once_and_takes_nothing,
	  a_parked_job_goes_at_the_very_moment_its_token_comes, cancelled_jobs_spend_nothing)
