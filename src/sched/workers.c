/* SPDX-License-Identifier: MIT */
/* The executor pool.
 *
 * A batch wakes no more threads than there are CPUs to run them.  Where that is too few because
 * threads are stuck in the backing filesystem, the watcher notices: it sleeps while nothing is
 * queued, else looks every couple of milliseconds whether the oldest job waits although fewer
 * threads than CPUs are getting on, and then adds one.  Extra threads leave when idle. */
#include "sched/workers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "base/log.h"
#include "sched/job.h"
#include "sched/thread.h"

#define STUCK_NS    (2 * NSEC_PER_MSEC)
#define LINGER_NS   (10 * NSEC_PER_SEC)
#define QUIET_LOOKS 3 /* the watcher goes to sleep after so many without a queue */

struct worker {
	struct list link; /* in workers->all or ->dead */
	struct list idle; /* in workers->idle */
	struct workers *pool;
	pthread_t thread;
	pthread_cond_t wake;
	bool woken;
	uint64_t since_ns; /* of the job it runs; 0: none */
};

struct workers {
	void (*thread_start)(void *ctx);
	void *ctx;
	unsigned min, max, cpus;

	pthread_mutex_t lock; /* of all below */
	struct list queue;    /* of struct job */
	uint64_t queued, started;
	struct list all, dead, idle; /* idle: most recent first */
	unsigned n_all, n_idle, n_starting;
	bool stop;

	pthread_t watcher;
	pthread_cond_t watch;
	bool watching;
};

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* False when the time is up. */
static bool wait_for(struct workers *w, pthread_cond_t *c, uint64_t ns)
{
	uint64_t until = now_ns() + ns;
	struct timespec ts = {.tv_sec = (time_t)(until / NSEC_PER_SEC),
			      .tv_nsec = (long)(until % NSEC_PER_SEC)};
	return pthread_cond_timedwait(c, &w->lock, &ts) != ETIMEDOUT;
}

static void cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

/* --- a worker --- */

/* False: idle for so long that it should leave. */
static bool wait_for_work(struct workers *w, struct worker *me)
{
	bool in_time = true;
	me->woken = false;
	list_push_head(&w->idle, &me->idle);
	w->n_idle++;
	while (!me->woken && !w->stop && in_time)
		in_time = wait_for(w, &me->wake, LINGER_NS);
	if (!me->woken) {
		list_remove(&me->idle);
		w->n_idle--;
	}
	return me->woken || w->stop || w->n_all <= w->min;
}

static void run_one(struct workers *w, struct worker *me)
{
	struct job *j = list_first(&w->queue, struct job, link);
	list_remove(&j->link);
	w->queued--;
	w->started++;
	me->since_ns = now_ns();
	pthread_mutex_unlock(&w->lock);
	j->ops->run(j);
	pthread_mutex_lock(&w->lock);
	me->since_ns = 0;
}

static void *work(void *arg)
{
	struct worker *me = arg;
	struct workers *w = me->pool;
	if (w->thread_start)
		w->thread_start(w->ctx);
	pthread_mutex_lock(&w->lock);
	w->n_starting--;
	for (;;) {
		if (!list_empty(&w->queue))
			run_one(w, me);
		else if (w->stop || !wait_for_work(w, me))
			break;
	}
	list_remove(&me->link);
	list_push_tail(&w->dead, &me->link);
	w->n_all--;
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Lock held. */
static bool add_thread(struct workers *w)
{
	struct worker *me = calloc(1, sizeof(*me));
	if (!me)
		return false;
	me->pool = w;
	list_init(&me->idle);
	cond_init(&me->wake);
	if (thread_spawn(&me->thread, "ratefs-work", work, me) < 0) {
		pthread_cond_destroy(&me->wake);
		free(me);
		return false;
	}
	list_push_tail(&w->all, &me->link);
	w->n_all++;
	w->n_starting++;
	return true;
}

static void wake_one(struct workers *w)
{
	struct worker *idle = list_entry(w->idle.next, struct worker, idle);
	list_remove(&idle->idle);
	w->n_idle--;
	idle->woken = true;
	pthread_cond_signal(&idle->wake);
}

/* Lock held; releases it while joining. */
static void reap(struct workers *w)
{
	while (!list_empty(&w->dead)) {
		struct worker *d = list_first(&w->dead, struct worker, link);
		list_remove(&d->link);
		pthread_mutex_unlock(&w->lock);
		pthread_join(d->thread, NULL);
		pthread_cond_destroy(&d->wake);
		free(d);
		pthread_mutex_lock(&w->lock);
	}
}

/* --- the watcher --- */

/* Threads that are neither idle nor stuck. */
static unsigned getting_on(struct workers *w)
{
	uint64_t now = now_ns();
	unsigned n = w->n_starting;
	list_for_each (it, &w->all) {
		const struct worker *k = list_entry(it, struct worker, link);
		n += k->since_ns && now - k->since_ns < STUCK_NS;
	}
	return n;
}

static void help_out(struct workers *w)
{
	if (getting_on(w) >= w->cpus)
		return;
	if (w->n_idle)
		wake_one(w);
	else if (w->n_all < w->max)
		add_thread(w);
}

static void *watch(void *arg)
{
	struct workers *w = arg;
	unsigned quiet = 0;
	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		uint64_t before = w->started;
		if (w->watching) {
			wait_for(w, &w->watch, STUCK_NS);
			quiet = w->queued ? 0 : quiet + 1;
			w->watching = quiet < QUIET_LOOKS;
			if (w->queued && w->queued > w->started - before)
				help_out(w);
		} else {
			pthread_cond_wait(&w->watch, &w->lock);
		}
		reap(w);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* --- the pool --- */

void workers_dispatch(void *workers, struct list *ready)
{
	struct workers *w = workers;
	unsigned n = 0;
	list_for_each (it, ready)
		n++;
	pthread_mutex_lock(&w->lock);
	list_splice_tail(&w->queue, ready);
	w->queued += n;
	unsigned busy = w->n_all - w->n_idle;
	while (n && w->n_idle && busy < w->cpus) {
		wake_one(w);
		busy++;
		n--;
	}
	if (n && !w->watching) {
		w->watching = true;
		pthread_cond_signal(&w->watch);
	}
	pthread_mutex_unlock(&w->lock);
}

struct workers *workers_new(unsigned min, unsigned max, void (*thread_start)(void *ctx), void *ctx)
{
	struct workers *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->thread_start = thread_start;
	w->ctx = ctx;
	w->min = min ? min : 1;
	w->max = max > w->min ? max : w->min;
	w->cpus = get_nprocs() > 0 ? (unsigned)get_nprocs() : 1;
	pthread_mutex_init(&w->lock, NULL);
	cond_init(&w->watch);
	list_init(&w->queue);
	list_init(&w->all);
	list_init(&w->dead);
	list_init(&w->idle);
	if (thread_spawn(&w->watcher, "ratefs-watch", watch, w) < 0) {
		pthread_cond_destroy(&w->watch);
		pthread_mutex_destroy(&w->lock);
		free(w);
		return NULL;
	}
	pthread_mutex_lock(&w->lock);
	while (w->n_all < w->min && add_thread(w))
		;
	bool any = w->n_all;
	pthread_mutex_unlock(&w->lock);
	if (any)
		return w;
	workers_free(w);
	return NULL;
}

void workers_free(struct workers *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	while (w->n_idle)
		wake_one(w);
	pthread_cond_signal(&w->watch);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->watcher, NULL);
	pthread_mutex_lock(&w->lock);
	while (!list_empty(&w->all)) {
		struct worker *k = list_first(&w->all, struct worker, link);
		pthread_mutex_unlock(&w->lock);
		pthread_join(k->thread, NULL);
		pthread_mutex_lock(&w->lock);
		list_remove(&k->link); /* it moved itself to the dead, whom nobody else joins now */
		pthread_cond_destroy(&k->wake);
		free(k);
	}
	reap(w);
	pthread_mutex_unlock(&w->lock);
	pthread_cond_destroy(&w->watch);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
