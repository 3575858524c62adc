/* SPDX-License-Identifier: MIT */
/* A limit on concurrency: at most `limit` holders at a time.  Lock-free, safe from any thread.
 * Each successful permits_try needs exactly one permits_release; one too many fails an assertion in debug
 * builds and is ignored otherwise.
 * The limit may change while permits are held; lowering it revokes no permit. */
#ifndef LIMIT_PERMITS_H
#define LIMIT_PERMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

#define PERMITS_UNLIMITED INT64_MAX

struct permits {
	_Alignas(CACHE_LINE) _Atomic int64_t in_flight;
	_Atomic int64_t limit;
	_Atomic uint32_t waiters; /* as in struct bucket */
};

struct permits_snapshot {
	int64_t limit, available, in_flight; /* for display: may be outdated already */
};

/* A negative limit becomes 0, with a warning in the log. */
void permits_init(struct permits *p, int64_t limit);
void permits_set_limit(struct permits *p, int64_t limit);

bool permits_try(struct permits *p);  /* false if none is free; never waits */
void permits_take(struct permits *p); /* always succeeds, even above the limit */
void permits_release(struct permits *p);

struct permits_snapshot permits_look(const struct permits *p);

#endif
