/* SPDX-License-Identifier: MIT */
/* A member of a pool: when it calls the server, what it says, and what it may use meanwhile.
 * Pure: time is an argument, of one monotonic clock in ns; sending calls is the caller's affair.
 *
 *	at pool_member_due_ns	pool_member_call, then apply pool_member_rates, then send the call
 *	an answer		pool_member_answer, then apply pool_member_rates
 *	at pool_member_ends_ns	apply pool_member_rates: the lease has ended without an answer
 *
 * The rates of a call must be in force before it is sent: its `hold` is a promise. */
#ifndef POOL_MEMBER_H
#define POOL_MEMBER_H

#include "pool/pool.h"

enum pool_on_lost { POOL_LOST_SHARE, POOL_LOST_STOP, POOL_LOST_OPEN };

struct pool_member_config {
	char id[POOL_ID_MAX], who[POOL_WHO_MAX];
	uint32_t lease_ms, weight;
	enum pool_on_lost on_lost;
	struct pool_limits limits;
};

/* What was used of each limit here: counters that only grow. */
struct pool_use {
	uint64_t tokens[POOL_LIMITS];
	uint64_t blocking_ns[POOL_LIMITS]; /* how long somebody waited for it */
	bool waiting[POOL_LIMITS];	   /* somebody waits for it now */
};

enum pool_mode {
	POOL_MODE_STARTING, /* no answer yet: nothing */
	POOL_MODE_LEASED,
	POOL_MODE_SHARE, /* lost: an equal share of what was last known */
	POOL_MODE_STOP,	 /* lost: nothing */
	POOL_MODE_OPEN,	 /* lost: no limit */
};

struct pool_rates {
	enum pool_mode mode;
	uint64_t rate[POOL_LIMITS];	/* 1/1000 token per second; POOL_DEMAND_ALL: no limit */
	uint64_t capacity[POOL_LIMITS]; /* tokens, at least 1 */
	uint64_t until_ns;		/* then nothing; NEVER: until told otherwise */
};

struct pool_member {
	struct pool_member_config cfg;
	bool set; /* cfg.limits are to become the pool's */
	uint64_t seq, answered;
	uint64_t began_ns, sent_ns, called_ns, answered_ns; /* called: last looked at the use */
	uint64_t next_ns;				    /* of the next call */
	/* the lease */
	bool leased;
	uint64_t grant[POOL_LIMITS], ends_ns;
	/* as of the last answer; version 0: there was none */
	struct pool_limits limits;
	uint64_t version;
	uint32_t members;
	char set_by[POOL_WHO_MAX];
	bool learning;
	/* demand */
	struct pool_use before;
	uint64_t demand[POOL_LIMITS];
	uint64_t lost_ns, lost_sum_ns; /* since when it is on its fallback; 0: not; sum of before */
};

void pool_member_init(struct pool_member *m, const struct pool_member_config *cfg, uint64_t now_ns);
/* Other settings for the same member.  Changed limits become the pool's. */
void pool_member_configure(struct pool_member *m, const struct pool_member_config *cfg,
			   uint64_t now_ns);
/* Sets the pool's limits, for all members, with the next call. */
void pool_member_set(struct pool_member *m, const struct pool_limits *limits, uint64_t now_ns);

uint64_t pool_member_due_ns(const struct pool_member *m);
/* When the lease ends; NEVER: there is none. */
uint64_t pool_member_ends_ns(const struct pool_member *m);
/* Somebody has begun to wait: call earlier, if the last call did not tell. */
void pool_member_waits(struct pool_member *m, const struct pool_use *use, uint64_t now_ns);

void pool_member_call(struct pool_member *m, const struct pool_use *use, uint64_t now_ns,
		      struct pool_call *out);
/* The last call of all. */
void pool_member_leave(struct pool_member *m, uint64_t now_ns, struct pool_call *out);
/* False: it answers an earlier call, or arrives too late to be of use; nothing has changed. */
bool pool_member_answer(struct pool_member *m, const struct pool_answer *a, uint64_t now_ns);

void pool_member_rates(struct pool_member *m, uint64_t now_ns, struct pool_rates *out);

/* Sharing one rate between several users of it, by their demands and weights, at most `n` ≤ 64. */
void pool_split(uint64_t rate, const uint64_t *demand, unsigned n, uint64_t *share);

#endif
