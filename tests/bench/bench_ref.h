/* SPDX-License-Identifier: MIT */
/* What the limiter is measured against: token buckets as they are usually written, a double and
 * the time of its last refill under a mutex.  Time is an argument here, too. */
#ifndef BENCH_BENCH_REF_H
#define BENCH_BENCH_REF_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define REF_BUCKETS 6

struct ref_bucket {
	_Alignas(64) pthread_mutex_t lock;
	double tokens, per_ns, capacity;
	uint64_t last_ns;
};

struct ref_chain {
	pthread_mutex_t lock; /* of all, in the variant with one mutex */
	struct ref_bucket bucket[REF_BUCKETS];
};

static inline void ref_init(struct ref_chain *r, double ops_per_sec, double bytes_per_sec)
{
	pthread_mutex_init(&r->lock, NULL);
	for (unsigned i = 0; i < REF_BUCKETS; i++) {
		struct ref_bucket *b = &r->bucket[i];
		double rate = i & 1 ? bytes_per_sec : ops_per_sec;
		pthread_mutex_init(&b->lock, NULL);
		b->tokens = b->capacity = rate / 10;
		b->per_ns = rate / 1e9;
		b->last_ns = 0;
	}
}

static inline void ref_refill(struct ref_bucket *b, uint64_t now_ns)
{
	if (now_ns <= b->last_ns)
		return;
	b->tokens += (double)(now_ns - b->last_ns) * b->per_ns;
	if (b->tokens > b->capacity)
		b->tokens = b->capacity;
	b->last_ns = now_ns;
}

/* Six buckets, each with its mutex; what was taken goes back when a later one refuses. */
static inline bool ref_try_six(struct ref_chain *r, const double cost[2], uint64_t now_ns)
{
	bool ok = true;
	unsigned n = 0;
	while (ok && n < REF_BUCKETS) {
		struct ref_bucket *b = &r->bucket[n];
		pthread_mutex_lock(&b->lock);
		ref_refill(b, now_ns);
		ok = b->tokens >= cost[n & 1];
		if (ok)
			b->tokens -= cost[n & 1];
		pthread_mutex_unlock(&b->lock);
		n++;
	}
	for (unsigned i = 0; !ok && i + 1 < n; i++) {
		struct ref_bucket *b = &r->bucket[i];
		pthread_mutex_lock(&b->lock);
		b->tokens += cost[i & 1];
		pthread_mutex_unlock(&b->lock);
	}
	return ok;
}

/* Six buckets under one mutex; what was taken goes back when a later one refuses. */
static inline bool ref_try_one(struct ref_chain *r, const double cost[2], uint64_t now_ns)
{
	unsigned n = 0;
	pthread_mutex_lock(&r->lock);
	for (; n < REF_BUCKETS; n++) {
		struct ref_bucket *b = &r->bucket[n];
		ref_refill(b, now_ns);
		if (b->tokens < cost[n & 1])
			break;
		b->tokens -= cost[n & 1];
	}
	bool ok = n == REF_BUCKETS;
	while (!ok && n > 0) {
		n--;
		r->bucket[n].tokens += cost[n & 1];
	}
	pthread_mutex_unlock(&r->lock);
	return ok;
}

#endif
