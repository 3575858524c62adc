/* SPDX-License-Identifier: MIT */
/* One token bucket: pure arithmetic on a supply line.
 *
 *	tokens
 *	  │            supply(now) ────────▶  ╱   rises at `rate`, integer, never resets
 *	  │                                ╱│
 *	  │          level = supply − used╱ │     may be negative: debt
 *	  │                            ╱  ┌─┘
 *	  │   used (one word) ────────────┘       a grant moves it up, a refund down
 *	  │                      ╱                used is never let more than `capacity` (+ unspent
 *	  └───────────────────────────▶ time      one-time burst) below the supply: overflow is lost
 *
 * Units    tokens as the caller counts them; times in ns of one monotonic clock.
 * Locking  every function but init, reconfigure and restart is lock-free and safe from any thread;
 *          init is for the owner alone, the other two for one caller at a time (readers go on).
 * Errors   none: "not now" is a result.  A rate of 0 never supplies: bucket_wait_ns is NEVER.
 * Ranges   rate ≤ 2^53 per second, capacity and one-time burst ≤ 2^60, one request ≤ 2^60.
 *
 * Oversize: a request larger than the capacity waits for a full bucket, is charged whole and
 * leaves debt.  One-time burst is spent last and never comes back.  No tokens at all may go
 * unless the bucket is in debt.
 * A clock that goes back lowers the supply until it has come forward again, and mints nothing;
 * nothing overflows in centuries. */
#ifndef LIMIT_BUCKET_H
#define LIMIT_BUCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

#define BUCKET_RATE_MAX	    (1ULL << 53)
#define BUCKET_CAPACITY_MAX (1ULL << 60)

struct bucket_config {
	uint64_t rate_per_sec;
	uint64_t capacity; /* steady window plus burst; at least 1 */
	uint64_t once;	   /* extra tokens at start that never come back */
};

/* The supply line, in tokens of 64.64 bits, mod 2^128: supply(t) = base + t × rate. */
struct bucket_line {
	_Alignas(CACHE_LINE) _Atomic uint64_t horizon_ns; /* good until then, see bucket.c */
	_Atomic uint64_t base, base_part;
	_Atomic uint64_t rate, rate_part; /* tokens per ns */
	_Atomic uint64_t capacity;
	_Atomic uint64_t rate_per_sec;
	_Atomic uint64_t epoch_ns; /* when it began */
};

struct bucket {
	/* written by every grant */
	_Alignas(CACHE_LINE) _Atomic uint64_t used;
	_Atomic uint64_t known; /* a supply that was reached: see chain.c */
	_Atomic uint64_t once_left;
	_Atomic uint64_t once; /* as configured */
	/* Waiters that must not be overtaken; kept by the owner of the queue, read by chain_try. */
	_Atomic uint32_t gate;

	/* line[seq & 1] is in force.  A change writes the other one and then moves `seq` on, so
	 * readers never wait for a writer; who reads compares `seq` before and after. */
	_Atomic uint32_t seq;
	_Atomic uint32_t writing; /* 1: somebody is at it */
	struct bucket_line line[2];
};

/* A full bucket. */
void bucket_init(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns);

/* Takes the tokens if they may go at now_ns; writes nothing otherwise. */
bool bucket_try(struct bucket *b, uint64_t tokens, uint64_t now_ns);

/* Takes the tokens in any case; the bucket may go into debt. */
void bucket_take(struct bucket *b, uint64_t tokens, uint64_t now_ns);

/* When `tokens` may go, in ns from now_ns; 0 means now, NEVER means not at this rate.
 * Exact: granted then, not one ns earlier.  Takes nothing. */
uint64_t bucket_wait_ns(const struct bucket *b, uint64_t tokens, uint64_t now_ns);

/* Gives back tokens that were taken.  Exact; conserves.  They count as steady tokens, also where
 * one-time burst had paid for them. */
void bucket_refund(struct bucket *b, uint64_t tokens);

/* Adds tokens by hand, up to the capacity. */
void bucket_replenish(struct bucket *b, uint64_t tokens, uint64_t now_ns);

/* New rate and capacity from now_ns on.  Tokens spent stay spent, debt stays debt, nothing is
 * minted: the level is at most what it was, and at most the new capacity.  cfg->once is used
 * only where it differs from what the bucket was configured with; then all of it is there anew,
 * in place of what was left. */
void bucket_reconfigure(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns);

/* The same beside running readers, but full and with all of cfg->once: a limit that was off. */
void bucket_restart(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns);

/* For looking only. */
int64_t bucket_level(const struct bucket *b,
		     uint64_t now_ns); /* budget, once_left included; < 0: debt */
uint64_t bucket_capacity(const struct bucket *b);
uint64_t bucket_rate(const struct bucket *b);
uint64_t bucket_once_left(const struct bucket *b);
/* Time until full from now_ns, without further takers. */
uint64_t bucket_refill_ns(const struct bucket *b, uint64_t now_ns);

#endif
