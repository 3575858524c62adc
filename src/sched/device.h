/* SPDX-License-Identifier: MIT */
/* A model of a storage device: it computes when a request that arrives now would be finished (its
 * date).
 *
 *	at_ns ─▶ wait for a slot (queue_depth) ─▶ latency + seek + rotation ─▶ date
 *	                                  stalls stop all of it
 *
 * The model only computes dates; the gate waits for them.  A date is final: later requests find the
 * device busy until then.
 * Positions  ratefs does not know where blocks are.  A file is assumed to consist of pieces of 1 MiB
 *            that a hash spreads over the device; reading sequentially across pieces costs nothing.
 * Random     everything is drawn from one generator; a seed makes a run repeatable.
 * Locking    none; the gate calls under its lock.  Times are in ns of the gate's clock. */
#ifndef SCHED_DEVICE_H
#define SCHED_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* What a request looks like to the device. */
enum device_op { DEVICE_META, DEVICE_READ, DEVICE_WRITE, DEVICE_SYNC, DEVICE_COPY };

struct device_access {
	enum device_op op;
	uint64_t file;	 /* for transfers: a number that identifies the file … */
	uint64_t offset; /* … and the offset where they begin */
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

/* LATENCY_ALL applies to operations whose own latency is off. */
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
	uint64_t queue_depth;		   /* 0: unbounded */
	uint64_t merge_bytes;		   /* 0: transfers are not merged */
	uint64_t iops_size;		   /* 0: a transfer of any size costs one operation */
	uint64_t stall_ns, stall_every_ns; /* 0: none */
	uint64_t seed;			   /* 0: a different one for every device */
};
#define DEVICE_QUEUE_MAX 4096

/* True: requests must pass through the device, because it takes time or merges them. */
bool device_config_models(const struct device_config *cfg);

struct device;

/* NULL: out of memory.  The new device continues with the position, queue and generator of `old`
 * (may be NULL), which still belongs to the caller. */
struct device *device_new(const struct device_config *cfg, const struct device *old,
			  uint64_t now_ns);
void device_free(struct device *d);

/* The number of operations that a transfer costs, given those before it: 0 if it is merged with
 * them. */
uint32_t device_merged_ops(struct device *d, const struct device_access *a, uint64_t bytes);
/* The same by its size alone. */
uint32_t device_ops(uint64_t bytes, uint64_t iops_size);

/* When the device finishes a request that arrives at at_ns; at_ns if it takes no time. */
uint64_t device_date_ns(struct device *d, const struct device_access *a, uint64_t bytes,
			uint64_t at_ns);

/* Draws a latency from the generator whose state is *state. */
uint64_t latency_draw_ns(const struct latency *l, uint64_t *state);

#endif
