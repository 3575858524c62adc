/* SPDX-License-Identifier: MIT */
/* Cheap event counters: each thread adds to a shard of its own without a locked instruction, and
 * reading sums the shards.  The order of updates does not matter, so all accesses are relaxed. */
#ifndef SCHED_COUNTERS_H
#define SCHED_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/util.h"
#include "limit/cost.h"

enum counter {
	COUNT_OPS,
	COUNT_BYTES,
	COUNT_AT_ONCE,
	COUNT_PARKED,
	COUNT_WOULD_BLOCK,
	COUNT_FULL,
	COUNT_NO_ROOM,
	COUNT_TOO_MANY_OPEN,
	COUNT_NO_SPACE,
	COUNT_TIMED_OUT,
	COUNT_CANCELLED,
	COUNT_MISCONFIGURED,
	COUNT_OK,
	COUNT_ERRORS,
	COUNT_FAILED,
	COUNT_ABORTED,
	COUNTERS
};

/* The last shard is shared by all threads that found no free one. */
#define COUNTER_SHARDS 32
#define COUNTER_SHARED (COUNTER_SHARDS - 1)

struct counter_shard {
	_Alignas(CACHE_LINE) _Atomic uint64_t n[COST_CLASSES][COUNTERS];
};

struct counters {
	struct counter_shard shard[COUNTER_SHARDS];
};

struct counter_sums {
	uint64_t n[COST_CLASSES][COUNTERS];
};

/* The calling thread's shard; kept until the thread ends. */
extern _Thread_local unsigned counters_my_shard;
unsigned counters_claim_shard(void);

static inline void counters_add(struct counters *c, enum cost_class cls, enum counter what,
				uint64_t by)
{
	unsigned mine = counters_my_shard ? counters_my_shard - 1 : counters_claim_shard();
	_Atomic uint64_t *n = &c->shard[mine].n[cls][what];
	if (mine == COUNTER_SHARED)
		atomic_fetch_add_explicit(n, by, memory_order_relaxed);
	else
		atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + by,
				      memory_order_relaxed);
}

/* Adds the sums of `c` to *to. */
void counters_sum(const struct counters *c, struct counter_sums *to);
void counter_sums_add(struct counter_sums *to, const struct counter_sums *from);
void counter_sums_sub(struct counter_sums *from, const struct counter_sums *what);

#endif
