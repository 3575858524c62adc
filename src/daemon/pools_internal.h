/* SPDX-License-Identifier: MIT */
/* Shared by the files that implement daemon/pools.h.  Threads: the main thread only. */
#ifndef DAEMON_POOLS_INTERNAL_H
#define DAEMON_POOLS_INTERNAL_H

#include "daemon/loop.h"
#include "daemon/pools.h"
#include "sched/gate.h"

/* A scope of this daemon that takes part in a pool. */
struct attached {
	struct gate_pool_scope scope;
	char class[128]; /* "": none */
	uint64_t weight; /* against the other scopes of this daemon in the same pool */
	bool seen;	 /* the following are known */
	struct gate_pool_use use, before; /* at the last look; when its demand was computed */
	uint64_t demand[POOL_LIMITS];
};

struct pool {
	struct pools *all;
	struct auth_look *auth; /* the credentials, until the helper has them; NULL: none */
	struct settings s;	/* its limits: those in force, which another host may have set */
	struct limiter_config enforced; /* the limits of these kinds are enforced here */
	struct pool_member member;
	struct pool_rates rates;
	struct attached *attached;
	unsigned n_attached;
	/* Of all scopes.  The counters are sums of changes: scopes come and go, and their statistics can be reset. */
	struct pool_use use;
	struct watch helper; /* fd -1: there is none */
	uint64_t restart_ns,
		restart_in; /* when to start the next helper; how long after the last */
	unsigned restarts;
	bool answered;	      /* the current helper has answered a call */
	bool was_leased;      /* this server has granted a lease before */
	uint64_t learning_ns; /* since when it has been learning in every answer; 0: it does not */
	char error[POOL_ERROR_MAX], told[POOL_ERROR_MAX];
	uint64_t errors; /* calls that failed */
	enum pool_mode told_mode;
	uint64_t told_ns, told_learning_ns;
	uint64_t told_pause_ns; /* before another error is told */
	bool told_lost;		/* the loss of the lease has been told, and its return has not */
	uint64_t flap_pause_ns; /* after a loss was told, before another one is */
	struct pool_limits told_limits; /* the last that were logged; at first as configured */
	bool told_answer;		/* the limits of this server have been compared with ours */
	struct pool_listing listing;
	uint64_t listed_ns; /* 0: never */
};

struct pools {
	struct registry *registry;
	struct loop *loop;
	struct watch timer;
	struct pool **pool;
	unsigned n;
};

/* --- pools_scopes.c: the scopes of this daemon that take part --- */

/* Updates p->use, what all of them used and need. */
void pool_scopes_look(struct pool *p);
/* Notes what each of them wanted in the last dt_ns; the lease is divided by these demands. */
void pool_scopes_demand(struct pool *p, uint64_t dt_ns);
/* Divides p->rates between them.  False: out of memory; their old leases hold until they end. */
bool pool_scopes_lease(struct pool *p);
unsigned pool_scopes_count(const struct pool *p);

/* --- pools_helper.c: the process that talks to the server --- */

/* Starts a helper if there is none and the pause after the last one is over.  If that fails,
 * p->error says why. */
void pool_helper_want(struct pool *p, uint64_t now_ns);
void pool_helper_send(struct pool *p, const struct pool_call *call);
/* The helper has ended: another one is started after a pause. */
void pool_helper_ended(struct pool *p);
/* Closes the helper's socket: the helper makes the calls that it has already
 * been sent, and exits. */
void pool_helper_drop(struct pool *p);
/* Drops the helper; the next one is started without a pause. */
void pool_helper_renew(struct pool *p);
/* Stops the process that starts helpers (pools_prepare). */
void pool_helpers_end(void);

/* --- pools_tell.c: the log --- */

void pool_tell_mode(struct pool *p);
/* Call after an answer: logs limits that have changed, and who set them. */
void pool_tell_limits(struct pool *p);
/* Call after an answer; `before`: the server was already learning before it. */
void pool_tell_learning(struct pool *p, bool before);

/* --- pools.c --- */

/* Calls the server a last time and returns the lease, so that other members need not
 * wait for it to expire. */
void pool_leave(struct pool *p);
struct pool *pool_new(struct pools *ps, const struct settings *s); /* NULL: out of memory */
void pool_free(struct pool *p);
struct pool *pool_find(const struct pools *ps, const char *name);
void pool_member_config_of(const struct settings *s, struct pool_member_config *out);
void pools_set_timer(struct pools *ps);
void pool_on_helper(struct watch *w, uint32_t events);

/* --- pools_change.c --- */

/* Updates the limits of p->s: those of the last answer, or those that this host is about to set. */
void pool_take_limits(struct pool *p);
/* Makes the scopes of this daemon enforce kinds of limits that only another host has configured or set. */
void pool_enforce_limits(struct pool *p);

#endif
