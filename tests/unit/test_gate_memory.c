/* SPDX-License-Identifier: MIT */
/* Every allocation of the gate's control plane fails once.  Then the operation fails, nothing has changed, and the second
 * attempt succeeds. */
#include <errno.h>

#include "unit/gate_check.h"
#include "unit/oom.h"
#include "unit/world.h"

static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;

static const struct weight_rule rules[] = {
	{{FAIR_UID, 1}, NULL, 2},
	{{FAIR_PROCESS, 2}, NULL, 3},
	{{FAIR_PROCESS, 0}, "rsync*", 4},
};

static struct rule *match, *everybody;

static struct gate_mount_config weighty(void)
{
	struct gate_mount_config cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB);
	cfg.limits.limit[LIMIT_READ_BPS].once = 10 * KIB;
	cfg.weights = rules;
	cfg.n_weights = ARRAY_SIZE(rules);
	return cfg;
}

/* --- a world in the middle of its life: buckets partly spent, jobs parked --- */

#define JOBS 6
static struct work spent, parked[JOBS];

static void up(void)
{
	struct gate_mount_config cfg = weighty();
	struct limiter_config wide = {0};
	if (!match) {
		match = rule_parse("uid:1,uid:2", NULL, NULL);
		everybody = rule_parse("all", NULL, NULL);
	}
	world_init(&w);
	set_limit(&wide, LIMIT_IOPS, 1000);
	ck_assert_int_eq(gate_set_global(w.gate, &wide), 0);
	m = world_mount(&w, &fs, &cfg);
	memset(&spent, 0, sizeof(spent));
	memset(parked, 0, sizeof(parked));
	work_submit(&w, &spent, m, COST_READ, 100 * KIB, 1);
	for (unsigned i = 0; i < JOBS; i++)
		work_submit(&w, &parked[i], m, COST_READ, 60 * KIB, i);
	world_pass(&w, 7 * MS);
}

/* Everybody who waits is admitted eventually. */
static void down(void)
{
	struct limiter_config none = {0};
	struct gate_mount_config cfg = mount_config();
	ck_assert_int_eq(gate_pause_global(w.gate, false), 0);
	ck_assert_int_eq(gate_pause_fs(fs, false), 0);
	ck_assert_int_eq(gate_pause_mount(m, false), 0);
	ck_assert_int_eq(gate_set_global(w.gate, &none), 0);
	ck_assert_int_eq(gate_set_fs(fs, &none), 0);
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(gate_set_classes(m, NULL, 0), 0);
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < JOBS; i++)
		UNIT_REQUIRE(parked[i].ends == 1 && parked[i].fate == RAN);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}

/* --- what must stay as it was --- */

struct state {
	struct scope_stats scope[3]; /* global, fs, mount */
	struct key_stats key[JOBS + 2];
	unsigned n_keys;
	uint64_t armed_ns;
	uint64_t start[JOBS], finish[JOBS]; /* the tags that decide whose turn it is */
};

static void look(struct state *s)
{
	memset(s, 0, sizeof(*s));
	gate_stats_global(w.gate, &s->scope[0]);
	gate_stats_fs(fs, &s->scope[1]);
	gate_stats_mount(m, &s->scope[2]);
	s->n_keys = gate_stats_keys(m, NULL, s->key, ARRAY_SIZE(s->key));
	s->armed_ns = w.clock.armed_ns;
	for (unsigned i = 0; i < JOBS; i++) {
		const struct lane *l = parked[i].job.lane;
		s->start[i] = l->item.start;
		s->finish[i] = l->item.finish;
	}
}

static void same_scope(const struct scope_stats *a, const struct scope_stats *b)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		const struct limit_stats *la = &a->limit[k], *lb = &b->limit[k];
		UNIT_REQUIRE(la->enabled == lb->enabled);
		UNIT_REQUIRE(la->rate_per_sec == lb->rate_per_sec);
		UNIT_REQUIRE(la->capacity == lb->capacity);
		UNIT_REQUIRE(la->level == lb->level);
		UNIT_REQUIRE(la->once_left == lb->once_left);
	}
	for (unsigned c = 0; c < COST_CLASSES_SHOWN; c++) {
		UNIT_REQUIRE(a->cls[c].ops == b->cls[c].ops);
		UNIT_REQUIRE(a->cls[c].parked_now == b->cls[c].parked_now);
	}
	UNIT_REQUIRE(a->inflight.limit == b->inflight.limit);
	UNIT_REQUIRE(a->inflight.in_flight == b->inflight.in_flight);
	UNIT_REQUIRE(a->open.limit == b->open.limit);
	UNIT_REQUIRE(a->keys_now == b->keys_now);
	UNIT_REQUIRE(a->paused == b->paused);
}

static void same(const struct state *a)
{
	struct state b;
	look(&b);
	for (unsigned i = 0; i < ARRAY_SIZE(a->scope); i++)
		same_scope(&a->scope[i], &b.scope[i]);
	UNIT_REQUIRE(a->n_keys == b.n_keys);
	for (unsigned i = 0; i < a->n_keys; i++) {
		UNIT_REQUIRE(a->key[i].key.id == b.key[i].key.id);
		UNIT_REQUIRE(a->key[i].weight == b.key[i].weight);
		UNIT_REQUIRE(a->key[i].parked_now == b.key[i].parked_now);
	}
	UNIT_REQUIRE(a->armed_ns == b.armed_ns);
	for (unsigned i = 0; i < JOBS; i++)
		UNIT_REQUIRE(a->start[i] == b.start[i] && a->finish[i] == b.finish[i]);
}

/* --- each change of a living gate --- */

static struct limiter_config many_limits(void)
{
	struct limiter_config cfg = {.max_inflight = 3, .max_open = 9, .window_ns = SEC};
	set_limit(&cfg, LIMIT_READ_BPS, 4 * MIB);
	set_limit(&cfg, LIMIT_META_IOPS, 10);
	set_limit(&cfg, LIMIT_BPS, 2 * MIB);
	cfg.limit[LIMIT_BPS].once = MIB;
	return cfg;
}

static int set_global(void)
{
	struct limiter_config cfg = many_limits();
	return gate_set_global(w.gate, &cfg);
}

static int set_global_other_rate(void)
{
	struct limiter_config cfg = {0};
	set_limit(&cfg, LIMIT_IOPS, 500);
	cfg.limit[LIMIT_IOPS].once = 100;
	return gate_set_global(w.gate, &cfg);
}

static int set_global_off(void)
{
	struct limiter_config cfg = {0};
	return gate_set_global(w.gate, &cfg);
}

static int set_fs(void)
{
	struct limiter_config cfg = many_limits();
	return gate_set_fs(fs, &cfg);
}

static int set_mount(void)
{
	static const struct weight_rule others[] = {{{FAIR_PROCESS, 1}, NULL, 7},
						    {{FAIR_PROCESS, 0}, NULL, 5}};
	struct gate_mount_config cfg = {.limits = many_limits(),
					.fair = FAIR_PROCESS,
					.weight = 3,
					.max_wait_ns = SEC * 100,
					.max_parked = 100,
					.weights = others,
					.n_weights = ARRAY_SIZE(others)};
	return gate_set_mount(m, &cfg);
}

static int set_each(void)
{
	struct gate_mount_config cfg = weighty();
	set_limit(&cfg.each, LIMIT_BPS, MIB);
	set_limit(&cfg.each, LIMIT_IOPS, 100);
	return gate_set_mount(m, &cfg);
}

static int set_classes(void)
{
	struct gate_class_config c[] = {
		{.name = "inner", .parent = "outer", .match = match, .fair = FAIR_UID},
		{.name = "outer", .limits = many_limits(), .weights = rules, .n_weights = 3}};
	set_limit(&c[0].each, LIMIT_READ_BPS, MIB);
	return gate_set_classes(m, c, 2);
}

/* As a reload does: limits, keys, weights, a device and classes in three scopes. */
static int set_everything(void)
{
	struct limiter_config limits = many_limits();
	struct gate_class_config c[] = {
		{.name = "inner", .parent = "outer", .match = match, .fair = FAIR_UID},
		{.name = "outer", .limits = many_limits(), .weights = rules, .n_weights = 3}};
	struct gate_mount_config cfg = weighty();
	set_limit(&cfg.limits, LIMIT_READ_BPS, 2 * MIB);
	set_limit(&cfg.each, LIMIT_BPS, MIB);
	cfg.device.latency[LATENCY_READ] = (struct latency){LATENCY_FIXED, MS, 0};
	cfg.weight = 5;
	const struct gate_change changes[] = {
		{.limits = &limits},
		{.fs = fs, .limits = &limits},
		{.mount = m,
		 .config = &cfg,
		 .sets_classes = true,
		 .classes = c,
		 .n_classes = ARRAY_SIZE(c)},
	};
	return gate_apply(w.gate, changes, ARRAY_SIZE(changes));
}

static int pause_global(void)
{
	return gate_pause_global(w.gate, true);
}

static int pause_fs(void)
{
	return gate_pause_fs(fs, true);
}

static int pause_mount(void)
{
	return gate_pause_mount(m, true);
}

static void changes_or_does_nothing(int (*change)(void))
{
	OOM_EACH(n)
	{
		struct state before;
		up();
		look(&before);
		int rc = OOM_FAIL(n, change());
		/* Not errors: without memory for its new key, a waiting job shares another one; without
		 * memory for a lane's clock, waits there are measured by the clock of the leaf. */
		bool shares = rc == 0 && (change == set_each || change == set_classes ||
					  change == set_everything);
		ck_assert_int_eq(rc, oom_struck() && !shares ? -ENOMEM : 0);
		if (oom_struck() && !shares) {
			same(&before);
			gate_check(w.gate);
			ck_assert_int_eq(change(), 0);
		}
		gate_check(w.gate);
		down();
	}
}

START_TEST(limits_that_cannot_be_set_leave_everything_as_it_was)
{
	changes_or_does_nothing(set_global);
	changes_or_does_nothing(set_global_other_rate);
	changes_or_does_nothing(set_global_off);
	changes_or_does_nothing(set_fs);
	changes_or_does_nothing(set_mount);
	changes_or_does_nothing(set_each);
	changes_or_does_nothing(set_classes);
}
END_TEST

START_TEST(several_scopes_change_together_or_not_at_all)
{
	changes_or_does_nothing(set_everything);
}
END_TEST

START_TEST(a_pause_that_cannot_be_made_leaves_everything_as_it_was)
{
	changes_or_does_nothing(pause_global);
	changes_or_does_nothing(pause_fs);
	changes_or_does_nothing(pause_mount);
}
END_TEST

START_TEST(a_scope_that_cannot_be_made_leaves_nothing_behind)
{
	OOM_EACH(n)
	{
		struct limiter_config cfg = many_limits();
		struct state before;
		up();
		look(&before);
		struct gate_fs *more = OOM_FAIL(n, gate_fs_new(w.gate, "more", &cfg));
		bool struck = oom_struck();
		ck_assert((more == NULL) == struck);
		if (struck) {
			same(&before);
			more = gate_fs_new(w.gate, "more", &cfg);
			ck_assert_ptr_nonnull(more);
		}
		gate_fs_free(more);
		gate_check(w.gate);
		down();
	}
}
END_TEST

START_TEST(a_mount_that_cannot_be_added_leaves_nothing_behind)
{
	OOM_EACH(n)
	{
		struct gate_mount_config cfg = weighty();
		struct state before;
		up();
		look(&before);
		struct gate_mount *more = OOM_FAIL(n, gate_mount_new(fs, "more", &cfg));
		bool struck = oom_struck();
		ck_assert((more == NULL) == struck);
		if (struck) {
			same(&before);
			more = gate_mount_new(fs, "more", &cfg);
			ck_assert_ptr_nonnull(more);
		}
		gate_mount_free(more);
		gate_check(w.gate);
		down();
	}
}
END_TEST

START_TEST(a_gate_that_cannot_be_made_leaves_nothing_behind)
{
	OOM_EACH(n)
	{
		struct fake_clock clock;
		fake_clock_init(&clock, SEC);
		struct gate *g = OOM_FAIL(n, gate_new(&clock.clk, world_dispatch, NULL));
		ck_assert((g == NULL) == oom_struck());
		gate_free(g);
	}
}
END_TEST

/* A request for whose key there is no memory shares another key, or is refused for lack of room. */
START_TEST(a_request_without_memory_shares_a_place_or_is_refused)
{
	OOM_EACH(n)
	{
		struct work one = {0};
		up();
		enum gate_verdict v =
			OOM_FAIL(n, work_submit(&w, &one, m, COST_READ, 60 * KIB, 99));
		ck_assert(v == GATE_PARKED || (v == GATE_NO_ROOM && oom_struck()));
		gate_check(w.gate);
		down();
		ck_assert_uint_eq(one.ends, v == GATE_PARKED);
	}
}
END_TEST

/* Jobs wait in classes, and the mount gets limits for each key: it succeeds, or nothing has changed.  A job for whose key in
 * the mount, or for whose part of a queue, there is no memory shares one: not an error. */
START_TEST(limits_for_each_key_above_classes_that_cannot_be_set_leave_everything_as_it_was)
{
	OOM_EACH(n)
	{
		const struct gate_class_config all = {
			.name = "all", .match = everybody, .fair = FAIR_NONE};
		struct state before;
		up();
		ck_assert_int_eq(gate_set_classes(m, &all, 1), 0);
		look(&before);
		int rc = OOM_FAIL(n, set_each());
		ck_assert(rc == 0 || (rc == -ENOMEM && oom_struck()));
		gate_check(w.gate);
		if (rc < 0) {
			same(&before);
			ck_assert_int_eq(set_each(), 0);
		}
		gate_check(w.gate);
		down();
	}
}
END_TEST

/* The same for requests that find such limits: they share a key or a queue, or are refused for lack of room. */
START_TEST(a_request_without_memory_for_its_outer_keys_shares_them_or_is_refused)
{
	OOM_EACH(n)
	{
		const struct gate_class_config all = {
			.name = "all", .match = everybody, .fair = FAIR_NONE};
		struct work one = {0}, two = {0};
		up();
		ck_assert_int_eq(gate_set_classes(m, &all, 1), 0);
		ck_assert_int_eq(set_each(), 0);
		enum gate_verdict v =
			OOM_FAIL(n, work_submit(&w, &one, m, COST_READ, 60 * KIB, 99));
		ck_assert(v == GATE_PARKED || (v == GATE_NO_ROOM && oom_struck()));
		gate_check(w.gate);
		ck_assert_int_eq(work_submit(&w, &two, m, COST_READ, 60 * KIB, 98), GATE_PARKED);
		gate_check(w.gate);
		down();
		ck_assert_uint_eq(one.ends, v == GATE_PARKED);
		ck_assert_uint_eq(two.ends, 1);
	}
}
END_TEST

UNIT_MAIN("gate_memory", limits_that_cannot_be_set_leave_everything_as_it_was,
	  several_scopes_change_together_or_not_at_all,
	  a_pause_that_cannot_be_made_leaves_everything_as_it_was,
	  a_scope_that_cannot_be_made_leaves_nothing_behind,
	  a_mount_that_cannot_be_added_leaves_nothing_behind,
	  a_gate_that_cannot_be_made_leaves_nothing_behind,
	  a_request_without_memory_shares_a_place_or_is_refused,
	  limits_for_each_key_above_classes_that_cannot_be_set_leave_everything_as_it_was,
	  a_request_without_memory_for_its_outer_keys_shares_them_or_is_refused)
