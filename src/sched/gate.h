/* SPDX-License-Identifier: MIT */
/* The gate decides which request may proceed, which waits, and whose turn it is.  One per process.
 *
 *	         gate_try ──▶ chain: granted ─────────────▶ caller runs it, then gate_done
 *	            │ refused
 *	         gate_park ─▶ (key, lane) FIFO ─ WF2Q+ ─▶ READY ─▶ dispatch() ─▶ ops->run, gate_done
 *	                          │                    └▶ DEVICE ─┘ if the mount has a device model
 *	                          └─ gate_cancel / max_wait / gate_mount_drain ─▶ ops->refuse
 *
 * Tree       global → fs → mount → class → key, one WF2Q+ queue per (node, lane).  Turns are decided
 *            late: all tokens are taken at the moment of release.  See node.h.
 * Lanes      classes that are subject to the same kinds of limits queue together; others do not
 *            delay each other, except that they share buckets by weight (line.c).  A key, class or
 *            mount that waits in two lanes has a share in each.
 * Locking    one mutex inside, never held during a call of run or refuse.  gate_try takes it only if
 *            it has to wake waiters or find a new key.  Lock order: the caller's locks, then ours.
 * Time       every decision takes its time from the clock table, so that tests can step it. */
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

/* The weight of one key or, with a glob, of every cgroup (by path) or process (by name) that
 * matches.  Rules for one key take precedence over globs; of several globs that match, the first
 * applies.  A key without a rule has weight 1. */
struct weight_rule {
	struct fair_key key;
	const char *glob; /* NULL: the rule is for key.id */
	uint32_t weight;  /* ≥ 1 */
};

struct gate_mount_config {
	struct limiter_config limits;
	struct limiter_config each; /* for each key, in addition to `limits` */
	enum fair_kind fair;	    /* what a key is */
	uint32_t weight;	    /* of the mount among other mounts; 0 means 1 */
	uint64_t max_wait_ns;	    /* 0: no bound */
	uint64_t max_parked;	    /* jobs; 0: GATE_MAX_PARKED_DEFAULT */
	/* memory held by parked jobs; 0: GATE_MAX_PARKED_BYTES_DEFAULT */
	uint64_t max_parked_bytes;
	uint32_t max_keys; /* 0: GATE_MAX_KEYS_DEFAULT */
	bool full_rejects; /* on_full=reject */
	bool dry_run;
	struct device_config device;
	const struct weight_rule *weights; /* copied */
	unsigned n_weights;
};
#define GATE_MAX_PARKED_DEFAULT	      65536
#define GATE_MAX_PARKED_BYTES_DEFAULT (256ULL << 20)
#define GATE_MAX_KEYS_DEFAULT	      4096

/* A class selects those requests of a mount for which `match` is true. */
struct gate_class_config {
	const char *name;
	const char *parent;	  /* another class, listed anywhere; NULL: the mount */
	const struct rule *match; /* copied; NULL: only the requests of its children */
	struct limiter_config limits, each;
	enum fair_kind fair;
	uint32_t weight; /* among its siblings; 0 means 1 */
	/* While requests of the class wait, it gets at least these rates; weights divide the rest. */
	uint64_t reserve_bps, reserve_iops;
	uint64_t max_wait_ns;
	uint32_t max_keys;
	const struct weight_rule *weights;
	unsigned n_weights;
};
#define GATE_CLASS_DEPTH_MAX (CHAIN_SCOPES_MAX - 4)

/* `dispatch` receives the admitted jobs (linked by job->link, in order) with no lock held, and
 * passes them to threads that call ops->run. */
struct gate *gate_new(const struct clock *clock, void (*dispatch)(void *ctx, struct list *ready),
		      void *ctx);
void gate_free(struct gate *g); /* no mounts and no fs may be left */
/* Sets how callers are looked up.  Call before the first request.  Without it, each thread is
 * treated as a process. */
void gate_set_caller_ops(struct gate *g, const struct caller_ops *ops);

/* Creates scopes.  NULL: out of memory.  An fs must outlive its mounts. */
struct gate_fs *gate_fs_new(struct gate *g, const char *name, const struct limiter_config *cfg);
void gate_fs_free(struct gate_fs *fs);
struct gate_mount *gate_mount_new(struct gate_fs *fs, const char *name,
				  const struct gate_mount_config *cfg);
/* Nothing may be parked and all grants must be done: drain first. */
void gate_mount_free(struct gate_mount *m);

/* Changes limits at run time: atomically, without refilling them, and with immediate effect on
 * waiting jobs.  0 or -ENOMEM (then nothing has changed). */
int gate_set_global(struct gate *g, const struct limiter_config *cfg);
int gate_set_fs(struct gate_fs *fs, const struct limiter_config *cfg);
int gate_set_mount(struct gate_mount *m, const struct gate_mount_config *cfg);
/* Replaces the classes of a mount by these, in the order in which they are tried.  The first class
 * that matches a request takes it; requests that match none belong to the mount itself.  A class
 * that existed before, by name, keeps the state of its limits.  Waiting jobs move to their new
 * class in the order of their arrival.  0, -ENOMEM, or -EINVAL (a parent that does not exist, a
 * cycle, or more than GATE_CLASS_DEPTH_MAX levels); on errors nothing has changed. */
int gate_set_classes(struct gate_mount *m, const struct gate_class_config *cfg, unsigned n);

/* What is to change in one scope: in the mount, or else the fs, or else the global scope. */
struct gate_change {
	struct gate_fs *fs;
	struct gate_mount *mount;
	const struct limiter_config *limits;	/* of the fs or the global scope */
	const struct gate_mount_config *config; /* of the mount; NULL: unchanged */
	bool sets_classes;			/* of the mount: to these */
	const struct gate_class_config *classes;
	unsigned n_classes;
};
/* Changes several scopes, each at most once, or none of them: everything is allocated and compiled before
 * anything changes, and then takes effect under one lock, so that statistics and waiting jobs see either none of the
 * change or all of it.  (A request that is on the lock-free path at that moment asks some limits before
 * they change and others after, as with a single scope.)  0, -ENOMEM or -EINVAL, as above. */
int gate_apply(struct gate *g, const struct gate_change *changes, unsigned n);

/* True: rules or fairness depend on cgroups or names of programs.  The cgroup and name of each
 * process that opens a file must then be remembered, for later requests on that file that come
 * without a caller. */
bool gate_asks_for_openers(const struct gate_mount *m);

/* A scope that belongs to a pool, whose limits many hosts share (limit_config.pool_per_sec): the
 * class if one is named, else the mount, else the fs, else the global scope. */
struct gate_pool_scope {
	struct gate *gate;
	struct gate_fs *fs;
	struct gate_mount *mount;
	const char *class; /* of the mount */
};
/* Sets what this scope may use of each limit of its pool, from now on.  Takes effect immediately,
 * even for waiting jobs, and rebuilds nothing: O(1), apart from the jobs that it admits.  False:
 * there is no such class. */
struct gate_lease {
	struct bucket_lease limit[LIMIT_KINDS];
};
bool gate_lease(const struct gate_pool_scope *s, const struct gate_lease *lease);
/* What this scope has used of its pool.  `tokens` only grows, except for refunds. */
struct gate_pool_use {
	uint64_t tokens[LIMIT_KINDS];
	uint64_t blocking_ns[LIMIT_KINDS]; /* time during which requests waited for the pool */
	bool waiting[LIMIT_KINDS];	   /* requests are waiting for it now */
	/* tokens that the bucket lacks: with waiting requests until it is full, otherwise until its debt is paid */
	uint64_t need[LIMIT_KINDS];
};
bool gate_pool_look(const struct gate_pool_scope *s, struct gate_pool_use *out);

/* A paused scope admits nothing, whether limited or not, until it is resumed. */
int gate_pause_global(struct gate *g, bool paused);
int gate_pause_fs(struct gate_fs *fs, bool paused);
int gate_pause_mount(struct gate_mount *m, bool paused);
/* A class stays paused while it exists, however it changes.  -ENOENT: the mount has no such class. */
int gate_pause_class(struct gate_mount *m, const char *class, bool paused);
/* Whether the class itself is paused, and in *within whether it or a class that contains it is. */
bool gate_class_paused(struct gate_mount *m, const char *class, bool *within);

enum gate_verdict {
	GATE_GO,	  /* run it on this thread, then gate_done */
	GATE_PARKED,	  /* the gate owns it now; the caller must not touch it any more */
	GATE_WOULD_BLOCK, /* not now */
	GATE_FULL,	  /* max_inflight with on_full=reject */
	/* max_parked or max_parked_bytes is reached.  Once three quarters of either are in use, also
	 * for keys that already have as much parked as there is room left */
	GATE_NO_ROOM,
	GATE_MISCONFIGURED,
};

/* True: nothing limits this class of operations on this mount, for any caller. */
bool gate_unlimited(const struct gate_mount *m, enum cost_class cls);

/* May the request proceed immediately?  GO fills `grant`; after WOULD_BLOCK, park it or refuse it.
 * With dry_run the answer is always GO.  Counts the admission; a WOULD_BLOCK is counted by the
 * call that follows it. */
enum gate_verdict gate_try(struct gate_mount *m, const struct cost *cost,
			   const struct caller *caller, struct grant *grant);

/* For O_NONBLOCK transfers: grants a part if the budget does not cover everything, at least
 * min(bytes, least, capacity).  GO: grant->cost.bytes is what may be transferred.  WOULD_BLOCK
 * leaves the caller's key a place in the fair order; when that place has had its turn, the next
 * try may bypass the queue. */
#define GATE_PARTIAL_BYTES 4096
enum gate_verdict gate_try_nonblocking(struct gate_mount *m, const struct cost *cost,
				       const struct caller *caller, uint64_t least,
				       struct grant *grant);

/* For requests that must not wait (flush; page faults when memory is exhausted).  False: there
 * were not enough tokens and the caller's key is in debt.  It pays from its fair share, before any
 * later request of that key in the same lane, so that others wait no longer for it than for any
 * other request. */
bool gate_take(struct gate_mount *m, const struct cost *cost, const struct caller *caller,
	       struct grant *grant);

/* Parks a job in fair order.  GO: it was admitted after all; job->grant is filled, run it on this
 * thread.  On a mount with a device model, PARKED may mean that it was admitted and is in the
 * device. */
enum gate_verdict gate_park(struct gate_mount *m, struct job *job);

/* What the device model of a mount requires before gate_try. */
enum gate_model {
	GATE_MODEL_OFF,
	GATE_MODEL_COST, /* call gate_ops to find out how many operations a transfer costs */
	/* As GATE_MODEL_COST.  In addition, call gate_park, with job->access filled in, instead of
	 * gate_try, and pass jobs that gate_try_nonblocking admits to gate_device. */
	GATE_MODEL_TIME,
};
enum gate_model gate_model(const struct gate_mount *m);
/* The number of operations that a request is charged for, by its size. */
uint32_t gate_ops(const struct gate_mount *m, const struct cost *cost);
/* Passes an admitted job (job->grant is filled) to the device.  PARKED or GO. */
enum gate_verdict gate_device(struct gate_mount *m, struct job *job);

/* True: gate_park would return NO_ROOM, and this has been counted as such.  Saves the caller from
 * copying the data of a large job in vain. */
bool gate_has_no_room(struct gate_mount *m, struct job *job);

/* How long to delay the reply after NO_ROOM, so that callers that retry in a loop do not slow
 * others down. */
uint64_t gate_no_room_delay_ns(const struct gate_mount *m);
#define GATE_NO_ROOM_DELAY_NS (100 * NSEC_PER_MSEC)

/* True: the job was parked and belongs to the caller again.  It needs no gate_done; it has spent no
 * tokens, unless it was in the device.  False: the job is being passed to run or refuse.  Call
 * only while the job cannot be freed: the fs layer holds its table lock, which is also taken to
 * end a job. */
bool gate_cancel(struct gate *g, struct job *job);

/* The largest transfer that should be requested in one piece: the capacity of the caller's
 * tightest byte limit, at least `least`; UINT64_MAX if no byte limit applies. */
uint64_t gate_piece_bytes(struct gate_mount *m, enum cost_class cls, const struct caller *caller,
			  uint64_t least);

/* Ends an admission: refunds bytes that were not transferred (all of them on failure), releases
 * permits, counts the outcome, wakes waiters.  bytes_moved is at most what was granted.  Does
 * nothing for a probe. */
enum gate_outcome {
	OUTCOME_OK,
	/* an ordinary error such as ENOENT: counted as ok, but nothing was transferred */
	OUTCOME_ERROR,
	OUTCOME_FAILED,	       /* the source failed */
	OUTCOME_TOO_MANY_OPEN, /* refused by max_open (gate_open_try) */
	OUTCOME_NO_SPACE,      /* refused by the options size or inodes */
	OUTCOME_CANCELLED
};
void gate_done(const struct grant *grant, enum gate_outcome outcome, uint64_t bytes_moved);

/* Call before gate_done with OUTCOME_TOO_MANY_OPEN or OUTCOME_NO_SPACE: tells those who subscribe to events. */
void gate_refused(const struct grant *grant, const struct caller *caller,
		  enum gate_outcome outcome);

/* True: the grant counts against max_inflight until gate_done. */
static inline bool gate_holds_permits(const struct grant *grant)
{
	return grant->chain && grant->chain->permits; /* keys have none */
}

/* Ends a mount: admits all of its parked jobs without limits (`run`), or refuses them with
 * GRANT_CANCELLED, except those that must run.  Limits remain in force for later requests; the
 * caller must see to it that none arrive. */
void gate_mount_drain(struct gate_mount *m, bool run);

/* Admits in fair order what may proceed at now_ns, dispatches it, and arms the clock.  Returns the
 * time of the next step (NEVER: none until something happens).  Never sleeps. */
uint64_t gate_step(struct gate *g, uint64_t now_ns);

struct scope_way;
/* Counts an open handle against max_open of all scopes of the caller.  NULL means ENFILE;
 * otherwise pass the result to gate_open_release when the handle is closed. */
const struct scope_way *gate_open_try(struct gate_mount *m, const struct caller *caller);
void gate_open_release(const struct scope_way *way);

/* Copies statistics.  Holds the gate's lock only while it copies. */
void gate_stats_global(struct gate *g, struct scope_stats *out);
void gate_stats_fs(struct gate_fs *fs, struct scope_stats *out);
void gate_stats_mount(struct gate_mount *m, struct scope_stats *out);
/* Copies the limits of the scope and of its ancestors, innermost first; returns the number of
 * scopes. */
unsigned gate_limits_global(struct gate *g, struct scope_limits *out);
unsigned gate_limits_fs(struct gate_fs *fs, struct scope_limits *out);
unsigned gate_limits_mount(struct gate_mount *m, struct scope_limits *out);
/* 0: there is no class of that name. */
unsigned gate_limits_class(struct gate_mount *m, const char *name, struct scope_limits *out);
/* Up to n keys of the mount, or of one class, and of the classes inside; those that waited longest first;
 * returns their number.  Copies a few at a time, so that the gate is never locked for long; each
 * key is a snapshot of a different moment. */
unsigned gate_stats_keys(struct gate_mount *m, const char *class, struct key_stats *out,
			 unsigned n);
/* From now on, or no longer, also counts requests of keys that need not wait (key_stats.done_ops), which costs a look-up of
 * the key for each request.  Classes that are added later are not watched. */
void gate_watch_keys(struct gate_mount *m, bool on);
/* How many keys a mount and its classes have now, including those that callers share past max_keys. */
unsigned gate_count_keys(struct gate_mount *m);
/* How long requests waited, by limit: requests that belong to no class (class NULL), or to one
 * class.  Lists only limits that requests have waited for; returns how many of `out` were filled
 * in. */
unsigned gate_stats_waits(struct gate_mount *m, const char *class, struct limit_wait *out,
			  unsigned n);
/* The limits that requests of a mount waited for (class NULL), or those of one class; requests of the classes inside are
 * included.  wait_ns of each is the sum over all of these requests; in a dry run, how long they would have waited.  If
 * none has been admitted after a wait, the limit that the oldest one waits for now.  Returns how many of `out` were
 * filled in. */
unsigned gate_waited_limits(struct gate_mount *m, const char *class, bool dry_run,
			    struct waited_limit *out, unsigned n);
/* Like gate_stats_mount, for one class; false: there is no class of that name. */
bool gate_stats_class(struct gate_mount *m, const char *name, struct scope_stats *out);
void gate_stats_reset(struct gate *g); /* all scopes */

#endif
