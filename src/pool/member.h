/* SPDX-License-Identifier: MIT */
/* A member of a pool: when it calls the server, what it reports, and which rate it may use.
 * Pure: time is an argument, in ns of one monotonic clock; the caller sends the calls.
 *
 *	at pool_member_due_ns	pool_member_call, then apply pool_member_rates, then send the call
 *	an answer		pool_member_answer, then apply pool_member_rates
 *	a failure		pool_member_failed
 *	at pool_member_ends_ns	apply pool_member_rates: the lease has ended without an answer
 *
 * The rates of a call must be in force before it is sent: its `hold` is a promise.
 *
 * Without a server, on_lost=share divides the rate by the number of members.  These shares must not
 * come on top of leases that are still valid: a member first waits for one more lease, until all
 * leases that the server granted before it failed have ended; and its calls report the share as
 * `hold`, so that a server that returns takes it into account.  But if only this member is cut off,
 * the others lease the whole rate meanwhile, and the total exceeds it by this member's share: that
 * is the price of on_lost=share. */
#ifndef POOL_MEMBER_H
#define POOL_MEMBER_H

#include "pool/divide.h"
#include "pool/pool.h"

enum pool_on_lost { POOL_LOST_SHARE, POOL_LOST_STOP, POOL_LOST_OPEN };

struct pool_member_config {
	char id[POOL_ID_MAX], who[POOL_WHO_MAX];
	uint32_t lease_ms, weight;
	enum pool_on_lost on_lost;
	struct pool_limits limits;
};

/* What was used of each limit here, by counters that only grow, and what is needed now. */
struct pool_use {
	uint64_t tokens[POOL_LIMITS];
	uint64_t blocking_ns[POOL_LIMITS]; /* how long requests waited for it */
	bool waiting[POOL_LIMITS];	   /* requests wait for it now */
	/* tokens that the bucket lacks: with waiting requests until it is full, otherwise until its debt is paid */
	uint64_t need[POOL_LIMITS];
};

enum pool_mode {
	POOL_MODE_STARTING, /* no answer yet: admits nothing */
	POOL_MODE_LEASED,
	POOL_MODE_WAITING, /* its lease has ended, but others' may not have: admits nothing */
	POOL_MODE_SHARE,   /* lost: the last known rate divided by the last known members */
	POOL_MODE_STOP,	   /* lost: admits nothing */
	POOL_MODE_OPEN,	   /* lost: no limit */
};

struct pool_rates {
	enum pool_mode mode;
	uint64_t rate[POOL_LIMITS];	/* 1/1000 token per second; POOL_DEMAND_ALL: no limit */
	uint64_t capacity[POOL_LIMITS]; /* tokens, at least 1 */
	uint64_t until_ns;		/* when these rates end; NEVER: they don't */
};

struct pool_member {
	struct pool_member_config cfg;
	uint64_t set[POOL_LIMITS]; /* see struct pool_call: cfg.limits that the server does not have yet */
	uint64_t seq, answered;
	uint64_t began_ns, sent_ns, called_ns, answered_ns; /* called_ns: demand computed */
	uint64_t next_ns;				    /* when the next call is due */
	/* the lease */
	bool leased;
	uint64_t ends_ns;
	uint64_t grant[POOL_LIMITS]; /* without a lease: the share that the last call reported */
	/* from the last answer; version 0: none yet */
	struct pool_limits limits;
	uint64_t version;
	uint32_t members;
	uint32_t most_members; /* the most in any recent answer */
	uint64_t most_ns;      /* when that answer arrived */
	char set_by[POOL_WHO_MAX];
	bool learning;
	bool pending; /* the last call is neither answered nor has it failed */
	bool retried; /* a call has failed since the last answer and was repeated */
	/* demand */
	struct pool_use before; /* at called_ns */
	/* use at three earlier times: up to one, two and three leases ago */
	struct pool_mark {
		uint64_t tokens, at_ns;
	} young[POOL_LIMITS], mid[POOL_LIMITS], older[POOL_LIMITS];
	uint64_t demand[POOL_LIMITS];
	bool limited[POOL_LIMITS]; /* the load uses whatever it is granted */
	/* for how long requests had waited nearly all the time, at called_ns */
	uint64_t waited_ns[POOL_LIMITS];
	uint64_t lost_ns,
		lost_sum_ns; /* when the lease was lost, 0: it has one; sum of earlier losses */
};

void pool_member_init(struct pool_member *m, const struct pool_member_config *cfg, uint64_t now_ns);
/* Changes the settings of the member.  Limits that differ from those that this member had, configured or set, become the pool's. */
void pool_member_configure(struct pool_member *m, const struct pool_member_config *cfg,
			   uint64_t now_ns);
/* Sets those of the pool's limits that are not in force already, for all members, with the next call. */
void pool_member_set(struct pool_member *m, const struct pool_limits *limits, uint64_t now_ns);
/* The pool's limits: those of the last answer, but those that this member is about to set; before the first answer,
 * as configured. */
void pool_member_limits(const struct pool_member *m, struct pool_limits *out);

uint64_t pool_member_due_ns(const struct pool_member *m);
/* When the lease ends; NEVER: there is none. */
uint64_t pool_member_ends_ns(const struct pool_member *m);
/* Call it several times per lease: the next call is due earlier if the demand has changed much. */
void pool_member_look(struct pool_member *m, const struct pool_use *use, uint64_t now_ns);

void pool_member_call(struct pool_member *m, const struct pool_use *use, uint64_t now_ns,
		      struct pool_call *out);
/* The last call of this member, which gives its lease back. */
void pool_member_leave(struct pool_member *m, uint64_t now_ns, struct pool_call *out);
/* False: it answers an earlier call, or it arrives after the lease has ended; nothing has changed. */
bool pool_member_answer(struct pool_member *m, const struct pool_answer *a, uint64_t now_ns);
/* Call `seq` has failed.  After the first failure since an answer, the next call is due
 * immediately: it may be answered before the lease ends. */
void pool_member_failed(struct pool_member *m, uint64_t seq, uint64_t now_ns);

void pool_member_rates(struct pool_member *m, uint64_t now_ns, struct pool_rates *out);

/* Divides one rate among `n` users by their demands and weights; `scratch` has room for n. */
void pool_split(uint64_t rate, const uint64_t *demand, const uint64_t *weight, unsigned n,
		struct pool_wish *scratch, uint64_t *share);

#endif
