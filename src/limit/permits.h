/* SPDX-License-Identifier: MIT */
/* Counting limiter: at most `limit` holders at a time.  Lock-free, safe from any thread.
 * Each success of permits_try is undone by exactly one permits_release; one release too many is
 * an assertion in debug builds and clamps in others.
 * The limit may change while permits are held: holders above a lowered limit keep theirs. */
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
	_Atomic uint32_t gate; /* as in struct bucket */
};

struct permits_snapshot {
	int64_t limit, available, in_flight; /* for looking only: old when you read it */
};

/* A negative limit becomes 0, with a warning in the log. */
void permits_init(struct permits *p, int64_t limit);
void permits_set_limit(struct permits *p, int64_t limit);

bool permits_try(struct permits *p);  /* false at once when none is free */
void permits_take(struct permits *p); /* in any case, above the limit too */
void permits_release(struct permits *p);

struct permits_snapshot permits_look(const struct permits *p);

#endif
