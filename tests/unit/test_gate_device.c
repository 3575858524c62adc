/* SPDX-License-Identifier: MIT */
/* Requests in the device: admitted, dated, killed, drained, counted. */
#include "unit/gate_check.h"
#include "unit/world.h"

static struct gate_mount_config slow_config(uint64_t ns)
{
	struct gate_mount_config cfg = mount_config();
	cfg.device.latency[LATENCY_ALL] = (struct latency){LATENCY_FIXED, ns, 0};
	return cfg;
}

START_TEST(an_unlimited_request_runs_at_its_date)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = slow_config(5 * MS);
	struct work k = {0};
	struct scope_stats s;
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	ck_assert(!gate_unlimited(m, COST_READ));
	ck_assert_int_eq(work_submit(&w, &k, m, COST_META, 0, 1), GATE_PARKED);
	gate_stats_mount(m, &s);
	ck_assert_uint_eq(s.device_now, 1);
	ck_assert_uint_eq(s.parked_now, 0);
	world_pass(&w, SEC);
	ck_assert_int_eq(k.fate, RAN);
	ck_assert_uint_eq(k.end_ns - k.came_ns, 5 * MS);
	gate_stats_mount(m, &s);
	ck_assert_uint_eq(s.device_now, 0);
	ck_assert_uint_eq(s.cls[COST_META].at_once, 1);
	ck_assert_uint_eq(s.cls[COST_META].parked, 0);
	ck_assert_uint_eq(s.cls[COST_META].wait.total, 0);
	ck_assert_uint_eq(s.cls[COST_META].device.total, 1);
	ck_assert_uint_eq(s.cls[COST_META].device.sum_ns, 5 * MS);
	ck_assert_uint_eq(s.cls[COST_META].ok, 1);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(device_time_follows_the_wait_for_a_limit_and_is_counted_apart)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = slow_config(7 * MS);
	struct work k[3] = {0};
	struct scope_stats s;
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	cfg.limits.window_ns = MS;
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < 3; i++)
		work_submit(&w, &k[i], m, COST_READ, 4096, 1);
	world_pass(&w, SEC);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(k[i].end_ns - k[i].came_ns, i * 100 * MS + 7 * MS);
	gate_stats_mount(m, &s);
	ck_assert_uint_eq(s.cls[COST_READ].at_once, 1);
	ck_assert_uint_eq(s.cls[COST_READ].parked, 2);
	ck_assert_uint_eq(s.cls[COST_READ].wait.sum_ns, 300 * MS);
	ck_assert_uint_eq(s.cls[COST_READ].device.sum_ns, 21 * MS);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(a_request_cancelled_in_the_device_has_spent_its_tokens_and_returns_its_permit)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = slow_config(50 * MS);
	struct work k[3] = {0};
	struct scope_stats s;
	set_limit(&cfg.limits, LIMIT_READ_BPS, 100 * KIB);
	cfg.limits.window_ns = SEC;
	cfg.limits.max_inflight = 1;
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	work_submit(&w, &k[0], m, COST_READ, 60 * KIB, 1);
	work_submit(&w, &k[1], m, COST_READ, 30 * KIB, 2);
	world_pass(&w, 10 * MS);
	ck_assert_int_eq(k[0].job.state, JOB_DEVICE);
	ck_assert_int_eq(k[1].job.state, JOB_PARKED); /* for the permit */
	ck_assert(gate_cancel(w.gate, &k[0].job));
	ck_assert(!gate_cancel(w.gate, &k[0].job));
	ck_assert_int_eq(k[1].job.state, JOB_DEVICE);
	gate_stats_mount(m, &s);
	ck_assert_uint_eq(s.limit[LIMIT_READ_BPS].level,
			  11 * KIB); /* 10 ms refill 1 KiB, at most */
	ck_assert_uint_eq(s.cls[COST_READ].aborted, 1);
	ck_assert_uint_eq(s.cls[COST_READ].cancelled, 0);
	/* a request that is cancelled before it was admitted costs no tokens */
	work_submit(&w, &k[2], m, COST_READ, 60 * KIB, 3);
	ck_assert(gate_cancel(w.gate, &k[2].job));
	world_pass(&w, 2 * SEC);
	ck_assert_int_eq(k[0].fate, PENDING);
	ck_assert_uint_eq(k[1].end_ns - k[1].came_ns, 60 * MS);
	gate_stats_mount(m, &s);
	ck_assert_uint_eq(s.limit[LIMIT_READ_BPS].level, 100 * KIB);
	ck_assert_uint_eq(s.inflight.in_flight, 0);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(a_change_leaves_the_dates_that_were_named)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = slow_config(50 * MS);
	struct work k[4] = {0};
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	work_submit(&w, &k[0], m, COST_READ, 4096, 1);
	cfg.device.latency[LATENCY_ALL].ns = 5 * MS;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	work_submit(&w, &k[1], m, COST_READ, 4096, 1);
	cfg.device = (struct device_config){0};
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert(gate_unlimited(m, COST_READ));
	ck_assert_int_eq(work_submit(&w, &k[2], m, COST_READ, 4096, 1), GATE_GO);
	world_pass(&w, SEC);
	ck_assert_uint_eq(k[0].end_ns - k[0].came_ns, 50 * MS);
	ck_assert_uint_eq(k[1].end_ns - k[1].came_ns, 5 * MS);
	ck_assert_uint_eq(k[2].end_ns - k[2].came_ns, 0);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(a_model_that_comes_takes_those_that_wait_already)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	static struct work k[100];
	memset(k, 0, sizeof(k));
	set_limit(&cfg.limits, LIMIT_IOPS, 1000);
	cfg.limits.window_ns = MS;
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < 100; i++)
		work_submit(&w, &k[i], m, COST_META, 0, 1);
	cfg.device.latency[LATENCY_ALL] = (struct latency){LATENCY_FIXED, 500 * MS, 0};
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	world_pass(&w, SEC);
	ck_assert_uint_eq(k[0].end_ns - k[0].came_ns, 0);
	for (unsigned i = 1; i < 100; i++)
		ck_assert_uint_eq((k[i].end_ns - k[i].came_ns) / MS, i + 500);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(draining_runs_or_refuses_what_is_in_the_device)
{
	for (int run = 0; run < 2; run++) {
		struct world w;
		struct gate_fs *fs;
		struct gate_mount_config cfg = slow_config(3600 * SEC);
		struct work k[2] = {0}, patient = {.job.must_run = true};
		cfg.limits.max_inflight = 2;
		world_init(&w);
		struct gate_mount *m = world_mount(&w, &fs, &cfg);
		work_submit(&w, &patient, m, COST_READ, 4096, 1);
		work_submit(&w, &k[0], m, COST_READ, 4096, 1);
		work_submit(&w, &k[1], m, COST_READ, 4096, 1);
		gate_mount_drain(m, run);
		for (unsigned i = 0; i < 2; i++) {
			ck_assert_int_eq(k[i].fate, run ? RAN : REFUSED);
			ck_assert_uint_eq(k[i].ends, 1);
		}
		ck_assert_int_eq(patient.fate, RAN);
		gate_check_empty(w.gate);
		world_fini(&w, fs, m);
	}
}
END_TEST

START_TEST(device_time_is_counted_in_the_class_of_the_caller_while_classes_change)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = slow_config(10 * MS);
	struct work k[2] = {0};
	struct scope_stats s;
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	struct rule *one = rule_parse("uid:1", NULL, NULL), *two = rule_parse("uid:2", NULL, NULL);
	const struct gate_class_config c[] = {{.name = "one", .match = one},
					      {.name = "two", .match = two},
					      {.name = "top", .match = NULL}};
	struct gate_class_config moved = c[0];
	moved.parent = "top";
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	work_submit(&w, &k[0], m, COST_META, 0, 1);
	work_submit(&w, &k[1], m, COST_META, 0, 2);
	ck_assert(gate_stats_class(m, "one", &s));
	ck_assert_uint_eq(s.device_now, 1);
	/* class one gets a parent, class two is removed */
	ck_assert_int_eq(gate_set_classes(m, (struct gate_class_config[]){moved, c[2]}, 2), 0);
	ck_assert(gate_stats_class(m, "top", &s));
	ck_assert_uint_eq(s.device_now, 1);
	gate_stats_mount(m, &s);
	ck_assert_uint_eq(s.device_now, 2);
	world_pass(&w, SEC);
	ck_assert_int_eq(k[0].fate, RAN);
	ck_assert_int_eq(k[1].fate, RAN);
	gate_stats_class(m, "one", &s);
	ck_assert_uint_eq(s.device_now, 0);
	ck_assert_uint_eq(s.cls[COST_META].device.sum_ns, 10 * MS);
	gate_stats_class(m, "top", &s);
	ck_assert_uint_eq(s.device_now, 0);
	ck_assert_uint_eq(s.cls[COST_META].device.sum_ns, 10 * MS);
	gate_stats_mount(m, &s);
	ck_assert_uint_eq(s.device_now, 0);
	ck_assert_uint_eq(s.cls[COST_META].device.sum_ns, 20 * MS);
	rule_free(one);
	rule_free(two);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(a_dry_run_takes_no_device_time)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = slow_config(SEC);
	struct work k = {0};
	cfg.dry_run = true;
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	ck_assert_int_eq(gate_model(m), GATE_MODEL_OFF);
	ck_assert_int_eq(work_submit(&w, &k, m, COST_READ, 4096, 1), GATE_GO);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(the_room_for_waiting_requests_bounds_those_in_the_device)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = slow_config(SEC);
	struct work k[5] = {0};
	cfg.max_parked = 3;
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(work_submit(&w, &k[i], m, COST_READ, 4096, 1), GATE_PARKED);
	ck_assert_int_eq(work_submit(&w, &k[3], m, COST_READ, 4096, 1), GATE_NO_ROOM);
	k[4].job.must_run = true;
	ck_assert_int_eq(work_submit(&w, &k[4], m, COST_READ, 4096, 1), GATE_PARKED);
	world_pass(&w, 2 * SEC);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(a_nonblocking_transfer_that_was_admitted_takes_device_time)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = slow_config(5 * MS);
	struct work k = {.job = {.ops = &work_ops, .memory_bytes = 100}, .world = &w};
	struct cost cost = {COST_READ, 1, 4096};
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	ck_assert_int_eq(gate_try_nonblocking(m, &cost, &nobody, 1, &k.job.grant), GATE_GO);
	ck_assert_int_eq(gate_device(m, &k.job), GATE_PARKED);
	uint64_t came_ns = w.clock.now;
	world_pass(&w, SEC);
	ck_assert_uint_eq(k.end_ns - came_ns, 5 * MS);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

/* --- credits --- */

/* A client that always has 64 requests waiting. */
struct client {
	struct work work[64];
	struct world *w;
	struct gate_mount *m;
	uint64_t bytes, offset, done, step_bytes;
	bool sequential;
};

static void client_submit(struct client *c, struct work *k)
{
	k->owner = c;
	k->job.access = (struct device_access){DEVICE_READ, 1, c->offset};
	c->offset += c->sequential ? c->bytes : 7 * MIB;
	work_submit(c->w, k, c->m, COST_READ, c->bytes, 1);
}

static void client_next(struct work *k)
{
	struct client *c = k->owner;
	gate_done(&k->job.grant, OUTCOME_OK, k->job.grant.cost.bytes);
	c->done++;
	client_submit(c, k);
}

/* How many requests finish in the next second. */
static uint64_t client_second(struct client *c)
{
	uint64_t before = c->done;
	if (!before && !c->work[0].on_end)
		for (unsigned i = 0; i < ARRAY_SIZE(c->work); i++) {
			c->work[i].on_end = client_next;
			client_submit(c, &c->work[i]);
		}
	world_pass(c->w, SEC);
	return c->done - before;
}

/* Credits are spent at the burst rate, at most; once they are used up, the base rate remains. */
static void check_credits(struct client *c, uint64_t burst, uint64_t credits, uint64_t base)
{
	uint64_t seconds = 0, n, last = 0;
	while ((n = client_second(c)) > base + base / 100 + 1 && seconds < 100000) {
		if (seconds && n >= burst - burst / 100)
			ck_assert_uint_le(n, burst + burst / 100 + 1);
		last = n;
		seconds++;
	}
	/* credits are spent at the burst rate and earned at the base rate */
	uint64_t expected = credits / (burst - base);
	ck_assert_msg(seconds >= expected - expected / 200 - 2 &&
			      seconds <= expected + expected / 200 + 2,
		      "%llu s instead of %llu s, %llu then %llu", (unsigned long long)seconds,
		      (unsigned long long)expected, (unsigned long long)last,
		      (unsigned long long)n);
	n = client_second(c);
	ck_assert_uint_ge(n, base - base / 100 - 1);
	ck_assert_uint_le(n, base + base / 100 + 1);
}

static struct gate_mount *credit_mount(struct world *w, struct gate_fs **fs, enum limit_kind kind,
				       uint64_t rate, uint64_t burst, uint64_t peak,
				       const struct device_config *device)
{
	struct gate_mount_config cfg = mount_config();
	set_limit(&cfg.limits, kind, rate);
	cfg.limits.limit[kind].burst = burst;
	cfg.limits.limit[kind].peak_per_sec = peak;
	cfg.device = *device;
	world_init(w);
	return world_mount(w, fs, &cfg);
}

static void run_credits(enum limit_kind kind, uint64_t rate, uint64_t burst, uint64_t peak,
			const struct device_config *device, uint64_t bytes, bool sequential,
			uint64_t unit)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount *m = credit_mount(&w, &fs, kind, rate, burst, peak, device);
	static struct client c;
	c = (struct client){.w = &w, .m = m, .bytes = bytes, .sequential = sequential};
	check_credits(&c, peak / unit, burst / unit, rate / unit);
	for (unsigned i = 0; i < ARRAY_SIZE(c.work); i++)
		ck_assert(gate_cancel(w.gate, &c.work[i].job));
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}

static const struct device_config none;

START_TEST(a_gp2_volume_of_100_gib_bursts_until_its_credits_are_gone)
{
	/* each request counts as ten: fewer are needed */
	run_credits(LIMIT_IOPS, 300, 5400000, 3000, &(struct device_config){.iops_size = 256 * KIB},
		    2560 * KIB, false, 10);
}
END_TEST

START_TEST(a_p10_disk_bursts_for_30_minutes_beyond_its_baseline)
{
	run_credits(LIMIT_IOPS, 500, 30ULL * 60 * 3000, 3500,
		    &(struct device_config){.iops_size = 256 * KIB}, 2560 * KIB, false, 10);
}
END_TEST

START_TEST(an_efs_of_100_gib_bursts_by_its_byte_credits)
{
	/* 50 KiB/s per GiB; the credits of a new file system: 2.1 TiB, here less for the test's time */
	run_credits(LIMIT_BPS, 5000 * KIB, 100ULL * 1024 * MIB, 100 * MIB, &none, MIB / 2, false,
		    MIB / 2);
}
END_TEST

START_TEST(an_st1_volume_counts_mebibytes_of_sequential_and_requests_of_random_access)
{
	static const struct device_config hdd = {.merge_bytes = MIB, .iops_size = MIB};
	run_credits(LIMIT_IOPS, 40, 100000, 250, &hdd, 4096, false, 1);
	/* eight requests of 128 KiB are one of 1 MiB */
	struct world w;
	struct gate_fs *fs;
	struct gate_mount *m = credit_mount(&w, &fs, LIMIT_IOPS, 40, 0, 0, &hdd);
	static struct client c;
	c = (struct client){.w = &w, .m = m, .bytes = 128 * KIB, .sequential = true};
	client_second(&c);
	uint64_t n = 0;
	for (unsigned i = 0; i < 10; i++)
		n += client_second(&c);
	ck_assert_msg(n >= 3190 && n <= 3210, "%llu requests in 10 s", (unsigned long long)n);
	for (unsigned i = 0; i < ARRAY_SIZE(c.work); i++)
		ck_assert(gate_cancel(w.gate, &c.work[i].job));
	world_fini(&w, fs, m);
}
END_TEST

UNIT_MAIN("gate: device", an_unlimited_request_runs_at_its_date,
	  device_time_is_counted_in_the_class_of_the_caller_while_classes_change,
	  device_time_follows_the_wait_for_a_limit_and_is_counted_apart,
	  a_request_cancelled_in_the_device_has_spent_its_tokens_and_returns_its_permit,
	  a_change_leaves_the_dates_that_were_named,
	  a_model_that_comes_takes_those_that_wait_already,
	  draining_runs_or_refuses_what_is_in_the_device, a_dry_run_takes_no_device_time,
	  the_room_for_waiting_requests_bounds_those_in_the_device,
	  a_nonblocking_transfer_that_was_admitted_takes_device_time,
	  a_gp2_volume_of_100_gib_bursts_until_its_credits_are_gone,
	  a_p10_disk_bursts_for_30_minutes_beyond_its_baseline,
	  an_efs_of_100_gib_bursts_by_its_byte_credits,
	  an_st1_volume_counts_mebibytes_of_sequential_and_requests_of_random_access)
