/* SPDX-License-Identifier: MIT */
/* Threads that run admitted jobs.  The pool grows while jobs are ready and every thread has been
 * stuck in one for a few milliseconds (the backing filesystem blocks), up to a bound, and shrinks
 * when idle.  workers_dispatch has the shape that gate_new wants. */
#ifndef SCHED_WORKERS_H
#define SCHED_WORKERS_H

#include "base/list.h"

struct workers;

/* thread_start (may be NULL) runs first on every thread: per-thread set-up of the fs layer. */
struct workers *workers_new(unsigned min, unsigned max, void (*thread_start)(void *ctx), void *ctx);
void workers_dispatch(void *workers, struct list *ready); /* of struct job, by ->link */
/* Runs what is queued, then ends the threads. */
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
