/* SPDX-License-Identifier: MIT */
/* The threads that run the admitted jobs of one mount.  Each mount has a pool of its own: jobs that
 * hang in one mount's backing filesystem hold no thread that another mount needs.
 *
 * Threads start when there is work for them.  The pool grows while jobs are ready and every thread
 * has been stuck in one for a few milliseconds (the backing filesystem blocks), up to a bound, and
 * threads that have been idle for a while leave.  An idle pool has none. */
#ifndef SCHED_WORKERS_H
#define SCHED_WORKERS_H

#include <stdbool.h>

#include "base/list.h"

struct workers;

/* What the layer above does at the start and the end of every thread; each may be NULL.  A thread whose
 * start fails is missing, until jobs need another. */
struct workers_hooks {
	bool (*thread_start)(void *ctx);
	void (*thread_stop)(void *ctx); /* also after a start that failed */
	void *ctx;
};

struct workers *workers_new(unsigned max, const struct workers_hooks *hooks);
/* Gives each job (struct job, by ->link) to the pool that it names.  Has the shape that gate_new
 * wants. */
void workers_dispatch(void *unused, struct list *ready);
unsigned workers_queued(struct workers *w); /* jobs that no thread has taken yet */
/* Runs what is queued on the calling thread: for jobs that will be refused, while all threads hang. */
void workers_run_queued(struct workers *w);
/* Runs what is queued, then ends the threads.  Waits for those that are in a job. */
void workers_free(struct workers *w);

/* The real clock and the thread that steps the gate when it is due (absolute timerfd). */
struct gate;
struct clock;
struct stepper;
struct stepper *stepper_new(void);
const struct clock *stepper_clock(struct stepper *s);
int stepper_start(struct stepper *s, struct gate *g); /* 0 or -errno */
/* After the workers and the last mount, whose ends read the clock; before the gate. */
void stepper_free(struct stepper *s);

#endif
