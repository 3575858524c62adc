/* SPDX-License-Identifier: MIT */
/* Pools of worker threads.
 *
 * A batch of jobs wakes no more threads than there are CPUs.  If these are stuck in the source, the
 * watcher notices: it sleeps while nothing is queued; otherwise it checks every two milliseconds
 * whether a pool has jobs queued although fewer threads than CPUs are making progress, and adds a
 * thread.  If it cannot, and the pool has none, it asks the owner of the pool to run the jobs (hooks.stranded).
 *
 * One watcher thread serves all pools.  It never runs a job, so it cannot hang, and it alone starts
 * threads: threads that dispatch may be acting as a caller at that moment, and a new thread inherits
 * the identity of its creator.
 *
 * Lock order: watcher_life, watcher.lock, then a pool's. */
#include "sched/workers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "sched/job.h"
#include "sched/thread.h"

#define STUCK_NS    (2 * NSEC_PER_MSEC)
#define LINGER_NS   (10 * NSEC_PER_SEC)
#define QUIET_LOOKS 3 /* the watcher sleeps after this many checks that find nothing queued */

struct worker {
	struct list link; /* in workers->all or ->dead */
	struct list idle; /* in workers->idle */
	struct workers *pool;
	pthread_t thread;
	pthread_cond_t wake;
	bool woken;
	uint64_t since_ns; /* start of its current job; 0: none */
};

struct workers {
	struct workers_hooks hooks;
	unsigned max, cpus;
	struct list link;	 /* in watcher.pools; guarded by watcher.lock */
	uint64_t started_before; /* value of `started` at the watcher's last check */

	pthread_mutex_t lock; /* guards everything below */
	struct list queue;    /* of struct job */
	uint64_t queued, started;
	struct list all, dead, idle; /* idle: most recent first */
	unsigned n_all, n_idle, n_starting;
	unsigned n_serving; /* in hooks.serve: they take no jobs */
	bool unable;	    /* the last attempt to start a thread failed */
	bool stop;
};

static struct {
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t wake;
	struct list pools; /* while there are any, the watcher's thread exists */
	pthread_t thread;
	bool awake;   /* checks periodically */
	bool at_once; /* a pool has work and too few threads: check immediately */
} watcher = {.lock = PTHREAD_MUTEX_INITIALIZER, .pools = LIST_INIT(watcher.pools)};

/* Waits for a signal, for at most `ns`.  False: the time has passed. */
static bool wait_for(pthread_mutex_t *lock, pthread_cond_t *c, uint64_t ns)
{
	uint64_t until = monotonic_ns() + ns;
	struct timespec ts = {.tv_sec = (time_t)(until / NSEC_PER_SEC),
			      .tv_nsec = (long)(until % NSEC_PER_SEC)};
	return pthread_cond_timedwait(c, lock, &ts) != ETIMEDOUT;
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

/* False: the thread was idle for so long that it should exit. */
static bool wait_for_work(struct workers *w, struct worker *me)
{
	bool in_time = true;
	me->woken = false;
	list_push_head(&w->idle, &me->idle);
	w->n_idle++;
	while (!me->woken && !w->stop && in_time)
		in_time = wait_for(&w->lock, &me->wake, LINGER_NS);
	if (!me->woken) {
		list_remove(&me->idle);
		w->n_idle--;
	}
	return me->woken || w->stop;
}

/* False: the thread has nothing else to do. */
static bool serve_locked(struct workers *w)
{
	if (!w->hooks.serve)
		return false;
	w->n_serving++;
	pthread_mutex_unlock(&w->lock);
	bool served = w->hooks.serve(w->hooks.ctx);
	pthread_mutex_lock(&w->lock);
	w->n_serving--;
	return served;
}

static void dequeue_locked(struct workers *w, struct job *j)
{
	list_remove(&j->link);
	j->queued = false;
	w->queued--;
}

static struct job *take_locked(struct workers *w)
{
	struct job *j = list_first(&w->queue, struct job, link);
	if (!j)
		return NULL;
	dequeue_locked(w, j);
	w->started++;
	return j;
}

static void run_locked(struct workers *w, struct worker *me, struct job *j)
{
	me->since_ns = monotonic_ns();
	pthread_mutex_unlock(&w->lock);
	j->ops->run(j);
	pthread_mutex_lock(&w->lock);
	me->since_ns = 0;
}

static void *work(void *arg)
{
	struct worker *me = arg;
	struct workers *w = me->pool;
	bool able = !w->hooks.thread_start || w->hooks.thread_start(w->hooks.ctx);
	pthread_mutex_lock(&w->lock);
	w->n_starting--;
	w->unable = !able;
	while (able) {
		if (serve_locked(w))
			continue;
		struct job *j = take_locked(w);
		if (j)
			run_locked(w, me, j);
		else if (w->stop || !wait_for_work(w, me))
			break;
	}
	list_remove(&me->link);
	list_push_tail(&w->dead, &me->link);
	w->n_all--;
	pthread_mutex_unlock(&w->lock);
	if (w->hooks.thread_stop)
		w->hooks.thread_stop(w->hooks.ctx); /* the pool exists until it has joined us */
	return NULL;
}

/* Call with the lock held. */
static bool add_thread(struct workers *w)
{
	struct worker *me = calloc(1, sizeof(*me));
	if (!me) {
		w->unable = true;
		return false;
	}
	me->pool = w;
	list_init(&me->idle);
	cond_init(&me->wake);
	if (thread_spawn(&me->thread, "ratefs-work", work, me) < 0) {
		pthread_cond_destroy(&me->wake);
		free(me);
		w->unable = true;
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

/* Call with the lock held; releases it while joining. */
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

/* The number of threads that are neither idle nor stuck. */
static unsigned getting_on(struct workers *w)
{
	uint64_t now = monotonic_ns();
	unsigned n = w->n_starting;
	list_for_each (it, &w->all) {
		const struct worker *k = list_entry(it, struct worker, link);
		n += k->since_ns && now - k->since_ns < STUCK_NS;
	}
	return n;
}

static void help_out(struct workers *w)
{
	unsigned wanted = (unsigned)min_u64(w->cpus, w->queued);
	if (w->n_idle && getting_on(w) < w->cpus)
		wake_one(w);
	while (!w->n_idle && w->n_all < w->max && getting_on(w) < wanted && add_thread(w))
		;
}

/* True: the pool has jobs that no thread has taken. */
static bool look_at(struct workers *w)
{
	pthread_mutex_lock(&w->lock);
	bool nobody = w->n_all == w->n_serving; /* nobody takes jobs, unless somebody stands in */
	if (w->queued && (nobody || w->queued > w->started - w->started_before))
		help_out(w);
	w->started_before = w->started;
	bool queued = w->queued;
	/* A thread that is starting may fail to, as the one before it did. */
	bool stranded = queued && w->unable && w->n_all == w->n_serving + w->n_starting;
	reap(w);
	pthread_mutex_unlock(&w->lock);
	if (stranded && w->hooks.stranded)
		w->hooks.stranded(w->hooks.ctx);
	return queued;
}

static void *watch(void *arg)
{
	unsigned quiet = 0;
	pthread_mutex_lock(&watcher.lock);
	while (!list_empty(&watcher.pools)) {
		if (!watcher.awake)
			pthread_cond_wait(&watcher.wake, &watcher.lock);
		else if (!watcher.at_once)
			wait_for(&watcher.lock, &watcher.wake, STUCK_NS);
		watcher.at_once = false;
		bool queued = false;
		list_for_each (it, &watcher.pools)
			queued |= look_at(list_entry(it, struct workers, link));
		quiet = queued ? 0 : quiet + 1;
		if (quiet >= QUIET_LOOKS && !watcher.at_once)
			watcher.awake = false;
	}
	pthread_mutex_unlock(&watcher.lock);
	return NULL;
}

static void watcher_wake(bool at_once)
{
	pthread_mutex_lock(&watcher.lock);
	if (!watcher.awake || at_once)
		pthread_cond_signal(&watcher.wake);
	watcher.awake = true;
	watcher.at_once |= at_once;
	pthread_mutex_unlock(&watcher.lock);
}

static pthread_mutex_t watcher_life =
	PTHREAD_MUTEX_INITIALIZER; /* held while the watcher's thread starts or ends */

/* Adds the pool to those watched; starts the watcher for the first one. */
static int watcher_add(struct workers *w)
{
	pthread_mutex_lock(&watcher_life);
	pthread_mutex_lock(&watcher.lock);
	bool first = list_empty(&watcher.pools);
	int rc = 0;
	list_push_tail(&watcher.pools, &w->link);
	if (first) {
		watcher.awake = watcher.at_once = false;
		cond_init(&watcher.wake);
		rc = thread_spawn(&watcher.thread, "ratefs-watch", watch, NULL);
	}
	if (rc < 0) {
		list_remove(&w->link);
		pthread_cond_destroy(&watcher.wake);
	}
	pthread_mutex_unlock(&watcher.lock);
	pthread_mutex_unlock(&watcher_life);
	return rc;
}

static void watcher_remove(struct workers *w)
{
	pthread_mutex_lock(&watcher_life);
	pthread_mutex_lock(&watcher.lock);
	list_remove(&w->link);
	bool last = list_empty(&watcher.pools);
	pthread_t thread = watcher.thread;
	if (last)
		pthread_cond_signal(&watcher.wake);
	pthread_mutex_unlock(&watcher.lock);
	if (last) {
		pthread_join(thread, NULL);
		pthread_cond_destroy(&watcher.wake);
	}
	pthread_mutex_unlock(&watcher_life);
}

/* --- the pool --- */

static void add_jobs(struct workers *w, struct list *jobs, unsigned n)
{
	pthread_mutex_lock(&w->lock);
	list_for_each (it, jobs)
		list_entry(it, struct job, link)->queued = true;
	list_splice_tail(&w->queue, jobs);
	w->queued += n;
	unsigned busy = w->n_all - w->n_idle - w->n_serving;
	while (n && w->n_idle && busy < w->cpus) {
		wake_one(w);
		busy++;
		n--;
	}
	bool too_few = w->n_all - w->n_serving < min_u64(w->cpus, w->max - w->n_serving);
	pthread_mutex_unlock(&w->lock); /* from here on the pool may be freed */
	if (n)
		watcher_wake(too_few);
}

void workers_dispatch(void *unused, struct list *ready)
{
	while (!list_empty(ready)) {
		struct list jobs = LIST_INIT(jobs);
		struct workers *w = list_first(ready, struct job, link)->workers;
		struct job *j;
		unsigned n = 0;
		while ((j = list_first(ready, struct job, link)) && j->workers == w) {
			list_remove(&j->link);
			list_push_tail(&jobs, &j->link);
			n++;
		}
		add_jobs(w, &jobs, n);
	}
}

struct workers *workers_new(unsigned max, const struct workers_hooks *hooks)
{
	struct workers *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	if (hooks)
		w->hooks = *hooks;
	w->max = max ? max : 1;
	w->cpus = get_nprocs() > 0 ? (unsigned)get_nprocs() : 1;
	pthread_mutex_init(&w->lock, NULL);
	list_init(&w->link);
	list_init(&w->queue);
	list_init(&w->all);
	list_init(&w->dead);
	list_init(&w->idle);
	if (watcher_add(w) == 0)
		return w;
	pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}

bool workers_cancel(struct job *j)
{
	struct workers *w = j->workers;
	pthread_mutex_lock(&w->lock);
	bool queued = j->queued;
	if (queued)
		dequeue_locked(w, j);
	pthread_mutex_unlock(&w->lock);
	return queued;
}

unsigned workers_queued(struct workers *w)
{
	pthread_mutex_lock(&w->lock);
	unsigned n = (unsigned)w->queued;
	pthread_mutex_unlock(&w->lock);
	return n;
}

void workers_run_queued(struct workers *w)
{
	struct job *j;
	do {
		pthread_mutex_lock(&w->lock);
		j = take_locked(w);
		pthread_mutex_unlock(&w->lock);
		if (j)
			j->ops->run(j);
	} while (j);
}

void workers_free(struct workers *w)
{
	if (!w)
		return;
	watcher_remove(w);
	workers_run_queued(w);
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	while (w->n_idle)
		wake_one(w);
	while (!list_empty(&w->all)) {
		struct worker *k = list_first(&w->all, struct worker, link);
		pthread_mutex_unlock(&w->lock);
		pthread_join(k->thread, NULL);
		pthread_mutex_lock(&w->lock);
		/* the thread is on the dead list now; no other thread joins those any more */
		list_remove(&k->link);
		pthread_cond_destroy(&k->wake);
		free(k);
	}
	reap(w);
	pthread_mutex_unlock(&w->lock);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
