/* SPDX-License-Identifier: MIT */
/* A request that has to wait.
 *
 *	NEW -park-> PARKED -admit-> READY -run-> DONE
 *	            PARKED -admit-> DEVICE -date-> READY        on a mount with a device model
 *	            PARKED -cancel/timeout/drain-> DONE
 *	                            DEVICE -cancel/drain-> DONE
 *
 * Only the gate writes ->state, under its lock.  A parked job is ended by exactly one of run, refuse,
 * and a gate_cancel that returns true; it then belongs to the thread that ended it. */
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
	/* The job was admitted.  Called by a worker thread (or a test) with no lock held; must
	 * call gate_done. */
	void (*run)(struct job *j);
	/* The job will not run: GRANT_TIMED_OUT, GRANT_CANCELLED (drained) or GRANT_MISCONFIGURED. */
	void (*refuse)(struct job *j, enum grant_result why);
};

enum job_state { JOB_NEW, JOB_PARKED, JOB_DEVICE, JOB_READY, JOB_DONE };

/* What an admission took; needed to settle it. */
struct grant {
	struct leaf *leaf;	   /* where the request entered the tree of scopes */
	const struct chain *chain; /* from the leaf to the root; NULL: nothing is limited there */
	struct key *key;	   /* pinned until its own limits are settled; NULL: it has none */
	const struct chain *own;   /* the key's own limits */
	struct cost cost;
	bool probe; /* took nothing and is not counted */
};

struct job {
	/* filled by the submitter */
	const struct job_ops *ops;
	struct workers *workers; /* the pool that runs it */
	struct cost cost;
	struct caller caller;
	uint64_t memory_bytes;	     /* memory that it holds while parked, for max_parked_bytes */
	struct device_access access; /* used if the mount has a device model */
	bool probe;    /* only asks when it could proceed: admitted without being charged */
	bool must_run; /* never refused for max_wait: an error would lose data */

	/* set by the gate */
	enum job_state state;
	struct leaf *leaf;
	struct fair_key key;
	struct grant grant; /* valid from DEVICE or READY on */
	uint64_t parked_ns; /* when it was parked */
	uint64_t seq;	    /* order of parking */
	enum grant_result refusal;
	bool waited;	     /* was not admitted by gate_park itself */
	uint64_t *clock_was; /* wait_clock.c: what its clock showed when it was parked; NULL: not parked */
	/* in its key's FIFO, in its mount's list of jobs in the device, or among the admitted jobs */
	struct list link;
	struct heap_item deadline;
	struct heap_item date; /* in gate->dates: when the device is done with it */
	uint64_t device_ns;    /* when it entered the device */
	struct lane *lane;     /* of its key */
	/* not NULL: the gate's own job on behalf of a key, which is never run */
	struct account *own;
};

#endif
