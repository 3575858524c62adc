/* SPDX-License-Identifier: MIT */
/* What a limit costs: bench_limit [--strict]
 *
 * A table for people, then one JSON object per line.  Times are minima over many short batches of
 * the variants in turn, so that whatever else runs on the machine hits all of them alike; with two
 * threads the median over rounds.  --strict: exit 1 when a bar is missed. */
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench_ref.h"
#include "bench/bench_step.h"
#include "limit/chain.h"

#define BATCH	      2000
#define ROUNDS	      400
#define THREAD_OPS    100000
#define THREAD_ROUNDS 21
#define STEP_NS	      25 /* how far the simulated clock goes from one request to the next */

#define OPS_PER_SEC   1000000000ULL
#define BYTES_PER_SEC 1000000000000ULL

static struct limiter scope[SCOPES], slow_scope[SCOPES], empty_scope[SCOPES];
static struct chain *chain, *slow_chain, *empty_chain;
static struct ref_chain ref;
static struct bucket one;
static struct {
	_Alignas(64) _Atomic uint64_t value;
} counter[REF_BUCKETS];
static struct chain *volatile unlimited;	/* NULL, and the compiler does not know */
static volatile uint32_t ops = 1, bytes = 4096; /* not known to the compiler, as in real life */
static bool missed;

static uint64_t wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/* --- the variants; one call is one request --- */

#define VARIANT static __attribute__((noinline, aligned(64))) bool /* where it lies is worth 10 % */

VARIANT run_nothing(uint64_t now_ns)
{
	return now_ns != 0;
}

VARIANT run_unlimited(uint64_t now_ns)
{
	struct chain *ch = unlimited;
	if (ch) {
		struct cost c = {COST_READ, ops, bytes};
		return chain_try(ch, &c, now_ns, NULL) == GRANT_OK;
	}
	return now_ns != 0;
}

VARIANT run_atomic_add(uint64_t now_ns)
{
	return atomic_fetch_add(&counter[0].value, 1) != now_ns;
}

/* What six words that are safe from any thread cost at the very least. */
VARIANT run_six_adds(uint64_t now_ns)
{
	for (unsigned i = 0; i < REF_BUCKETS; i++)
		atomic_fetch_add(&counter[i].value, 1);
	return now_ns != 0;
}

VARIANT run_bucket(uint64_t now_ns)
{
	return bucket_try(&one, 1, now_ns);
}

VARIANT run_bucket_refusal(uint64_t now_ns)
{
	return !bucket_try(&empty_scope[0].bucket[LIMIT_IOPS], 1, 0);
}

VARIANT run_chain(uint64_t now_ns)
{
	struct cost c = {COST_READ, ops, bytes};
	return chain_try(chain, &c, now_ns, NULL) == GRANT_OK;
}

/* A millisecond apart: every request goes the exact way. */
VARIANT run_chain_exact(uint64_t now_ns)
{
	struct cost c = {COST_READ, ops, bytes};
	return chain_try(slow_chain, &c, now_ns * (NSEC_PER_MSEC / STEP_NS), NULL) == GRANT_OK;
}

VARIANT run_chain_refusal(uint64_t now_ns)
{
	struct cost c = {COST_READ, ops, bytes};
	return chain_try(empty_chain, &c, 0, NULL) == GRANT_WOULD_BLOCK;
}

VARIANT run_six_mutexes(uint64_t now_ns)
{
	const double cost[2] = {ops, bytes};
	return ref_try_six(&ref, cost, now_ns);
}

VARIANT run_one_mutex(uint64_t now_ns)
{
	const double cost[2] = {ops, bytes};
	return ref_try_one(&ref, cost, now_ns);
}

struct variant {
	const char *name;
	bool (*run)(uint64_t now_ns);
	double ns, instructions; /* per request; instructions < 0: not counted */
	uint64_t clock_ns;
};

enum {
	NOTHING,
	UNLIMITED,
	ADD,
	SIX_ADDS,
	BUCKET,
	BUCKET_REFUSAL,
	CHAIN,
	CHAIN_EXACT,
	CHAIN_REFUSAL,
	SIX_MUTEXES,
	ONE_MUTEX,
	VARIANTS
};

static struct variant variants[VARIANTS] = {
	[NOTHING] = {"empty loop", run_nothing, 1e9, -1, 0},
	[UNLIMITED] = {"unlimited class", run_unlimited, 1e9, -1, 0},
	[ADD] = {"bare atomic add", run_atomic_add, 1e9, -1, 0},
	[SIX_ADDS] = {"six bare atomic adds", run_six_adds, 1e9, -1, 0},
	[BUCKET] = {"one bucket", run_bucket, 1e9, -1, 0},
	[BUCKET_REFUSAL] = {"one bucket, refusal", run_bucket_refusal, 1e9, -1, 0},
	[CHAIN] = {"chain of six", run_chain, 1e9, -1, 0},
	[CHAIN_EXACT] = {"chain of six, 1 ms apart", run_chain_exact, 1e9, -1, 0},
	[CHAIN_REFUSAL] = {"chain of six, refusal", run_chain_refusal, 1e9, -1, 0},
	[SIX_MUTEXES] = {"six mutexes and doubles", run_six_mutexes, 1e9, -1, 0},
	[ONE_MUTEX] = {"six doubles, one mutex", run_one_mutex, 1e9, -1, 0},
};

/* --- counting --- */

static int open_instructions(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static uint64_t read_count(int fd)
{
	uint64_t n = 0;
	return fd >= 0 && read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static bool batch(struct variant *v)
{
	bool ok = true;
	uint64_t clock_ns = v->clock_ns;
	for (unsigned i = 0; i < BATCH; i++)
		ok &= v->run(clock_ns += STEP_NS);
	v->clock_ns = clock_ns;
	return ok;
}

static void measure(struct variant *v, int counter_fd)
{
	uint64_t count = read_count(counter_fd), begin_ns = wall_ns();
	bool ok = batch(v);
	uint64_t took_ns = wall_ns() - begin_ns;
	count = read_count(counter_fd) - count;
	if (!ok) {
		fprintf(stderr, "bench_limit: %s: unexpected answer\n", v->name);
		exit(1);
	}
	if ((double)took_ns / BATCH < v->ns)
		v->ns = (double)took_ns / BATCH;
	double each = (double)count / BATCH;
	if (each > 3 && (v->instructions < 0 || each < v->instructions)) /* some guests count 0 */
		v->instructions = each;
}

/* --- two threads on the same chain --- */

struct racer {
	bool (*run)(uint64_t now_ns);
	pthread_barrier_t *start;
	int nth;
	uint64_t begin_ns, end_ns;
};

/* On CPUs of their own, or they may take turns on one. */
static void pin(int nth)
{
	cpu_set_t allowed, one_cpu;
	CPU_ZERO(&one_cpu);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && nth-- == 0)
			CPU_SET(cpu, &one_cpu);
	if (CPU_COUNT(&one_cpu))
		pthread_setaffinity_np(pthread_self(), sizeof(one_cpu), &one_cpu);
}

static void *race(void *arg)
{
	struct racer *r = arg;
	pin(r->nth);
	uint64_t clock_ns = 1000 * NSEC_PER_SEC;
	pthread_barrier_wait(r->start);
	r->begin_ns = wall_ns();
	for (unsigned i = 0; i < THREAD_OPS; i++)
		r->run(clock_ns += STEP_NS);
	r->end_ns = wall_ns();
	return NULL;
}

static double race_two(bool (*run)(uint64_t now_ns))
{
	pthread_barrier_t start;
	pthread_barrier_init(&start, NULL, 2);
	struct racer first = {run, &start, 0, 0, 0}, second = {run, &start, 1, 0, 0};
	pthread_t a, b;
	if (pthread_create(&a, NULL, race, &first) || pthread_create(&b, NULL, race, &second))
		exit(1);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	pthread_barrier_destroy(&start);
	uint64_t begin_ns = min_u64(first.begin_ns, second.begin_ns);
	return (double)(max_u64(first.end_ns, second.end_ns) - begin_ns) / (2 * THREAD_OPS);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

/* --- results --- */

static void result(const char *name, double value, const char *unit, double bar, bool at_least)
{
	bool met = at_least ? value >= bar : value <= bar;
	missed |= !met;
	printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"bar\":%.6g,"
	       "\"better\":\"%s\",\"met\":%s}\n",
	       name, value, unit, bar, at_least ? "higher" : "lower", met ? "true" : "false");
}

static void show_variants(void)
{
	printf("%-28s %8s %8s\n", "one request", "ns", "instr.");
	for (unsigned i = 0; i < VARIANTS; i++) {
		const struct variant *v = &variants[i];
		printf("%-28s %8.2f ", v->name, v->ns);
		if (v->instructions < 0)
			printf("%8s\n", "-");
		else
			printf("%8.1f\n", v->instructions);
	}
	for (unsigned i = 0; i < VARIANTS; i++) {
		const struct variant *v = &variants[i];
		printf("{\"name\":\"%s\",\"value\":%.4g,\"unit\":\"ns\",", v->name, v->ns);
		if (v->instructions < 0)
			printf("\"instructions\":null}\n");
		else
			printf("\"instructions\":%.1f}\n", v->instructions);
	}
}

static void *wait_for(void *barrier)
{
	pthread_barrier_wait(barrier);
	return NULL;
}

/* One thread at work, but not alone in its process, as in a daemon: in a process of one thread the C
 * library's mutexes are not atomic. */
static void measure_one_thread(void)
{
	pthread_barrier_t end;
	pthread_t idle;
	pthread_barrier_init(&end, NULL, 2);
	if (pthread_create(&idle, NULL, wait_for, &end))
		exit(1);
	int fd = open_instructions();
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned i = 0; i < VARIANTS; i++)
			measure(&variants[i], fd);
	if (fd >= 0)
		close(fd);
	pthread_barrier_wait(&end);
	pthread_join(idle, NULL);
	pthread_barrier_destroy(&end);
	for (unsigned i = 0; i < VARIANTS; i++)
		if (variants[i].instructions < 0)
			variants[i].instructions =
				step_count(variants[i].run, variants[i].clock_ns, STEP_NS);
	show_variants();
	const struct variant *v = variants;
	result("unlimited class over an empty loop", v[UNLIMITED].ns - v[NOTHING].ns, "ns", 1,
	       false);
	result("one bucket to a bare atomic add", v[BUCKET].ns / v[ADD].ns, "ratio", 2, false);
	result("six mutexes and doubles to the chain", v[SIX_MUTEXES].ns / v[CHAIN].ns, "ratio",
	       2.5, true);
	result("chain of six to six bare atomic adds", v[CHAIN].ns / v[SIX_ADDS].ns, "ratio", 1.1,
	       false);
	result("six doubles under one mutex to the chain", v[ONE_MUTEX].ns / v[CHAIN].ns, "ratio",
	       1, true);
}

static void measure_two_threads(void)
{
	double ours[THREAD_ROUNDS], six[THREAD_ROUNDS], single[THREAD_ROUNDS];
	for (unsigned r = 0; r < THREAD_ROUNDS; r++) {
		ours[r] = race_two(run_chain);
		six[r] = race_two(run_six_mutexes);
		single[r] = race_two(run_one_mutex);
	}
	double chain_ns = median(ours, THREAD_ROUNDS), six_ns = median(six, THREAD_ROUNDS);
	double single_ns = median(single, THREAD_ROUNDS);
	printf("two threads, ns per request: chain %.1f, six mutexes %.1f, one mutex %.1f\n",
	       chain_ns, six_ns, single_ns);
	result("two threads, six mutexes to the chain", six_ns / chain_ns, "ratio", 1, true);
	result("two threads, one mutex to the chain", single_ns / chain_ns, "ratio", 1, true);
}

static void measure_writes(void)
{
	static struct limiter before[SCOPES];
	memcpy(before, empty_scope, sizeof(before));
	for (unsigned i = 0; i < BATCH; i++)
		run_chain_refusal(0);
	bool wrote = memcmp(before, empty_scope, sizeof(before)) != 0;
	result("refusals that change a bucket", wrote, "count", 0, false);
}

/* A caller that always wants more, after a year of uptime: what it gets in ten seconds or, where
 * that takes too long to simulate, in the time of a million requests. */
static void measure_rate(uint64_t rate, uint64_t tokens)
{
	uint64_t now_ns = 31557600ULL * NSEC_PER_SEC, granted = 0;
	struct bucket_config cfg = {rate, max_u64(rate / 10, 1), 0};
	struct bucket b;
	bucket_init(&b, &cfg, 0);
	bucket_take(&b, bucket_capacity(&b), now_ns); /* begin empty */
	uint64_t begin_ns = now_ns;
	unsigned requests = rate < 1000 ? 200000 : 1000000;
	for (unsigned i = 0; i < requests; i++) {
		now_ns += bucket_wait_ns(&b, tokens, now_ns);
		if (!bucket_try(&b, tokens, now_ns)) {
			fprintf(stderr, "bench_limit: refused at the moment it was told\n");
			exit(1);
		}
		granted += tokens;
	}
	double want = (double)rate * ((double)(now_ns - begin_ns) / 1e9);
	char name[80];
	snprintf(name, sizeof(name), "rate error at %llu/s", (unsigned long long)rate);
	double error = ((double)granted - want) / want * 100;
	result(name, error < 0 ? -error : error, "percent", 0.001, false);
}

int main(int argc, char **argv)
{
	struct limiter_config cfg = {.window_ns = 0}, dry = {.window_ns = 0};
	cfg.limit[LIMIT_IOPS] = (struct limit_config){true, OPS_PER_SEC, 0, 0};
	cfg.limit[LIMIT_BPS] = (struct limit_config){true, BYTES_PER_SEC, 0, 0};
	dry.limit[LIMIT_IOPS] = (struct limit_config){true, 10, 0, 0};
	dry.limit[LIMIT_BPS] = (struct limit_config){true, 1000000, 0, 0};
	for (unsigned i = 0; i < SCOPES; i++) {
		limiter_init(&scope[i], (enum limiter_scope)i, &cfg, 0);
		limiter_init(&slow_scope[i], (enum limiter_scope)i, &cfg, 0);
		limiter_init(&empty_scope[i], (enum limiter_scope)i, &dry, 0);
	}
	chain = chain_compile(COST_READ, &scope[0], &scope[1], &scope[2], NULL);
	slow_chain = chain_compile(COST_READ, &slow_scope[0], &slow_scope[1], &slow_scope[2], NULL);
	empty_chain =
		chain_compile(COST_READ, &empty_scope[0], &empty_scope[1], &empty_scope[2], NULL);
	if (!chain || !slow_chain || !empty_chain)
		return 1;
	bucket_take(&empty_scope[0].bucket[LIMIT_IOPS], 1,
		    0); /* the widest refuses, looked at last */
	struct bucket_config bc = {OPS_PER_SEC, OPS_PER_SEC / 10, 0};
	bucket_init(&one, &bc, 0);
	ref_init(&ref, OPS_PER_SEC, BYTES_PER_SEC);

	measure_one_thread();
	measure_two_threads();
	measure_writes();
	measure_rate(1, 1);
	measure_rate(7000000, 1);
	measure_rate(3000000000, 4096);
	measure_rate(100000000000, 65536);
	free(chain);
	free(slow_chain);
	free(empty_chain);
	return missed && argc > 1 && !strcmp(argv[1], "--strict");
}
