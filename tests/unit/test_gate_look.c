/* SPDX-License-Identifier: MIT */
/* Looking at the gate does not keep others out of it. */
#include <pthread.h>

#include "unit/world.h"

#define KEYS	       15000
#define KEYS_AT_A_TIME 256 /* that a look takes before it lets others into the gate */

static bool counting;
static unsigned unlocks;

/* -Wl,--wrap */
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	unlocks += counting;
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

UNIT_MAIN("gate_look", a_look_at_many_keys_lets_others_into_the_gate_in_between,
	  a_reset_holds_the_gate_once_and_forgets_what_every_key_did,
	  each_key_is_seen_once_and_with_its_own_figures)
