/* SPDX-License-Identifier: MIT */
/* One thread per mount that runs every few milliseconds while requests arrive, and sleeps
 * otherwise.  Its ticks are longer while they have little to do: each of them may take the CPU of a client, which then moves
 * to another CPU, and with io_uring to another ring.  It adds receive threads when all are stuck in the source, makes one carry out the jobs of workers that cannot
 * be started, sends delayed refusals, checks callers that got a signal while parked (first when the kernel sends INTERRUPT,
 * then repeatedly, since the kernel sends no second one when a fatal signal follows), and closes what is no longer used.
 *
 * Nothing here may take long, whatever clients do: killed processes wait for it. */
#include <errno.h>
#include <time.h>

#include "fs/mount_internal.h"

#define TICK_NS		 (5 * NSEC_PER_MSEC)
#define LONG_TICK_NS	 (25 * NSEC_PER_MSEC)
#define DUE_NS		 NSEC_PER_MSEC	    /* per tick, for checks that can be postponed */
#define DELAYED_PER_TICK 256		    /* slightly more than can arrive in a tick */
#define IDLE_NS		 NSEC_PER_SEC	    /* it sleeps after this time without a request */
#define SWEEP_NS	 (5 * NSEC_PER_SEC) /* what is not used for two sweeps is closed */

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};
}

/* Waits for the tick that follows the one at `ns`, or until a caller has to be checked.  False: stop. */
static bool wait_for_tick(struct fs_mount *m, uint64_t ns)
{
	/* Ring threads never hang in the source, so there is no hurry to add receivers.  Whoever adds something to
	 * check adds it first, then looks at watchdog_dozes. */
	bool dozes = atomic_load_explicit(&m->uses_uring, memory_order_relaxed);
	atomic_store(&m->watchdog_dozes, dozes);
	if (dozes && parked_watches(m))
		atomic_store(&m->watchdog_dozes, false);
	pthread_mutex_lock(&m->watchdog_lock);
	int rc = 0;
	while (!m->watchdog_stop && !m->watchdog_look && rc != ETIMEDOUT) {
		struct timespec until = timespec_of(
			ns + (atomic_load(&m->watchdog_dozes) ? LONG_TICK_NS : TICK_NS));
		rc = pthread_cond_timedwait(&m->watchdog_cond, &m->watchdog_lock, &until);
	}
	m->watchdog_look = false;
	bool go_on = !m->watchdog_stop;
	pthread_mutex_unlock(&m->watchdog_lock);
	return go_on;
}

/* Closes what is no longer used, if that is due.  True: call again later. */
static bool sweep(struct fs_mount *m, uint64_t *due_ns)
{
	if (monotonic_ns() < *due_ns)
		return true;
	*due_ns = monotonic_ns() + SWEEP_NS;
	bool stuck = receivers_all_stuck(m), surplus = rings_sweep(m);
	return fs_close_idle(m->fs) || stuck || surplus;
}

/* Sleeps while there is nothing to do.  Call with watchdog_lock held. */
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

/* Sleeps until a request arrives; false: stop. */
static bool rest(struct fs_mount *m, uint64_t begun, uint64_t *sweep_ns)
{
	receivers_rest(m);
	if (!watchdog_lies_down(m, begun) || parked_watches(m))
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
	uint64_t before = 0, sweep_ns = 0, tick_ns = 0, arrived_ns = monotonic_ns();
	bool complete = true;
	for (;;) {
		uint64_t now_ns = monotonic_ns(), due_until_ns = 0;
		if (now_ns >= arrived_ns + IDLE_NS && complete && !parked_watches(m)) {
			if (!rest(m, before, &sweep_ns))
				return NULL;
			arrived_ns = now_ns = monotonic_ns();
		}
		if (now_ns >= tick_ns + TICK_NS) {
			tick_ns = now_ns;
			due_until_ns = now_ns + DUE_NS;
			uint64_t begun = receivers_begun(m);
			arrived_ns = begun == before ? arrived_ns : now_ns;
			complete = receivers_adapt(m, begun - before);
			before = begun;
			runners_note(m, now_ns);
			delayed_answer(m, now_ns, DELAYED_PER_TICK);
			sweep(m, &sweep_ns);
		}
		if (atomic_load(&m->stranded))
			receivers_call_stand_in(m);
		if (parked_look(m, due_until_ns, tick_ns + TICK_NS))
			watchdog_look(m); /* after the tick that is due now */
		if (!wait_for_tick(m, tick_ns))
			return NULL;
	}
}

void watchdog_init(struct fs_mount *m)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&m->watchdog_lock, NULL);
	pthread_cond_init(&m->watchdog_cond, &attr);
	pthread_condattr_destroy(&attr);
}

void watchdog_destroy(struct fs_mount *m)
{
	pthread_mutex_destroy(&m->watchdog_lock);
	pthread_cond_destroy(&m->watchdog_cond);
}

int watchdog_start(struct fs_mount *m)
{
	int rc = pthread_create(&m->watchdog, NULL, watchdog_main, m);
	m->watchdog_started = rc == 0;
	return -rc;
}

void watchdog_wake(struct fs_mount *m)
{
	if (!atomic_load(&m->watchdog_sleeps) || !atomic_exchange(&m->watchdog_sleeps, false))
		return;
	pthread_mutex_lock(&m->watchdog_lock);
	pthread_cond_signal(&m->watchdog_cond);
	pthread_mutex_unlock(&m->watchdog_lock);
}

void watchdog_hurry(struct fs_mount *m)
{
	watchdog_wake(m);
	if (!atomic_load(&m->watchdog_dozes) || !atomic_exchange(&m->watchdog_dozes, false))
		return;
	pthread_mutex_lock(&m->watchdog_lock);
	pthread_cond_signal(&m->watchdog_cond);
	pthread_mutex_unlock(&m->watchdog_lock);
}

void watchdog_look(struct fs_mount *m)
{
	pthread_mutex_lock(&m->watchdog_lock);
	m->watchdog_look = true;
	atomic_store(&m->watchdog_sleeps, false);
	pthread_cond_signal(&m->watchdog_cond);
	pthread_mutex_unlock(&m->watchdog_lock);
}

void watchdog_strand(void *mount)
{
	struct fs_mount *m = mount;
	atomic_store(&m->stranded, true);
	watchdog_look(m);
}

void watchdog_ask_to_stop(struct fs_mount *m)
{
	if (!m->watchdog_started)
		return;
	pthread_mutex_lock(&m->watchdog_lock);
	m->watchdog_stop = true;
	pthread_cond_signal(&m->watchdog_cond);
	pthread_mutex_unlock(&m->watchdog_lock);
}

void watchdog_stop(struct fs_mount *m)
{
	if (!m->watchdog_started)
		return;
	watchdog_ask_to_stop(m);
	pthread_join(m->watchdog, NULL);
	m->watchdog_started = false;
}
