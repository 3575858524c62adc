/* SPDX-License-Identifier: MIT */
/* The gate itself, shared by the files of the scheduler.  node.h explains nodes, lanes and keys. */
#ifndef SCHED_GATE_INTERNAL_H
#define SCHED_GATE_INTERNAL_H

#include <pthread.h>

#include "sched/events.h"
#include "sched/leaf.h"

/* After a late wake-up, requests are admitted as of the time when they were due, but at most this
 * long ago. */
#define BACKDATE_NS (5 * NSEC_PER_MSEC)
#define COALESCE_NS (200 * NSEC_PER_USEC) /* least time between two wake-ups */
#define COALESCE_DATES_NS                                                                          \
	(20 * NSEC_PER_USEC) /* the same for dates of devices, which are judged by their latency */

struct gate {
	pthread_mutex_t lock;
	const struct clock *clock;
	const struct caller_ops *callers; /* NULL: each thread counts as a process */
	void (*dispatch)(void *ctx, struct list *ready);
	void *ctx;

	struct node global;
	struct limiter closed; /* has no permits, so it refuses everything … */
	struct chain *paused;  /* … in this chain, to which paused leaves are subject */
	unsigned lanes, lane_of[COST_CLASSES];
	uint32_t classes_of[LANES];	 /* bit per class */
	unsigned lane_was[COST_CLASSES]; /* lane_of before the change in progress */
	uint64_t lines;	       /* number of times that a lane has joined the end of a line */
	struct heap due;       /* of struct resource */
	struct heap deadlines; /* of struct job */
	struct heap vouchers;  /* of struct account */
	struct heap dates;     /* of struct job: those in a device */
	size_t n_resources, n_accounts;
	struct shares {			   /* line.c */
		struct line_share **table; /* n_table is a power of two */
		size_t n_table, n;
		struct list empty; /* lines in which nothing waits, longest empty first */
		unsigned n_empty;
	} shares;
	uint64_t parked, seq, in_device;
	uint64_t stepped_ns;	    /* last wake-up */
	uint64_t next_ns, armed_ns; /* next event; what the clock was armed for */
	struct list ready, refused; /* to be delivered after unlocking */
	struct events events;
};

/* gate.c */
void gate_lock(struct gate *g);
/* Unlocks, then delivers what was admitted or refused meanwhile. */
void gate_unlock_deliver(struct gate *g);
/* Takes a part of grant->cost from the limits that the grant names: those of its keys and its chain.
 * On success grant->cost.bytes says how much. */
enum grant_result grant_try_partial(struct grant *grant, uint64_t least, uint64_t now_ns,
				    struct refusal *why);
/* True: max_inflight of some scope is reached. */
bool inflight_is_full(const struct chain *ch);

/* events.c */
/* What became of a job that was parked, and how long it waited for each limit (leaf->wait_row).  Call with the lock held. */
void event_of_job(enum event_kind kind, const struct job *j, const uint64_t ns[], uint64_t now_ns);
/* A request was refused without being parked.  Call without the lock. */
void event_of_refusal(enum event_kind kind, const struct leaf *f, const struct caller *c,
		      const struct cost *cost);

/* gate_step.c: call all of these with the lock held */
/* Admits what may proceed, in fair order, starting at at_ns (≤ now_ns). */
void gate_dispatch_locked(struct gate *g, uint64_t at_ns, uint64_t now_ns);
/* The same, but refuses no job: jobs whose max_wait has passed are left to the next step. */
void gate_release_locked(struct gate *g, uint64_t at_ns, uint64_t now_ns);
/* Admits what was due before now as of the time when it was due. */
void gate_catch_up_locked(struct gate *g, uint64_t now_ns);
/* Arms the clock for the next event if that has changed. */
void gate_arm_locked(struct gate *g);

/* gate_park.c */
/* Puts a job into the queue of its key; does not run the scheduler.  `c` identifies its outer keys; NULL: it has none.
 * False: out of memory; never for the gate's own jobs. */
bool job_park(struct leaf *f, struct key *key, struct job *j, const struct caller *c,
	      uint64_t now_ns);
/* Takes a parked job out of its queue, for whatever reason, and updates the lanes it was in. */
void job_dequeue(struct job *j, uint64_t now_ns);
void job_refuse_locked(struct gate *g, struct job *j, enum grant_result why, uint64_t now_ns);
void job_set_deadline(struct gate *g, struct job *j);
void job_count_admitted(const struct job *j);
/* Adds a parked job to (or subtracts it from) all counts of its leaf and key. */
void job_count_parked(const struct job *j, int by);
/* Tell newcomers where jobs are parked: in which lanes of the leaf; and whether in the job's lane of its key, too. */
void leaf_tell_newcomers(struct leaf *f);
void job_tell_newcomers(const struct job *j);
/* Adds to the wait histograms of the leaf and its ancestors. */
void leaf_waited(struct leaf *f, enum cost_class cls, uint64_t wait_ns);
void jobs_each(struct leaf *f, void (*fn)(struct job *j, void *arg), void *arg);
/* The request of callers that has waited longest in a lane and its parts; NULL: none.  Looks only at their first jobs. */
const struct job *lane_oldest_job(const struct lane *whole);

/* gate_lanes.c */
/* Groups classes that are subject to the same kinds of limits into lanes, and moves all parked
 * jobs to their lanes.  Call between change_begin and change_end of the whole tree. */
void gate_lanes_locked(struct gate *g);
/* Bracket a change of a node and everything below it.  In between none of it is in a queue, so that
 * limits and weights can be set. */
void change_begin(struct node *n, uint64_t now_ns);
void change_end(struct node *n, uint64_t now_ns);
/* Calls fn for the node if it is a leaf, and for all leaves below it. */
void leaves_each(struct node *n, void (*fn)(struct leaf *f, void *arg), void *arg);

/* gate_compile.c */
/* Compiles the limits of a node and everything below it without publishing them.  0 or -ENOMEM. */
int tree_compile(struct node *n);
/* The parts of tree_compile, for nodes that are not in the tree yet; `way` is from the leaf to the
 * root. */
int own_compile(struct node *n);
int leaf_compile(struct leaf *f, struct node *const way[], unsigned n);
/* Publishes what was compiled.  Cannot fail. */
void tree_publish(struct node *n);
void leaf_free_chains(struct leaf *f);

/* gate_device.c */
/* Allocates the device of this configuration; *out is NULL if it models nothing.  0 or -ENOMEM. */
int device_prepare(struct gate_mount *m, const struct gate_mount_config *cfg, uint64_t now_ns,
		   struct device **out);
/* Installs a prepared device. */
void device_apply(struct gate_mount *m, const struct gate_mount_config *cfg, struct device *d);
/* Makes room for one more job in all heaps; false: out of memory. */
bool device_reserve(struct gate *g);
/* Passes an admitted job to the device.  False: it takes no time there. */
bool job_enter_device(struct job *j, uint64_t at_ns);
/* The job's date has come. */
void job_leave_device(struct gate *g, struct job *j, uint64_t now_ns);
/* The job will not run: its permits are released, its tokens stay spent. */
void job_abandon_locked(struct job *j, uint64_t now_ns);
void device_drain(struct gate_mount *m, bool run, uint64_t now_ns);
/* Bracket a change of the classes: the first removes the jobs in the device from the counts of all
 * scopes, the second adds them to those of the scopes that they belong to now. */
void device_uncount(struct gate_mount *m);
void device_count(struct gate_mount *m);

/* class_change.c: replaces the set of classes of a mount.  Make these calls in this order, with the
 * lock held; only class_plan_new, and class_plan_free of a plan that was never prepared, need no
 * lock. */
struct class_plan;
/* `cfg` must stay until class_plan_free.  NULL: out of memory. */
struct class_plan *class_plan_new(struct gate_mount *m, const struct gate_class_config *cfg,
				  unsigned n);
/* Allocates everything and changes nothing else.  0, -ENOMEM or -EINVAL (see gate_set_classes). */
int class_plan_prepare(struct class_plan *p, uint64_t now_ns);
/* Exchanges the limits of the classes for the new ones, and back, around class_plan_compile. */
void class_plan_swap_limits(struct class_plan *p);
int class_plan_compile(struct class_plan *p); /* after tree_compile; 0 or -ENOMEM */
void class_plan_begin(struct class_plan *p);  /* before change_begin */
void class_plan_commit(struct class_plan *p); /* from here on, waiting jobs have no class … */
/* … to here; call it after tree_publish, once lanes are known.  From now on requests find the new classes. */
void class_plan_place_jobs(struct class_plan *p);
void class_plan_free(struct class_plan *p); /* also one that was not committed */
void classes_free(struct gate_mount *m);

/* gate_change.c */
void mount_settings(struct gate_mount *m, const struct gate_mount_config *cfg);
/* Refuses jobs that are subject to a limit of rate 0. */
void leaf_refuse_misconfigured(struct leaf *f, void *now_ns);
/* Takes over `rules` and sets the weights of all keys.  Call while nothing of the leaf is queued. */
void leaf_set_weights(struct leaf *f, struct weight_rule *rules, unsigned n);

/* gate_life.c */
bool leaf_init(struct leaf *f, struct gate_mount *m, struct node *parent, enum scope_kind kind,
	       const char *name, const struct limiter_config *limits, uint64_t now_ns);
void leaf_fini(struct leaf *f);

#endif
