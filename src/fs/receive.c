/* SPDX-License-Identifier: MIT */
/* The receive threads of a mount: each reads a message, admits it, and in the common case carries
 * it out and replies itself, so that a request costs one wake-up.
 *
 * An idle mount has two: one for a request, and one that receives an interrupt of that request.
 * While requests arrive, there are a few more threads than CPUs, and the kernel's scheduler places
 * them.  (One thread pinned to each CPU would seem better if the CPU of the client were known.  But
 * the kernel wakes the thread that has waited longest, on any CPU, and a client that stays on its
 * own CPU then pays two wake-ups across CPUs for every other request.  With many more threads,
 * buffers would be cold.)  While all of them are stuck in the source, the watchdog adds more; these
 * exit when they are no longer needed.  libfuse's own loop is not used: it allocates memory for
 * each request, and starts threads by load, not by need. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "fs/mount_internal.h"
#include "fs/status.h"

#define CALM_TICKS     200
#define RETRY_TICKS    20
#define MORE_THAN_CPUS 8
#define STUCK_TICKS    10
#define RESTING	       2
#define LIVELY	       4  /* requests per tick from which more receivers than at rest pay off */
#define REST_ROUNDS    10 /* a kick may arrive before its receiver starts to read */
#define REST_NAP_NS    NSEC_PER_MSEC

static _Thread_local struct receiver *self;

struct receiver *receiver_self(void)
{
	return self;
}

void receiver_become(struct receiver *r)
{
	self = r;
}

void connection_ended(struct fs_mount *m)
{
	atomic_store(&m->ended, true);
	if (!atomic_exchange(&m->ended_once, true) && m->on_end)
		m->on_end(m, m->on_end_ctx);
}

bool receiver_is_surplus(const struct receiver *r)
{
	const struct fs_mount *m = r->mount;
	return (unsigned)(r - m->receiver) >=
	       atomic_load_explicit(&m->receivers_wanted, memory_order_relaxed);
}

/* A receiver that has just read a message waits for a signal that is on its way before it handles
 * the message. */
void receiver_let_kick_come(struct receiver *r)
{
	while (atomic_load_explicit(&r->kick, memory_order_seq_cst) == KICK_SENT)
		sched_yield();
}

#define STANDING_IN UINT64_MAX /* in place of the number of a request */

/* Only one does, and may hang in the source: the others go on to read messages. */
void receiver_stand_in(struct receiver *r)
{
	struct fs_mount *m = r->mount;
	if (atomic_exchange(&m->stands_in, true))
		return;
	atomic_store(&m->stranded, false);
	if (receiver_begins(r, STANDING_IN))
		watchdog_wake(m);
	receiver_let_kick_come(r);
	workers_run_queued(m->workers);
	rings_run_queued(m);
	receiver_ends(r);
	atomic_store(&m->stands_in, false);
}

static void *receiver_main(void *arg)
{
	struct receiver *r = arg;
	self = r;
	runner_self = &r->runner;
	atomic_store(&r->tid, gettid());
	if (fs_thread_start())
		dev_serve(r);
	fs_thread_stop();
	atomic_store(&r->state, RECEIVER_ENDED);
	return NULL;
}

static int start_one(struct fs_mount *m, unsigned i)
{
	struct receiver *r = &m->receiver[i];
	if (atomic_load(&r->state) == RECEIVER_ENDED)
		pthread_join(r->thread, NULL);
	r->mount = m;
	atomic_store(&r->kick, KICK_NONE);
	atomic_store(&r->tid, 0);
	atomic_store(&r->state, RECEIVER_STARTING);
	int rc = pthread_create(&r->thread, NULL, receiver_main, r);
	int starting = RECEIVER_STARTING; /* if it is not, the thread has ended already */
	atomic_compare_exchange_strong(&r->state, &starting, rc ? RECEIVER_UNUSED : RECEIVER_ALIVE);
	return -rc;
}

static void on_kick(int sig)
{
	/* Makes read() return. */
	if (self)
		atomic_store(&self->kick, KICK_CAME);
}

/* The kicking thread announces the kick, then checks whether the receiver handles a message; the
 * receiver announces its message, then checks whether a kick is on its way.  All four accesses are
 * sequentially consistent: so either the receiver is not kicked, or it waits for the signal before
 * it enters the source. */
static void kick(struct receiver *r)
{
	int kick = atomic_load(&r->kick);
	if (kick == KICK_SENT || !atomic_compare_exchange_strong(&r->kick, &kick, KICK_SENT))
		return; /* another thread kicks it */
	if (atomic_load(&r->current) || pthread_kill(r->thread, SIGUSR2) != 0)
		atomic_store(&r->kick, KICK_NONE);
}

void receivers_call_stand_in(struct fs_mount *m)
{
	for (unsigned i = 0; i < RECEIVERS_MAX && !atomic_load(&m->stands_in); i++)
		if (atomic_load(&m->receiver[i].state) == RECEIVER_ALIVE &&
		    !atomic_load(&m->receiver[i].current)) {
			kick(&m->receiver[i]);
			break;
		}
}

int receivers_start(struct fs_mount *m)
{
	struct sigaction sa = {.sa_handler = on_kick};
	sigaction(SIGUSR2, &sa, NULL);

	cpu_set_t allowed;
	unsigned cpus = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
				? (unsigned)CPU_COUNT(&allowed)
				: 1;
	m->receivers_busy = (unsigned)min_u64(cpus + MORE_THAN_CPUS, RECEIVERS_MAX / 4);
	m->receivers_floor = RESTING;
	atomic_store(&m->receivers_wanted, RESTING);
	int rc = 0;
	for (unsigned i = 0; i < RESTING && rc == 0; i++)
		rc = start_one(m, i);
	return rc;
}

bool receivers_have_served(const struct fs_mount *m)
{
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		if (atomic_load_explicit(&m->receiver[i].served, memory_order_relaxed))
			return true;
	return false;
}

static void start_missing(struct fs_mount *m, unsigned wanted)
{
	for (unsigned i = 0; i < wanted; i++)
		if (atomic_load(&m->receiver[i].state) != RECEIVER_ALIVE && start_one(m, i) < 0)
			break;
}

/* Many requests arrive: starts the receivers that were stopped at rest. */
static void rouse(struct fs_mount *m)
{
	m->receivers_floor = m->receivers_busy;
	if (atomic_load(&m->receivers_wanted) < m->receivers_floor)
		atomic_store(&m->receivers_wanted, m->receivers_floor);
	start_missing(m, m->receivers_floor);
}

/* If all receivers have been stuck since the last tick, doubles their number; if not all have been
 * stuck for a second, halves it.  Starts receivers again that could not start before, for lack of
 * memory. */
bool receivers_adapt(struct fs_mount *m, uint64_t came)
{
	unsigned stuck = 0, alive = 0;
	bool few = atomic_load_explicit(&m->uses_uring, memory_order_relaxed);
	if (came >= LIVELY && m->receivers_floor < m->receivers_busy && !few)
		rouse(m);
	unsigned wanted = atomic_load(&m->receivers_wanted);
	for (unsigned i = 0; i < RECEIVERS_MAX; i++) {
		struct receiver *r = &m->receiver[i];
		if (atomic_load(&r->state) != RECEIVER_ALIVE)
			continue;
		alive++;
		uint64_t served = atomic_load_explicit(&r->served, memory_order_relaxed);
		if (atomic_load_explicit(&r->current, memory_order_relaxed) &&
		    served == r->served_before)
			stuck++;
		r->served_before = served;
	}
	if (stuck < alive || alive == 0) {
		m->stuck_ticks = 0;
		if (++m->calm_ticks >= CALM_TICKS && wanted > m->receivers_floor) {
			m->calm_ticks = 0;
			atomic_store(&m->receivers_wanted,
				     (unsigned)max_u64(wanted / 2, m->receivers_floor));
		}
		bool all = alive >= m->receivers_floor || atomic_load(&m->ended) ||
			   atomic_load(&m->stopping);
		if (!all && m->calm_ticks % RETRY_TICKS == 0)
			start_missing(m, m->receivers_floor);
		return all;
	}
	m->calm_ticks = 0;
	/* No thread is left that would receive an interrupt.  Requests that are parked later follow a tick in which not all
	 * are stuck. */
	if (wanted == RECEIVERS_MAX && ++m->stuck_ticks == STUCK_TICKS)
		parked_watch_all(m);
	unsigned target = wanted * 2 > RECEIVERS_MAX ? RECEIVERS_MAX : wanted * 2;
	atomic_store(&m->receivers_wanted, target);
	start_missing(m, target);
	return true;
}

/* Kicks the receivers beyond those at rest.  True: there were some. */
static bool kick_surplus(struct fs_mount *m)
{
	bool any = false;
	for (unsigned i = RESTING; i < RECEIVERS_MAX; i++) {
		struct receiver *r = &m->receiver[i];
		if (atomic_load(&r->state) != RECEIVER_ALIVE)
			continue;
		kick(r);
		any = true;
	}
	return any;
}

static bool any_runs(const struct fs_mount *m)
{
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		if (atomic_load(&m->receiver[i].current))
			return true;
	return false;
}

/* The receivers that remain could be stuck in the source, with none left to read messages.  So none
 * is stopped while any receiver handles a request. */
void receivers_rest(struct fs_mount *m)
{
	const struct timespec nap = {.tv_nsec = REST_NAP_NS};
	if (any_runs(m))
		return;
	m->receivers_floor = RESTING;
	atomic_store(&m->receivers_wanted, RESTING);
	for (unsigned i = 0; i < REST_ROUNDS && kick_surplus(m); i++)
		nanosleep(&nap, NULL);
}

static bool is_there(const struct receiver *r)
{
	int state = atomic_load(&r->state);
	return state == RECEIVER_STARTING || state == RECEIVER_ALIVE;
}

unsigned receivers_alive(const struct fs_mount *m)
{
	unsigned n = 0;
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		n += is_there(&m->receiver[i]);
	return n;
}

/* Does not kick receivers that are in the source: a signal could make the call fail. */
unsigned receivers_kick(struct fs_mount *m)
{
	unsigned n = 0;
	for (unsigned i = 0; i < RECEIVERS_MAX; i++) {
		struct receiver *r = &m->receiver[i];
		if (!is_there(r) || atomic_load(&r->runner.opcode))
			continue;
		if (atomic_load(&r->state) == RECEIVER_ALIVE)
			kick(r);
		n++;
	}
	return n;
}

bool receivers_all_stuck(struct fs_mount *m)
{
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		if (is_there(&m->receiver[i]) && !atomic_load(&m->receiver[i].runner.opcode))
			return false;
	struct pollfd connection = {.fd = m->fd};
	if (poll(&connection, 1, 0) > 0 && (connection.revents & POLLERR) &&
	    !atomic_load(&m->stopping))
		connection_ended(m);
	return true;
}

/* False: it may have read a message that a file was forgotten, and not have handled it yet.  A receiver announces a message only
 * when it runs, which on a busy machine may be long after it has got the message: until then it has announced none, but does
 * not sleep either. */
static bool has_caught_up(const struct receiver *r)
{
	pid_t tid = atomic_load(&r->tid);
	if (!is_there(r) || !tid)
		return true;
	if (!atomic_load(&r->current)) {
		char state = status_of_thread(tid);
		if (state && state != 'S')
			return false;
		if (!atomic_load(&r->current))
			return true;
	}
	uint32_t opcode = atomic_load(&r->runner.opcode);
	return opcode && opcode != FUSE_FORGET + 1 && opcode != FUSE_BATCH_FORGET + 1;
}

bool receivers_are_behind(struct fs_mount *m, uint64_t *unsure)
{
	struct pollfd dev = {.fd = m->fd, .events = POLLIN};
	if (poll(&dev, 1, 0) == 1 && dev.revents == POLLIN) {
		*unsure = UINT64_MAX;
		return true;
	}
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		if ((*unsure & 1ULL << i) && has_caught_up(&m->receiver[i]))
			*unsure &= ~(1ULL << i);
	return *unsure;
}

void receivers_join(struct fs_mount *m)
{
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
		if (atomic_exchange(&m->receiver[i].state, RECEIVER_UNUSED) != RECEIVER_UNUSED)
			pthread_join(m->receiver[i].thread, NULL);
}
