/* SPDX-License-Identifier: MIT */
/* The public face of limit/bucket.h: checks arguments, owns the memory. */
#include <ratelimit/bucket.h>

#include <errno.h>

#include "ratelimit/object.h"

struct ratelimit_bucket {
	struct bucket core;
};

int ratelimit_bucket_new(struct ratelimit_bucket **bucket,
			 const struct ratelimit_bucket_config *config, uint64_t now_ns)
{
	*bucket = NULL;
	if (!bucket_config_is_valid(config))
		return -EINVAL;
	struct ratelimit_bucket *b = object_new(sizeof(*b));
	if (!b)
		return -ENOMEM;
	struct bucket_config c = bucket_config_of(config);
	bucket_init(&b->core, &c, now_ns);
	*bucket = b;
	return 0;
}

void ratelimit_bucket_free(struct ratelimit_bucket *bucket)
{
	free(bucket);
}

int ratelimit_bucket_consume(struct ratelimit_bucket *bucket, uint64_t tokens, uint64_t now_ns)
{
	if (!tokens_are_valid(tokens))
		return -EINVAL;
	return bucket_try(&bucket->core, tokens, now_ns) ? 0 : -EAGAIN;
}

int ratelimit_bucket_force_consume(struct ratelimit_bucket *bucket, uint64_t tokens,
				   uint64_t now_ns)
{
	if (!tokens_are_valid(tokens))
		return -EINVAL;
	bucket_take(&bucket->core, tokens, now_ns);
	return 0;
}

uint64_t ratelimit_bucket_wait_ns(const struct ratelimit_bucket *bucket, uint64_t tokens,
				  uint64_t now_ns)
{
	return tokens_are_valid(tokens) ? bucket_wait_ns(&bucket->core, tokens, now_ns)
					: RATELIMIT_NEVER;
}

int ratelimit_bucket_refund(struct ratelimit_bucket *bucket, uint64_t tokens)
{
	if (!tokens_are_valid(tokens))
		return -EINVAL;
	bucket_refund(&bucket->core, tokens);
	return 0;
}

int ratelimit_bucket_force_replenish(struct ratelimit_bucket *bucket, uint64_t tokens,
				     uint64_t now_ns)
{
	if (!tokens_are_valid(tokens))
		return -EINVAL;
	bucket_replenish(&bucket->core, tokens, now_ns);
	return 0;
}

int64_t ratelimit_bucket_budget(const struct ratelimit_bucket *bucket, uint64_t now_ns)
{
	return bucket_level(&bucket->core, now_ns);
}

int ratelimit_bucket_reconfigure(struct ratelimit_bucket *bucket,
				 const struct ratelimit_bucket_config *config, uint64_t now_ns)
{
	if (!bucket_config_is_valid(config))
		return -EINVAL;
	struct bucket_config c = bucket_config_of(config);
	bucket_reconfigure(&bucket->core, &c, now_ns);
	return 0;
}

void ratelimit_bucket_look(const struct ratelimit_bucket *bucket, uint64_t now_ns,
			   struct ratelimit_bucket_state *state)
{
	*state = bucket_state_of(&bucket->core, now_ns);
}
