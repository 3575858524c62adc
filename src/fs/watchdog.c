/* SPDX-License-Identifier: MIT */
/* One thread per mount that looks every few milliseconds while requests come, and sleeps when none
 * do: adds receive threads when all are stuck in the backing filesystem, answers those whose
 * refusal was held back, looks again at callers that got a signal while parked, since the kernel
 * sends no second INTERRUPT when a fatal one follows, and closes what is not used any more. */
#include <errno.h>
#include <time.h>

#include "fs/mount_internal.h"

#define TICK_NS	      (5 * NSEC_PER_MSEC)
#define RECHECK_EVERY 4			 /* ticks: 20 ms until a killed caller is seen */
#define IDLE_AFTER    200		 /* ticks without a request: one second */
#define SWEEP_NS      (5 * NSEC_PER_SEC) /* what is not used in two sweeps is closed */

static uint64_t served_total(const struct fs_mount *m)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		sum += atomic_load_explicit(&m->receiver[i].served, memory_order_relaxed) +
		       (atomic_load_explicit(&m->receiver[i].current, memory_order_relaxed) != 0);
	return sum;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};
}

/* Sleeps a tick; false: stop. */
static bool tick(struct fs_mount *m)
{
	struct timespec until = timespec_of(mount_now_ns() + TICK_NS);
	pthread_mutex_lock(&m->watchdog_lock);
	int rc = 0;
	while (!m->watchdog_stop && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&m->watchdog_cond, &m->watchdog_lock, &until);
	bool go_on = !m->watchdog_stop;
	pthread_mutex_unlock(&m->watchdog_lock);
	return go_on;
}

/* True: it was time, and another time will come. */
static bool sweep(struct fs_mount *m, uint64_t *due_ns)
{
	if (mount_now_ns() < *due_ns)
		return true;
	*due_ns = mount_now_ns() + SWEEP_NS;
	return fs_close_idle(m->fs);
}

/* Sleeps for as long as nothing is to be done.  watchdog_lock is held. */
static void sleep_locked(struct fs_mount *m, uint64_t *sweep_ns)
{
	bool more = true;
	while (atomic_load(&m->watchdog_sleeps) && !m->watchdog_stop) {
		struct timespec until = timespec_of(*sweep_ns);
		if (!more) {
			pthread_cond_wait(&m->watchdog_cond, &m->watchdog_lock);
		} else if (pthread_cond_timedwait(&m->watchdog_cond, &m->watchdog_lock, &until) ==
			   ETIMEDOUT) {
			pthread_mutex_unlock(&m->watchdog_lock);
			more = sweep(m, sweep_ns);
			pthread_mutex_lock(&m->watchdog_lock);
		}
	}
}

/* Sleeps until a request comes; false: stop. */
static bool rest(struct fs_mount *m, uint64_t served, uint64_t *sweep_ns)
{
	atomic_store(&m->receivers_wanted, m->receivers_base);
	atomic_store(&m->watchdog_sleeps, true);
	/* Who came just before could not see that: look again. */
	if (served_total(m) != served || parked_watches(m))
		atomic_store(&m->watchdog_sleeps, false);
	pthread_mutex_lock(&m->watchdog_lock);
	sleep_locked(m, sweep_ns);
	bool go_on = !m->watchdog_stop;
	pthread_mutex_unlock(&m->watchdog_lock);
	return go_on;
}

static void *watchdog_main(void *arg)
{
	struct fs_mount *m = arg;
	uint64_t before = 0, sweep_ns = 0;
	unsigned idle = 0, ticks = 0;
	bool watching = false;
	for (;;) {
		if (idle >= IDLE_AFTER && !watching) {
			if (!rest(m, before, &sweep_ns))
				return NULL;
			idle = 0;
		}
		if (!tick(m))
			return NULL;
		uint64_t now = served_total(m);
		idle = now == before ? idle + 1 : 0;
		before = now;
		receivers_adapt(m);
		late_answer(m, mount_now_ns());
		if (++ticks % RECHECK_EVERY == 0)
			watching = parked_recheck(m);
		sweep(m, &sweep_ns);
	}
}

int watchdog_start(struct fs_mount *m)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&m->watchdog_lock, NULL);
	pthread_cond_init(&m->watchdog_cond, &attr);
	pthread_condattr_destroy(&attr);
	int rc = pthread_create(&m->watchdog, NULL, watchdog_main, m);
	m->watchdog_started = rc == 0;
	return -rc;
}

void watchdog_wake(struct fs_mount *m)
{
	if (!atomic_exchange(&m->watchdog_sleeps, false))
		return;
	pthread_mutex_lock(&m->watchdog_lock);
	pthread_cond_signal(&m->watchdog_cond);
	pthread_mutex_unlock(&m->watchdog_lock);
}

void watchdog_stop(struct fs_mount *m)
{
	if (!m->watchdog_started)
		return;
	pthread_mutex_lock(&m->watchdog_lock);
	m->watchdog_stop = true;
	pthread_cond_signal(&m->watchdog_cond);
	pthread_mutex_unlock(&m->watchdog_lock);
	pthread_join(m->watchdog, NULL);
	m->watchdog_started = false;
	pthread_mutex_destroy(&m->watchdog_lock);
	pthread_cond_destroy(&m->watchdog_cond);
}
