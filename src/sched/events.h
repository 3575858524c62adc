/* SPDX-License-Identifier: MIT */
/* A stream of events about requests that a limit delays or refuses, for `ratefsctl trace` and other subscribers.
 *
 *	gate_events_start ─▶ events into a ring … wake ─▶ gate_events_take ─▶ … gate_events_stop
 *
 * Requests never wait for a subscriber: events that do not fit into the ring are lost and counted.  Without a subscriber
 * an event costs a load and a branch, and requests that need not wait cause no events.
 * Locking  events->lock, inside gate->lock; no callback is called with it held.
 * If sys/sdt.h was available at build time, the same events are probes for perf, bpftrace and SystemTap: provider "ratefs",
 * probes with the names of the kinds below (admitted, would_block ...) and (mount, key, uid, ops, bytes, wait in ns).  For a
 * request that was refused without being parked, the thread ID takes the place of the key, which would have to be looked up. */
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
	EVENT_TOO_MANY_OPEN, /* max_open */
	EVENT_NO_SPACE,	     /* size, inodes */
	EVENT_KINDS
};
const char *event_kind_name(enum event_kind kind);

#define EVENT_LIMITS 3

struct event {
	enum event_kind kind;
	uint64_t at_ns;
	const void *mount; /* struct gate_mount: only for comparison, as it may have been freed */
	struct fair_key key;
	uint32_t uid, tid;
	struct cost cost;
	uint64_t wait_ns;
	/* what it waited for, longest first; of a request that was refused immediately: what refused it */
	struct waited_limit limit[EVENT_LIMITS];
	char class[SCOPE_NAME_MAX]; /* "": the mount itself */
	char name[KEY_NAME_MAX];
};

#define EVENTS_MAX 4096

struct events {
	_Atomic bool on;
	pthread_mutex_t lock;
	struct event *ring; /* NULL: no subscriber */
	unsigned first, n;
	uint64_t dropped;
	void (*wake)(void *ctx);
	void *ctx;
};

struct gate;
/* Calls `wake`, from any thread, when the first event is added to an empty ring.  0 or -ENOMEM. */
int gate_events_start(struct gate *g, void (*wake)(void *ctx), void *ctx);
void gate_events_stop(struct gate *g);
/* Takes up to `n` events, oldest first; *dropped: how many were lost since the last call. */
unsigned gate_events_take(struct gate *g, struct event *out, unsigned n, uint64_t *dropped);

#endif
