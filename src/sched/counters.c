/* SPDX-License-Identifier: MIT */
#include "sched/counters.h"

#include <pthread.h>

_Thread_local unsigned counters_my_shard; /* index + 1; 0: none yet */

static _Atomic uint32_t taken; /* bit per shard */
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void release_shard(void *value)
{
	unsigned index = (unsigned)(uintptr_t)value - 1;
	if (index != COUNTER_SHARED)
		atomic_fetch_and_explicit(&taken, ~(1U << index), memory_order_release);
	/* later destructors count in the shared shard */
	counters_my_shard = COUNTER_SHARED + 1;
}

static void make_key(void)
{
	pthread_key_create(&at_exit, release_shard);
}

unsigned counters_claim_shard(void)
{
	pthread_once(&once, make_key);
	uint32_t old = atomic_load_explicit(&taken, memory_order_relaxed);
	unsigned index;
	do {
		uint32_t free_bits = ~old & ~(1U << COUNTER_SHARED);
		index = free_bits ? (unsigned)__builtin_ctz(free_bits) : COUNTER_SHARED;
		if (index == COUNTER_SHARED)
			break;
	} while (!atomic_compare_exchange_weak_explicit(
		&taken, &old, old | 1U << index, memory_order_acquire, memory_order_relaxed));
	counters_my_shard = index + 1;
	if (pthread_setspecific(at_exit, (void *)(uintptr_t)(index + 1)) &&
	    index != COUNTER_SHARED) {
		/* the shard would not be released at the end of the thread */
		release_shard((void *)(uintptr_t)(index + 1));
		index = COUNTER_SHARED;
	}
	return index;
}

void counters_sum(const struct counters *c, struct counter_sums *to)
{
	for (unsigned s = 0; s < COUNTER_SHARDS; s++)
		for (unsigned k = 0; k < COST_CLASSES; k++)
			for (unsigned i = 0; i < COUNTERS; i++)
				to->n[k][i] += atomic_load_explicit(&c->shard[s].n[k][i],
								    memory_order_relaxed);
}

void counter_sums_add(struct counter_sums *to, const struct counter_sums *from)
{
	for (unsigned k = 0; k < COST_CLASSES; k++)
		for (unsigned i = 0; i < COUNTERS; i++)
			to->n[k][i] += from->n[k][i];
}

void counter_sums_sub(struct counter_sums *from, const struct counter_sums *what)
{
	for (unsigned k = 0; k < COST_CLASSES; k++)
		for (unsigned i = 0; i < COUNTERS; i++)
			from->n[k][i] -= what->n[k][i];
}
