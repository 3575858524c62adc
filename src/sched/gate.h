/* SPDX-License-Identifier: MIT */
/* The gate: who may go now, who waits, and whose turn it is.  One per process.
 *
 *	         gate_try ──▶ chain: granted ─────────────▶ caller runs it, then gate_done
 *	            │ refused
 *	         gate_park ─▶ (key, lane) FIFO ─ WF2Q+ ─▶ READY ─▶ dispatch() ─▶ ops->run, gate_done
 *	                          │
 *	                          └─ gate_cancel / max_wait / gate_mount_drain ─▶ ops->refuse
 *
 * Tree       global → fs → mount → key, one WF2Q+ node per (scope, lane); late binding: a turn is
 *            decided and every token is taken at the moment of release.
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
#include "sched/job.h"
#include "sched/stats.h"

struct gate;
struct gate_fs;

struct weight_rule {
	struct fair_key key;
	uint32_t weight; /* ≥ 1; what has no rule has weight 1 */
};

struct gate_mount_config {
	struct limiter_config limits;
	uint32_t weight;	   /* of the mount against other mounts; 0 means 1 */
	uint64_t max_wait_ns;	   /* 0: no bound */
	uint64_t max_parked;	   /* jobs; 0: GATE_MAX_PARKED_DEFAULT */
	uint64_t max_parked_bytes; /* memory pinned by parked jobs; 0: GATE_MAX_PARKED_BYTES_DEFAULT */
	uint32_t max_keys;	   /* 0: GATE_MAX_KEYS_DEFAULT */
	bool full_rejects;	   /* on_full=reject */
	bool dry_run;
	const struct weight_rule *weights; /* copied */
	unsigned n_weights;
};
#define GATE_MAX_PARKED_DEFAULT	      65536
#define GATE_MAX_PARKED_BYTES_DEFAULT (256ULL << 20)
#define GATE_MAX_KEYS_DEFAULT	      4096

/* `dispatch` receives the admitted jobs (linked by job->link, in order) with no lock held; it hands
 * them to threads that call ops->run. */
struct gate *gate_new(const struct clock *clock, void (*dispatch)(void *ctx, struct list *ready),
		      void *ctx);
void gate_free(struct gate *g); /* no mounts, no fs left */

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

/* One pointer test: nothing limits this class on this mount. */
bool gate_unlimited(const struct gate_mount *m, enum cost_class cls);

/* May it go at once?  GO fills `grant`; WOULD_BLOCK: park it or tell the caller.  With dry_run it
 * always goes.  Counts the admission; a WOULD_BLOCK is counted by what follows it. */
enum gate_verdict gate_try(struct gate_mount *m, const struct cost *cost, struct grant *grant);

/* For O_NONBLOCK transfers: in part if the budget does not cover it all, at least
 * min(bytes, 4096, capacity).  GO: grant->cost.bytes is what may be moved.  Counts would-block. */
enum gate_verdict gate_try_partial(struct gate_mount *m, const struct cost *cost,
				   struct grant *grant);

/* Never made to wait (flush; page faults where memory is out).  Charged, which may leave debt, but not
 * where others wait already, nor past GATE_DEBT_NS of debt: that would be for others to pay. */
#define GATE_DEBT_NS NSEC_PER_SEC
void gate_take(struct gate_mount *m, const struct cost *cost, struct grant *grant);

/* Parks a job in fair order.  GO: it could go after all; job->grant is filled, run it here. */
enum gate_verdict gate_park(struct gate_mount *m, struct job *job);

/* True: gate_park would answer NO_ROOM, and this has been counted as such an answer.  Spares who asks
 * the copy of what a large job pins. */
bool gate_has_no_room(struct gate_mount *m, const struct job *job);

/* How long an answer of NO_ROOM should be held back: who asks again at once would take the time of
 * others. */
uint64_t gate_no_room_delay_ns(const struct gate_mount *m);
#define GATE_NO_ROOM_DELAY_NS (100 * NSEC_PER_MSEC)

/* True: the job was parked and is the caller's again, its tokens unspent.  False: it is on its way
 * to run or refuse, which will come (or has come).  Call only while the job cannot be freed:
 * the fs layer holds its table lock, which ending a job takes too. */
bool gate_cancel(struct gate *g, struct job *job);

/* The largest transfer that this class should ask for at once on this mount: what its tightest
 * byte limit can hold, at least `least`; UINT64_MAX where no byte limit is in its way. */
uint64_t gate_piece_bytes(const struct gate_mount *m, enum cost_class cls, uint64_t least);

/* Ends an admission: gives back bytes that were not moved (all of them on failure), charges what
 * was moved beyond the grant (a readdir's reply is known only now; it may leave debt), releases
 * permits, counts the outcome, wakes waiters.  For a probe: does nothing. */
enum gate_outcome { OUTCOME_OK, OUTCOME_FAILED, OUTCOME_CANCELLED };
void gate_done(struct gate_mount *m, const struct grant *grant, enum gate_outcome outcome,
	       uint64_t bytes_moved);

/* From now on every parked job of the mount and every later one is admitted without limits
 * (`run` = true) or refused with GRANT_CANCELLED: the end of a mount. */
void gate_mount_drain(struct gate_mount *m, bool run);

/* Admits what may go at now_ns, in fair order, dispatches it, and arms the clock.  Returns the next
 * moment worth looking (NEVER: only on new work).  Never sleeps. */
uint64_t gate_step(struct gate *g, uint64_t now_ns);

/* max_open: false means ENFILE.  Counts at global, mount and fs. */
bool gate_open_try(struct gate_mount *m);
void gate_open_release(struct gate_mount *m);

/* Statistics: a copy, good for looking; never blocks an operation for longer than the copy. */
void gate_stats_global(struct gate *g, struct scope_stats *out);
void gate_stats_fs(struct gate_fs *fs, struct scope_stats *out);
void gate_stats_mount(struct gate_mount *m, struct scope_stats *out);
/* Up to n keys of the mount, most waited first; returns how many. */
unsigned gate_stats_keys(struct gate_mount *m, struct key_stats *out, unsigned n);
void gate_stats_reset(struct gate *g); /* all scopes */

#endif
