/* SPDX-License-Identifier: MIT */
/* Token bucket.  See ratelimit_bucket(3). */
#ifndef RATELIMIT_BUCKET_H
#define RATELIMIT_BUCKET_H

#include <ratelimit/common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ratelimit_bucket;

struct ratelimit_bucket_config {
	uint64_t size;		 /* tokens that a full bucket holds; at least 1 */
	uint64_t refill_per_sec; /* at least 1 */
	uint64_t one_time_burst; /* extra tokens that are spent last and never come back */
};

/* For display only: it may be out of date when it is read. */
struct ratelimit_bucket_state {
	uint64_t size, refill_per_sec;
	uint64_t burst_left;
	int64_t budget;	     /* tokens, burst_left included; negative: debt */
	uint64_t full_in_ns; /* until the bucket is full, if nobody consumes */
};

/* Makes a full bucket.  -EINVAL, -ENOMEM. */
int ratelimit_bucket_new(struct ratelimit_bucket **bucket,
			 const struct ratelimit_bucket_config *config, uint64_t now_ns);
void ratelimit_bucket_free(struct ratelimit_bucket *bucket);

/* Takes all of the tokens, or none and returns -EAGAIN.  A request larger than `size` is granted by
 * a full bucket, charged in full, and leaves debt. */
int ratelimit_bucket_consume(struct ratelimit_bucket *bucket, uint64_t tokens, uint64_t now_ns);

/* Takes the tokens even if that leaves debt. */
int ratelimit_bucket_force_consume(struct ratelimit_bucket *bucket, uint64_t tokens,
				   uint64_t now_ns);

/* How long from now_ns until `tokens` would be granted; 0: now.  Exact, and takes nothing. */
uint64_t ratelimit_bucket_wait_ns(const struct ratelimit_bucket *bucket, uint64_t tokens,
				  uint64_t now_ns);

/* Gives back tokens that were consumed but not used. */
int ratelimit_bucket_refund(struct ratelimit_bucket *bucket, uint64_t tokens);

/* Adds tokens that nobody had consumed; never fills the bucket beyond its size. */
int ratelimit_bucket_force_replenish(struct ratelimit_bucket *bucket, uint64_t tokens,
				     uint64_t now_ns);

/* Tokens that are left, one-time burst included; negative: debt. */
int64_t ratelimit_bucket_budget(const struct ratelimit_bucket *bucket, uint64_t now_ns);

/* Changes size and rate.  Tokens that were spent stay spent: no change refills the bucket.  A
 * one-time burst that differs from the configured one replaces what was left of it.
 * One caller at a time; other functions may run concurrently. */
int ratelimit_bucket_reconfigure(struct ratelimit_bucket *bucket,
				 const struct ratelimit_bucket_config *config, uint64_t now_ns);

void ratelimit_bucket_look(const struct ratelimit_bucket *bucket, uint64_t now_ns,
			   struct ratelimit_bucket_state *state);

#ifdef __cplusplus
}
#endif

#endif
