/* SPDX-License-Identifier: MIT */
/* A request that has to wait.
 *
 *	NEW -park-> PARKED -admit-> READY -run-> DONE
 *	            PARKED -admit-> DEVICE -date-> READY        on a mount with a device model
 *	            PARKED -cancel/timeout/drain-> DONE
 *	                            DEVICE -cancel/drain-> DONE
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
#include "sched/caller.h"
#include "sched/device.h"

struct job;
struct account;
struct key;
struct lane;
struct leaf;
struct workers;

struct job_ops {
	/* Admitted; called by a worker thread (or a test), no lock held.  Must call gate_done. */
	void (*run)(struct job *j);
	/* Will not run: GRANT_TIMED_OUT, GRANT_CANCELLED (drained) or GRANT_MISCONFIGURED. */
	void (*refuse)(struct job *j, enum grant_result why);
};

enum job_state { JOB_NEW, JOB_PARKED, JOB_DEVICE, JOB_READY, JOB_DONE };

/* What an admission took; needed to settle it. */
struct grant {
	struct leaf *leaf;	   /* where the request entered the tree of scopes */
	const struct chain *chain; /* from the leaf to the root; NULL: nothing was limited there */
	struct key *key; /* pinned while its own limits are to be settled; NULL: it has none */
	const struct chain *own; /* those limits */
	struct cost cost;
	bool probe; /* took nothing, ends without a trace */
};

struct job {
	/* filled by the submitter */
	const struct job_ops *ops;
	struct workers *workers; /* whose threads run it */
	struct cost cost;
	struct caller caller;
	uint64_t memory_bytes;	     /* what it pins while parked, for the cap on parked bytes */
	struct device_access access; /* where the mount has a device model */
	bool probe;    /* only asks when it could go: admitted without being charged */
	bool must_run; /* max_wait does not end its wait: an error would lose data */

	/* the gate's */
	enum job_state state;
	struct leaf *leaf;
	struct fair_key key;
	struct grant grant; /* valid from DEVICE or READY on */
	uint64_t parked_ns; /* when it was parked */
	uint64_t seq;	    /* order of parking */
	enum grant_result refusal;
	bool waited;	  /* not admitted by gate_park itself */
	struct list link; /* its key's FIFO, its mount's jobs in the device, or the admitted jobs */
	struct heap_item deadline;
	struct heap_item date; /* in gate->dates: when the device is done with it */
	uint64_t device_ns;    /* since when it is in the device */
	struct lane *lane;     /* of its key */
	struct account *own;   /* the gate's own job, in the name of a key: nobody runs it */
};

#endif
