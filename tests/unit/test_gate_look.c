/* SPDX-License-Identifier: MIT */
/* For how long reading statistics holds the lock of the gate. */
#include <pthread.h>
#include <time.h>

#include "unit/world.h"

#define KEYS 15000
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define HELD_MS 1000 /* times mean nothing under a sanitizer */
#else
#define HELD_MS 1 /* at most, with KEYS keys */
#endif

static bool counting;
static unsigned unlocks;
static uint64_t locked_ns, longest_ns;

/* CPU time, so that other processes do not matter. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SEC + (uint64_t)ts.tv_nsec;
}

/* -Wl,--wrap */
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	int rc = __real_pthread_mutex_lock(m);
	locked_ns = cpu_ns();
	return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	if (counting) {
		unlocks++;
		longest_ns = max_u64(longest_ns, cpu_ns() - locked_ns);
	}
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

/* The longest time for which the gate is held, in the best of a few tries, because interrupts and cold caches
 * take time, too. */
static uint64_t held_ns(void (*look)(void))
{
	uint64_t best_ns = UINT64_MAX;
	for (int i = 0; i < 5; i++) {
		longest_ns = unlocks = 0;
		counting = true;
		look();
		counting = false;
		best_ns = min_u64(best_ns, longest_ns);
	}
	return best_ns;
}

static unsigned found;

static void look_at_keys(void)
{
	found = gate_stats_keys(m, NULL, top, KEYS);
}

static void reset(void)
{
	gate_stats_reset(w.gate);
}

START_TEST(a_look_at_many_keys_holds_the_gate_for_a_moment_at_a_time)
{
	up();
	uint64_t ns = held_ns(look_at_keys);
	printf("# %d keys: held for at most %.3f ms at a time\n", KEYS, (double)ns / MS);
	ck_assert_uint_eq(found, KEYS - 1); /* the first one did not have to wait */
	ck_assert_uint_ge(unlocks, KEYS / 256);
	ck_assert_uint_lt(ns, HELD_MS * MS);
	down();
}
END_TEST

START_TEST(a_reset_of_many_keys_holds_the_gate_for_less_than_a_millisecond)
{
	up();
	uint64_t ns = held_ns(reset);
	printf("# reset of %d keys: held for %.3f ms\n", KEYS, (double)ns / MS);
	ck_assert_uint_lt(ns, HELD_MS * MS);
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

UNIT_MAIN("gate_look", a_look_at_many_keys_holds_the_gate_for_a_moment_at_a_time,
	  a_reset_of_many_keys_holds_the_gate_for_less_than_a_millisecond,
	  each_key_is_seen_once_and_with_its_own_figures)
