/* SPDX-License-Identifier: MIT */
/* Statistics of all scopes of all daemons at one moment, as `top`, `metrics` and the exporter need them.
 *
 * A snapshot is made of the answers to the control command "stats", one for each scope.  Figures that an
 * answer lacks are 0, text is "", so that a newer program can query an older daemon.
 * Ownership  a snapshot keeps its answers alive; all text points into them.
 * Errors     only memory: snapshot_add returns false, and the snapshot stays as it was. */
#ifndef CTL_SNAPSHOT_H
#define CTL_SNAPSHOT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* One class of operations: "read", "meta", … */
struct snap_op {
	const char *name;
	uint64_t ops, bytes;
	uint64_t at_once, parked_total, parked_now;
	uint64_t would_block, full, no_room, too_many_open, no_space, timed_out, cancelled,
		misconfigured;
	uint64_t ok, errors, failed, aborted;
};

/* A limit that applies to requests of the scope; it may belong to another scope. */
struct snap_limit {
	const char *scope, *of, *name, *value;
	bool rate;  /* else a number of permits */
	bool bytes; /* the unit of a rate; else operations */
	bool each;  /* a rate for each key: has no single level */
	bool bottleneck;
	double per_sec, capacity, level;
	uint64_t permits, used; /* if not `rate` */
	uint64_t blocking_ns, would_wait;
};

/* "write_bps", "global.bps", "class:backup.iops", "each.iops"; "": none */
#define SNAP_LIMIT_MAX 120

struct snap_key {
	const char *kind, *command, *class;
	const char *limit; /* the limit that it waits for now, or waited for longest */
	uint64_t id, uid, parked_now, wait_ns, would_wait_ns, oldest_ns;
	uint64_t ops,
		bytes; /* of all its requests if keys are watched; else of those that had to wait */
};

/* Wait times of one class for one limit. */
#define SNAP_BOUNDS_MAX 32
struct snap_wait {
	const char *class;
	char limit[SNAP_LIMIT_MAX];
	uint64_t count[SNAP_BOUNDS_MAX + 1]; /* by bound; the last: above all */
	uint64_t sum_ns;
};

/* A pool that scopes of the daemon take part in: a limit over many hosts. */
struct snap_pool_limit {
	const char *name;
	bool bytes;		      /* the unit; else operations */
	bool limited_here, wants_all; /* `granted` is valid; `demand` is not */
	double rate, granted, demand; /* per second: rate of the pool; the others of this daemon */
};
struct snap_pool_member {
	const char *host;
	uint64_t weight, age_ns;
	const json_t *share; /* per second, by limit: snapshot_pool_share */
};
struct snap_pool {
	const char *name, *server;
	const char *mode; /* "starting", "leased", and without the server "share", "stop", "open" */
	const char *error; /* "": none since the last answer */
	bool answered;	   /* the server has answered at least once */
	uint64_t members, answer_age_ns;
	uint64_t lost_ns;	 /* how long it has been without a lease; 0: it has one */
	uint64_t lost_before_ns; /* sum of earlier times */
	uint64_t errors, helper_starts;
	struct snap_pool_limit *limit;
	struct snap_pool_member *member; /* the daemon lists only some, if there are many */
	unsigned limits, listed;
};

struct snap_scope {
	uint64_t daemon; /* process ID */
	const char *scope,
		*name; /* "mount" "data", "class" "data/backup", "fs" "data", "global" "global" */
	const char *mountpoint, *source;
	const char *fs;			   /* of a mount: the name of its fs */
	double seconds;			   /* since its counters began */
	uint64_t mounted, paused, dry_run; /* 0 or 1 */
	uint64_t parked_now, parked_bytes_now, in_flight, open, keys_now, device_now;
	uint64_t bypassing_handles, bypassing_maps, stuck;
	uint64_t oldest_wait_ns; /* of a request that waits now; only if keys were asked for */
	bool counts_space;
	const char *space_state; /* "counting", "failed", "enforced" */
	uint64_t space_used, space_limit, inodes_used, inodes_limit; /* a limit of 0: none */
	uint64_t space_refused;

	struct snap_op *op;
	struct snap_limit *limit;
	struct snap_key *key;
	char (*waited_limit)[SNAP_LIMIT_MAX]; /* of the keys */
	struct snap_wait *wait, *would_wait;  /* the second: in dry runs */
	unsigned would_waits;
	struct snap_pool *pool; /* of the scope "global" only */
	unsigned ops, limits, keys, waited_limits, waits, pools;
	uint64_t bound_ns[SNAP_BOUNDS_MAX];
	unsigned bounds;
};

/* A daemon is named by what stays the same when it is restarted: its configuration file or, without one, its first
 * mountpoint. */
struct snap_daemon {
	uint64_t pid;
	char *name, *with_pid;
	bool twin; /* another daemon has the same name */
};

struct snapshot {
	uint64_t at_ns; /* on a monotonic clock */
	struct snap_scope *scope;
	json_t **answer; /* of the scope of the same index */
	unsigned scopes;
	struct snap_daemon *daemon;
	unsigned daemons, daemons_failed; /* that answered; that did not */
};

struct snapshot *snapshot_new(uint64_t at_ns);
void snapshot_free(struct snapshot *s); /* NULL is allowed */
bool snapshot_add_daemon(struct snapshot *s, uint64_t pid, const char *name);
/* The name of the daemon, with its process ID if another daemon has the same name; "": unknown. */
const char *snapshot_daemon_name(const struct snapshot *s, uint64_t pid);
/* Adds an answer to "stats" of the daemon; takes its own reference to it. */
bool snapshot_add(struct snapshot *s, uint64_t daemon, json_t *answer);
/* Who a key is: its user or, if it stands for many users, "gid N", "all" or "shared".  `buf` may hold the result. */
#define SNAP_USER_MAX 32
const char *snapshot_key_user(const struct snap_key *k, const char *(*user_name)(uint64_t uid),
			      char buf[SNAP_USER_MAX]);
/* 0: both are the same user, or the same group of users; else an order among them. */
int snapshot_compare_users(const struct snap_key *a, const struct snap_key *b);
/* Parts of snapshot_add: the full name of a limit; keys (snapshot_keys.c) and pools
 * (snapshot_pools.c) of a scope.  False: out of memory. */
void snapshot_limit_name(const json_t *limit, char out[SNAP_LIMIT_MAX]);
bool snapshot_read_keys(struct snap_scope *s, const json_t *table);
bool snapshot_read_pools(struct snap_scope *s, const json_t *pools);
void snapshot_free_pools(struct snap_scope *s);
/* How much of a limit a member may use, per second. */
double snapshot_pool_share(const struct snap_pool_member *m, const struct snap_pool_limit *l);
/* Removes all scopes but the first n. */
void snapshot_cut(struct snapshot *s, unsigned n);
/* NULL: there is no such scope, or s is NULL. */
const struct snap_scope *snapshot_find(const struct snapshot *s, uint64_t daemon, const char *scope,
				       const char *name);

#endif
