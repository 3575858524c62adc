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

/* A request is subject to the limits of its key in its leaf, and of its outer keys: one in every scope above the leaf, up to
 * the mount, that has limits for each key. */
#define GRANT_KEYS_MAX (CHAIN_SCOPES_MAX - 3)
struct granted_key {
	struct key *key;	   /* pinned until the grant is settled */
	const struct chain *chain; /* its limits; NULL: it has none */
};

/* What an admission took; needed to settle it. */
struct grant {
	struct leaf *leaf;	   /* where the request entered the tree of scopes */
	const struct chain *chain; /* from the leaf to the root; NULL: nothing is limited there */
	struct cost cost;
	bool probe;    /* took nothing and is not counted */
	bool waited;   /* key[0] has counted its bytes (in dry runs, too) */
	unsigned keys; /* 0: no key has limits that apply, or counts the bytes */
	struct granted_key key[GRANT_KEYS_MAX]; /* that of the leaf first, then the outer keys */
};

/* Leaves key[] as it is: it is large, and most requests need none of it. */
static inline void grant_init(struct grant *grant, struct leaf *f, const struct cost *c)
{
	grant->leaf = f;
	grant->chain = NULL;
	grant->cost = *c;
	grant->probe = grant->waited = false;
	grant->keys = 0;
}

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

	bool queued; /* set by its pool, under the pool's lock: no thread has taken it yet */

	/* set by the gate */
	enum job_state state;
	struct leaf *leaf;
	struct fair_key key;
	struct grant grant; /* valid from DEVICE or READY on */
	/* While it is parked: the number of its outer keys, which are pinned and in grant.key, from key[1] on. */
	unsigned outer_keys;
	/* For each of them, a bit for each resource where it was first in line: its lane need not queue there again.  (Between two
	 * of them, a lane that forgot the other one would lose each turn to its neighbours.) */
	uint32_t had_turn[GRANT_KEYS_MAX];
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
