/* SPDX-License-Identifier: MIT */
/* Going to sleep while requests come, on two real threads: whether a store may pass a load shows only
 * there. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "fs/mount_internal.h"
#include "unit/unit.h"

#define ROUNDS 20000
#define SPINS  20000 /* then the other thread has no CPU */

static struct fs_mount *m;
static struct receiver *r;
static _Atomic int at[2]; /* how far each thread is */
static bool woke;

/* Both go on at the same moment, as nearly as can be had. */
static void meet(int me, int point)
{
	atomic_store(&at[me], point);
	for (unsigned spins = 0; atomic_load(&at[!me]) < point; spins++)
		if (spins > SPINS)
			sched_yield();
}

/* What it reads is in its cache before the round begins, what it writes is in that of the other thread:
 * the store takes longer than the load that follows. */
static void *receiver(void *arg)
{
	for (int i = 1; i <= ROUNDS; i++) {
		meet(0, 3 * i);
		(void)atomic_load(&m->watchdog_sleeps);
		meet(0, 3 * i + 1);
		woke = receiver_begins(r, (uint64_t)i);
		meet(0, 3 * i + 2);
	}
	return arg;
}

START_TEST(a_request_wakes_the_watchdog_or_keeps_it_from_sleeping)
{
	pthread_t t;
	int missed = 0;
	m = aligned_alloc(CACHE_LINE, sizeof(*m));
	memset(m, 0, sizeof(*m));
	r = &m->receiver[0];
	r->mount = m;
	ck_assert_int_eq(pthread_create(&t, NULL, receiver, NULL), 0);
	for (int i = 1; i <= ROUNDS; i++) {
		atomic_store(&m->watchdog_sleeps, false);
		meet(1, 3 * i);
		atomic_store(&r->current, 0);
		meet(1, 3 * i + 1);
		for (volatile int pause = i % 64; pause > 0; pause--)
			;
		bool sleeps = watchdog_lies_down(m, 0);
		meet(1, 3 * i + 2);
		missed += sleeps && !woke;
	}
	pthread_join(t, NULL);
	free(m);
	ck_assert_int_eq(missed, 0);
}
END_TEST

UNIT_MAIN("watchdog", a_request_wakes_the_watchdog_or_keeps_it_from_sleeping)
