/* SPDX-License-Identifier: MIT */
/* How ratefs-pool reaches the server of its pool: Redis over the network, or a helper on the same
 * machine, which may be this helper itself.  Each way is a table of functions. */
#ifndef CTL_POOL_LINK_H
#define CTL_POOL_LINK_H

#include <poll.h>

#include "base/error.h"
#include "pool/wire.h"

struct pool_link;

struct pool_link_ops {
	/* Called before privileges are dropped.  0 or -1 with err. */
	int (*prepare)(struct pool_link *l, struct error *err);
	/* Calls the server and waits for its answer, for about one lease at most.  0 or -1 with err. */
	int (*call)(struct pool_link *l, const struct pool_call *c, struct pool_answer *out,
		    struct error *err);
	/* After a call: lists the members. */
	bool (*list)(struct pool_link *l, struct pool_listing *out);
	/* Further descriptors to watch, and what to do when one is ready; NULL: none. */
	unsigned (*watch)(struct pool_link *l, struct pollfd *fds, unsigned max);
	void (*ready)(struct pool_link *l, const struct pollfd *fds, unsigned n);
};

struct pool_link {
	const struct pool_link_ops *ops;
	struct pool_setup setup;
	void *state;
	uint64_t listed_ms; /* when the members were last listed */
	bool outdated;	    /* the setup no longer works; the next helper may get a better one */
};

extern const struct pool_link_ops pool_redis_ops, pool_local_ops;

/* CLOCK_MONOTONIC. */
uint64_t pool_now_ms(void);

/* pool_seccomp.c: from now on, only the system calls that a helper needs
 * work.  0, or -1 with err. */
int pool_restrict(struct error *err);

#endif
