/* SPDX-License-Identifier: MIT */
/* Permits: a counting limiter that fails immediately instead of waiting.  See ratelimit_permits(3). */
#ifndef RATELIMIT_PERMITS_H
#define RATELIMIT_PERMITS_H

#include <ratelimit/common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ratelimit_permits;

/* For display only: it may be out of date when it is read. */
struct ratelimit_permits_state {
	int64_t limit, available, in_flight;
};

/* At most `limit` holders at a time.  -EINVAL: it is negative; -ENOMEM. */
int ratelimit_permits_new(struct ratelimit_permits **permits, int64_t limit);
void ratelimit_permits_free(struct ratelimit_permits *permits);

/* Takes a permit, or returns -EAGAIN.  Each success needs one ratelimit_permits_release. */
int ratelimit_permits_acquire(struct ratelimit_permits *permits);

/* Takes a permit even if that exceeds the limit. */
void ratelimit_permits_force_acquire(struct ratelimit_permits *permits);

/* Returns a permit.  Does nothing if none is held. */
void ratelimit_permits_release(struct ratelimit_permits *permits);

/* Holders above a lowered limit keep their permits.  -EINVAL: it is negative. */
int ratelimit_permits_set_limit(struct ratelimit_permits *permits, int64_t limit);

void ratelimit_permits_look(const struct ratelimit_permits *permits,
			    struct ratelimit_permits_state *state);

#ifdef __cplusplus
}
#endif

#endif
