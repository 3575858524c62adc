/* SPDX-License-Identifier: MIT */
/* The threads that run the admitted jobs of one mount.  Each mount has a pool of its own, so that
 * jobs that hang in the source of one mount do not occupy threads that another mount needs.
 *
 * Threads are started when there is work.  The pool grows, up to a bound, while jobs are queued and
 * every thread has been busy with one job for a few milliseconds, presumably blocked in the source.
 * Threads that have been idle for a while exit; an idle pool has none, except those that serve somebody else (hooks). */
#ifndef SCHED_WORKERS_H
#define SCHED_WORKERS_H

#include <stdbool.h>

#include "base/list.h"

struct job;
struct workers;

/* Each may be NULL.  A thread whose start fails exits, and is replaced when jobs need it. */
struct workers_hooks {
	bool (*thread_start)(void *ctx);
	void (*thread_stop)(void *ctx); /* called even if thread_start failed */
	/* Called by a thread before it takes a job.  It may work for somebody else, as long as it likes: jobs are then left to
	 * other threads.  False: it had nothing to do. */
	bool (*serve)(void *ctx);
	/* Jobs are queued, the pool has no thread that takes them, and none can be started.  Makes another thread call
	 * workers_run_queued; must not block.  Called again every few milliseconds until the jobs have been taken. */
	void (*stranded)(void *ctx);
	void *ctx;
};

struct workers *workers_new(unsigned max, const struct workers_hooks *hooks);
/* Passes each job (struct job, linked by ->link) to the pool that it names.  Has the signature
 * that gate_new expects. */
void workers_dispatch(void *unused, struct list *ready);
/* Takes an admitted job back from its pool.  False: a thread has taken it, or it has not reached the pool yet. */
bool workers_cancel(struct job *j);
unsigned workers_queued(struct workers *w); /* jobs that no thread has taken yet */
/* Runs queued jobs on the calling thread: for jobs that will be refused while all threads hang, or that are stranded. */
void workers_run_queued(struct workers *w);
/* Runs what is queued, then ends the threads.  Waits for running jobs. */
void workers_free(struct workers *w);

#endif
