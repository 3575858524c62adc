/* SPDX-License-Identifier: MIT */
/* Internal: I/O limiters and the chains that they are in.  A single limiter is a chain of one, so
 * that there is only one way to consume.
 *
 *	ratelimit_chain ──scope[i].io──▶ ratelimit_io: buckets, permits
 *	                ◀──── users ────
 *
 * Tokens or permits that are returned to a limiter may be what any of its chains waits for; `users`
 * lists these chains.
 * Lock order: users_lock, then the lock of a waker. */
#ifndef RATELIMIT_CHAIN_CORE_H
#define RATELIMIT_CHAIN_CORE_H

#include <ratelimit/chain.h>

#include "base/list.h"
#include "limit/chain.h"
#include "ratelimit/waker.h"

struct ratelimit_chain {
	struct chain *compiled; /* NULL: there are no limits */
	struct waker waker;
	unsigned n;
	struct chain_scope {
		struct list user; /* in io->users */
		struct ratelimit_chain *chain;
		struct ratelimit_io *io;
	} scope[RATELIMIT_CHAIN_MAX];
};

struct ratelimit_io {
	struct limiter limiter;
	struct ratelimit_io_config config; /* says which limits exist */
	pthread_mutex_t users_lock;
	struct list users;
	struct ratelimit_chain alone; /* the chain of this limiter only */
};

int chain_begin(struct ratelimit_chain *ch, struct ratelimit_io *const *limiters, unsigned n);
void chain_end(struct ratelimit_chain *ch);

/* Tokens or a permit were returned to the limiter: wakes all chains that it
 * is in, except `except`. */
void io_wake(struct ratelimit_io *io, const struct ratelimit_chain *except);

#endif
