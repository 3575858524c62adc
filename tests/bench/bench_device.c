/* SPDX-License-Identifier: MIT */
/* What the device model costs: bench_device [--strict]
 *
 * Without a model: the admission of a request, with and without the question whether there is one.
 * With one: 10,000 requests in device time on the real clock, how late they leave it beside how late this
 * machine wakes up a thread that sleeps until a date, and their memory and CPU time. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sched/gate.h"
#include "sched/stepper.h"
#include "sched/workers.h"

#define REQUESTS 10000
#define BATCH	 2000
#define ROUNDS	 400
#define SLEEPS	 500

static uint64_t wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * NSEC_PER_SEC +
	       ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000;
}

static size_t allocated_bytes(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static double quantile_us(uint64_t *ns, unsigned n, unsigned per_mille)
{
	qsort(ns, n, sizeof(*ns), by_size);
	return (double)ns[(uint64_t)(n - 1) * per_mille / 1000] / 1000;
}

/* --- requests that note how late they leave the device --- */

static uint64_t late_ns[REQUESTS];
static _Atomic unsigned n_done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_done = PTHREAD_COND_INITIALIZER;

static void dispatch(void *ctx, struct list *ready)
{
	uint64_t now_ns = wall_ns();
	list_for_each_safe (it, ready) {
		struct job *j = list_entry(it, struct job, link);
		late_ns[n_done++] = now_ns > j->date.key ? now_ns - j->date.key : 0;
		gate_done(&j->grant, OUTCOME_OK, 0);
	}
	if (n_done == REQUESTS) {
		pthread_mutex_lock(&lock);
		pthread_cond_signal(&all_done);
		pthread_mutex_unlock(&lock);
	}
}

static uint64_t timer_late_ns[SLEEPS];

/* How late a thread is that sleeps until a date, without a gate; at the same time. */
static void *measure_timer(void *unused)
{
	for (unsigned i = 0; i < SLEEPS; i++) {
		uint64_t until_ns = wall_ns() + 4 * NSEC_PER_MSEC;
		struct timespec t = {.tv_sec = (time_t)(until_ns / NSEC_PER_SEC),
				     .tv_nsec = (long)(until_ns % NSEC_PER_SEC)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		timer_late_ns[i] = wall_ns() - until_ns;
	}
	return NULL;
}

static struct gate_mount *mount_of(struct gate *g, struct gate_fs **fs,
				   const struct gate_mount_config *cfg)
{
	static const struct limiter_config none;
	*fs = gate_fs_new(g, "fs", &none);
	struct gate_mount *m = *fs ? gate_mount_new(*fs, "mount", cfg) : NULL;
	if (!m)
		abort();
	return m;
}

/* --- without a model --- */

static uint64_t admit(struct gate_mount *m, bool ask)
{
	static const struct caller nobody;
	struct cost c = {COST_READ, 1, 4096};
	struct grant grant;
	uint64_t t0 = wall_ns();
	for (unsigned i = 0; i < BATCH; i++) {
		if (ask && gate_model(m))
			abort();
		if (gate_try(m, &c, &nobody, &grant) == GATE_GO)
			gate_done(&grant, OUTCOME_OK, 4096);
	}
	return wall_ns() - t0;
}

static bool bench_off(struct gate *g)
{
	struct gate_fs *fs;
	struct gate_mount_config cfg = {
		.limits.limit[LIMIT_IOPS] = {.enabled = true, .rate_per_sec = 1000000000}};
	struct gate_mount *m = mount_of(g, &fs, &cfg);
	uint64_t best[2] = {NEVER, NEVER};
	for (unsigned i = 0; i < ROUNDS; i++)
		for (int ask = 0; ask < 2; ask++)
			best[ask] = min_u64(best[ask], admit(m, ask));
	gate_mount_free(m);
	gate_fs_free(fs);
	double before = (double)best[0] / BATCH, with = (double)best[1] / BATCH;
	printf("model off: %.1f ns per admission, %.1f ns without the question: ratio %.3f\n", with,
	       before, with / before);
	printf("{\"name\":\"model_off_ratio\",\"value\":%.4f,\"bar\":1.01}\n", with / before);
	return with / before <= 1.01;
}

/* --- in device time --- */

static bool report(uint64_t cpu, size_t memory)
{
	double p99 = quantile_us(late_ns, REQUESTS, 990),
	       own = quantile_us(timer_late_ns, SLEEPS, 990);
	printf("%u requests in device time: late by %.0f us (p50), %.0f us (p99), %.0f us (max); this "
	       "machine's timer: %.0f us (p50), %.0f us (p99)\n",
	       REQUESTS, quantile_us(late_ns, REQUESTS, 500), p99,
	       quantile_us(late_ns, REQUESTS, 1000), quantile_us(timer_late_ns, SLEEPS, 500), own);
	printf("%.2f us of CPU and %zu bytes of memory for each\n", (double)cpu / REQUESTS / 1000,
	       memory / REQUESTS);
	printf("{\"name\":\"device_late_p99_us\",\"value\":%.1f,\"timer_p99_us\":%.1f,\"bar\":1000}\n",
	       p99, own);
	printf("{\"name\":\"device_cpu_us\",\"value\":%.2f}\n", (double)cpu / REQUESTS / 1000);
	printf("{\"name\":\"device_memory_bytes\",\"value\":%zu}\n", memory / REQUESTS);
	return p99 <= 1000 + own;
}

static bool bench_on(struct gate *g)
{
	struct gate_fs *fs;
	struct gate_mount_config cfg = {.device.latency[LATENCY_ALL] = {LATENCY_UNIFORM,
									1050 * NSEC_PER_MSEC,
									950 * NSEC_PER_MSEC},
					.device.seed = 1};
	struct gate_mount *m = mount_of(g, &fs, &cfg);
	size_t before = allocated_bytes();
	uint64_t cpu = cpu_ns();
	struct job *job = calloc(REQUESTS, sizeof(*job));
	if (!job)
		abort();
	for (unsigned i = 0; i < REQUESTS; i++) {
		job[i].cost = (struct cost){COST_META, 1, 0};
		if (gate_park(m, &job[i]) != GATE_PARKED)
			abort();
	}
	size_t memory = allocated_bytes() - before;
	pthread_t timer;
	if (pthread_create(&timer, NULL, measure_timer, NULL) != 0)
		abort();
	pthread_mutex_lock(&lock);
	while (n_done < REQUESTS)
		pthread_cond_wait(&all_done, &lock);
	pthread_mutex_unlock(&lock);
	cpu = cpu_ns() - cpu;
	pthread_join(timer, NULL);
	gate_mount_free(m);
	gate_fs_free(fs);
	free(job);
	return report(cpu, memory);
}

int main(int argc, char **argv)
{
	bool strict = argc > 1 && strcmp(argv[1], "--strict") == 0;
	struct stepper *s = stepper_new();
	struct gate *g = s ? gate_new(stepper_clock(s), dispatch, NULL) : NULL;
	if (!g || stepper_start(s, g) < 0)
		return 1;
	bool ok = bench_off(g);
	ok = bench_on(g) && ok;
	stepper_free(s);
	gate_free(g);
	return strict && !ok;
}
