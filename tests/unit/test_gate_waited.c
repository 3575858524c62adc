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

static const struct limit_wait *wait_for(const struct limit_wait wait[4], enum scope_kind scope,
					 bool each, const char *name)
{
	static const struct limit_wait none;
	for (unsigned i = 0; i < 4 && wait[i].limit.known; i++)
		if (wait[i].limit.scope == scope && wait[i].limit.each == each &&
		    strcmp(wait[i].limit.name, name) == 0)
			return &wait[i];
	return &none;
}

static void waited(enum scope_kind scope, bool each, const char *name, unsigned requests,
		   uint64_t ns)
{
	struct limit_wait wait[4];
	unsigned n = 0;
	waits(wait);
	const struct limit_wait *found = wait_for(wait, scope, each, name);
	for (unsigned i = 0; i <= WAIT_BOUNDS; i++)
		n += found->times.count[i];
	ck_assert_uint_eq(n, requests);
	ck_assert_uint_eq(found->times.sum_ns, ns);
}

START_TEST(a_wait_at_two_limits_is_divided_between_them)
{
	struct limiter_config global = {0};
	struct limit_wait wait[4];
	struct key_stats key;
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	up();
	set_limit(&global, LIMIT_READ_BPS, 1000);
	ck_assert_int_eq(gate_set_global(w.gate, &global), 0);
	work_submit(&w, &work[0], m, COST_READ, 300, 7); /* a debt of 200 bytes */
	work_submit(&w, &work[1], m, COST_READ, 50,
		    7); /* its op is there after 100 ms, its bytes after 250 ms */
	world_pass(&w, SEC);
	ck_assert_int_eq(work[1].fate, RAN);
	ck_assert_uint_eq(waits(wait), 2);
	waited(SCOPE_MOUNT, false, "iops", 1, 100 * MS);
	waited(SCOPE_GLOBAL, false, "read_bps", 1, 150 * MS);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, &key, 1), 1);
	ck_assert_uint_eq(key.wait_ns, 250 * MS);
	ck_assert_str_eq(key.limit[0].name, "read_bps");
	ck_assert_uint_eq(key.limit[0].wait_ns, 150 * MS);
	ck_assert_str_eq(key.limit[1].name, "iops");
	ck_assert_uint_eq(key.limit[1].wait_ns, 100 * MS);
	ck_assert(!key.limit[2].known);
	down();
}
END_TEST

/* The second request of the key waits behind the first: for what the first waits for. */
START_TEST(those_in_the_queue_wait_for_each_limit_as_long_as_the_first_does)
{
	struct limiter_config global = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	up();
	set_limit(&global, LIMIT_READ_BPS, 1000);
	ck_assert_int_eq(gate_set_global(w.gate, &global), 0);
	work_submit(&w, &work[0], m, COST_READ, 300, 7);
	work_submit(&w, &work[1], m, COST_READ, 50, 7);
	world_pass(&w, 50 * MS);
	work_submit(&w, &work[2], m, COST_READ, 10, 7);
	world_pass(&w, SEC);
	/* parked at 50 ms; iops until 100 ms, global until 250 ms, its own bytes until 260 ms; the op of 200 ms is
	 * there already */
	ck_assert_int_eq(work[2].fate, RAN);
	waited(SCOPE_MOUNT, false, "iops", 2, 150 * MS);
	waited(SCOPE_GLOBAL, false, "read_bps", 2, (150 + 160) * MS);
	down();
}
END_TEST

START_TEST(a_wait_for_the_keys_own_limit_and_one_above_is_divided)
{
	cfg = mount_config();
	set_limit(&cfg.each, LIMIT_IOPS, 10);
	set_limit(&cfg.limits, LIMIT_READ_BPS, 1000);
	up();
	work_submit(&w, &work[0], m, COST_READ, 300, 7);
	work_submit(&w, &work[1], m, COST_READ, 50, 7);
	world_pass(&w, 50 * MS);
	work_submit(&w, &work[2], m, COST_READ, 10, 8); /* has its own op */
	world_pass(&w, SEC);
	waited(SCOPE_MOUNT, true, "iops", 1, 100 * MS);
	struct limit_wait wait[4];
	waits(wait);
	const struct limit_wait *bps = wait_for(wait, SCOPE_MOUNT, false, "read_bps");
	ck_assert_uint_eq(bps->times.sum_ns + 100 * MS,
			  work[1].end_ns - work[1].came_ns + work[2].end_ns - work[2].came_ns);
	down();
}
END_TEST

START_TEST(a_change_of_limits_keeps_what_was_waited_for)
{
	struct limiter_config global = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	up();
	set_limit(&global, LIMIT_READ_BPS, 1000);
	ck_assert_int_eq(gate_set_global(w.gate, &global), 0);
	work_submit(&w, &work[0], m, COST_READ, 300, 7);
	work_submit(&w, &work[1], m, COST_READ, 50, 7);
	world_pass(&w, 60 * MS);
	set_limit(&global, LIMIT_WRITE_BPS, 1000); /* reads and writes have different lanes now */
	ck_assert_int_eq(gate_set_global(w.gate, &global), 0);
	world_pass(&w, SEC);
	waited(SCOPE_MOUNT, false, "iops", 1, 100 * MS);
	waited(SCOPE_GLOBAL, false, "read_bps", 1, 150 * MS);
	down();
}
END_TEST

START_TEST(what_would_have_waited_is_told_apart_from_what_did)
{
	struct limit_wait wait[4];
	struct scope_stats st;
	struct key_stats key;
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	cfg.dry_run = true;
	up();
	for (unsigned i = 0; i < 3; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 7);
	ck_assert_uint_eq(waits(wait), 1);
	ck_assert_uint_eq(wait[0].times.sum_ns, 0);
	ck_assert_uint_eq(wait[0].would.sum_ns, 200 * MS);
	cfg.dry_run = false;
	world_pass(&w, SEC);
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	for (unsigned i = 0; i < 2; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 7);
	world_pass(&w, SEC);
	ck_assert_uint_eq(waits(wait), 1);
	ck_assert_uint_eq(wait[0].times.sum_ns, 100 * MS);
	ck_assert_uint_eq(wait[0].would.sum_ns, 200 * MS);
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_META].parked, 1);
	ck_assert_uint_eq(st.cls[COST_META].wait.sum_ns, 100 * MS);
	ck_assert_uint_eq(st.cls[COST_META].would_wait.total, 2);
	ck_assert_uint_eq(st.cls[COST_META].would_wait.sum_ns, 200 * MS);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, &key, 1), 1);
	ck_assert_uint_eq(key.parked, 1);
	ck_assert_uint_eq(key.wait_ns, 100 * MS);
	ck_assert_uint_eq(key.limit[0].wait_ns, 100 * MS);
	ck_assert_uint_eq(key.would_wait, 2);
	ck_assert_uint_eq(key.would_wait_ns, 200 * MS);
	ck_assert_uint_eq(key.would_limit.wait_ns, 200 * MS);
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

static const struct limit_wait *class_wait(const char *class, const char *of, const char *name)
{
	static struct limit_wait wait[4];
	unsigned n = gate_stats_waits(m, class, wait, 4);
	for (unsigned i = 0; i < n; i++)
		if (strcmp(wait[i].limit.of, of) == 0 && strcmp(wait[i].limit.name, name) == 0)
			return &wait[i];
	return NULL;
}

static uint64_t ops_of(const char *class)
{
	struct scope_stats st;
	if (class)
		ck_assert(gate_stats_class(m, class, &st));
	else
		gate_stats_mount(m, &st);
	return st.cls[COST_META].ops;
}

static void take_turns(unsigned n, uint64_t uid)
{
	memset(work, 0, sizeof(work));
	for (unsigned i = 0; i < n; i++)
		work_submit(&w, &work[i], m, COST_META, 0, uid);
	world_pass(&w, 5 * SEC);
}

/* Class "c" moves from "a" to "b": what it waited for in "a" stays, and is not taken for a limit of "b". */
START_TEST(a_class_that_moves_keeps_its_waits_and_those_above_it_their_counts)
{
	struct rule *r = rule("uid:1");
	struct gate_class_config c[] = {{.name = "c", .match = r, .fair = FAIR_UID, .parent = "a"},
					{.name = "a", .fair = FAIR_UID},
					{.name = "b", .fair = FAIR_UID}};
	struct key_stats key;
	cfg = mount_config();
	up();
	set_limit(&c[1].limits, LIMIT_IOPS, 10);
	set_limit(&c[2].limits, LIMIT_IOPS, 5);
	ck_assert_int_eq(gate_set_classes(m, c, 3), 0);
	take_turns(2, 1);
	ck_assert_uint_eq(class_wait("c", "a", "iops")->times.sum_ns, 100 * MS);
	ck_assert_uint_eq(ops_of("a"), 2);
	c[0].parent = "b";
	ck_assert_int_eq(gate_set_classes(m, c, 3), 0);
	ck_assert_uint_eq(class_wait("c", "a", "iops")->times.sum_ns, 100 * MS);
	ck_assert_ptr_null(class_wait("c", "b", "iops"));
	ck_assert_uint_eq(gate_stats_keys(m, "c", &key, 1), 1);
	ck_assert_str_eq(key.limit[0].of, "a");
	ck_assert_uint_eq(ops_of("a"), 2);
	ck_assert_uint_eq(ops_of("b"), 0);
	ck_assert_uint_eq(ops_of(NULL), 2);
	take_turns(2, 1);
	ck_assert_uint_eq(class_wait("c", "a", "iops")->times.sum_ns, 100 * MS);
	ck_assert_uint_eq(class_wait("c", "b", "iops")->times.sum_ns, 200 * MS);
	ck_assert_uint_eq(ops_of("a"), 2);
	ck_assert_uint_eq(ops_of("b"), 2);
	ck_assert_uint_eq(ops_of("c"), 4);
	ck_assert_uint_eq(ops_of(NULL), 4);
	/* "c" is removed: "b" and the mount keep what it counted */
	c[1].match = c[2].match = r;
	ck_assert_int_eq(gate_set_classes(m, c + 1, 2), 0);
	ck_assert_uint_eq(ops_of("a"), 2);
	ck_assert_uint_eq(ops_of("b"), 2);
	ck_assert_uint_eq(ops_of(NULL), 4);
	/* and when it comes back, it has counted nothing */
	c[1].match = c[2].match = NULL;
	ck_assert_int_eq(gate_set_classes(m, c, 3), 0);
	ck_assert_uint_eq(ops_of("c"), 0);
	ck_assert_ptr_null(class_wait("c", "a", "iops"));
	take_turns(1, 1);
	ck_assert_uint_eq(ops_of("b"), 3);
	ck_assert_uint_eq(ops_of(NULL), 5);
	rule_free(r);
	down();
}
END_TEST

/* A request waits 40 ms for the limit of "a"; then it becomes one of "b", for whose limit it waits, too. */
START_TEST(a_request_that_moves_to_another_class_keeps_what_it_waited_for)
{
	struct rule *r = rule("uid:1"), *s = rule("uid:2");
	struct gate_class_config c[] = {{.name = "a", .match = r, .fair = FAIR_UID},
					{.name = "b", .match = s, .fair = FAIR_UID}};
	cfg = mount_config();
	up();
	set_limit(&c[0].limits, LIMIT_IOPS, 10);
	set_limit(&c[1].limits, LIMIT_IOPS, 10);
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	for (unsigned i = 0; i < 2; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 1);
	world_pass(&w, 40 * MS);
	work_submit(&w, &work[2], m, COST_META, 0, 2);
	c[0].match = s;
	c[1].match = r;
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	world_pass(&w, SEC);
	ck_assert_int_eq(work[1].fate, RAN);
	ck_assert_uint_eq(work[1].end_ns - work[1].came_ns, 100 * MS);
	ck_assert_uint_eq(class_wait("b", "a", "iops")->times.sum_ns, 40 * MS);
	ck_assert_uint_eq(class_wait("b", "b", "iops")->times.sum_ns, 60 * MS);
	rule_free(r);
	rule_free(s);
	down();
}
END_TEST

UNIT_MAIN("gate_waited", wait_times_are_counted_by_limit_and_bound,
	  those_in_the_queue_wait_for_what_refuses_the_first,
	  a_wait_at_two_limits_is_divided_between_them,
	  those_in_the_queue_wait_for_each_limit_as_long_as_the_first_does,
	  a_wait_for_the_keys_own_limit_and_one_above_is_divided,
	  a_change_of_limits_keeps_what_was_waited_for,
	  what_would_have_waited_is_told_apart_from_what_did,
	  waiting_for_a_limit_of_each_key_is_told_apart,
	  a_class_that_moves_keeps_its_waits_and_those_above_it_their_counts,
	  a_request_that_moves_to_another_class_keeps_what_it_waited_for)
