/* SPDX-License-Identifier: MIT */
/* What happens to requests that a limit stops, as a stream for whoever listens (`ratefsctl trace`).
 *
 *	gate_events_start ─▶ events into a ring … wake ─▶ gate_events_take ─▶ … gate_events_stop
 *
 * Requests never wait for a listener: what does not fit into the ring is counted and lost.  While nobody listens an event
 * costs a load and a branch, and requests that need not wait cause none.
 * Locking  events->lock, inside gate->lock; nothing is called with it held.
 * The same moments are probes for perf, bpftrace and systemtap where sys/sdt.h was there at build time: provider "ratefs",
 * probes admitted, would_block, full, no_room, timed_out, cancelled, misconfigured with (mount, key, uid, ops, bytes, wait in ns). */
#ifndef SCHED_EVENTS_H
#define SCHED_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "sched/stats.h"

enum event_kind {
	EVENT_ADMITTED, /* after waiting */
	EVENT_WOULD_BLOCK,
	EVENT_FULL,    /* max_inflight, with on_full=reject */
	EVENT_NO_ROOM, /* max_parked, max_parked_bytes */
	EVENT_TIMED_OUT,
	EVENT_CANCELLED,
	EVENT_MISCONFIGURED,
	EVENT_KINDS
};
const char *event_kind_name(enum event_kind kind);

struct event {
	enum event_kind kind;
	uint64_t at_ns;
	const void *mount; /* struct gate_mount: to be compared, since it may be gone */
	struct fair_key key;
	uint32_t uid, tid;
	struct cost cost;
	uint64_t wait_ns;
	struct waited_limit limit;
	char class[LIMIT_OF_MAX]; /* "": the mount itself */
	char name[KEY_NAME_MAX];
};

#define EVENTS_MAX 4096

struct events {
	_Atomic bool on;
	pthread_mutex_t lock;
	struct event *ring; /* NULL: nobody listens */
	unsigned first, n;
	uint64_t dropped;
	void (*wake)(void *ctx);
	void *ctx;
};

struct gate;
/* Calls `wake`, from any thread, when there is something in the ring that had been empty.  0 or -ENOMEM. */
int gate_events_start(struct gate *g, void (*wake)(void *ctx), void *ctx);
void gate_events_stop(struct gate *g);
/* Takes up to `n` events, oldest first; *dropped: lost since the last call. */
unsigned gate_events_take(struct gate *g, struct event *out, unsigned n, uint64_t *dropped);

#endif
