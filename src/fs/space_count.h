/* SPDX-License-Identifier: MIT */
/* Counts what a tree uses and what is reserved for calls in progress: pure arithmetic.
 *
 *	reserve ─▶ the call to the source ─▶ settle: counts what it really used, drops the reservation
 *
 * `committed` is used plus reserved; a reservation is admitted only while committed stays within the limit, so that
 * concurrent callers together never exceed the limit.
 *
 * Units    bytes, or inodes.  A limit of 0 means none.
 * Locking  safe from any thread; each counter is one atomic word.
 * Errors   none: "does not fit" is a result. */
#ifndef FS_SPACE_COUNT_H
#define FS_SPACE_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

struct space_count {
	_Alignas(CACHE_LINE) _Atomic int64_t committed;
	_Atomic int64_t used;
};

/* The smaller of two limits. */
static inline uint64_t space_tighter(uint64_t a, uint64_t b)
{
	return !a ? b : !b ? a : min_u64(a, b);
}

/* What is left below the limit; UINT64_MAX: no limit. */
static inline uint64_t space_left(uint64_t limit, int64_t taken)
{
	if (!limit)
		return UINT64_MAX;
	if (taken < 0)
		taken = 0;
	return (uint64_t)taken < limit ? limit - (uint64_t)taken : 0;
}

/* False: n would leave less than `margin` free; nothing has changed.  n = 0 always fits. */
static inline bool space_reserve(struct space_count *c, uint64_t n, uint64_t margin, uint64_t limit)
{
	int64_t now = atomic_load_explicit(&c->committed, memory_order_relaxed);
	if (!n)
		return true;
	do {
		uint64_t left = space_left(limit, now);
		if (n > left || (limit && margin > left - n))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&c->committed, &now, now + (int64_t)n, memory_order_relaxed, memory_order_relaxed));
	return true;
}

/* Reserves as much of n as fits, in whole units; returns how much. */
static inline uint64_t space_reserve_part(struct space_count *c, uint64_t n, uint64_t unit,
					  uint64_t limit)
{
	int64_t now = atomic_load_explicit(&c->committed, memory_order_relaxed);
	uint64_t part;
	do {
		uint64_t left = space_left(limit, now);
		part = n <= left ? n : left - left % unit;
		if (!part)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(&c->committed, &now, now + (int64_t)part,
							memory_order_relaxed,
							memory_order_relaxed));
	return part;
}

static inline void space_unreserve(struct space_count *c, uint64_t n)
{
	if (n)
		atomic_fetch_sub_explicit(&c->committed, (int64_t)n, memory_order_relaxed);
}

/* Changes `used` by delta. */
static inline void space_add(struct space_count *c, int64_t delta)
{
	if (!delta)
		return;
	atomic_fetch_add_explicit(&c->used, delta, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->committed, delta, memory_order_relaxed);
}

/* Uses n, for which `reserved` was reserved. */
static inline void space_take(struct space_count *c, uint64_t n, uint64_t reserved)
{
	if (n)
		atomic_fetch_add_explicit(&c->used, (int64_t)n, memory_order_relaxed);
	if (n != reserved)
		atomic_fetch_add_explicit(&c->committed, (int64_t)n - (int64_t)reserved,
					  memory_order_relaxed);
}

static inline uint64_t space_used(const struct space_count *c)
{
	int64_t used = atomic_load_explicit(&c->used, memory_order_relaxed);
	return used < 0 ? 0 : (uint64_t)used;
}

/* The bytes of whole blocks that [from, from + size) touches. */
static inline uint64_t space_span(uint64_t from, uint64_t size, uint64_t block)
{
	if (!size)
		return 0;
	uint64_t first = from / block, last = (from + size - 1) / block;
	return (last - first + 1) * block;
}

static inline uint64_t space_round_up(uint64_t n, uint64_t block)
{
	return n > UINT64_MAX - block ? UINT64_MAX / block * block
				      : (n + block - 1) / block * block;
}

#endif
