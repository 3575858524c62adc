/* SPDX-License-Identifier: MIT */
/* Whose turn it is: shares, gaps and waits of clients that compete, on the fake clock. */
#include "unit/world.h"

/* A client that always has requests at the gate: those that were served are submitted again at the next refill. */
struct client {
	struct world *w;
	struct gate_mount *mount;
	enum cost_class cls;
	uint64_t key, size[2]; /* used alternately */
	uint64_t sent, ops, bytes;
	void (*on_served)(struct client *c, struct work *k);
};

static struct work pool[40000], *again[40000];
static unsigned pooled, n_again;

static void served(struct work *k)
{
	struct client *c = k->owner;
	if (k->fate != RAN)
		return; /* the end of the test */
	c->ops++;
	c->bytes += k->job.grant.cost.bytes;
	gate_done(&k->job.grant, OUTCOME_OK, k->job.grant.cost.bytes);
	if (c->on_served)
		c->on_served(c, k);
	again[n_again++] = k;
}

static void send_one(struct client *c, struct work *k)
{
	memset(k, 0, sizeof(*k));
	k->owner = c;
	k->on_end = served;
	work_submit(c->w, k, c->mount, c->cls, c->size[c->sent++ % 2], c->key);
}

static void client_start_deep(struct client *c, struct world *w, struct gate_mount *m,
			      enum cost_class cls, uint64_t key, uint64_t a, uint64_t b,
			      unsigned depth)
{
	*c = (struct client){.w = w, .mount = m, .cls = cls, .key = key, .size = {a, b}};
	while (depth--)
		send_one(c, &pool[pooled++]);
}

static void client_start(struct client *c, struct world *w, struct gate_mount *m,
			 enum cost_class cls, uint64_t key, uint64_t a, uint64_t b)
{
	client_start_deep(c, w, m, cls, key, a, b, 2);
}

/* A new world: no client is left of the one before. */
static void fair_world(struct world *w)
{
	pooled = n_again = 0;
	world_init(w);
}

static void refill(void)
{
	while (n_again) {
		struct work *k = again[--n_again];
		send_one(k->owner, k);
	}
}

static void run(struct world *w, uint64_t ns)
{
	uint64_t until = w->clock.now + ns;
	refill();
	while (w->clock.armed_ns <= until) {
		world_until(w, max_u64(w->clock.now, w->clock.armed_ns));
		refill();
	}
	world_until(w, until);
}

static void assert_near(uint64_t got, double want, double part)
{
	ck_assert_msg((double)got >= want * (1 - part) && (double)got <= want * (1 + part),
		      "%.0f wanted, within %.1f %%, got %llu", want, part * 100,
		      (unsigned long long)got);
}

/* --- shares --- */

static struct client *gap_clients;
static unsigned gap_n;
static const uint32_t *gap_weights;
static double worst_gap;

static void watch_gap(struct client *c, struct work *k)
{
	for (unsigned i = 0; i < gap_n; i++) {
		const struct client *o = &gap_clients[i];
		double wi = gap_weights[c - gap_clients], wj = gap_weights[i];
		double gap = (double)c->bytes / wi - (double)o->bytes / wj;
		double bound = (double)max_u64(c->size[0], c->size[1]) / wi +
			       (double)max_u64(o->size[0], o->size[1]) / wj;
		gap = (gap < 0 ? -gap : gap) / bound;
		worst_gap = gap > worst_gap ? gap : worst_gap;
	}
}

START_TEST(the_gap_in_weighted_service_is_at_most_one_request_of_each)
{
	static const uint32_t weights[] = {1, 1, 2, 2, 4, 4, 7, 1};
	static const uint64_t sizes[][2] = {{4 * KIB, 4 * KIB}, {MIB, MIB},	    {4 * KIB, MIB},
					    {MIB, MIB},		{4 * KIB, 4 * KIB}, {MIB, 4 * KIB},
					    {128 * KIB, MIB},	{64 * KIB, 4 * KIB}};
	struct weight_rule rules[8];
	struct client c[8] = {0};
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	for (unsigned i = 0; i < 8; i++)
		rules[i] = (struct weight_rule){{FAIR_PROCESS, i}, NULL, weights[i]};
	cfg.weights = rules;
	cfg.n_weights = 8;
	set_limit(&cfg.limits, LIMIT_READ_BPS, 100 * MIB);
	fair_world(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	struct work drain = {0};
	work_submit(&w, &drain, m, COST_READ, 64 * MIB,
		    99); /* empties the bucket, so that all of them wait */
	for (unsigned i = 0; i < 8; i++)
		client_start_deep(&c[i], &w, m, COST_READ, i, sizes[i][0], sizes[i][1], 600);
	gap_clients = c;
	gap_n = 8;
	gap_weights = weights;
	worst_gap = 0;
	for (unsigned i = 0; i < 8; i++)
		c[i].on_served = watch_gap;
	run(&w, 20 * SEC);
	ck_assert_msg(worst_gap <= 1, "gap %.2f", worst_gap);
	uint64_t total = 0;
	for (unsigned i = 0; i < 8; i++)
		total += c[i].bytes;
	assert_near(total, 20.0 * 100 * MIB - 64 * MIB + 10 * MIB, 0.01);
	for (unsigned i = 0; i < 8; i++)
		assert_near(c[i].bytes, (double)total * weights[i] / 22, 0.02);
	gate_mount_drain(m, false);
	world_fini(&w, fs, m);
}
END_TEST

/* A light client (one that uses less than its share) beside n heavy ones: how long it waits, in units of the time
 * of one heavy request. */
static void light_wait(unsigned n, double *mean, double *max)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	struct client *heavy = calloc(n, sizeof(*heavy));
	cfg.max_keys = 20000;
	set_limit(&cfg.limits, LIMIT_READ_BPS, 100 * MIB); /* 1 MiB: 10 ms */
	fair_world(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < n; i++)
		client_start(&heavy[i], &w, m, COST_READ, i, MIB, MIB);
	run(&w, SEC);
	uint64_t sum = 0, most = 0, pause_ns = max_u64(97 * MS, n * 51 * NSEC_PER_USEC);
	for (unsigned i = 0; i < 50; i++) {
		struct work k = {0};
		work_submit(&w, &k, m, COST_READ, 4 * KIB, 1000000);
		uint64_t came = w.clock.now;
		run(&w, pause_ns);
		ck_assert_msg(k.fate == RAN, "beside %u, request %u", n, i);
		sum += k.end_ns - came;
		most = max_u64(most, k.end_ns - came);
	}
	*mean = (double)sum / 50 / 1e7;
	*max = (double)most / 1e7;
	gate_mount_drain(m, false);
	world_fini(&w, fs, m);
	free(heavy);
}

START_TEST(a_small_request_waits_about_one_bulk_request)
{
	static const unsigned beside[] = {1, 64, 10000};
	for (unsigned i = 0; i < 3; i++) {
		double mean, max;
		light_wait(beside[i], &mean, &max);
		printf("# beside %u: mean %.2f, max %.2f bulk requests\n", beside[i], mean, max);
		ck_assert_msg(mean <= 1.0 && max <= 1.2, "beside %u: mean %.2f max %.2f", beside[i],
			      mean, max);
	}
}
END_TEST

START_TEST(mounts_share_the_global_limit_before_their_keys_do)
{
	struct world w;
	struct gate_fs *fs[2];
	struct gate_mount *m[3];
	struct gate_mount_config cfg = mount_config();
	struct limiter_config global = {0};
	struct client c[12];
	fair_world(&w);
	set_limit(&global, LIMIT_IOPS, 3000);
	gate_set_global(w.gate, &global);
	m[0] = world_mount(&w, &fs[0], &cfg);
	m[1] = gate_mount_new(fs[0], "second on the same fs", &cfg);
	m[2] = world_mount(&w, &fs[1], &cfg);
	for (unsigned i = 0; i < 12; i++)
		client_start(&c[i], &w, m[i < 10 ? 0 : i - 9], COST_META, i, 0, 0);
	run(&w, SEC); /* past the burst of the first window, which goes to whoever comes first */
	for (unsigned i = 0; i < 12; i++)
		c[i].ops = 0;
	run(&w, 10 * SEC);
	uint64_t first = 0;
	for (unsigned i = 0; i < 10; i++) {
		first += c[i].ops;
		assert_near(c[i].ops, 1000, 0.03);
	}
	assert_near(first, 10000, 0.02);
	assert_near(c[10].ops, 10000, 0.02);
	assert_near(c[11].ops, 10000, 0.02);
	for (unsigned i = 0; i < 3; i++)
		gate_mount_drain(m[i], false);
	gate_mount_free(m[1]);
	gate_mount_free(m[0]);
	gate_fs_free(fs[0]);
	world_fini(&w, fs[1], m[2]);
}
END_TEST

START_TEST(weights_of_mounts_count_between_mounts)
{
	struct world w;
	struct gate_fs *fs[2];
	struct gate_mount *m[2];
	struct gate_mount_config cfg = mount_config();
	struct limiter_config global = {0};
	struct client c[2];
	fair_world(&w);
	set_limit(&global, LIMIT_BPS, 100 * MIB);
	gate_set_global(w.gate, &global);
	for (unsigned i = 0; i < 2; i++) {
		cfg.weight = i ? 1 : 3;
		m[i] = world_mount(&w, &fs[i], &cfg);
		client_start(&c[i], &w, m[i], COST_WRITE, 0, i ? MIB : 16 * KIB, MIB);
	}
	run(&w, 20 * SEC);
	assert_near(c[0].bytes, 1500.0 * MIB, 0.02);
	assert_near(c[1].bytes, 500.0 * MIB, 0.02);
	for (unsigned i = 0; i < 2; i++)
		gate_mount_drain(m[i], false);
	gate_mount_free(m[0]);
	gate_fs_free(fs[0]);
	world_fini(&w, fs[1], m[1]);
}
END_TEST

START_TEST(who_was_idle_gets_neither_credit_nor_penalty)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	struct client c[2] = {0};
	set_limit(&cfg.limits, LIMIT_IOPS, 1000);
	fair_world(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	client_start(&c[0], &w, m, COST_META, 0, 0, 0);
	run(&w, 60 * SEC); /* alone for a long time */
	uint64_t before = c[0].ops;
	client_start(&c[1], &w, m, COST_META, 1, 0, 0);
	run(&w, SEC);
	assert_near(c[0].ops - before, 500, 0.02);
	assert_near(c[1].ops, 500, 0.02);
	gate_mount_drain(m, false);
	world_fini(&w, fs, m);
}
END_TEST

/* --- lanes and scopes --- */

START_TEST(a_reader_out_of_bytes_holds_up_no_writer_and_no_stat)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	struct work reads[20] = {0}, others[3] = {0};
	set_limit(&cfg.limits, LIMIT_READ_BPS, 10 * KIB);
	set_limit(&cfg.limits, LIMIT_IOPS, 1000);
	fair_world(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < 20; i++)
		work_submit(&w, &reads[i], m, COST_READ, MIB, i);
	ck_assert_int_eq(work_submit(&w, &others[0], m, COST_WRITE, MIB, 0), GATE_GO);
	ck_assert_int_eq(work_submit(&w, &others[1], m, COST_META, 0, 1), GATE_GO);
	ck_assert_int_eq(work_submit(&w, &others[2], m, COST_OPENCLOSE, 0, 2), GATE_GO);
	gate_mount_drain(m, false);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(lanes_that_share_the_ops_take_turns_and_nobody_starves)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	struct client c[2] = {0};
	set_limit(&cfg.limits, LIMIT_IOPS, 100);
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB); /* enough for 16 reads of 64 KiB per second */
	fair_world(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	client_start(&c[0], &w, m, COST_META, 0, 0, 0);
	client_start(&c[1], &w, m, COST_READ, 1, 64 * KIB, 64 * KIB);
	run(&w, 20 * SEC);
	assert_near(c[1].bytes, 20.0 * MIB,
		    0.02); /* all bytes, although the other client sends metadata requests */
	assert_near(c[0].ops + c[1].ops, 2000, 0.02);
	gate_mount_drain(m, false);
	world_fini(&w, fs, m);
}
END_TEST

/* Writes use up the bytes of its own mount, reads on another mount the global ones. */
START_TEST(a_reader_between_two_full_scopes_does_not_starve)
{
	struct world w;
	struct gate_fs *fs[2];
	struct gate_mount *m[2];
	struct gate_mount_config cfg = mount_config();
	struct limiter_config global = {0};
	struct client c[3];
	fair_world(&w);
	set_limit(&global, LIMIT_READ_BPS, 50 * MIB);
	gate_set_global(w.gate, &global);
	m[1] = world_mount(&w, &fs[1], &cfg);
	set_limit(&cfg.limits, LIMIT_BPS, 10 * MIB);
	m[0] = world_mount(&w, &fs[0], &cfg);
	client_start(&c[0], &w, m[0], COST_READ, 0, MIB, MIB);
	client_start(&c[1], &w, m[0], COST_WRITE, 1, 4 * KIB, 4 * KIB);
	client_start(&c[2], &w, m[1], COST_READ, 2, 16 * KIB, 16 * KIB);
	run(&w, 20 * SEC);
	ck_assert_msg(c[0].bytes > 40 * MIB, "only %llu bytes read",
		      (unsigned long long)c[0].bytes);
	ck_assert_msg(c[1].bytes > MIB / 8, "only %llu bytes written",
		      (unsigned long long)c[1].bytes);
	assert_near(c[0].bytes + c[2].bytes, 1000.0 * MIB, 0.03);
	for (unsigned i = 0; i < 2; i++)
		gate_mount_drain(m[i], false);
	gate_mount_free(m[0]);
	gate_fs_free(fs[0]);
	world_fini(&w, fs[1], m[1]);
}
END_TEST

#define TRACE 4000

static uint64_t trace[2][TRACE];
static unsigned traced, which_trace;

static void record(struct client *c, struct work *k)
{
	if (traced < TRACE)
		trace[which_trace][traced++] = k->end_ns;
}

static void isolated_run(bool with_a)
{
	struct world w;
	struct gate_fs *fs[2];
	struct gate_mount *m[2];
	struct gate_mount_config cfg = mount_config();
	struct limiter_config global = {0};
	struct client a[20], b[3];
	fair_world(&w);
	set_limit(&global, LIMIT_IOPS, 100000);
	gate_set_global(w.gate, &global);
	set_limit(&cfg.limits, LIMIT_IOPS, 1);
	m[0] = world_mount(&w, &fs[0], &cfg);
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 300);
	m[1] = world_mount(&w, &fs[1], &cfg);
	for (unsigned i = 0; with_a && i < 20; i++)
		client_start(&a[i], &w, m[0], COST_META, i, 0, 0);
	traced = 0;
	which_trace = with_a;
	for (unsigned i = 0; i < 3; i++) {
		client_start(&b[i], &w, m[1], COST_META, i, 0, 0);
		b[i].on_served = record;
	}
	run(&w, 10 * SEC);
	for (unsigned i = 0; i < 2; i++)
		gate_mount_drain(m[i], false);
	gate_mount_free(m[0]);
	gate_fs_free(fs[0]);
	world_fini(&w, fs[1], m[1]);
}

START_TEST(a_tenant_stuck_in_its_own_limit_changes_nothing_for_another)
{
	isolated_run(false);
	unsigned n = traced;
	isolated_run(true);
	ck_assert_uint_gt(n, 2900);
	ck_assert_uint_eq(n, traced);
	/* A's wake-up may be merged with one of B's, which delays it by at most that. */
	for (unsigned i = 0; i < n; i++)
		ck_assert_msg(trace[0][i] <= trace[1][i] && trace[1][i] <= trace[0][i] + 200000,
			      "grant %u moved by %lld ns", i,
			      (long long)(trace[1][i] - trace[0][i]));
}
END_TEST

START_TEST(a_hundred_thousand_keys_are_no_burden)
{
	enum { N = 100000 };
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	struct work *k = calloc(N * 2, sizeof(*k));
	cfg.max_keys = N;
	cfg.max_parked = 4 * N;
	set_limit(&cfg.limits, LIMIT_IOPS, N);
	fair_world(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < N * 2; i++)
		work_submit(&w, &k[i], m, COST_META, 0, i % N);
	for (unsigned i = 0; i < N; i += 7)
		if (k[i].fate == PENDING)
			gate_cancel(w.gate, &k[i].job);
	world_pass(&w, 3 * SEC); /* takes minutes if any step is linear in the number of jobs */
	unsigned ran = 0;
	for (unsigned i = 0; i < N * 2; i++)
		ran += k[i].fate == RAN;
	ck_assert_uint_ge(ran, 2 * N - N / 7 - 1);
	world_fini(&w, fs, m);
	free(k);
}
END_TEST

UNIT_MAIN("fair", the_gap_in_weighted_service_is_at_most_one_request_of_each,
	  a_small_request_waits_about_one_bulk_request,
	  mounts_share_the_global_limit_before_their_keys_do,
	  weights_of_mounts_count_between_mounts, who_was_idle_gets_neither_credit_nor_penalty,
	  a_reader_out_of_bytes_holds_up_no_writer_and_no_stat,
	  lanes_that_share_the_ops_take_turns_and_nobody_starves,
	  a_reader_between_two_full_scopes_does_not_starve,
	  a_tenant_stuck_in_its_own_limit_changes_nothing_for_another,
	  a_hundred_thousand_keys_are_no_burden)
