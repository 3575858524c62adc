/* SPDX-License-Identifier: MIT */
/* I/O limiter: operations and bytes per second, optionally operations in flight, with a file
 * descriptor for event loops.  See ratelimit_io(3). */
#ifndef RATELIMIT_IO_H
#define RATELIMIT_IO_H

#include <ratelimit/bucket.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ratelimit_io;

/* A limit whose numbers are all 0 is absent. */
struct ratelimit_io_config {
	struct ratelimit_bucket_config ops, bytes;
	int64_t max_inflight;
};

enum ratelimit_limit {
	RATELIMIT_OPS,
	RATELIMIT_BYTES,
	RATELIMIT_INFLIGHT,
};

/* Why -EAGAIN was returned. */
struct ratelimit_refusal {
	unsigned scope; /* index of the limiter in its chain; 0 for a limiter alone */
	enum ratelimit_limit limit;
	uint64_t wait_ns; /* until all buckets would grant; RATELIMIT_NEVER: until a release */
};

/* For display only: it may be out of date when it is read.  Absent limits are all 0. */
struct ratelimit_io_state {
	struct ratelimit_bucket_state ops, bytes;
	int64_t max_inflight, in_flight;
};

/* All buckets start full.  -EINVAL, -ENOMEM. */
int ratelimit_io_new(struct ratelimit_io **io, const struct ratelimit_io_config *config,
		     uint64_t now_ns);
/* Chains that contain it must have been freed before. */
void ratelimit_io_free(struct ratelimit_io *io);

/* Takes the tokens of all limits and, if max_inflight is set, one permit; or takes nothing, returns
 * -EAGAIN and fills `why` (NULL is allowed). */
int ratelimit_io_consume(struct ratelimit_io *io, uint32_t ops, uint64_t bytes, uint64_t now_ns,
			 struct ratelimit_refusal *why);

/* Takes them even if that leaves debt or exceeds max_inflight. */
int ratelimit_io_force_consume(struct ratelimit_io *io, uint32_t ops, uint64_t bytes,
			       uint64_t now_ns);

/* The operation is complete: gives its permit back. */
void ratelimit_io_release(struct ratelimit_io *io);
/* The operation was not carried out: gives back its tokens and its permit. */
int ratelimit_io_undo(struct ratelimit_io *io, uint32_t ops, uint64_t bytes);
/* Fewer bytes were moved than consumed: gives back the rest, not the permit. */
int ratelimit_io_refund_bytes(struct ratelimit_io *io, uint64_t bytes);

/* Like ratelimit_bucket_force_replenish, on one of the buckets.  -EINVAL if
 * that limit is absent. */
int ratelimit_io_force_replenish(struct ratelimit_io *io, enum ratelimit_limit limit,
				 uint64_t tokens, uint64_t now_ns);

/* Sets new sizes, rates and max_inflight; nothing is refilled.  Cannot add or remove a limit:
 * -EINVAL.  One caller at a time. */
int ratelimit_io_reconfigure(struct ratelimit_io *io, const struct ratelimit_io_config *config,
			     uint64_t now_ns);

/* A descriptor that becomes readable when a refused request may be tried again: at the earliest
 * time at which one of the refused requests would be granted, or when tokens or a permit are
 * returned.  It belongs to the limiter: wait for it with poll(2) or epoll(7), do not read or close
 * it.  Returns a negative errno value if none can be made. */
int ratelimit_io_fd(struct ratelimit_io *io);

/* Handles a readable descriptor: 0 if refused requests should be tried again, -EAGAIN if nothing
 * has happened. */
int ratelimit_io_event(struct ratelimit_io *io);

/* 1 from a refusal until the event that follows it, otherwise 0. */
int ratelimit_io_blocked(const struct ratelimit_io *io);

void ratelimit_io_look(const struct ratelimit_io *io, uint64_t now_ns,
		       struct ratelimit_io_state *state);

#ifdef __cplusplus
}
#endif

#endif
