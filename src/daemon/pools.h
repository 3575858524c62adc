/* SPDX-License-Identifier: MIT */
/* The pools that this daemon takes part in: one member and one helper process for each.
 *
 *	scopes with pool=NAME ─ use ─▶ pool_member ─ calls ─▶ ratefs-pool ─▶ server
 *	        ◀─ gate_lease ─ split ─           ◀─ answers ─
 *
 * All scopes of this daemon that name a pool are one member of it; its lease is divided between them by
 * demand.  The daemon itself opens no network socket.
 * Threads  the main thread only; nothing here blocks.  A lease ends by itself (limit/bucket.h), so
 *          if the main thread is late, tokens are lost, but never created. */
#ifndef DAEMON_POOLS_H
#define DAEMON_POOLS_H

#include "base/error.h"
#include "daemon/settings.h"
#include "pool/member.h"
#include "pool/wire.h"
#include "proto/json_out.h"

struct loop;
struct pools;
struct registry;

/* Starts the process that starts helpers, if there are pools or a reload may add one.  Call it
 * before the system call filter is installed.  0, or -1 with err. */
int pools_prepare(const struct configuration *c, struct error *err);
/* 0 or -errno. */
int pools_open(struct registry *r, const struct configuration *c, struct loop *l);
/* Leaves all pools.  May be called without pools_open. */
void pools_close(struct registry *r);

/* pool_config_join with the pools of this daemon. */
int pools_join(const struct pools *ps, struct settings *s, struct error *err);
/* pool_config_join for all scopes of a configuration that is about to take effect.  They also enforce kinds of limits that only
 * other hosts have set: without them, waiting requests would proceed until the next answer of the server. */
int pools_join_all(const struct pools *ps, struct configuration *c, struct error *err);
/* Adds the settings of all pools to c, as pools_plan takes them.  False: out of memory. */
bool pools_copy(const struct pools *ps, struct configuration *c);
/* A reload changes settings of pools, and adds and removes pools, in two steps: pools_plan changes
 * nothing and can fail (-1 with err); pools_reload carries out the plan and cannot fail.  The
 * caller frees the plan, whether or not it was carried out. */
struct pools_plan;
int pools_plan(struct pools *ps, const struct configuration *c, struct pools_plan **out,
	       struct error *err);
void pools_reload(struct pools *ps, struct pools_plan *plan);
void pools_plan_free(struct pools_plan *plan);

/* The state of a pool, for statistics. */
struct pool_look {
	const struct settings *settings;
	const struct pool_member *member;
	enum pool_mode mode;
	uint64_t rate[POOL_LIMITS]; /* what this daemon may use, in 1/1000 token per second */
	uint64_t now_ns;
	unsigned scopes;		    /* number of scopes of this daemon that take part */
	const char *error;		    /* the last one; "": none since the last answer */
	uint64_t errors;		    /* calls that failed */
	unsigned restarts;		    /* how often its helper was restarted */
	const struct pool_listing *listing; /* the last list of members; NULL: none has arrived */
	uint64_t listed_ns;		    /* when that list arrived */
};
unsigned pools_count(const struct pools *ps);
void pools_look(const struct pools *ps, unsigned i, struct pool_look *out);
/* NULL: there is none of that name. */
const struct settings *pools_find(const struct pools *ps, const char *name);
/* Sets the limits of a pool for all its members; takes over *s.  -1 with err: nothing has changed. */
int pools_set(struct pools *ps, const char *name, struct settings *s, struct error *err);
/* Puts the member "pools" of statistics: all pools, or only `only`.  Without
 * pools it puts nothing. */
void put_pools(struct json_out o, const struct pools *ps, const struct settings *only);
/* "leased", "share", …: stable, used in statistics. */
const char *pool_mode_name(enum pool_mode mode);

#endif
