/* SPDX-License-Identifier: MIT */
/* What a limit costs: bench_limit [--strict]
 *
 * A table for people, then one JSON object per line.  Times are minima over many short batches of
 * the variants in turn, so that whatever else runs on the machine hits all of them alike; with two
 * threads the median over rounds.  --strict: exit 1 when a bar is missed. */
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench_step.h"
#include "limit/chain.h"

#define BATCH	      2000
#define ROUNDS	      400
#define THREAD_OPS    100000
#define THREAD_ROUNDS 21
#define STEP_NS	      25 /* how far the simulated clock goes from one request to the next */

/* A 4 KiB read through a mount takes about 12 µs.  Limits may cost 1 % of it; and 5 % where two threads
 * do nothing but take from the same buckets, which no mount ever does. */
#define CHAIN_BAR_NS	 120
#define CONTENDED_BAR_NS 600

#define OPS_PER_SEC   1000000000ULL
#define BYTES_PER_SEC 1000000000000ULL

#define SCOPES	3 /* global, fs, mount */
#define BUCKETS 6 /* iops and bps of each */
static struct limiter scope[SCOPES], empty_scope[SCOPES];
static struct chain *chain, *empty_chain;
static struct bucket one;
static struct {
	_Alignas(64) _Atomic uint64_t value;
} counter[BUCKETS];
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
	for (unsigned i = 0; i < BUCKETS; i++)
		atomic_fetch_add(&counter[i].value, 1);
	return now_ns != 0;
}

VARIANT run_bucket(uint64_t now_ns)
{
	return bucket_try(&one, 1, now_ns);
}

VARIANT run_bucket_refusal(uint64_t now_ns)
{
	return !bucket_try(empty_scope[0].bucket[LIMIT_IOPS][BUCKET_STEADY], 1, 0);
}

VARIANT run_chain(uint64_t now_ns)
{
	struct cost c = {COST_READ, ops, bytes};
	return chain_try(chain, &c, now_ns, NULL) == GRANT_OK;
}

VARIANT run_chain_refusal(uint64_t now_ns)
{
	struct cost c = {COST_READ, ops, bytes};
	return chain_try(empty_chain, &c, 0, NULL) == GRANT_WOULD_BLOCK;
}

struct variant {
	const char *name;
	bool (*run)(uint64_t now_ns);
	double ns, instructions; /* per request; instructions < 0: not counted */
	uint64_t clock_ns;
};

enum { NOTHING, UNLIMITED, ADD, SIX_ADDS, BUCKET, BUCKET_REFUSAL, CHAIN, CHAIN_REFUSAL, VARIANTS };

static struct variant variants[VARIANTS] = {
	[NOTHING] = {"empty loop", run_nothing, 1e9, -1, 0},
	[UNLIMITED] = {"unlimited class", run_unlimited, 1e9, -1, 0},
	[ADD] = {"bare atomic add", run_atomic_add, 1e9, -1, 0},
	[SIX_ADDS] = {"six bare atomic adds", run_six_adds, 1e9, -1, 0},
	[BUCKET] = {"one bucket", run_bucket, 1e9, -1, 0},
	[BUCKET_REFUSAL] = {"one bucket, refusal", run_bucket_refusal, 1e9, -1, 0},
	[CHAIN] = {"chain of six", run_chain, 1e9, -1, 0},
	[CHAIN_REFUSAL] = {"chain of six, refusal", run_chain_refusal, 1e9, -1, 0},
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

static void measure_one_thread(void)
{
	int fd = open_instructions();
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned i = 0; i < VARIANTS; i++)
			measure(&variants[i], fd);
	if (fd >= 0)
		close(fd);
	for (unsigned i = 0; i < VARIANTS; i++)
		if (variants[i].instructions < 0)
			variants[i].instructions =
				step_count(variants[i].run, variants[i].clock_ns, STEP_NS);
	show_variants();
	const struct variant *v = variants;
	result("unlimited class over an empty loop", v[UNLIMITED].ns - v[NOTHING].ns, "ns", 1,
	       false);
	result("six limits", v[CHAIN].ns, "ns", CHAIN_BAR_NS, false);
	result("six limits, refusal", v[CHAIN_REFUSAL].ns, "ns", CHAIN_BAR_NS, false);
}

static void measure_two_threads(void)
{
	double ns[THREAD_ROUNDS];
	for (unsigned r = 0; r < THREAD_ROUNDS; r++)
		ns[r] = race_two(run_chain);
	result("six limits shared by two threads", median(ns, THREAD_ROUNDS), "ns",
	       CONTENDED_BAR_NS, false);
}

static void measure_writes(void)
{
	static struct bucket before[SCOPES * 2];
	for (unsigned i = 0; i < empty_chain->links; i++)
		memcpy(&before[i], empty_chain->link[i].bucket, sizeof(before[i]));
	for (unsigned i = 0; i < BATCH; i++)
		run_chain_refusal(0);
	bool wrote = false;
	for (unsigned i = 0; i < empty_chain->links; i++)
		wrote |= memcmp(&before[i], empty_chain->link[i].bucket, sizeof(before[i])) != 0;
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

static struct chain *make_chain(struct limiter s[SCOPES], const struct limiter_config *cfg)
{
	struct limiter *const way[] = {&s[SCOPE_MOUNT], &s[SCOPE_FS], &s[SCOPE_GLOBAL]};
	for (unsigned i = 0; i < SCOPES; i++)
		if (!limiter_init(&s[i], (enum scope_kind)i, cfg, 0))
			return NULL;
	return chain_compile(COST_READ, way, SCOPES, NULL);
}

int main(int argc, char **argv)
{
	struct limiter_config cfg = {.window_ns = 0}, dry = {.window_ns = 0};
	cfg.limit[LIMIT_IOPS] = (struct limit_config){.enabled = true, .rate_per_sec = OPS_PER_SEC};
	cfg.limit[LIMIT_BPS] =
		(struct limit_config){.enabled = true, .rate_per_sec = BYTES_PER_SEC};
	dry.limit[LIMIT_IOPS] = (struct limit_config){.enabled = true, .rate_per_sec = 10};
	dry.limit[LIMIT_BPS] = (struct limit_config){.enabled = true, .rate_per_sec = 1000000};
	chain = make_chain(scope, &cfg);
	empty_chain = make_chain(empty_scope, &dry);
	if (!chain || !empty_chain)
		return 1;
	bucket_take(empty_scope[0].bucket[LIMIT_IOPS][BUCKET_STEADY], 1,
		    0); /* the widest refuses, looked at last */
	struct bucket_config bc = {OPS_PER_SEC, OPS_PER_SEC / 10, 0};
	bucket_init(&one, &bc, 0);

	measure_one_thread();
	measure_two_threads();
	measure_writes();
	measure_rate(1, 1);
	measure_rate(7000000, 1);
	measure_rate(3000000000, 4096);
	measure_rate(100000000000, 65536);
	free(chain);
	free(empty_chain);
	return missed && argc > 1 && !strcmp(argv[1], "--strict");
}
