/* SPDX-License-Identifier: MIT */
/* The gate under real threads, real workers and the real stepper, for about two seconds: clients
 * that ask, cancel and end requests on several mounts, and open files, while limits and classes change and mounts pause.
 * Every request must end exactly once, and nothing may be left.  Made for the sanitizers; time
 * only bounds the work; no outcome depends on it. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "sched/stepper.h"
#include "sched/workers.h"
#include "unit/gate_check.h"
#include "unit/unit.h"

#define MOUNTS	4
#define CLIENTS 4
#define ROUNDS	3000

struct request {
	struct job job;
	struct gate_mount *mount;
	_Atomic int ends;
	struct client *client;
};

struct client {
	pthread_t thread;
	pthread_mutex_t lock; /* taken to end or to cancel a job */
	struct request req[ROUNDS];
	unsigned index;
	_Atomic unsigned open;
	unsigned cancelled;
};

static struct stepper *stepper;
static struct workers *workers;
static struct gate *gate;
static struct gate_fs *fs[2];
static struct gate_mount *mount[MOUNTS];
static struct client client[CLIENTS];
static _Atomic unsigned wrong;

static uint64_t next(uint64_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 7;
	*rng ^= *rng << 17;
	return *rng;
}

static void finish(struct request *r)
{
	struct client *c = r->client;
	pthread_mutex_lock(&c->lock);
	wrong += atomic_fetch_add(&r->ends, 1) != 0;
	pthread_mutex_unlock(&c->lock);
	atomic_fetch_sub(&c->open, 1);
}

static void run_request(struct job *j)
{
	struct request *r = container_of(j, struct request, job);
	uint64_t asked = j->grant.cost.bytes;
	gate_done(&j->grant, asked % 3 ? OUTCOME_OK : OUTCOME_FAILED, asked / 2);
	finish(r);
}

static void refuse_request(struct job *j, enum grant_result why)
{
	finish(container_of(j, struct request, job));
}

static const struct job_ops request_ops = {run_request, refuse_request};

static void submit(struct client *c, struct request *r, uint64_t *rng)
{
	static const enum cost_class classes[] = {COST_READ, COST_WRITE, COST_META, COST_COPY};
	r->client = c;
	r->mount = mount[next(rng) % MOUNTS];
	r->job.ops = &request_ops;
	r->job.workers = workers;
	r->job.cost = (struct cost){classes[next(rng) % 4], 1, next(rng) % 65536};
	r->job.caller = (struct caller){.uid = next(rng) % 16};
	r->job.probe = next(rng) % 32 == 0;
	atomic_fetch_add(&c->open, 1);
	enum gate_verdict v =
		r->job.probe ? GATE_WOULD_BLOCK
			     : gate_try(r->mount, &r->job.cost, &r->job.caller, &r->job.grant);
	if (v == GATE_WOULD_BLOCK)
		v = gate_park(r->mount, &r->job);
	if (v == GATE_GO)
		run_request(&r->job);
	else if (v != GATE_PARKED)
		finish(r);
}

static void cancel_some(struct client *c, struct request *r)
{
	pthread_mutex_lock(&c->lock);
	bool mine = gate_cancel(gate, &r->job);
	pthread_mutex_unlock(&c->lock);
	if (mine) {
		c->cancelled++;
		finish(r);
	}
}

static void *client_loop(void *arg)
{
	struct client *c = arg;
	uint64_t rng = 77777 + c->index;
	for (unsigned i = 0; i < ROUNDS; i++) {
		submit(c, &c->req[i], &rng);
		if (next(&rng) % 4 == 0)
			cancel_some(c, &c->req[next(&rng) % (i + 1)]);
		struct cost nb = {COST_READ, 1, 4096};
		struct grant gr;
		struct gate_mount *m = mount[next(&rng) % MOUNTS];
		struct caller caller = {.uid = next(&rng) % 5};
		if (next(&rng) % 8 == 0 &&
		    gate_try_nonblocking(m, &nb, &caller, 4096, &gr) == GATE_GO)
			gate_done(&gr, OUTCOME_OK, gr.cost.bytes);
		if (next(&rng) % 8 == 0) {
			nb = (struct cost){COST_META, 1, 0};
			gate_take(m, &nb, &caller, &gr);
			gate_done(&gr, OUTCOME_OK, 0);
		}
		const struct scope_way *opened = next(&rng) % 4 ? NULL : gate_open_try(m, &caller);
		if (opened)
			gate_open_release(opened);
		while (atomic_load(&c->open) > 64)
			sched_yield();
	}
	return NULL;
}

static void random_limits(struct limiter_config *c, uint64_t *rng)
{
	*c = (struct limiter_config){0};
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		if (next(rng) % 4 == 0) {
			c->limit[k].enabled = true;
			c->limit[k].rate_per_sec = limit_kind_is_bytes(k) ? 200000000 : 20000;
		}
	c->max_inflight = next(rng) % 3 ? 0 : 1 + next(rng) % 4;
}

struct classes {
	struct gate_class_config c[3];
	unsigned n;
};

static void random_classes(struct classes *all, struct rule *const rules[3], uint64_t *rng)
{
	static const char *const names[] = {"a", "b", "c"};
	all->n = 0;
	for (unsigned i = 0; i < 3; i++) {
		struct gate_class_config *c = &all->c[all->n];
		if (next(rng) % 2)
			continue;
		*c = (struct gate_class_config){
			.name = names[i], .match = rules[i], .fair = FAIR_UID};
		random_limits(&c->limits, rng);
		if (next(rng) % 2)
			random_limits(&c->each, rng);
		c->each.max_inflight = 0;
		c->reserve_bps = next(rng) % 2 ? 1000000 : 0;
		if (all->n && next(rng) % 2)
			c->parent = c[-1].name;
		all->n++;
	}
}

/* Changes the classes of one mount, or of several at the same moment. */
static void change_classes(struct rule *const rules[3], uint64_t *rng)
{
	struct classes all[MOUNTS];
	struct gate_change changes[MOUNTS];
	unsigned first = next(rng) % MOUNTS, n = 1 + next(rng) % MOUNTS;
	for (unsigned i = 0; i < n; i++) {
		random_classes(&all[i], rules, rng);
		changes[i] = (struct gate_change){.mount = mount[(first + i) % MOUNTS],
						  .sets_classes = true,
						  .classes = all[i].c,
						  .n_classes = all[i].n};
	}
	gate_apply(gate, changes, n);
}

static void *changer_loop(void *arg)
{
	_Atomic bool *stop = arg;
	uint64_t rng = 4711;
	struct rule *rules[] = {rule_parse("uid:1,uid:2,uid:3", NULL, NULL),
				rule_parse("op:write", NULL, NULL),
				rule_parse("uid:7 & op:read", NULL, NULL)};
	struct scope_stats *st = malloc(sizeof(*st));
	for (unsigned i = 0; !atomic_load(stop); i++) {
		struct gate_mount_config cfg = {.fair = FAIR_UID,
						.max_wait_ns = next(&rng) % 4 ? 0 : NSEC_PER_MSEC};
		struct gate_mount *m = mount[next(&rng) % MOUNTS];
		random_limits(&cfg.limits, &rng);
		if (next(&rng) % 2)
			random_limits(&cfg.each, &rng);
		cfg.each.max_inflight = 0;
		gate_set_mount(m, &cfg);
		if (i % 2 == 0)
			change_classes(rules, &rng);
		random_limits(&cfg.limits, &rng);
		if (i % 3 == 0)
			gate_set_global(gate, &cfg.limits);
		if (i % 5 == 0) {
			gate_pause_mount(m, true);
			sched_yield();
			gate_pause_mount(m, false);
		}
		gate_stats_mount(m, st);
		usleep(1000);
	}
	free(st);
	for (unsigned i = 0; i < MOUNTS; i++)
		gate_set_classes(mount[i], NULL, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(rules); i++)
		rule_free(rules[i]);
	return NULL;
}

static void world_up(void)
{
	static const struct limiter_config none;
	struct gate_mount_config cfg = {0};
	uint64_t rng = 99;
	stepper = stepper_new();
	workers = workers_new(8, NULL);
	gate = gate_new(stepper_clock(stepper), workers_dispatch, NULL);
	ck_assert(stepper && workers && gate);
	ck_assert_int_eq(stepper_start(stepper, gate), 0);
	for (unsigned i = 0; i < 2; i++)
		fs[i] = gate_fs_new(gate, "fs", &none);
	for (unsigned i = 0; i < MOUNTS; i++) {
		random_limits(&cfg.limits, &rng);
		mount[i] = gate_mount_new(fs[i % 2], "m", &cfg);
	}
}

static void world_down(void)
{
	for (unsigned i = 0; i < MOUNTS; i++)
		gate_mount_drain(mount[i], i % 2);
	workers_free(workers);
	pthread_mutex_lock(&gate->lock); /* the stepper still runs */
	gate_check_empty(gate);
	pthread_mutex_unlock(&gate->lock);
	for (unsigned i = 0; i < MOUNTS; i++)
		gate_mount_free(mount[i]);
	for (unsigned i = 0; i < 2; i++)
		gate_fs_free(fs[i]);
	stepper_free(stepper);
	gate_free(gate);
}

START_TEST(threads_that_ask_cancel_and_change_limits_lose_nothing)
{
	_Atomic bool stop = false;
	pthread_t changer;
	world_up();
	ck_assert_int_eq(pthread_create(&changer, NULL, changer_loop, &stop), 0);
	for (unsigned i = 0; i < CLIENTS; i++) {
		client[i].index = i;
		pthread_mutex_init(&client[i].lock, NULL);
		pthread_create(&client[i].thread, NULL, client_loop, &client[i]);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(client[i].thread, NULL);
	atomic_store(&stop, true);
	pthread_join(changer, NULL);
	world_down();
	ck_assert_uint_eq(wrong, 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		for (unsigned k = 0; k < ROUNDS; k++)
			must(atomic_load(&client[i].req[k].ends) == 1);
}
END_TEST

/* --- workers --- */

static _Atomic unsigned ran, starts, stops;
static pthread_mutex_t jam = PTHREAD_MUTEX_INITIALIZER;

static void count_run(struct job *j)
{
	atomic_fetch_add(&ran, 1);
}

static void jammed_run(struct job *j)
{
	pthread_mutex_lock(&jam);
	pthread_mutex_unlock(&jam);
	atomic_fetch_add(&ran, 1);
}

static bool count_start(void *ctx)
{
	atomic_fetch_add(&starts, 1);
	return true;
}

static void count_stop(void *ctx)
{
	atomic_fetch_add(&stops, 1);
}

static bool start_at_the_third_try(void *ctx)
{
	return atomic_fetch_add((_Atomic unsigned *)ctx, 1) >= 2;
}

static void dispatch(struct workers *w, struct job *jobs, unsigned n, const struct job_ops *ops)
{
	struct list ready = LIST_INIT(ready);
	for (unsigned i = 0; i < n; i++) {
		jobs[i].ops = ops;
		jobs[i].workers = w;
		list_push_tail(&ready, &jobs[i].link);
	}
	workers_dispatch(NULL, &ready);
}

START_TEST(workers_run_everything_that_is_queued_before_they_end)
{
	static const struct job_ops ops = {.run = count_run};
	static struct job jobs[1000];
	atomic_store(&ran, 0);
	struct workers *w = workers_new(
		4, &(struct workers_hooks){.thread_start = count_start, .thread_stop = count_stop});
	dispatch(w, jobs, 1000, &ops);
	workers_free(w);
	ck_assert_uint_eq(ran, 1000);
	ck_assert_uint_eq(starts, stops);
}
END_TEST

/* All threads are stuck until a later job has run, so the pool must grow. */
START_TEST(the_pool_grows_while_its_threads_are_stuck)
{
	static const struct job_ops stuck = {.run = jammed_run}, ops = {.run = count_run};
	static struct job jammed[6], job;
	atomic_store(&ran, 0);
	struct workers *w = workers_new(8, NULL);
	pthread_mutex_lock(&jam);
	dispatch(w, jammed, 6, &stuck);
	dispatch(w, &job, 1, &ops);
	while (!atomic_load(&ran))
		sched_yield();
	pthread_mutex_unlock(&jam);
	workers_free(w);
	ck_assert_uint_eq(ran, 7);
}
END_TEST

START_TEST(a_job_can_be_taken_back_until_a_thread_has_it)
{
	static const struct job_ops stuck = {.run = jammed_run}, ops = {.run = count_run};
	static struct job jammed, jobs[3];
	atomic_store(&ran, 0);
	struct workers *w = workers_new(1, NULL);
	pthread_mutex_lock(&jam);
	jobs[0].workers = w;
	ck_assert(!workers_cancel(&jobs[0])); /* it is not in the pool yet */
	dispatch(w, &jammed, 1, &stuck);
	dispatch(w, jobs, 3, &ops);
	while (workers_queued(w) > 3)
		sched_yield();
	ck_assert(!workers_cancel(&jammed));
	ck_assert(workers_cancel(&jobs[1]));
	ck_assert(!workers_cancel(&jobs[1]));
	ck_assert_uint_eq(workers_queued(w), 2);
	pthread_mutex_unlock(&jam);
	workers_free(w);
	ck_assert_uint_eq(ran, 3);
}
END_TEST

START_TEST(threads_that_cannot_start_are_missing_and_nothing_else)
{
	static const struct job_ops ops = {.run = count_run};
	static struct job jobs[10];
	static _Atomic unsigned tries;
	atomic_store(&ran, 0);
	struct workers *w = workers_new(
		4, &(struct workers_hooks){.thread_start = start_at_the_third_try, .ctx = &tries});
	dispatch(w, jobs, 10, &ops);
	while (atomic_load(&ran) < 10)
		sched_yield();
	workers_free(w);
	ck_assert_uint_ge(tries, 3);
}
END_TEST

static bool never_start(void *ctx)
{
	return false;
}

static void note_stranded(void *ctx)
{
	atomic_fetch_add((_Atomic unsigned *)ctx, 1);
}

/* Otherwise they would wait until a thread can be started. */
START_TEST(the_owner_of_a_pool_hears_of_jobs_for_which_no_thread_can_be_started)
{
	static const struct job_ops ops = {.run = count_run};
	static struct job jobs[4];
	static _Atomic unsigned stranded;
	atomic_store(&ran, 0);
	struct workers *w = workers_new(4, &(struct workers_hooks){.thread_start = never_start,
								   .stranded = note_stranded,
								   .ctx = &stranded});
	for (unsigned i = 0; i < 4; i++) {
		unsigned before = atomic_load(&stranded);
		dispatch(w, jobs + i, 1, &ops);
		while (atomic_load(&stranded) == before)
			sched_yield();
		ck_assert_uint_eq(atomic_load(&ran), i);
		workers_run_queued(w);
		ck_assert_uint_eq(atomic_load(&ran), i + 1);
	}
	workers_free(w);
}
END_TEST

static _Atomic unsigned served;

/* Works for somebody else, once, until the test releases the jam. */
static bool serve_once(void *ctx)
{
	if (atomic_fetch_add(&served, 1) > 0)
		return false;
	pthread_mutex_lock(&jam);
	pthread_mutex_unlock(&jam);
	return true;
}

START_TEST(jobs_do_not_wait_for_a_thread_that_serves_somebody_else)
{
	static const struct job_ops ops = {.run = count_run};
	static struct job jobs[3];
	atomic_store(&ran, 0);
	atomic_store(&served, 0);
	struct workers *w = workers_new(2, &(struct workers_hooks){.serve = serve_once});
	pthread_mutex_lock(&jam);
	dispatch(w, jobs, 1, &ops);
	while (!atomic_load(&served))
		sched_yield();
	dispatch(w, jobs + 1, 2, &ops);
	while (atomic_load(&ran) < 3)
		sched_yield();
	ck_assert_uint_eq(workers_queued(w), 0);
	pthread_mutex_unlock(&jam);
	workers_free(w);
}
END_TEST

static _Atomic unsigned owed, taken_while_owed;

static void owe_run(struct job *j)
{
	taken_while_owed += owed++;
	count_run(j);
}

static bool pay(void *ctx)
{
	return atomic_exchange(&owed, 0) > 0;
}

/* Else what the thread has promised to serve would wait as long as the next job takes. */
START_TEST(a_thread_serves_before_it_takes_the_next_job)
{
	static const struct job_ops ops = {.run = owe_run};
	static struct job jobs[100];
	atomic_store(&ran, 0);
	struct workers *w = workers_new(1, &(struct workers_hooks){.serve = pay});
	dispatch(w, jobs, 100, &ops);
	while (atomic_load(&ran) < 100)
		sched_yield();
	workers_free(w);
	ck_assert_uint_eq(taken_while_owed, 0);
}
END_TEST

/* All threads of one pool are stuck, and it may have no more.  Jobs of another pool still run, and refusals are still
 * delivered. */
START_TEST(a_pool_whose_threads_all_hang_takes_none_from_another)
{
	static const struct job_ops stuck = {.run = jammed_run}, ops = {.run = count_run};
	static struct job jammed[5], job;
	atomic_store(&ran, 0);
	struct workers *hung = workers_new(4, NULL), *healthy = workers_new(4, NULL);
	pthread_mutex_lock(&jam);
	dispatch(hung, jammed, 4, &stuck);
	while (workers_queued(hung))
		sched_yield();
	dispatch(hung, jammed + 4, 1, &ops);
	dispatch(healthy, &job, 1, &ops);
	while (!atomic_load(&ran))
		sched_yield();
	ck_assert_uint_eq(workers_queued(hung), 1);
	workers_run_queued(hung);
	ck_assert_uint_eq(ran, 2);
	pthread_mutex_unlock(&jam);
	workers_free(hung);
	workers_free(healthy);
	ck_assert_uint_eq(ran, 6);
}
END_TEST

START_TEST(an_idle_pool_has_no_threads)
{
	atomic_store(&starts, 0);
	struct workers *w = workers_new(4, &(struct workers_hooks){.thread_start = count_start});
	usleep(10000);
	ck_assert_uint_eq(starts, 0);
	workers_free(w);
}
END_TEST

/* --- one change of several scopes --- */

#define SWAPS 2000
static _Atomic bool swapping;
static _Atomic unsigned mixed, looks;

/* The limits of a mount, its fs and everything are copied together: never some old and some new. */
static void *look_for_mixtures(void *arg)
{
	struct gate_mount *m = arg;
	while (atomic_load(&swapping)) {
		struct scope_limits l[CHAIN_SCOPES_MAX];
		unsigned n = gate_limits_mount(m, l);
		for (unsigned i = 1; i < n; i++)
			mixed += l[i].limit[LIMIT_BPS].rate_per_sec !=
				 l[0].limit[LIMIT_BPS].rate_per_sec;
		looks++;
	}
	return NULL;
}

START_TEST(several_scopes_change_at_the_same_moment)
{
	struct gate_mount_config cfg = {.fair = FAIR_PROCESS};
	pthread_t watcher;
	stepper = stepper_new();
	gate = gate_new(stepper_clock(stepper), workers_dispatch, NULL);
	ck_assert_int_eq(stepper_start(stepper, gate), 0);
	fs[0] = gate_fs_new(gate, "fs", &cfg.limits);
	mount[0] = gate_mount_new(fs[0], "mount", &cfg);
	swapping = true;
	ck_assert_int_eq(pthread_create(&watcher, NULL, look_for_mixtures, mount[0]), 0);
	for (unsigned i = 0; i < SWAPS || looks < SWAPS; i++) {
		cfg.limits.limit[LIMIT_BPS] =
			(struct limit_config){.enabled = true, .rate_per_sec = 1000 + i % 2};
		const struct gate_change changes[] = {
			{.limits = &cfg.limits},
			{.fs = fs[0], .limits = &cfg.limits},
			{.mount = mount[0], .config = &cfg},
		};
		ck_assert_int_eq(gate_apply(gate, changes, ARRAY_SIZE(changes)), 0);
	}
	swapping = false;
	pthread_join(watcher, NULL);
	ck_assert_uint_eq(mixed, 0);
	gate_mount_free(mount[0]);
	gate_fs_free(fs[0]);
	stepper_free(stepper);
	gate_free(gate);
}
END_TEST

UNIT_MAIN("gate_threads", threads_that_ask_cancel_and_change_limits_lose_nothing,
	  workers_run_everything_that_is_queued_before_they_end,
	  the_pool_grows_while_its_threads_are_stuck, a_job_can_be_taken_back_until_a_thread_has_it,
	  threads_that_cannot_start_are_missing_and_nothing_else,
	  the_owner_of_a_pool_hears_of_jobs_for_which_no_thread_can_be_started,
	  a_pool_whose_threads_all_hang_takes_none_from_another, an_idle_pool_has_no_threads,
	  jobs_do_not_wait_for_a_thread_that_serves_somebody_else,
	  a_thread_serves_before_it_takes_the_next_job, several_scopes_change_at_the_same_moment)
