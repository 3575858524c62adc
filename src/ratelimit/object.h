/* SPDX-License-Identifier: MIT */
/* Internal: memory and checks that several parts of libratelimit need. */
#ifndef RATELIMIT_OBJECT_H
#define RATELIMIT_OBJECT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <ratelimit/bucket.h>

#include "base/util.h"
#include "limit/bucket.h"

/* Zeroed memory, aligned as buckets and permits require; release it with free(). */
static inline void *object_new(size_t size)
{
	size = (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	void *p = aligned_alloc(CACHE_LINE, size);
	return p ? memset(p, 0, size) : NULL;
}

static inline bool tokens_are_valid(uint64_t tokens)
{
	return tokens <= RATELIMIT_TOKENS_MAX;
}

static inline bool bucket_config_is_valid(const struct ratelimit_bucket_config *c)
{
	return c->size >= 1 && tokens_are_valid(c->size) && c->refill_per_sec >= 1 &&
	       c->refill_per_sec <= RATELIMIT_RATE_MAX && tokens_are_valid(c->one_time_burst);
}

static inline struct bucket_config bucket_config_of(const struct ratelimit_bucket_config *c)
{
	return (struct bucket_config){
		.rate_per_sec = c->refill_per_sec,
		.capacity = c->size,
		.once = c->one_time_burst,
	};
}

static inline struct ratelimit_bucket_state bucket_state_of(const struct bucket *b, uint64_t now_ns)
{
	return (struct ratelimit_bucket_state){
		.size = bucket_capacity(b),
		.refill_per_sec = bucket_rate(b),
		.burst_left = bucket_once_left(b),
		.budget = bucket_level(b, now_ns),
		.full_in_ns = bucket_refill_ns(b, now_ns),
	};
}

#endif
