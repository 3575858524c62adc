/* SPDX-License-Identifier: MIT */
/* A request that has to wait.
 *
 *	NEW -park-> PARKED -admit-> READY -run-> DONE
 *	            PARKED -cancel/timeout/drain-> DONE
 *
 * Only the gate writes ->state, under its lock; exactly one of run, refuse, or a gate_cancel that
 * returned true ends a parked job, and whoever it is owns the job from then on. */
#ifndef SCHED_JOB_H
#define SCHED_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "limit/chain.h"

struct job;
struct gate_mount;

/* Whose turn: what a share belongs to.  Equal keys share one turn. */
enum fair_kind {
	FAIR_NONE,
	FAIR_HANDLE,
	FAIR_PROCESS,
	FAIR_UID,
	FAIR_GID,
	FAIR_CGROUP,
	FAIR_KINDS
};
struct fair_key {
	enum fair_kind kind;
	uint64_t id;
};
const char *fair_kind_name(enum fair_kind kind);

struct job_ops {
	/* Admitted; called by a worker thread (or a test), no lock held.  Must call gate_done. */
	void (*run)(struct job *j);
	/* Will not run: GRANT_TIMED_OUT, GRANT_CANCELLED (drained) or GRANT_MISCONFIGURED. */
	void (*refuse)(struct job *j, enum grant_result why);
};

enum job_state { JOB_NEW, JOB_PARKED, JOB_READY, JOB_DONE };

/* What an admission took; needed to settle it. */
struct grant {
	const struct chain *chain; /* NULL: nothing was limited */
	struct cost cost;
	bool probe; /* took nothing, ends without a trace */
};

struct job {
	/* filled by the submitter */
	const struct job_ops *ops;
	struct cost cost;
	struct fair_key key;
	uint64_t memory_bytes; /* what it pins while parked, for the cap on parked bytes */
	bool probe;	       /* only asks when it could go: admitted without being charged */
	bool patient;	       /* max_wait does not end its wait: an error would lose data */

	/* the gate's */
	enum job_state state;
	struct gate_mount *mount;
	struct grant grant; /* valid from READY on */
	uint64_t parked_ns; /* when it was parked */
	uint64_t seq;	    /* order of parking */
	enum grant_result refusal;
	bool waited;	  /* not admitted by gate_park itself */
	struct list link; /* its key's FIFO, or the list of admitted jobs */
	struct heap_item deadline;
	void *queue; /* its (key, lane) */
};

#endif
