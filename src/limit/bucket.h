/* SPDX-License-Identifier: MIT */
/* One token bucket: pure arithmetic on a supply line.
 *
 *	tokens
 *	  │            supply(now) ────────▶  ╱   rises at `rate`, integer, never resets
 *	  │                                ╱│
 *	  │          level = supply − used╱ │     may be negative: debt
 *	  │                            ╱  ┌─┘
 *	  │   used (one word) ────────────┘       a grant moves it up, a refund down
 *	  │                      ╱                at most `capacity` below the supply: what would
 *	  └───────────────────────────▶ time      overflow is lost; one-time burst is counted separately
 *
 * Units    tokens as the caller counts them; times in ns of one monotonic clock.
 * Locking  safe from any thread and lock-free, except: call init before other threads see the
 *          bucket; reconfigure, restart and lease may run while others use the bucket, but only
 *          one at a time.
 * Errors   none: "not now" is a result.  With a rate of 0 bucket_wait_ns returns NEVER.
 * Ranges   rate ≤ 2^53 per second, capacity and one-time burst ≤ 2^60, one request ≤ 2^60.
 *
 * A request larger than the capacity waits for a full bucket, is charged in full and leaves debt.  One-time
 * burst is spent last and never comes back.  A request for no tokens is granted unless the bucket is in debt.
 * If the clock is set back, the supply shrinks until the clock has caught up; no tokens are
 * created.  No counter overflows within centuries. */
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

/* A rate for a limited time. */
struct bucket_lease {
	uint64_t milli_per_sec; /* 1/1000 token per second */
	uint64_t capacity;	/* at least 1 */
	uint64_t until_ns;	/* the supply ends here; NEVER: it does not */
};
#define BUCKET_LEASED UINT64_MAX

/* The supply line, in tokens of 64.64 bits, mod 2^128: supply(t) = base + t × rate. */
struct bucket_line {
	_Alignas(CACHE_LINE) _Atomic uint64_t horizon_ns; /* usable until then, see bucket.c */
	_Atomic uint64_t base, base_part;
	_Atomic uint64_t rate, rate_part; /* tokens per ns */
	_Atomic uint64_t capacity;
	_Atomic uint64_t rate_per_sec;
	_Atomic uint64_t epoch_ns; /* when the line began; BUCKET_LEASED: it ends at horizon_ns */
};

struct bucket {
	/* written by every grant */
	_Alignas(CACHE_LINE) _Atomic uint64_t used;
	_Atomic uint64_t once_left;
	_Atomic uint64_t once; /* as configured */
	/* The number of waiters that newcomers must not overtake.  The scheduler sets it; chain_try
	 * refuses unless it is 0. */
	_Atomic uint32_t waiters;

	/* line[seq & 1] is in force.  A change writes the other one and then increments `seq`, so readers
	 * never wait for a writer; they compare `seq` before and after, and read again if it differs. */
	_Atomic uint32_t seq;
	_Atomic uint32_t writing; /* 1: a thread is changing the line */
	struct bucket_line line[2];
};

/* A full bucket. */
void bucket_init(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns);

/* Takes the tokens if the bucket grants them at now_ns; writes nothing otherwise. */
bool bucket_try(struct bucket *b, uint64_t tokens, uint64_t now_ns);

/* Always takes the tokens; the bucket may go into debt. */
void bucket_take(struct bucket *b, uint64_t tokens, uint64_t now_ns);

/* How long until bucket_try would grant `tokens`, in ns from now_ns: 0 means now; NEVER means that
 * the rate is 0 or that a lease ends too early.  Exact: one ns earlier, bucket_try would refuse.
 * Takes nothing. */
uint64_t bucket_wait_ns(const struct bucket *b, uint64_t tokens, uint64_t now_ns);

/* Gives back tokens that were taken.  They become steady tokens, even if they were one-time burst. */
void bucket_refund(struct bucket *b, uint64_t tokens);

/* Adds tokens by hand, up to the capacity. */
void bucket_replenish(struct bucket *b, uint64_t tokens, uint64_t now_ns);

/* Sets rate and capacity from now_ns on.  Spent tokens stay spent and debt stays debt: the level is at most
 * what it was, and at most the new capacity.  If cfg->once differs from what was configured before, it
 * replaces what was left of the one-time burst. */
void bucket_reconfigure(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns);

/* For a limit that was off: like bucket_reconfigure, but the bucket starts full, with all of cfg->once. */
void bucket_restart(struct bucket *b, const struct bucket_config *cfg, uint64_t now_ns);

/* An empty bucket that gets no tokens until bucket_lease gives it a supply. */
void bucket_init_leased(struct bucket *b, uint64_t now_ns);

/* Replaces rate and capacity from now_ns on, like bucket_reconfigure, until the lease ends; from then on
 * nothing is added, and bucket_wait_ns returns NEVER for tokens that the bucket does not hold.  A
 * lease never creates tokens, even if it is applied twice, late or out of order.  bucket_rate
 * returns at least 1 for a leased bucket, because 0 stands for a misconfigured limit. */
void bucket_lease(struct bucket *b, const struct bucket_lease *lease, uint64_t now_ns);

/* For display: the results may be outdated as soon as these functions return. */
int64_t bucket_level(const struct bucket *b,
		     uint64_t now_ns); /* budget, once_left included; < 0: debt */
uint64_t bucket_capacity(const struct bucket *b);
uint64_t bucket_rate(const struct bucket *b);
uint64_t bucket_once_left(const struct bucket *b);
/* How long until the bucket is full, if nothing is taken meanwhile. */
uint64_t bucket_refill_ns(const struct bucket *b, uint64_t now_ns);

#endif
