/* SPDX-License-Identifier: MIT */
/* Looking at the gate does not keep others out of it. */
#include <pthread.h>

#include "sched/gate_internal.h"
#include "unit/world.h"

#define KEYS	       15000
#define KEYS_AT_A_TIME 256 /* that a look takes before it lets others into the gate */

static bool counting;
static const pthread_mutex_t *of; /* NULL: of all locks */
static unsigned unlocks;

/* -Wl,--wrap */
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	unlocks += counting && (!of || m == of);
	return __real_pthread_mutex_unlock(m);
}

static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;
static struct work work[KEYS];
static struct key_stats top[KEYS];

/* One request of each key waits. */
static void up(void)
{
	struct gate_mount_config cfg = mount_config();
	cfg.max_keys = KEYS;
	cfg.max_parked = 2 * KEYS;
	set_limit(&cfg.limits, LIMIT_IOPS, 1);
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < KEYS; i++)
		work_submit(&w, &work[i], m, COST_META, 0, i);
}

static void down(void)
{
	gate_mount_drain(m, true);
	world_fini(&w, fs, m);
}

START_TEST(a_look_at_many_keys_lets_others_into_the_gate_in_between)
{
	up();
	counting = true;
	unsigned found = gate_stats_keys(m, NULL, top, KEYS);
	counting = false;
	ck_assert_uint_eq(found, KEYS - 1); /* the first one was admitted immediately */
	ck_assert_uint_ge(unlocks, KEYS / KEYS_AT_A_TIME);
	down();
}
END_TEST

START_TEST(a_reset_holds_the_gate_once_and_forgets_what_every_key_did)
{
	up();
	world_pass(&w, 100 * SEC);
	unlocks = 0;
	counting = true;
	gate_stats_reset(w.gate);
	counting = false;
	ck_assert_uint_eq(unlocks, 1);
	unsigned n = gate_stats_keys(m, NULL, top, KEYS);
	for (unsigned i = 0; i < n; i++)
		UNIT_REQUIRE(!top[i].ops && !top[i].bytes && !top[i].max_wait_ns);
	down();
}
END_TEST

START_TEST(each_key_is_seen_once_and_with_its_own_figures)
{
	static bool seen[KEYS];
	up();
	world_pass(&w, 100 * SEC);
	unsigned n = gate_stats_keys(m, NULL, top, KEYS), waiting = 0;
	ck_assert_uint_eq(n, KEYS - 1);
	for (unsigned i = 0; i < n; i++) {
		UNIT_REQUIRE(top[i].key.id < KEYS && !seen[top[i].key.id]);
		UNIT_REQUIRE(i == 0 || top[i].wait_ns <= top[i - 1].wait_ns);
		seen[top[i].key.id] = true;
		waiting += (unsigned)top[i].parked_now;
	}
	ck_assert_uint_eq(waiting, KEYS - 1 - 100);
	down();
}
END_TEST

/* Requests that need not wait, of a mount with or without limits. */
static void ask(uint32_t tid, uint64_t bytes, uint64_t moved)
{
	const struct cost c = {COST_READ, 1, bytes};
	const struct caller who = {.tid = tid, .uid = 1000 + tid};
	struct grant g;
	ck_assert_int_eq(gate_try(m, &c, &who, &g), GATE_GO);
	gate_done(&g, OUTCOME_OK, moved);
}

static void up_with(uint64_t bps)
{
	struct gate_mount_config cfg = mount_config();
	if (bps)
		set_limit(&cfg.limits, LIMIT_BPS, bps);
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
}

static void check_keys(unsigned variant)
{
	up_with(variant ? 1 << 30 : 0);
	ask(1, 100, 100);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 0);
	gate_watch_keys(m, true);
	ask(1, 4096, 4096);
	ask(1, 4096, 10); /* what was not moved does not count */
	ask(2, 4096, 0);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 2);
	const struct key_stats *one = &top[top[0].key.id == 1 ? 0 : 1], *two = &top[one == top];
	ck_assert_uint_eq(one->done_ops, 2);
	ck_assert_uint_eq(one->done_bytes, 4106);
	ck_assert_uint_eq(one->uid, 1001);
	ck_assert_uint_eq(one->ops, 0);
	ck_assert_uint_eq(two->done_ops, 1);
	ck_assert_uint_eq(two->done_bytes, 0);
	gate_watch_keys(m, false);
	ask(1, 4096, 4096);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 0);
	gate_watch_keys(m, true);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 2);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(top[i].done_ops, 3 - top[i].key.id);
	down();
}

START_TEST(keys_that_need_not_wait_are_counted_only_while_somebody_looks)
{
	for (unsigned i = 0; i < 2; i++)
		check_keys(i);
}
END_TEST

START_TEST(a_watched_key_that_does_nothing_is_shown_for_three_seconds)
{
	up_with(0);
	gate_watch_keys(m, true);
	ask(1, 4096, 4096);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 1);
	world_pass(&w, 3 * SEC);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 1);
	world_pass(&w, 1);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 0);
	ask(1, 4096, 5);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 1);
	ck_assert_uint_eq(top[0].done_ops, 1); /* counted anew: nobody remembers the old figure */
	ck_assert_uint_eq(top[0].done_bytes, 5);
	down();
}
END_TEST

static void check_all(unsigned variant)
{
	struct gate_mount_config cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	set_limit(&cfg.each, LIMIT_IOPS,
		  1000 * (uint64_t)variant); /* with and without limits for each key */
	cfg.each.limit[LIMIT_IOPS].enabled = variant;
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	gate_watch_keys(m, true);
	for (unsigned i = 0; i < 5; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 7);
	world_pass(&w, SEC);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 1);
	ck_assert_uint_eq(top[0].ops, 4); /* that had to wait */
	ck_assert_uint_eq(top[0].done_ops, 5);
	down();
}

START_TEST(all_requests_of_a_watched_key_count_whether_they_waited_or_not)
{
	for (unsigned i = 0; i < 2; i++)
		check_all(i);
}
END_TEST

/* Dry runs pin and unpin the keys, too: a key that is pinned for ever could not be evicted. */
static void check_watching(unsigned variant)
{
	struct gate_mount_config cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	cfg.dry_run = variant;
	cfg.max_keys = 20;
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	gate_watch_keys(m, true);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < 20; i++)
			work_submit(&w, &work[i], m, COST_META, 0, 100 * round + i);
		world_pass(&w, 100 * SEC);
	}
	unsigned n = gate_stats_keys(m, NULL, top, KEYS);
	ck_assert_uint_ge(n, 20);
	for (unsigned i = 0; i < n; i++)
		ck_assert(!top[i].shared);
	down();
}

START_TEST(watching_leaves_no_key_pinned)
{
	for (unsigned i = 0; i < 2; i++)
		check_watching(i);
}
END_TEST

/* A look at who they are, for every request, would hold up all other callers. */
START_TEST(callers_of_a_shared_key_need_the_gate_once_for_each_request)
{
	struct gate_mount_config cfg = mount_config();
	const struct cost c = {COST_READ, 1, 4096};
	struct grant g;
	cfg.max_keys = 1;
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	gate_watch_keys(m, true);
	ck_assert_int_eq(gate_try(m, &c, &(struct caller){.tid = 1}, &g), GATE_GO);
	ask(2, 4096, 4096);
	unlocks = 0;
	of = &w.gate->lock;
	counting = true;
	for (unsigned i = 0; i < 100; i++)
		ask(2, 4096, 4096);
	counting = false;
	of = NULL;
	ck_assert_uint_eq(unlocks, 100);
	gate_done(&g, OUTCOME_OK, 0);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, top, KEYS), 2);
	ck_assert(top[0].shared != top[1].shared);
	down();
}
END_TEST

UNIT_MAIN("gate_look", a_look_at_many_keys_lets_others_into_the_gate_in_between,
	  a_reset_holds_the_gate_once_and_forgets_what_every_key_did,
	  each_key_is_seen_once_and_with_its_own_figures,
	  keys_that_need_not_wait_are_counted_only_while_somebody_looks,
	  a_watched_key_that_does_nothing_is_shown_for_three_seconds,
	  all_requests_of_a_watched_key_count_whether_they_waited_or_not,
	  watching_leaves_no_key_pinned,
	  callers_of_a_shared_key_need_the_gate_once_for_each_request)
