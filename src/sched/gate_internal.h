/* SPDX-License-Identifier: MIT */
/* The gate itself, shared by the files of the scheduler.  What a node, a lane and a key are: node.h. */
#ifndef SCHED_GATE_INTERNAL_H
#define SCHED_GATE_INTERNAL_H

#include <pthread.h>

#include "sched/leaf.h"

/* A late wake-up is judged as of when it was due, so far back. */
#define BACKDATE_NS (5 * NSEC_PER_MSEC)
#define COALESCE_NS (200 * NSEC_PER_USEC) /* least time between two wake-ups */
#define COALESCE_DATES_NS                                                                          \
	(20 * NSEC_PER_USEC) /* the same for dates: a device is judged by its latency */

struct gate {
	pthread_mutex_t lock;
	const struct clock *clock;
	const struct caller_ops *callers; /* NULL: threads are processes */
	void (*dispatch)(void *ctx, struct list *ready);
	void *ctx;

	struct node global;
	struct limiter closed; /* no permits at all: what a paused class meets … */
	struct chain *paused;  /* … in this chain */
	unsigned lanes, lane_of[COST_CLASSES];
	uint32_t classes_of[LANES];	 /* bit per class */
	unsigned lane_was[COST_CLASSES]; /* before the change that is being made */
	uint64_t lines;			 /* counts lanes that went to the end of a line */
	struct heap due;		 /* of struct resource */
	struct heap deadlines;		 /* of struct job */
	struct heap vouchers;		 /* of struct account */
	struct heap dates;		 /* of struct job, in a device */
	size_t n_resources, n_accounts;
	uint64_t parked, seq, in_device;
	uint64_t stepped_ns;	    /* last wake-up */
	uint64_t next_ns, armed_ns; /* next event; what the clock was told for it */
	struct list ready, refused; /* to be handed over after unlocking */
};

/* gate.c */
void gate_lock(struct gate *g);
/* Unlocks, then hands over what was admitted or refused meanwhile. */
void gate_unlock_deliver(struct gate *g);
/* True when max_inflight of some scope is used up. */
bool inflight_is_full(const struct chain *ch);

/* gate_step.c: all with the lock held */
/* Admits what may go, in fair order, from at_ns (≤ now_ns) on. */
void gate_dispatch_locked(struct gate *g, uint64_t at_ns, uint64_t now_ns);
/* The same, but refuses nobody: whose max_wait is over is left to the next step. */
void gate_release_locked(struct gate *g, uint64_t at_ns, uint64_t now_ns);
/* What was due before now is judged at the time when it was due. */
void gate_catch_up_locked(struct gate *g, uint64_t now_ns);
/* Tells the clock the next event, if that has changed. */
void gate_arm_locked(struct gate *g);

/* gate_park.c */
/* Into the queue of its key, unconditionally; does not let the scheduler look. */
void job_park(struct leaf *f, struct key *key, struct job *j, uint64_t now_ns);
/* Takes a parked job out of its queue, for whatever reason, and re-sorts what it leaves. */
void job_dequeue(struct job *j, uint64_t now_ns);
void job_refuse_locked(struct gate *g, struct job *j, enum grant_result why, uint64_t now_ns);
void job_set_deadline(struct gate *g, struct job *j);
void job_count_admitted(const struct job *j);
/* Adds a parked job to (or takes it from) everything that counts those of its leaf and key. */
void job_count_parked(const struct job *j, int by);
/* Lets newcomers know whether jobs of its lane are parked. */
void job_tell_newcomers(const struct job *j);
/* Adds to the wait histograms of the leaf and all above it. */
void leaf_waited(struct leaf *f, enum cost_class cls, uint64_t wait_ns);
void jobs_each(struct leaf *f, void (*fn)(struct job *j, void *arg), void *arg);

/* gate_lanes.c */
/* Sorts classes that meet the same kinds of limits into one lane, and all parked jobs into theirs.
 * Between change_begin and change_end of the whole tree. */
void gate_lanes_locked(struct gate *g);
/* A change to a node and all below it.  Between begin and end nothing of it is queued anywhere:
 * limits and weights may be set anew. */
void change_begin(struct node *n, uint64_t now_ns);
void change_end(struct node *n, uint64_t now_ns);
/* Calls fn for the node, if it is a leaf, and for all leaves below it. */
void leaves_each(struct node *n, void (*fn)(struct leaf *f, void *arg), void *arg);

/* gate_compile.c */
/* Compiles what a node and all below it meet, without publishing it.  0 or -ENOMEM. */
int tree_compile(struct node *n);
/* The parts of it, for nodes that are not in the tree yet: `way` is from the leaf to the root. */
int own_compile(struct node *n);
int leaf_compile(struct leaf *f, struct limiter *const way[], unsigned n);
/* Publishes it.  Cannot fail. */
void tree_publish(struct node *n);
/* Lets requests of one leaf meet what was compiled for it. */
void leaf_publish(struct leaf *f);
void leaf_free_chains(struct leaf *f);
/* Says which classes of operations anything on the mount limits. */
void mount_publish_limited(struct gate_mount *m);

/* gate_device.c */
/* Gets the memory for the device of this configuration: *out is NULL where it models nothing.  0 or -ENOMEM. */
int device_prepare(struct gate_mount *m, const struct gate_mount_config *cfg, uint64_t now_ns,
		   struct device **out);
/* Takes over a device that was prepared. */
void device_apply(struct gate_mount *m, const struct gate_mount_config *cfg, struct device *d);
/* Room for one more job in all heaps; false: out of memory. */
bool device_reserve(struct gate *g);
/* An admitted job into the device.  False: it takes no time there. */
bool job_enter_device(struct job *j, uint64_t at_ns);
/* Its date has come. */
void job_leave_device(struct gate *g, struct job *j, uint64_t now_ns);
/* It will not run: its permits go back, its tokens are spent. */
void job_abandon_locked(struct job *j, uint64_t now_ns);
void device_drain(struct gate_mount *m, bool run, uint64_t now_ns);
/* Around a change of the classes: what is in the device counts in no scope meanwhile, and then in those that its
 * leaf is in now. */
void device_uncount(struct gate_mount *m);
void device_count(struct gate_mount *m);

/* gate_change.c */
void mount_settings(struct gate_mount *m, const struct gate_mount_config *cfg);
/* Refuses jobs that meet a limit of rate 0. */
void leaf_refuse_misconfigured(struct leaf *f, void *now_ns);
/* Takes `rules` over, and weighs the keys anew.  While nothing of the leaf is queued. */
void leaf_set_weights(struct leaf *f, struct weight_rule *rules, unsigned n);

/* gate_life.c */
bool leaf_init(struct leaf *f, struct gate_mount *m, struct node *parent, enum scope_kind kind,
	       const char *name, const struct limiter_config *limits, uint64_t now_ns);
void leaf_fini(struct leaf *f);

#endif
