/* SPDX-License-Identifier: MIT */
/* Shares that must hold in all circumstances: limits that change all the time, programs that close files without
 * end, programs that never wait.  On the fake clock. */
#include "unit/gate_check.h"
#include "unit/world.h"

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

/* --- clients --- */

/* Always has `depth` requests at the gate, until it is told to stop. */
struct client {
	enum cost_class cls;
	uint64_t key, size, bytes, ops;
	struct gate_mount *mount;
	struct work work[4];
	bool due[4];
	bool stopped;
};

static void served(struct work *k)
{
	struct client *c = k->owner;
	c->bytes += k->job.grant.cost.bytes;
	c->ops++;
	gate_done(&k->job.grant, OUTCOME_OK, k->job.grant.cost.bytes);
	c->due[k - c->work] = true;
}

static void ask_again(struct client *c)
{
	for (unsigned i = 0; i < 4 && !c->stopped; i++) {
		if (!c->due[i])
			continue;
		c->due[i] = false;
		c->work[i] = (struct work){.owner = c, .on_end = served};
		work_submit(&w, &c->work[i], c->mount ? c->mount : m, c->cls, c->size, c->key);
	}
}

static void start(struct client *c, unsigned n, unsigned depth)
{
	for (unsigned i = 0; i < n; i++)
		for (unsigned d = 0; d < depth; d++)
			c[i].due[d] = true;
}

/* Time passes in steps of 0.1 ms, which is how long a client takes to submit its next request. */
static void run(struct client *c, unsigned n, uint64_t ns)
{
	for (uint64_t until = w.clock.now + ns; w.clock.now < until;) {
		for (unsigned i = 0; i < n; i++)
			ask_again(&c[i]);
		world_pass(&w, MS / 10);
	}
}

static void stop(struct client *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		c[i].stopped = true;
	while (w.clock.armed_ns != NEVER)
		world_until(&w, w.clock.armed_ns);
}

static void equal_within(const struct client *c, unsigned n, uint64_t bytes)
{
	for (unsigned i = 1; i < n; i++) {
		uint64_t a = c[0].bytes, b = c[i].bytes;
		ck_assert_msg((a > b ? a - b : b - a) <= bytes,
			      "key %llu got %llu bytes, key %llu got %llu",
			      (unsigned long long)c[0].key, (unsigned long long)a,
			      (unsigned long long)c[i].key, (unsigned long long)b);
	}
}

/* --- changes of limits --- */

static void toggle(enum limit_kind kind)
{
	cfg.limits.limit[kind].enabled = !cfg.limits.limit[kind].enabled;
	cfg.limits.limit[kind].rate_per_sec = 1000000;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
}

/* A change every 50 ms, in which less than a round of requests is served. */
static void shares_survive(void (*change)(unsigned i), unsigned depth)
{
	struct client c[5] = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB);
	up();
	for (unsigned i = 0; i < 5; i++)
		c[i] = (struct client){.cls = COST_READ, .key = i + 1, .size = 16 * KIB};
	start(c, 5, depth);
	for (unsigned i = 0; i < 3000; i++) {
		run(c, 5, 50 * MS);
		change(i);
		gate_check(w.gate);
	}
	equal_within(c, 5, 64 * KIB); /* the first burst goes to whoever comes first */
	ck_assert_uint_ge(5 * c[0].bytes, 145 * MIB);
	stop(c, 5);
	down();
}

static void toggle_write_iops(unsigned i)
{
	toggle(LIMIT_WRITE_IOPS);
}

static void toggle_any(unsigned i)
{
	static const enum limit_kind kinds[] = {LIMIT_META_IOPS, LIMIT_WRITE_BPS, LIMIT_IOPS,
						LIMIT_BPS,	 LIMIT_READ_IOPS, LIMIT_WRITE_IOPS};
	toggle(kinds[i * 7 % ARRAY_SIZE(kinds)]);
}

static void pause_and_resume(unsigned i)
{
	gate_pause_mount(m, true);
	gate_pause_mount(m, false);
	gate_pause_global(w.gate, true);
	gate_pause_global(w.gate, false);
}

static void new_settings(unsigned i)
{
	static const struct weight_rule rule = {{FAIR_PROCESS, 99}, NULL, 7};
	cfg.weights = &rule;
	cfg.n_weights = i & 1;
	cfg.max_wait_ns = i & 2 ? 100 * SEC : 0;
	cfg.weight = 1 + i % 3;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
}

static void mount_comes_and_goes(unsigned i)
{
	static const struct limiter_config none;
	struct gate_mount_config other = mount_config();
	set_limit(&other.limits, LIMIT_WRITE_IOPS, 10);
	struct gate_fs *f = gate_fs_new(w.gate, "other", &none);
	struct gate_mount *n = gate_mount_new(f, "other", &other);
	gate_mount_free(n);
	gate_fs_free(f);
}

START_TEST(shares_stay_equal_while_an_unrelated_limit_is_toggled)
{
	shares_survive(toggle_write_iops, 1);
	shares_survive(toggle_write_iops, 3);
}
END_TEST

START_TEST(shares_stay_equal_whatever_limit_is_toggled)
{
	shares_survive(toggle_any, 1);
	shares_survive(toggle_any, 3);
}
END_TEST

START_TEST(shares_stay_equal_over_pauses_settings_and_other_mounts)
{
	shares_survive(pause_and_resume, 3);
	shares_survive(new_settings, 3);
	shares_survive(mount_comes_and_goes, 3);
}
END_TEST

START_TEST(mounts_keep_their_shares_while_a_limit_is_toggled)
{
	static const struct limiter_config none;
	struct gate_mount *mount[3];
	struct client c[3] = {0};
	struct limiter_config global = {0};
	set_limit(&global, LIMIT_BPS, MIB);
	cfg = mount_config();
	up();
	for (unsigned i = 0; i < 3; i++) {
		struct gate_fs *f = i < 2 ? fs : gate_fs_new(w.gate, "f", &none);
		mount[i] = i ? gate_mount_new(f, "m", &cfg) : m;
		c[i] = (struct client){.cls = COST_READ, .size = 64 * KIB, .mount = mount[i]};
	}
	start(c, 3, 2);
	for (unsigned i = 0; i < 1000; i++) {
		global.limit[LIMIT_WRITE_IOPS].enabled = i & 1;
		global.limit[LIMIT_WRITE_IOPS].rate_per_sec = 100;
		ck_assert_int_eq(gate_set_global(w.gate, &global), 0);
		run(c, 3, 30 * MS);
	}
	equal_within(c, 3, 128 * KIB);
	stop(c, 3);
	struct gate_fs *f = container_of(mount[2]->leaf.node.parent, struct gate_fs, node);
	gate_mount_free(mount[1]);
	gate_mount_free(mount[2]);
	gate_fs_free(f);
	down();
}
END_TEST

/* Readers and writers wait in line for one bucket, and a request takes longer than a toggle. */
START_TEST(classes_that_share_a_limit_keep_their_turns_while_another_is_toggled)
{
	struct client c[2] = {{.cls = COST_READ, .key = 1, .size = 256 * KIB},
			      {.cls = COST_WRITE, .key = 2, .size = 256 * KIB}};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_BPS, MIB);
	set_limit(&cfg.limits, LIMIT_READ_IOPS, 1000000);
	up();
	start(c, 2, 2);
	for (unsigned i = 0; i < 2000; i++) {
		run(c, 2, 50 * MS);
		toggle(LIMIT_META_IOPS);
	}
	equal_within(c, 2, 512 * KIB);
	stop(c, 2);
	down();
}
END_TEST

/* At 10 KiB/s a request of 1 MiB puts its key 51 s ahead of the other.  At ten thousand times that rate
 * it is still one request. */
START_TEST(a_lead_is_worth_as_many_requests_after_a_change_as_before)
{
	struct client c[2] = {{.cls = COST_READ, .key = 1, .size = MIB},
			      {.cls = COST_READ, .key = 2, .size = MIB}};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, 10 * KIB);
	up();
	start(c, 2, 2);
	while (c[0].bytes + c[1].bytes < 2 * MIB) /* the first one did not wait */
		run(c, 2, 10 * MS);
	cfg.limits.limit[LIMIT_READ_BPS].rate_per_sec = 100 * MIB;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	run(c, 2, SEC);
	equal_within(c, 2, 2 * MIB);
	ck_assert_uint_ge(c[0].bytes + c[1].bytes, 90 * MIB);
	stop(c, 2);
	down();
}
END_TEST

/* --- what cannot wait --- */

static void close_one(uint64_t key)
{
	struct cost c = {COST_META, 1, 0};
	struct grant g;
	gate_take(m, &c, &(struct caller){.tid = (uint32_t)key}, &g);
	gate_done(&g, OUTCOME_OK, 0);
}

START_TEST(a_user_that_closes_without_end_does_not_delay_another)
{
	struct work k = {0};
	uint64_t worst = 0, sum = 0;
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 1000);
	up();
	for (unsigned i = 0; i < 20000; i++) { /* 2 s */
		close_one(1);
		world_pass(&w, MS / 10);
		if (i % 200 || i < 2000)
			continue;
		k = (struct work){0};
		work_submit(&w, &k, m, COST_META, 0, 2);
		for (unsigned n = 0; n < 1000 && k.fate == PENDING; n++) {
			close_one(1);
			world_pass(&w, MS / 10);
		}
		ck_assert_int_eq(k.fate, RAN);
		worst = max_u64(worst, k.end_ns - k.came_ns);
		sum += k.end_ns - k.came_ns;
	}
	ck_assert_uint_le(worst, 3 * MS);
	ck_assert_uint_le(sum, 90 * 2 * MS);
	struct scope_stats st;
	gate_stats_mount(m, &st);
	ck_assert_uint_ge(st.cls[COST_META].ops, 20000 + 90); /* all were admitted … */
	ck_assert_int_ge(st.limit[LIMIT_IOPS].level, -1);     /* … and nobody else is in debt */
	world_pass(&w, 100 * SEC);
	down();
}
END_TEST

START_TEST(whoever_closed_pays_for_all_of_it_before_its_next_request)
{
	struct work mine = {0}, other = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 100); /* capacity 10 */
	up();
	uint64_t t0 = w.clock.now;
	for (unsigned i = 0; i < 1010; i++)
		close_one(1);
	ck_assert_int_eq(work_submit(&w, &mine, m, COST_META, 0, 1), GATE_PARKED);
	ck_assert_int_eq(work_submit(&w, &other, m, COST_META, 0, 2), GATE_PARKED);
	world_pass(&w, 20 * SEC);
	ck_assert_uint_le(other.end_ns - t0, 20 * MS);
	/* a thousand closes, the other's request, and its own */
	ck_assert_uint_ge(mine.end_ns - t0, 1002 * 10 * MS - 1);
	ck_assert_uint_le(mine.end_ns - t0, 1002 * 10 * MS + MS);
	down();
}
END_TEST

START_TEST(closes_are_owed_up_to_ten_seconds_of_the_slowest_limit)
{
	struct work mine = {0}, other = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 1000);
	set_limit(&cfg.each, LIMIT_IOPS, 100);
	up();
	uint64_t t0 = w.clock.now;
	for (unsigned i = 0; i < 100000; i++)
		close_one(1);
	ck_assert_int_eq(work_submit(&w, &mine, m, COST_META, 0, 1), GATE_PARKED);
	work_submit(&w, &other, m, COST_META, 0, 2);
	ck_assert_int_eq(other.fate, RAN);
	world_pass(&w, 60 * SEC);
	ck_assert_int_eq(mine.fate, RAN);
	ck_assert_uint_ge(mine.end_ns - t0, 10 * SEC);
	ck_assert_uint_le(mine.end_ns - t0, 10 * SEC + 100 * MS);
	struct scope_stats st;
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_META].ops, 100002);
	down();
}
END_TEST

START_TEST(a_debt_is_paid_in_bytes_too_and_needs_no_second_permit)
{
	struct cost c = {COST_WRITE, 1, MIB};
	struct grant g[2];
	struct work k = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_WRITE_BPS, MIB);
	cfg.limits.max_inflight = 1;
	up();
	uint64_t t0 = w.clock.now;
	const struct caller one = {.tid = 1};
	ck_assert(gate_take(m, &c, &one, &g[0])); /* a full bucket: in debt by 0.9 MiB */
	ck_assert(!gate_take(m, &c, &one, &g[1]));
	ck_assert_int_eq(permits_look(&m->leaf.node.limiter->inflight).in_flight, 2);
	world_pass(&w, 1950 * MS); /* the debt is paid although all permits are taken */
	gate_done(&g[0], OUTCOME_OK, MIB);
	gate_done(&g[1], OUTCOME_OK, MIB);
	ck_assert_int_eq(permits_look(&m->leaf.node.limiter->inflight).in_flight, 0);
	work_submit(&w, &k, m, COST_WRITE, 100 * KIB, 1);
	world_pass(&w, 10 * SEC);
	ck_assert_uint_ge(k.end_ns - t0, 1900 * MS);
	ck_assert_uint_le(k.end_ns - t0, 2005 * MS);
	down();
}
END_TEST

START_TEST(a_debt_is_over_when_its_limit_is)
{
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 1);
	up();
	for (unsigned i = 0; i < 100000; i++)
		close_one(1);
	cfg.limits.limit[LIMIT_IOPS].enabled = false;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	gate_check_empty(w.gate);
	for (unsigned i = 0; i < 10; i++)
		close_one(1);
	down();
}
END_TEST

/* An instalment is a thousand operations at the old rate, and one at the new rate. */
START_TEST(a_debt_goes_on_in_smaller_instalments_under_a_lower_limit)
{
	struct work other = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 1000000);
	up();
	for (unsigned i = 0; i < 150000; i++)
		close_one(1);
	world_pass(&w, 10 * MS);
	cfg.limits.limit[LIMIT_IOPS].rate_per_sec = 100;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	for (unsigned i = 0; i < 50; i++) {
		other = (struct work){0};
		ck_assert_int_eq(work_submit(&w, &other, m, COST_META, 0, 2), GATE_PARKED);
		world_pass(&w, 300 * MS);
		ck_assert_int_eq(other.fate, RAN);
		ck_assert_uint_le(other.end_ns - other.came_ns, 30 * MS);
	}
	world_pass(&w, 600 * SEC);
	down();
}
END_TEST

/* --- who never waits --- */

struct nonblocking {
	uint64_t key, bytes;
	struct work probe;
	uint64_t ready_ns; /* of a poller: when it was told that it may proceed */
	bool polls, listening;
};

static bool try_transfer(struct nonblocking *n)
{
	struct cost c = {COST_READ, 1, 64 * KIB};
	struct grant g;
	struct caller who = {.tid = (uint32_t)n->key};
	if (gate_try_nonblocking(m, &c, &who, GATE_PARTIAL_BYTES, &g) != GATE_GO)
		return false;
	n->bytes += g.cost.bytes;
	gate_done(&g, OUTCOME_OK, g.cost.bytes);
	return true;
}

/* Reads until it would block and then polls; or keeps reading. */
static void nonblocking_step(struct nonblocking *n)
{
	if (!n->polls) {
		try_transfer(n);
		return;
	}
	if (n->listening && n->probe.fate == PENDING)
		return;
	if (n->listening && w.clock.now < n->probe.end_ns + MS / 2)
		return; /* it takes half a millisecond to wake up */
	n->listening = false;
	while (try_transfer(n))
		;
	n->probe = (struct work){.job = {.probe = true, .must_run = true}};
	n->listening = true;
	work_submit(&w, &n->probe, m, COST_READ, GATE_PARTIAL_BYTES, n->key);
}

static void run_nonblocking(struct nonblocking *n, unsigned count, uint64_t ns)
{
	for (uint64_t until = w.clock.now + ns; w.clock.now < until;) {
		for (unsigned i = 0; i < count; i++)
			nonblocking_step(&n[i]);
		world_pass(&w, 20 * NSEC_PER_USEC);
	}
}

static void close_to(uint64_t a, uint64_t b)
{
	ck_assert_msg(a > b - b / 10 && a < b + b / 10, "%llu bytes against %llu",
		      (unsigned long long)a, (unsigned long long)b);
}

START_TEST(a_program_that_tries_again_and_again_gets_no_more_than_one_that_polls)
{
	struct nonblocking n[3] = {
		{.key = 1}, {.key = 2, .polls = true}, {.key = 3, .polls = true}};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB);
	up();
	run_nonblocking(n, 3, 10 * SEC);
	close_to(n[0].bytes, n[1].bytes);
	close_to(n[2].bytes, n[1].bytes);
	ck_assert_uint_ge(n[0].bytes + n[1].bytes + n[2].bytes, 95 * MIB / 10);
	world_pass(&w, SEC);
	down();
}
END_TEST

START_TEST(a_program_that_tries_again_and_again_shares_with_one_that_waits)
{
	struct nonblocking n = {.key = 1};
	struct client c = {.cls = COST_READ, .key = 2, .size = 16 * KIB};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB);
	up();
	start(&c, 1, 2);
	for (unsigned i = 0; i < 10000; i++) {
		ask_again(&c);
		run_nonblocking(&n, 1, MS);
	}
	close_to(n.bytes, c.bytes);
	ck_assert_uint_ge(n.bytes + c.bytes, 95 * MIB / 10);
	stop(&c, 1);
	down();
}
END_TEST

START_TEST(turns_that_were_earned_survive_a_change_of_limits)
{
	struct nonblocking n[2] = {{.key = 1}, {.key = 2, .polls = true}};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB);
	up();
	for (unsigned i = 0; i < 1000; i++) {
		run_nonblocking(n, 2, 7 * MS);
		toggle(LIMIT_WRITE_IOPS);
		gate_check(w.gate);
	}
	close_to(n[0].bytes, n[1].bytes);
	ck_assert_uint_ge(n[0].bytes + n[1].bytes, 65 * MIB / 10);
	world_pass(&w, SEC);
	down();
}
END_TEST

START_TEST(a_program_that_tries_alone_gets_all_there_is)
{
	struct nonblocking n = {.key = 1};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, 100 * MIB);
	up();
	run_nonblocking(&n, 1, SEC);
	ck_assert_uint_ge(n.bytes, 99 * MIB);
	world_pass(&w, SEC);
	down();
}
END_TEST

START_TEST(a_drained_mount_forgets_places_turns_and_debts)
{
	struct nonblocking n[2] = {{.key = 1}, {.key = 2, .polls = true}};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB);
	set_limit(&cfg.limits, LIMIT_META_IOPS, 1);
	up();
	run_nonblocking(n, 2, 500 * MS);
	for (unsigned i = 0; i < 10; i++)
		close_one(1);
	gate_mount_drain(m, true);
	gate_check_empty(w.gate);
	down();
}
END_TEST

/* --- Meta that moves bytes --- */

START_TEST(metadata_with_bytes_is_shown_as_metadata_and_waits_for_bandwidth)
{
	struct work k[3] = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, 10 * KIB);
	up();
	uint64_t t0 = w.clock.now;
	ck_assert_int_eq(work_submit(&w, &k[0], m, COST_META_READ, 64 * KIB, 1), GATE_GO);
	ck_assert_int_eq(work_submit(&w, &k[1], m, COST_META_READ, KIB, 1), GATE_PARKED);
	ck_assert_int_eq(work_submit(&w, &k[2], m, COST_META, 0, 1), GATE_GO);
	world_pass(&w, 10 * SEC);
	ck_assert_uint_eq(k[1].end_ns - t0, 6400 * MS);
	struct scope_stats st;
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_META].ops, 3);
	ck_assert_uint_eq(st.cls[COST_META].bytes, 65 * KIB);
	ck_assert_uint_eq(st.cls[COST_META].wait.total, 1);
	down();
}
END_TEST

UNIT_MAIN("gate_shares", shares_stay_equal_while_an_unrelated_limit_is_toggled,
	  shares_stay_equal_whatever_limit_is_toggled,
	  shares_stay_equal_over_pauses_settings_and_other_mounts,
	  mounts_keep_their_shares_while_a_limit_is_toggled,
	  classes_that_share_a_limit_keep_their_turns_while_another_is_toggled,
	  a_lead_is_worth_as_many_requests_after_a_change_as_before,
	  a_user_that_closes_without_end_does_not_delay_another,
	  whoever_closed_pays_for_all_of_it_before_its_next_request,
	  closes_are_owed_up_to_ten_seconds_of_the_slowest_limit,
	  a_debt_is_paid_in_bytes_too_and_needs_no_second_permit, a_debt_is_over_when_its_limit_is,
	  a_debt_goes_on_in_smaller_instalments_under_a_lower_limit,
	  a_program_that_tries_again_and_again_gets_no_more_than_one_that_polls,
	  a_program_that_tries_again_and_again_shares_with_one_that_waits,
	  turns_that_were_earned_survive_a_change_of_limits,
	  a_program_that_tries_alone_gets_all_there_is,
	  a_drained_mount_forgets_places_turns_and_debts,
	  metadata_with_bytes_is_shown_as_metadata_and_waits_for_bandwidth)
