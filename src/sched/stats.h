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
	uint64_t would_block, full, timed_out, cancelled, misconfigured;
	uint64_t ok, failed, aborted; /* outcomes of admitted operations */
	struct histogram
		wait; /* of parked requests (in a dry run: of those that would have been parked) */
	uint64_t device_now;	 /* now in the device; not included in parked_now */
	struct histogram device; /* time that the device model added */
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
	uint64_t blocking_ns, would_wait; /* as above; 0 for open handles, which never wait */
};

/* Only the limits of one scope: cheap to copy. */
struct scope_limits {
	uint64_t since_ns, now_ns; /* start of counting; time of this copy */
	struct limit_stats limit[LIMIT_KINDS];
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

struct key_stats {
	struct fair_key key;
	uint32_t weight;
	uint64_t ops, bytes; /* of its requests that had to wait and were admitted */
	uint64_t parked, parked_now;
	uint64_t wait_ns, max_wait_ns;
	uint32_t capped;	    /* bit per limit_kind: it has a limit of its own … */
	int64_t level[LIMIT_KINDS]; /* … and this is its level */
};

#endif
