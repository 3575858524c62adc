/* SPDX-License-Identifier: MIT */
#include <ratelimit/io.h>

#include <errno.h>

#include "ratelimit/chain_core.h"
#include "ratelimit/object.h"

/* --- configuration --- */

static bool is_absent(const struct ratelimit_bucket_config *c)
{
	return !c->size && !c->refill_per_sec && !c->one_time_burst;
}

static bool is_valid(const struct ratelimit_io_config *c)
{
	return (is_absent(&c->ops) || bucket_config_is_valid(&c->ops)) &&
	       (is_absent(&c->bytes) || bucket_config_is_valid(&c->bytes)) && c->max_inflight >= 0;
}

static bool same_limits(const struct ratelimit_io_config *a, const struct ratelimit_io_config *b)
{
	return is_absent(&a->ops) == is_absent(&b->ops) &&
	       is_absent(&a->bytes) == is_absent(&b->bytes) && !a->max_inflight == !b->max_inflight;
}

/* NULL: the limit is absent. */
static struct bucket *bucket_of(const struct ratelimit_io *io, enum ratelimit_limit limit)
{
	return limit == RATELIMIT_OPS	  ? io->limiter.bucket[LIMIT_IOPS][BUCKET_STEADY]
	       : limit == RATELIMIT_BYTES ? io->limiter.bucket[LIMIT_BPS][BUCKET_STEADY]
					  : NULL;
}

static void set_size(struct bucket *b, const struct ratelimit_bucket_config *config,
		     uint64_t now_ns)
{
	if (!b)
		return;
	struct bucket_config c = bucket_config_of(config);
	bucket_init(b, &c, now_ns);
}

/* False: out of memory.  limiter_config computes the size of a bucket from a window; here the size
 * is given, so the buckets are configured again afterwards. */
static bool limiter_begin(struct ratelimit_io *io, uint64_t now_ns)
{
	const struct ratelimit_io_config *c = &io->config;
	struct limiter_config limits = {.max_inflight = (uint64_t)c->max_inflight};
	limits.limit[LIMIT_IOPS].enabled = !is_absent(&c->ops);
	limits.limit[LIMIT_BPS].enabled = !is_absent(&c->bytes);
	if (!limiter_init(&io->limiter, SCOPE_GLOBAL, &limits, now_ns))
		return false;
	set_size(bucket_of(io, RATELIMIT_OPS), &c->ops, now_ns);
	set_size(bucket_of(io, RATELIMIT_BYTES), &c->bytes, now_ns);
	return true;
}

static void io_end(struct ratelimit_io *io)
{
	limiter_fini(&io->limiter);
	pthread_mutex_destroy(&io->users_lock);
	free(io);
}

int ratelimit_io_new(struct ratelimit_io **io, const struct ratelimit_io_config *config,
		     uint64_t now_ns)
{
	*io = NULL;
	if (!is_valid(config))
		return -EINVAL;
	struct ratelimit_io *l = object_new(sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->config = *config;
	pthread_mutex_init(&l->users_lock, NULL);
	list_init(&l->users);
	int rc = limiter_begin(l, now_ns) ? chain_begin(&l->alone, &l, 1) : -ENOMEM;
	if (rc < 0) {
		io_end(l);
		return rc;
	}
	*io = l;
	return 0;
}

void ratelimit_io_free(struct ratelimit_io *io)
{
	if (!io)
		return;
	chain_end(&io->alone);
	io_end(io);
}

static void reconfigure(struct bucket *b, const struct ratelimit_bucket_config *config,
			uint64_t now_ns)
{
	if (!b)
		return;
	struct bucket_config c = bucket_config_of(config);
	bucket_reconfigure(b, &c, now_ns);
}

int ratelimit_io_reconfigure(struct ratelimit_io *io, const struct ratelimit_io_config *config,
			     uint64_t now_ns)
{
	if (!is_valid(config) || !same_limits(config, &io->config))
		return -EINVAL;
	reconfigure(bucket_of(io, RATELIMIT_OPS), &config->ops, now_ns);
	reconfigure(bucket_of(io, RATELIMIT_BYTES), &config->bytes, now_ns);
	if (config->max_inflight)
		permits_set_limit(&io->limiter.inflight, config->max_inflight);
	io_wake(io, NULL);
	return 0;
}

/* --- as a chain of one --- */

int ratelimit_io_consume(struct ratelimit_io *io, uint32_t ops, uint64_t bytes, uint64_t now_ns,
			 struct ratelimit_refusal *why)
{
	return ratelimit_chain_consume(&io->alone, ops, bytes, now_ns, why);
}

int ratelimit_io_force_consume(struct ratelimit_io *io, uint32_t ops, uint64_t bytes,
			       uint64_t now_ns)
{
	return ratelimit_chain_force_consume(&io->alone, ops, bytes, now_ns);
}

void ratelimit_io_release(struct ratelimit_io *io)
{
	ratelimit_chain_release(&io->alone);
}

int ratelimit_io_undo(struct ratelimit_io *io, uint32_t ops, uint64_t bytes)
{
	return ratelimit_chain_undo(&io->alone, ops, bytes);
}

int ratelimit_io_refund_bytes(struct ratelimit_io *io, uint64_t bytes)
{
	return ratelimit_chain_refund_bytes(&io->alone, bytes);
}

int ratelimit_io_fd(struct ratelimit_io *io)
{
	return ratelimit_chain_fd(&io->alone);
}

int ratelimit_io_event(struct ratelimit_io *io)
{
	return ratelimit_chain_event(&io->alone);
}

int ratelimit_io_blocked(const struct ratelimit_io *io)
{
	return ratelimit_chain_blocked(&io->alone);
}

/* --- one bucket of it --- */

int ratelimit_io_force_replenish(struct ratelimit_io *io, enum ratelimit_limit limit,
				 uint64_t tokens, uint64_t now_ns)
{
	struct bucket *b = bucket_of(io, limit);
	if (!b || !tokens_are_valid(tokens))
		return -EINVAL;
	bucket_replenish(b, tokens, now_ns);
	io_wake(io, NULL);
	return 0;
}

void ratelimit_io_look(const struct ratelimit_io *io, uint64_t now_ns,
		       struct ratelimit_io_state *state)
{
	const struct bucket *ops = bucket_of(io, RATELIMIT_OPS);
	const struct bucket *bytes = bucket_of(io, RATELIMIT_BYTES);
	*state = (struct ratelimit_io_state){0};
	if (ops)
		state->ops = bucket_state_of(ops, now_ns);
	if (bytes)
		state->bytes = bucket_state_of(bytes, now_ns);
	if (io->config.max_inflight) {
		struct permits_snapshot s = permits_look(&io->limiter.inflight);
		state->max_inflight = s.limit;
		state->in_flight = s.in_flight;
	}
}
