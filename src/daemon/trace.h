/* SPDX-License-Identifier: MIT */
/* Events for subscribers of the control socket ("subscribe"; `ratefsctl trace`): those of requests, which come from the
 * scheduler (sched/events.h), and those of the daemon itself.
 *
 * A subscriber's lines wait in a buffer of TRACE_BUFFER_MAX.  What does not fit is counted, and the count is sent as
 * an event "dropped" as soon as there is room.  Nothing waits for a subscriber.  Main thread only,
 * except that any thread may write to wake.fd. */
#ifndef DAEMON_TRACE_H
#define DAEMON_TRACE_H

#include "base/list.h"
#include "daemon/loop.h"
#include "proto/json_out.h"
#include "sched/caller.h"
#include "sched/stats.h"

#define TRACE_BUFFER_MAX (256U << 10)
#define TRACE_BATCH	 256 /* events that are handled before other clients have their turn */

struct registry;

/* Which events a subscriber wants; "" and 0: all. */
struct trace_filter {
	char mount[256], class[SCOPE_NAME_MAX];
	bool has_key;
	uint64_t key;
	char name[CALLER_PATH_MAX]; /* of a key: its program, or the path of its cgroup */
	uint64_t min_wait_ns; /* only requests that waited that long, and no events of the daemon */
};

struct trace {
	struct list link; /* in traces->all */
	struct trace_filter filter;
	char *text; /* lines that have not been sent: [done, len) */
	size_t done, len, room;
	uint64_t dropped;
	bool fresh; /* lines were added since the last attempt to send */
};

struct traces {
	struct list all;
	struct registry *registry;
	struct watch wake;	  /* fd -1: there is none */
	void (*ready)(void *ctx); /* subscribers have lines to be sent */
	void *ctx;
	bool listening; /* the scheduler records events for us */
};

/* 0 or -errno. */
int traces_init(struct traces *t, struct registry *r, struct loop *l, void (*ready)(void *ctx),
		void *ctx);
void traces_free(struct traces *t); /* all subscribers have left */

/* 0 or -ENOMEM. */
int trace_open(struct traces *t, const struct trace_filter *f, struct trace **out);
void trace_close(struct traces *t, struct trace *trace);
/* `n` more bytes have been sent. */
void trace_sent(struct trace *trace, size_t n);

/* An event of the daemon: "limit_changed", "mounted"…  `scope` and `name` say what it concerns; key
 * and value may be NULL. */
void traces_tell(struct traces *t, const char *event, const char *scope, const char *name,
		 const char *key, const char *value);

/* The same for callers that have the registry; nothing happens if it has no traces. */
void registry_tell(const struct registry *r, const char *event, const char *scope, const char *name,
		   const char *key, const char *value);
/* Tells of mounts that have come up or gone down. */
void registry_tell_states(struct registry *r);

#endif
