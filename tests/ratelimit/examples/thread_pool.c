/* SPDX-License-Identifier: MIT */
/* Eight threads behind a bulkhead that admits three of them at a time: whoever is not admitted does
 * something else instead of waiting.
 *
 *	cc thread_pool.c $(pkg-config --cflags --libs libratelimit) -pthread -o thread_pool
 */
#include <pthread.h>
#include <ratelimit/ratelimit.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 8
#define JOBS	200 /* of each thread */
#define LIMIT	3

static struct ratelimit_bulkhead *bulkhead;
static _Atomic int inside, most;
static _Atomic int failures_seen;

static void listen(void *data, const struct ratelimit_bulkhead_event *event)
{
	if (event->kind == RATELIMIT_BULKHEAD_ENDED && event->outcome == RATELIMIT_FAILURE)
		atomic_fetch_add((_Atomic int *)data, 1);
}

/* What must not run more than LIMIT times concurrently; every tenth fails. */
static enum ratelimit_outcome work(int job)
{
	int now = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most);
	while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
		;
	sched_yield();
	atomic_fetch_sub(&inside, 1);
	return job % 10 == 0 ? RATELIMIT_FAILURE : RATELIMIT_SUCCESS;
}

static void *thread(void *arg)
{
	struct ratelimit_admission admission = RATELIMIT_ADMISSION_INIT;
	for (int job = 0; job < JOBS; job++) {
		while (ratelimit_bulkhead_enter(bulkhead, &admission) < 0)
			sched_yield(); /* refused: time for other work */
		ratelimit_bulkhead_leave(&admission, work(job));
	}
	return arg;
}

int main(void)
{
	struct ratelimit_bulkhead_listener listener = {listen, &failures_seen};
	if (ratelimit_bulkhead_new(&bulkhead, LIMIT, &listener, 1) < 0)
		return 1;
	pthread_t t[THREADS];
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, thread, NULL) != 0)
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	struct ratelimit_bulkhead_state s;
	ratelimit_bulkhead_look(bulkhead, &s);
	printf("admitted %llu, succeeded %llu, failed %llu, most at a time %s\n",
	       (unsigned long long)s.admitted, (unsigned long long)s.succeeded,
	       (unsigned long long)s.failed,
	       atomic_load(&most) <= LIMIT ? "within the limit" : "TOO MANY");
	int right = s.admitted == THREADS * JOBS && s.in_flight == 0 &&
		    s.failed == (uint64_t)atomic_load(&failures_seen);
	ratelimit_bulkhead_free(bulkhead);
	return right ? 0 : 1;
}
