/* SPDX-License-Identifier: MIT */
/* The gate: who may go now, who waits, and whose turn it is.  One per process.
 *
 *	         gate_try ──▶ chain: granted ─────────────▶ caller runs it, then gate_done
 *	            │ refused
 *	         gate_park ─▶ (key, lane) FIFO ─ WF2Q+ ─▶ READY ─▶ dispatch() ─▶ ops->run, gate_done
 *	                          │                    └▶ DEVICE ─┘ where the mount models one
 *	                          └─ gate_cancel / max_wait / gate_mount_drain ─▶ ops->refuse
 *
 * Tree       global → fs → mount → key, one WF2Q+ queue per (node, lane); late binding: a turn is
 *            decided and every token is taken at the moment of release.  See node.h.
 * Lanes      classes that meet the same kinds of limits queue together; others never wait for
 *            each other, except in turn for a bucket that they share.
 * Locking    one mutex inside; never held over a callback to run/refuse.  gate_try takes none
 *            unless it has to tell the scheduler something.  Lock order: caller's locks → gate.
 * Time       every decision takes its time from the clock table, so a test can step it. */
#ifndef SCHED_GATE_H
#define SCHED_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "limit/chain.h"
#include "sched/clock.h"
#include "sched/device.h"
#include "sched/job.h"
#include "sched/rule.h"
#include "sched/stats.h"

struct gate;
struct gate_fs;
struct gate_mount;

/* The weight of one key or, with a glob, of every cgroup (by path) or process (by name) that it
 * matches.  A rule for one key comes before those with globs; of these the first that matches counts.
 * What has no rule has weight 1. */
struct weight_rule {
	struct fair_key key;
	const char *glob; /* NULL: key.id says which */
	uint32_t weight;  /* ≥ 1 */
};

struct gate_mount_config {
	struct limiter_config limits;
	struct limiter_config each; /* of every key, beside these */
	enum fair_kind fair;	    /* what a key is */
	uint32_t weight;	    /* of the mount against other mounts; 0 means 1 */
	uint64_t max_wait_ns;	    /* 0: no bound */
	uint64_t max_parked;	    /* jobs; 0: GATE_MAX_PARKED_DEFAULT */
	uint64_t max_parked_bytes; /* memory pinned by parked jobs; 0: GATE_MAX_PARKED_BYTES_DEFAULT */
	uint32_t max_keys;	   /* 0: GATE_MAX_KEYS_DEFAULT */
	bool full_rejects;	   /* on_full=reject */
	bool dry_run;
	struct device_config device;
	const struct weight_rule *weights; /* copied */
	unsigned n_weights;
};
#define GATE_MAX_PARKED_DEFAULT	      65536
#define GATE_MAX_PARKED_BYTES_DEFAULT (256ULL << 20)
#define GATE_MAX_KEYS_DEFAULT	      4096

/* A class of the requests of a mount: those that `match` holds for. */
struct gate_class_config {
	const char *name;
	const char *parent;	  /* another class, listed anywhere; NULL: the mount */
	const struct rule *match; /* copied; NULL: only what its children take */
	struct limiter_config limits, each;
	enum fair_kind fair;
	uint32_t weight; /* against its siblings; 0 means 1 */
	/* While requests of the class wait, it gets at least so much, before weights divide the rest. */
	uint64_t reserve_bps, reserve_iops;
	uint64_t max_wait_ns;
	uint32_t max_keys;
	const struct weight_rule *weights;
	unsigned n_weights;
};
#define GATE_CLASS_DEPTH_MAX (CHAIN_SCOPES_MAX - 4)

/* `dispatch` receives the admitted jobs (linked by job->link, in order) with no lock held; it hands
 * them to threads that call ops->run. */
struct gate *gate_new(const struct clock *clock, void (*dispatch)(void *ctx, struct list *ready),
		      void *ctx);
void gate_free(struct gate *g); /* no mounts, no fs left */
/* How to look callers up, before the first request; without it threads are processes. */
void gate_set_caller_ops(struct gate *g, const struct caller_ops *ops);

/* Scopes.  NULL: out of memory.  An fs outlives its mounts. */
struct gate_fs *gate_fs_new(struct gate *g, const char *name, const struct limiter_config *cfg);
void gate_fs_free(struct gate_fs *fs);
struct gate_mount *gate_mount_new(struct gate_fs *fs, const char *name,
				  const struct gate_mount_config *cfg);
/* Nothing parked, nothing granted that is not done: drain first. */
void gate_mount_free(struct gate_mount *m);

/* Run-time change: applied atomically, keeps what was spent, felt by waiting jobs at once.
 * 0 or -ENOMEM (then nothing has changed). */
int gate_set_global(struct gate *g, const struct limiter_config *cfg);
int gate_set_fs(struct gate_fs *fs, const struct limiter_config *cfg);
int gate_set_mount(struct gate_mount *m, const struct gate_mount_config *cfg);
/* The classes of a mount, all of them, in the order in which they are asked; the first that matches a
 * request takes it, and what none takes stays in the mount itself.  A class that was there before, by
 * name, keeps what was spent.  Waiting jobs move to their new class in the order in which they came.
 * 0, -ENOMEM, or -EINVAL: a parent that is not there, a cycle, or more than GATE_CLASS_DEPTH_MAX deep;
 * then nothing has changed. */
int gate_set_classes(struct gate_mount *m, const struct gate_class_config *cfg, unsigned n);

/* Only the weights, in two steps, so that several mounts can be changed, or none: the first can fail
 * (-ENOMEM), the second takes over what the first made. */
int gate_weights_copy(const struct weight_rule *rules, unsigned n, struct weight_rule **out);
void gate_weights_free(struct weight_rule *rules, unsigned n); /* a copy that was not handed over */
void gate_set_weights(struct gate_mount *m, struct weight_rule *rules, unsigned n);

/* A scope that takes part in a limit over many hosts (limit_config.pool_per_sec): the narrowest that is
 * named. */
struct gate_pool_scope {
	struct gate *gate;
	struct gate_fs *fs;
	struct gate_mount *mount;
	const char *class; /* of the mount */
};
/* What may be used here of each limit of the pool, from now on.  Takes effect for waiting jobs at once, and
 * rebuilds nothing: O(1), beside the jobs that it lets go.  False: there is no such class. */
struct gate_lease {
	struct bucket_lease limit[LIMIT_KINDS];
};
bool gate_lease(const struct gate_pool_scope *s, const struct gate_lease *lease);
/* What was used of it: counters that only grow, but for what is given back. */
struct gate_pool_use {
	uint64_t tokens[LIMIT_KINDS];
	uint64_t blocking_ns[LIMIT_KINDS]; /* during which somebody waited for the pool */
	bool waiting[LIMIT_KINDS];	   /* somebody does so now */
	int64_t level[LIMIT_KINDS];
};
bool gate_pool_look(const struct gate_pool_scope *s, struct gate_pool_use *out);

/* A paused scope admits nothing, limited or not, until it is resumed. */
int gate_pause_global(struct gate *g, bool paused);
int gate_pause_fs(struct gate_fs *fs, bool paused);
int gate_pause_mount(struct gate_mount *m, bool paused);

enum gate_verdict {
	GATE_GO,	  /* run it on this thread, then gate_done */
	GATE_PARKED,	  /* the gate has it now; the caller must not touch it any more */
	GATE_WOULD_BLOCK, /* not now */
	GATE_FULL,	  /* max_inflight with on_full=reject */
	GATE_NO_ROOM,	  /* max_parked; the last quarter of that room is not for a key that has as
			   * much parked as is left */
	GATE_MISCONFIGURED,
};

/* Nothing limits this class of operations on this mount, whoever asks. */
bool gate_unlimited(const struct gate_mount *m, enum cost_class cls);

/* May it go at once?  GO fills `grant`; WOULD_BLOCK: park it or tell the caller.  With dry_run it
 * always goes.  Counts the admission; a WOULD_BLOCK is counted by what follows it. */
enum gate_verdict gate_try(struct gate_mount *m, const struct cost *cost,
			   const struct caller *caller, struct grant *grant);

/* For O_NONBLOCK transfers: in part if the budget does not cover it all, at least
 * min(bytes, least, capacity).  GO: grant->cost.bytes is what may be moved.  WOULD_BLOCK leaves the
 * caller's key a place in the fair order: it goes past the queue once that has had its turn. */
#define GATE_PARTIAL_BYTES 4096
enum gate_verdict gate_try_nonblocking(struct gate_mount *m, const struct cost *cost,
				       const struct caller *caller, uint64_t least,
				       struct grant *grant);

/* For what is never made to wait (flush; page faults where memory is out).  False: the tokens were not
 * there, and its key owes them: it pays before any later request of that key in the same lane, and in its
 * fair share, so that others wait no longer for it than for anybody else. */
bool gate_take(struct gate_mount *m, const struct cost *cost, const struct caller *caller,
	       struct grant *grant);

/* Parks a job in fair order.  GO: it could go after all; job->grant is filled, run it here.
 * On a mount with a device model, PARKED may mean that it was admitted and is in the device. */
enum gate_verdict gate_park(struct gate_mount *m, struct job *job);

/* What the mount's device model asks of a request before gate_try. */
enum gate_model {
	GATE_MODEL_OFF,
	GATE_MODEL_COST, /* gate_ops says what a transfer costs */
	GATE_MODEL_TIME, /* the same, and not gate_try but gate_park admits it, with job->access filled;
			  * what gate_try_nonblocking has admitted passes gate_device */
};
enum gate_model gate_model(const struct gate_mount *m);
/* The operations that a request counts as by its size. */
uint32_t gate_ops(const struct gate_mount *m, const struct cost *cost);
/* Takes a job that was admitted (job->grant is filled) into the device.  PARKED or GO. */
enum gate_verdict gate_device(struct gate_mount *m, struct job *job);

/* True: gate_park would answer NO_ROOM, and this has been counted as such an answer.  Spares who asks
 * the copy of what a large job pins. */
bool gate_has_no_room(struct gate_mount *m, struct job *job);

/* How long an answer of NO_ROOM should be held back: who asks again at once would take the time of
 * others. */
uint64_t gate_no_room_delay_ns(const struct gate_mount *m);
#define GATE_NO_ROOM_DELAY_NS (100 * NSEC_PER_MSEC)

/* True: the job was parked and is the caller's again; its tokens are unspent, or spent if it was in
 * the device, and it needs no gate_done.  False: it is on its way
 * to run or refuse, which will come (or has come).  Call only while the job cannot be freed:
 * the fs layer holds its table lock, which ending a job takes too. */
bool gate_cancel(struct gate *g, struct job *job);

/* The largest transfer that the caller should ask for in one piece: what its tightest
 * byte limit can hold, at least `least`; UINT64_MAX where no byte limit is in its way. */
uint64_t gate_piece_bytes(struct gate_mount *m, enum cost_class cls, const struct caller *caller,
			  uint64_t least);

/* Ends an admission: gives back bytes that were not moved (all of them on failure), releases permits,
 * counts the outcome, wakes waiters.  bytes_moved is at most what was granted.  For a probe: does
 * nothing. */
enum gate_outcome {
	OUTCOME_OK,
	OUTCOME_ERROR,	/* a plain answer such as ENOENT: counted as ok, but nothing was moved */
	OUTCOME_FAILED, /* the backing filesystem could not do it */
	OUTCOME_CANCELLED
};
void gate_done(const struct grant *grant, enum gate_outcome outcome, uint64_t bytes_moved);

/* True: it occupies places of max_inflight until gate_done. */
static inline bool gate_holds_permits(const struct grant *grant)
{
	return (grant->chain && grant->chain->permits) || (grant->own && grant->own->permits);
}

/* The end of a mount: every job of it that is parked now is admitted without limits (`run`), or
 * refused with GRANT_CANCELLED, but for those that may not be refused.  Limits stay in force for what
 * comes later; keeping that away is the caller's affair. */
void gate_mount_drain(struct gate_mount *m, bool run);

/* Admits what may go at now_ns, in fair order, dispatches it, and arms the clock.  Returns the next
 * moment worth looking (NEVER: only on new work).  Never sleeps. */
uint64_t gate_step(struct gate *g, uint64_t now_ns);

struct open_way;
/* max_open of every scope on the caller's way.  NULL means ENFILE; else what to give back. */
const struct open_way *gate_open_try(struct gate_mount *m, const struct caller *caller);
void gate_open_release(const struct open_way *way);

/* Statistics: a copy, good for looking; never blocks an operation for longer than the copy. */
void gate_stats_global(struct gate *g, struct scope_stats *out);
void gate_stats_fs(struct gate_fs *fs, struct scope_stats *out);
void gate_stats_mount(struct gate_mount *m, struct scope_stats *out);
/* The limits of the scope and of those above it, narrow to wide; returns how many scopes that are. */
unsigned gate_limits_global(struct gate *g, struct scope_limits *out);
unsigned gate_limits_fs(struct gate_fs *fs, struct scope_limits *out);
unsigned gate_limits_mount(struct gate_mount *m, struct scope_limits *out);
/* 0: there is no class of that name. */
unsigned gate_limits_class(struct gate_mount *m, const char *name, struct scope_limits *out);
/* Up to n keys of the mount and its classes, or of one class (NULL: all), most waited first; returns how
 * many.  Copies a few at a time, so that the gate is never held for long: each key is as of a moment of its
 * own. */
unsigned gate_stats_keys(struct gate_mount *m, const char *class, struct key_stats *out,
			 unsigned n);
/* The same for one class, by its name; false: there is none of that name. */
bool gate_stats_class(struct gate_mount *m, const char *name, struct scope_stats *out);
void gate_stats_reset(struct gate *g); /* all scopes */

#endif
