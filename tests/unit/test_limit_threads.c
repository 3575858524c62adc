/* SPDX-License-Identifier: MIT */
/* Properties with many concurrent threads; also run under ThreadSanitizer.  Time is fake: it stands
 * still, or every thread advances it. */
#include "limit/chain.h"

#include <pthread.h>

#include "unit/unit.h"

#define THREADS 4
#define ROUNDS	30000
#define SEC	NSEC_PER_SEC

struct worker {
	pthread_t thread;
	uint64_t seed;
	unsigned index;
	uint64_t granted, refunded, requests;
};

static struct worker worker[THREADS];
static struct bucket bucket;
static struct limiter global, mount[2], fs;
static struct chain *chain[2];
static _Atomic uint64_t fake_ns;
static _Atomic bool stop;

static void run(void *(*body)(void *))
{
	for (unsigned i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){.seed = unit_seed() + i * 7919, .index = i};
		ck_assert_int_eq(pthread_create(&worker[i].thread, NULL, body, &worker[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(worker[i].thread, NULL);
}

static struct worker sum(void)
{
	struct worker all = {0};
	for (unsigned i = 0; i < THREADS; i++) {
		all.granted += worker[i].granted;
		all.refunded += worker[i].refunded;
		all.requests += worker[i].requests;
	}
	return all;
}

static void *take_and_refund(void *arg)
{
	struct worker *w = arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t tokens = 1 + unit_random(&w->seed) % 40;
		if (!bucket_try(&bucket, tokens, SEC))
			continue;
		w->granted += tokens;
		uint64_t unused = unit_random(&w->seed) % (tokens + 1);
		if (unit_random(&w->seed) % 3) {
			bucket_refund(&bucket, unused);
			w->refunded += unused;
		}
	}
	return NULL;
}

START_TEST(while_time_stands_still_every_token_is_accounted_for)
{
	struct bucket_config cfg = {1000, 100000, 0};
	bucket_init(&bucket, &cfg, SEC);
	run(take_and_refund);
	struct worker all = sum();
	ck_assert_uint_gt(all.granted, 0);
	ck_assert_int_eq(bucket_level(&bucket, SEC),
			 100000 - (int64_t)all.granted + (int64_t)all.refunded);
	ck_assert_int_ge(bucket_level(&bucket, SEC), 0); /* nothing was granted twice */
}
END_TEST

static void *drain(void *arg)
{
	struct worker *w = arg;
	while (bucket_try(&bucket, 1 + w->index % 2, SEC))
		w->granted += 1 + w->index % 2;
	while (bucket_try(&bucket, 1, SEC))
		w->granted++;
	return NULL;
}

START_TEST(threads_drain_steady_tokens_and_one_time_burst_to_the_last_one)
{
	struct bucket_config cfg = {1000, 5000, 20000};
	bucket_init(&bucket, &cfg, SEC);
	run(drain);
	/* A thread may give up because another has taken from the burst for a moment; then something is left. */
	uint64_t rest = 0;
	while (bucket_try(&bucket, 1, SEC))
		rest++;
	ck_assert_uint_eq(sum().granted + rest, 25000);
	ck_assert_uint_eq(bucket_once_left(&bucket), 0);
	ck_assert_int_eq(bucket_level(&bucket, SEC), 0);
}
END_TEST

/* Two mounts below one fs and the global scope; the limits of the mounts refuse often. */
static void make_chains(uint64_t now_ns)
{
	struct limiter_config wide = {.window_ns = SEC}, narrow = {.window_ns = SEC};
	wide.limit[LIMIT_IOPS] = (struct limit_config){.enabled = true, .rate_per_sec = 40000};
	wide.limit[LIMIT_BPS] = (struct limit_config){true, 400000000, 0, 30000, 0, 0};
	narrow.limit[LIMIT_READ_IOPS] =
		(struct limit_config){.enabled = true, .rate_per_sec = 30000};
	narrow.limit[LIMIT_READ_BPS] = (struct limit_config){true, 200000000, 0, 10000, 0, 0};
	narrow.max_inflight = 3;
	ck_assert(limiter_init(&global, SCOPE_GLOBAL, &wide, now_ns));
	ck_assert(limiter_init(&fs, SCOPE_FS, &wide, now_ns));
	for (unsigned m = 0; m < 2; m++) {
		struct limiter *const way[] = {&mount[m], &fs, &global};
		ck_assert(limiter_init(&mount[m], SCOPE_MOUNT, &narrow, now_ns));
		chain[m] = chain_compile(COST_READ, way, 3, NULL);
		ck_assert_ptr_nonnull(chain[m]);
	}
}

static void free_chains(void)
{
	for (unsigned m = 0; m < 2; m++) {
		free(chain[m]);
		limiter_fini(&mount[m]);
	}
	limiter_fini(&fs);
	limiter_fini(&global);
}

/* Threads 0 and 2 use the first mount, 1 and 3 the second. */
static void *request(void *arg)
{
	struct worker *w = arg;
	const struct chain *ch = chain[w->index % 2];
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct cost c = {COST_READ, 1, unit_random(&w->seed) % 65536};
		uint64_t now_ns = atomic_load(&fake_ns);
		if (now_ns > SEC)
			now_ns = atomic_fetch_add(&fake_ns, 1 + unit_random(&w->seed) % 20000);
		enum grant_result r = i % 4 ? chain_try(ch, &c, now_ns, NULL)
					    : chain_try_partial(ch, &c, 4096, now_ns, NULL);
		if (r != GRANT_OK)
			continue;
		w->requests++;
		w->granted += c.bytes;
		if (unit_random(&w->seed) % 4 == 0) {
			uint64_t unused = unit_random(&w->seed) % (c.bytes + 1);
			chain_refund_bytes(ch, unused);
			w->refunded += unused;
		}
		chain_release(ch);
	}
	return NULL;
}

static int64_t spent(struct limiter *l, enum limit_kind k, uint64_t once)
{
	struct bucket *b = l->bucket[k][BUCKET_STEADY];
	return (int64_t)(bucket_capacity(b) + once) - bucket_level(b, SEC);
}

START_TEST(a_chain_takes_from_all_its_limits_or_from_none)
{
	atomic_store(&fake_ns, SEC);
	make_chains(SEC);
	run(request);
	struct worker all = sum(), first = worker[0];
	first.requests += worker[2].requests;
	first.granted += worker[2].granted;
	first.refunded += worker[2].refunded;
	ck_assert_uint_gt(first.requests, 100);
	ck_assert_uint_gt(all.requests, first.requests);
	ck_assert_int_eq(spent(&global, LIMIT_IOPS, 0), (int64_t)all.requests);
	ck_assert_int_eq(spent(&fs, LIMIT_IOPS, 0), (int64_t)all.requests);
	ck_assert_int_eq(spent(&mount[0], LIMIT_READ_IOPS, 0), (int64_t)first.requests);
	ck_assert_int_eq(spent(&global, LIMIT_BPS, 30000), (int64_t)(all.granted - all.refunded));
	ck_assert_int_eq(spent(&fs, LIMIT_BPS, 30000), (int64_t)(all.granted - all.refunded));
	ck_assert_int_eq(spent(&mount[0], LIMIT_READ_BPS, 10000),
			 (int64_t)(first.granted - first.refunded));
	for (unsigned m = 0; m < 2; m++)
		ck_assert_int_eq(permits_look(&mount[m].inflight).in_flight, 0);
	free_chains();
}
END_TEST

START_TEST(threads_with_clocks_that_disagree_stay_within_the_rate)
{
	atomic_store(&fake_ns, 2 * SEC);
	make_chains(2 * SEC);
	run(request);
	struct worker all = sum();
	double secs = (double)(atomic_load(&fake_ns) - 2 * SEC) / SEC;
	ck_assert_uint_gt(all.requests, 1000);
	ck_assert((double)all.requests <= 40000 * (1 + secs) + 1);
	ck_assert((double)(all.granted - all.refunded) <= 400000000 * (1 + secs) + 30000 + 65536);
	free_chains();
}
END_TEST

/* The rate changes between half and twice its value; the fastest bounds what may be granted. */
static void *reconfigure(void *arg)
{
	uint64_t seed = unit_seed();
	while (!atomic_load(&stop)) {
		struct limiter_config cfg = {.window_ns = SEC / (1 + unit_random(&seed) % 4)};
		uint64_t scale = 1 + unit_random(&seed) % 4;
		cfg.limit[LIMIT_IOPS] = (struct limit_config){true, 20000 * scale, 0, 0, 0, 0};
		cfg.limit[LIMIT_BPS] =
			(struct limit_config){true, 200000000 * scale, 0, 30000, 0, 0};
		limiter_configure(&global, &cfg, atomic_load(&fake_ns));
	}
	return NULL;
}

START_TEST(limits_may_change_while_threads_go_through_them)
{
	pthread_t changer;
	atomic_store(&fake_ns, 2 * SEC);
	atomic_store(&stop, false);
	make_chains(2 * SEC);
	ck_assert_int_eq(pthread_create(&changer, NULL, reconfigure, NULL), 0);
	run(request);
	atomic_store(&stop, true);
	pthread_join(changer, NULL);
	struct worker all = sum();
	double secs = (double)(atomic_load(&fake_ns) - 2 * SEC) / SEC;
	ck_assert_uint_gt(all.requests, 1000);
	ck_assert((double)all.requests <= 80000 * (1 + secs) + 1);
	ck_assert((double)(all.granted - all.refunded) <= 800000000 * (1 + secs) + 30000 + 65536);
	/* no thread has seen half of a change: the bucket still works as configured */
	uint64_t later_ns = atomic_load(&fake_ns) + 1000 * SEC;
	struct bucket *b = global.bucket[LIMIT_IOPS][BUCKET_STEADY];
	ck_assert_int_eq(bucket_level(b, later_ns), (int64_t)bucket_capacity(b));
	for (unsigned m = 0; m < 2; m++)
		ck_assert_int_eq(permits_look(&mount[m].inflight).in_flight, 0);
	free_chains();
}
END_TEST

UNIT_MAIN("limit_threads", while_time_stands_still_every_token_is_accounted_for,
	  threads_drain_steady_tokens_and_one_time_burst_to_the_last_one,
	  a_chain_takes_from_all_its_limits_or_from_none,
	  threads_with_clocks_that_disagree_stay_within_the_rate,
	  limits_may_change_while_threads_go_through_them)
