/* SPDX-License-Identifier: MIT */
/* The public face of limit/permits.h: checks arguments, owns the memory. */
#include <ratelimit/permits.h>

#include <errno.h>

#include "limit/permits.h"
#include "ratelimit/object.h"

struct ratelimit_permits {
	struct permits core;
};

int ratelimit_permits_new(struct ratelimit_permits **permits, int64_t limit)
{
	*permits = NULL;
	if (limit < 0)
		return -EINVAL;
	struct ratelimit_permits *p = object_new(sizeof(*p));
	if (!p)
		return -ENOMEM;
	permits_init(&p->core, limit);
	*permits = p;
	return 0;
}

void ratelimit_permits_free(struct ratelimit_permits *permits)
{
	free(permits);
}

int ratelimit_permits_acquire(struct ratelimit_permits *permits)
{
	return permits_try(&permits->core) ? 0 : -EAGAIN;
}

void ratelimit_permits_force_acquire(struct ratelimit_permits *permits)
{
	permits_take(&permits->core);
}

void ratelimit_permits_release(struct ratelimit_permits *permits)
{
	permits_release(&permits->core);
}

int ratelimit_permits_set_limit(struct ratelimit_permits *permits, int64_t limit)
{
	if (limit < 0)
		return -EINVAL;
	permits_set_limit(&permits->core, limit);
	return 0;
}

void ratelimit_permits_look(const struct ratelimit_permits *permits,
			    struct ratelimit_permits_state *state)
{
	struct permits_snapshot s = permits_look(&permits->core);
	*state = (struct ratelimit_permits_state){s.limit, s.available, s.in_flight};
}
