/* SPDX-License-Identifier: MIT */
/* Statistics per scope, as plain numbers; `ratefsctl stats` shows them. */
#ifndef SCHED_STATS_H
#define SCHED_STATS_H

#include <stdint.h>

#include "limit/limiter.h"
#include "sched/job.h"

/* Durations in ns, four buckets per power of two: a quantile is off by at most 1/8. */
#define HISTOGRAM_BUCKETS 256
struct histogram {
	uint64_t count[HISTOGRAM_BUCKETS];
	uint64_t total, sum_ns, max_ns;
};
void histogram_add(struct histogram *h, uint64_t ns);
void histogram_merge(struct histogram *to, const struct histogram *from);
/* per_mille: 500 is the median, 990 is p99.  0 if empty. */
uint64_t histogram_quantile_ns(const struct histogram *h, unsigned per_mille);

struct class_stats {
	uint64_t ops, bytes;	     /* admitted; refunded bytes are subtracted */
	uint64_t at_once;	     /* admitted without waiting */
	uint64_t parked, parked_now; /* had to wait, in total and now */
	uint64_t would_block, timed_out, cancelled, misconfigured;
	uint64_t full;		/* refused by max_inflight with on_full=reject */
	uint64_t no_room;	/* refused by max_parked or max_parked_bytes */
	uint64_t too_many_open; /* admitted, then refused by max_open */
	uint64_t no_space;	/* admitted, then refused by size or inodes */
	/* Outcomes of admitted operations; too_many_open and no_space are such, too.  An ordinary error such as ENOENT
	 * counts both as ok and as an error; failed means that the source failed. */
	uint64_t ok, errors, failed, aborted;
	struct histogram wait;	     /* of parked requests */
	struct histogram would_wait; /* in dry runs: of those that would have been parked */
	uint64_t device_now;	     /* now in the device; not included in parked_now */
	struct histogram device;     /* time that the device model added */
};

struct limit_stats {
	bool enabled;
	uint64_t rate_per_sec, peak_per_sec, capacity;
	int64_t level;
	uint64_t once_left;
	uint64_t blocking_ns; /* time during which requests waited for it */
	uint64_t would_wait;  /* in dry runs: requests that would have waited for it */
};

struct permit_stats {
	struct permits_snapshot now;
	uint64_t blocking_ns, would_wait; /* as above; 0 for max_open, which refuses instead */
};

/* Only the limits of one scope: cheap to copy. */
struct scope_limits {
	uint64_t since_ns, now_ns; /* start of counting; time of this copy */
	struct limit_stats limit[LIMIT_KINDS];
	struct limit_stats pool[LIMIT_KINDS]; /* this host's leases of the limits of its pool */
	struct permit_stats inflight, open;
	struct limit_stats
		each[LIMIT_KINDS]; /* of each key; without levels, since every key has its own */
};

struct scope_stats {
	uint64_t since_ns, now_ns; /* start of counting; time of this copy */
	struct class_stats cls[COST_CLASSES_SHOWN];
	struct limit_stats limit[LIMIT_KINDS];
	struct permits_snapshot inflight, open;
	uint64_t inflight_blocking_ns;
	uint64_t parked_now, parked_bytes_now, device_now, keys_now;
	bool paused;
};

/* A limit that a request waited for. */
struct waited_limit {
	bool known;
	bool each;		 /* a limit of each key */
	enum scope_kind scope;	 /* of each key: the scope that sets it */
	char of[SCOPE_NAME_MAX]; /* the name of a class or pool; "" for other scopes */
	const char *name;	 /* "read_bps", "max_inflight", "pause" */
	uint64_t wait_ns;
};

/* Wait times with few, fixed bounds, which a monitoring system can add up. */
#define WAIT_BOUNDS 15
extern const uint64_t wait_bound_ns[WAIT_BOUNDS];
struct wait_times {
	/* waits up to and including each bound but above the previous one; the last: above all
	 * bounds */
	uint64_t count[WAIT_BOUNDS + 1];
	uint64_t sum_ns;
};

/* How long requests of one leaf waited for one limit; `would`: how long they would have waited, in dry runs.  A request
 * that waited for several limits counts once for each of them, with its time there. */
struct limit_wait {
	struct waited_limit limit;
	struct wait_times times, would;
};
/* How many limits are distinguished in one leaf.  Time spent waiting for further ones is not attributed to any limit. */
#define WAITED_LIMITS_MAX 31

#define KEY_NAME_MAX 48
#define KEY_WAITS    4

struct key_stats {
	struct fair_key key;
	bool shared; /* past max_keys: of several callers */
	uint32_t weight;
	uint32_t uid;		   /* of its last caller that had to wait */
	char leaf[SCOPE_NAME_MAX]; /* its class; "": directly in the mount */
	char name[KEY_NAME_MAX]; /* of its cgroup, or of the program that waited last (up to 5 s old); the end of a long one */
	struct waited_limit limit[KEY_WAITS]; /* those that it waited for longest, longest first */
	struct waited_limit
		would_limit; /* in dry runs: the one that it would have waited for longest */
	struct waited_limit waits_for; /* now; not known: nothing of it waits */
	uint64_t oldest_ns;	       /* how long its oldest waiting request has waited */
	uint64_t ops,
		bytes; /* of its requests that had to wait (in dry runs: would have had to) and were admitted */
	uint64_t done_ops,
		done_bytes; /* of all its requests that have ended while its mount was watched */
	uint64_t parked, parked_now;
	uint64_t wait_ns, max_wait_ns;
	uint64_t would_wait, would_wait_ns, max_would_wait_ns; /* the same in dry runs */
	uint32_t capped;	    /* bit per limit_kind: it has a limit of its own … */
	int64_t level[LIMIT_KINDS]; /* … and this is its level */
};

#endif
