/* SPDX-License-Identifier: MIT */
/* Inside libratelimit: I/O limiters and the chains that they are in.  A limiter alone is a chain of
 * one, so that there is one way to consume.
 *
 *	ratelimit_chain ──scope[i].io──▶ ratelimit_io: buckets, permits
 *	                ◀──── users ────
 *
 * What comes back to a limiter may be what any chain with this limiter waits for; `users` finds them.
 * Lock order: users_lock, then the lock of a waker. */
#ifndef RATELIMIT_CHAIN_CORE_H
#define RATELIMIT_CHAIN_CORE_H

#include <ratelimit/chain.h>

#include "base/list.h"
#include "limit/chain.h"
#include "ratelimit/waker.h"

struct ratelimit_chain {
	struct chain *compiled; /* NULL: nothing limits it */
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
	struct ratelimit_io_config config; /* tells which limits there are */
	pthread_mutex_t users_lock;
	struct list users;
	struct ratelimit_chain alone; /* the chain of this limiter only */
};

int chain_begin(struct ratelimit_chain *ch, struct ratelimit_io *const *limiters, unsigned n);
void chain_end(struct ratelimit_chain *ch);

/* Something came back to the limiter: wakes all chains that it is in, but for `except`. */
void io_wake(struct ratelimit_io *io, const struct ratelimit_chain *except);

#endif
