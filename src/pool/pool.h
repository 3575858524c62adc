/* SPDX-License-Identifier: MIT */
/* One limit over many hosts: the protocol between the members of a pool and its server.
 *
 *	member                                   server (Redis script, or pool/server.c)
 *	  call  seq 7: hold, demand   ─────▶     charges the member with max(hold, grant) …
 *	  rate for one lease          ◀─────     … for one lease: seq 7, grant
 *
 * A *lease* is a rate (tokens per second) that a member may use until the lease ends.  The server charges
 * every member with the highest rate that it may be using, and the sum of all charges never exceeds the pool's rate.
 * Therefore total use never exceeds rate × time + capacity, even if messages are lost, delayed or repeated:
 *	hold     is a promise: until the answer to this call arrives, the member uses at most this rate
 *	seq      grows with each call; the server ignores calls that are not newer, and the member ignores
 *	         answers to calls other than its latest
 *	ends     one lease after the member sent the call, by the member's clock.  The server drops the member one
 *	         lease after it received the call, which is later
 *	smaller  a lease that shrinks is charged in full until the member's next call confirms it
 *	learning a server that may have lost data (restarted, promoted, silent for a lease, its clock set)
 *	         lets members keep what they hold for one lease, and grants no more to any
 *
 * Units  rates in thousandths of a token per second, so that a thousand hosts can share ten operations;
 *        times of the server in µs.  Everything stays below 2^53, because numbers in Lua are doubles. */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_LIMITS	  7	       /* kinds of limits; the layers above name them */
#define POOL_MILLI	  1000ULL      /* rates are in 1/1000 token per second */
#define POOL_RATE_MAX	  (1ULL << 42) /* tokens per second */
#define POOL_CAPACITY_MAX (1ULL << 52) /* tokens */
#define POOL_DEMAND_ALL	  (POOL_RATE_MAX * POOL_MILLI) /* as much as possible */
#define POOL_WEIGHT_MAX	  10000U
#define POOL_VERSION_MAX  (1ULL << 52)
#define POOL_ID_MAX	  33 /* 32 hexadecimal digits */
#define POOL_WHO_MAX	  64 /* a host name, shortened */
#define POOL_LEASE_MIN_MS 50U
#define POOL_LEASE_MAX_MS 60000U

/* The limits of a pool.  A rate of 0 means that this kind is not limited. */
struct pool_limits {
	uint64_t rate[POOL_LIMITS];	/* 1/1000 token per second */
	uint64_t capacity[POOL_LIMITS]; /* tokens that all members together may accumulate */
};

struct pool_call {
	char id[POOL_ID_MAX];	/* of the member; a new one at each start */
	char who[POOL_WHO_MAX]; /* its host name, for display */
	uint64_t seq;		/* from 1 */
	uint32_t lease_ms, weight;
	bool leave;		   /* removes the member; the answer grants nothing */
	struct pool_limits limits; /* those that the member knows, or else as configured */
	/* of these limits; 0: as configured.  The server adopts limits of a higher version than its own, which it has lost. */
	uint64_t version;
	/* Limits that this member changes for all: the number of the first call that says so; 0: no change.  A change that
	 * is repeated because its answer was lost does not undo a later one of another member, unless this member has
	 * expired meanwhile: then the server no longer knows that it has seen the change. */
	uint64_t set[POOL_LIMITS];
	uint64_t hold[POOL_LIMITS], demand[POOL_LIMITS];
};

enum pool_status {
	POOL_GRANTED,
	POOL_LEARNING, /* `grant` is what the member may keep */
	POOL_STALE,    /* a newer call has been answered: ignore this */
	POOL_FULL,     /* too many members: no lease for this one */
};

struct pool_answer {
	uint64_t seq;
	enum pool_status status;
	uint32_t members;
	bool wants_more; /* others still hold a part of this member's share: call again soon */
	struct pool_limits limits; /* the pool's */
	uint64_t version;	   /* of the limits; grows with each change */
	char who[POOL_WHO_MAX];	   /* who set them */
	uint64_t grant[POOL_LIMITS];
};

#endif
