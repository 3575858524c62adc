/* SPDX-License-Identifier: MIT */
/* A model of a storage device: when would a request be done that reaches it now?
 *
 *	at_ns ─▶ wait for a slot (queue_depth) ─▶ latency + seek + rotation ─▶ date
 *	                                  stalls stop all of it
 *
 * The model only names dates.  Waiting for them is the gate's work, and a date once named stands:
 * it is part of what the device has to do before later requests.
 * Positions  ratefs does not know where blocks lie.  A file is taken to consist of pieces of 1 MiB
 *            that are spread over the device by a hash; reading on across pieces costs nothing.
 * Random     everything is drawn from one generator; a seed repeats a run.
 * Locking    none; the gate calls under its lock.  Times in ns of the gate's clock. */
#ifndef SCHED_DEVICE_H
#define SCHED_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* What a request is to the device. */
enum device_op { DEVICE_META, DEVICE_READ, DEVICE_WRITE, DEVICE_SYNC, DEVICE_COPY };

struct device_access {
	enum device_op op;
	uint64_t file;	 /* of transfers: a number of the backing file … */
	uint64_t offset; /* … and where they begin */
};

enum latency_shape {
	LATENCY_OFF,
	LATENCY_FIXED,	  /* ns */
	LATENCY_UNIFORM,  /* ns ± spread_ns */
	LATENCY_LOGNORMAL /* median ns, p99 spread_ns */
};
struct latency {
	enum latency_shape shape;
	uint64_t ns, spread_ns;
};
#define LATENCY_MAX_NS (3600ULL * 1000000000)

/* LATENCY_ALL holds for the operations whose own one is off. */
enum latency_kind {
	LATENCY_ALL,
	LATENCY_READ,
	LATENCY_WRITE,
	LATENCY_META,
	LATENCY_SYNC,
	LATENCY_KINDS
};

struct device_config {
	struct latency latency[LATENCY_KINDS];
	uint64_t seek_min_ns, seek_max_ns; /* both 0: none */
	uint64_t rotation_ns;		   /* of one revolution; 0: none */
	uint64_t queue_depth;		   /* 0: any number of requests at a time */
	uint64_t merge_bytes;		   /* 0: every transfer is an operation */
	uint64_t iops_size;		   /* 0: a transfer of any size is one operation */
	uint64_t stall_ns, stall_every_ns; /* 0: none */
	uint64_t seed;			   /* 0: another one for every device */
};
#define DEVICE_QUEUE_MAX 4096

/* True when requests must pass the device: it takes time, or merges. */
bool device_config_models(const struct device_config *cfg);

struct device;

/* NULL: out of memory.  `old` (or NULL) is a device of another configuration whose position, queue and
 * generator the new one goes on with; it stays the caller's. */
struct device *device_new(const struct device_config *cfg, const struct device *old,
			  uint64_t now_ns);
void device_free(struct device *d);

/* The operations that a transfer counts as, given those that arrived before it: 0 where it is merged
 * with them. */
uint32_t device_merged_ops(struct device *d, const struct device_access *a, uint64_t bytes);
/* The same by size alone. */
uint32_t device_ops(uint64_t bytes, uint64_t iops_size);

/* When the device is done with a request that reaches it at at_ns; at_ns where it takes no time. */
uint64_t device_date_ns(struct device *d, const struct device_access *a, uint64_t bytes,
			uint64_t at_ns);

/* One latency, drawn from a generator that begins with *state.  For tests and for latencies. */
uint64_t latency_draw_ns(const struct latency *l, uint64_t *state);

#endif
