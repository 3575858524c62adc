/* SPDX-License-Identifier: MIT */
/* The inside of the gate, shared by gate*.c and keys.c alone.
 *
 *	            lane 0   lane 1 …
 *	global        ●        ●        each ● is a struct lane: a fair queue of its children,
 *	 └ fs         ●        ●        and itself an item in its parent's
 *	    └ mount   ●        ●
 *	       └ key  ▤        ▤        struct key_queue: a FIFO of jobs
 *
 * A lane below the root is in one of three places:
 *	idle     nothing ready below it
 *	blocked  a resource of its own scope refuses its front: in that resource's FIFO
 *	ready    in its parent's fair queue; what it needs of its own scope was there when it came,
 *	         and is looked at again when it is released
 * A root lane is idle, blocked or about to be released.
 *
 * Holding.  A front waits for one resource at a time and owns nothing meanwhile, but lanes that
 * share a bucket must not drain it for ever just before a front's last missing resource comes.
 * So per (scope, lane) at most: its ops, taken ahead ("prepaid"; no bucket is gated by that), and,
 * when its turn at a wider scope has a date, a claim on its bytes for that date: not taken, and
 * other lanes may use them meanwhile as far as they will be back by then.
 *
 * Locking: everything here is under gate->lock, except what is marked atomic. */
#ifndef SCHED_GATE_INTERNAL_H
#define SCHED_GATE_INTERNAL_H

#include <pthread.h>

#include "sched/counters.h"
#include "sched/fair_queue.h"
#include "sched/gate.h"

#define BACKDATE_NS (5 * NSEC_PER_MSEC) /* DESIGN 2.3: a late wake-up counts from when it was due */
#define COALESCE_NS (200 * NSEC_PER_USEC) /* least time between two wake-ups */

enum level { LEVEL_MOUNT, LEVEL_FS, LEVEL_GLOBAL, LEVELS }; /* narrow to wide */

/* Meta and OpenClose meet the same limits everywhere. */
#define LANES (COST_CLASSES - 1)

enum { RES_INFLIGHT = LIMIT_KINDS, RES_PAUSE, RESOURCES };

struct scope;

/* What a lane can wait for: a bucket, the permits or the pause of one scope. */
struct resource {
	struct scope *scope;
	unsigned kind;	      /* enum limit_kind, RES_INFLIGHT or RES_PAUSE */
	uint32_t lanes;	      /* bit per lane that meets it */
	struct list waiters;  /* of struct lane, in turn */
	struct heap_item due; /* in gate->due: when to look at the first waiter, at the earliest */
	uint64_t voucher_tokens; /* to be left for vouchers … */
	uint32_t vouchers;	 /* … of this number */
	uint64_t blocked_ns;	 /* since when somebody waits */
	uint64_t refused_ns;	 /* sum of the times before that */
};

struct lane {
	struct scope *scope;
	unsigned index;
	struct fq fq;		  /* ready children */
	struct fq_item item;	  /* in the parent's fq */
	struct resource *blocked; /* in whose FIFO it is, by ->wait */
	struct resource *turn;	  /* whose first waiter it was: need not queue there again */
	struct list wait;
	uint64_t held[LIMIT_KINDS]; /* ops: prepaid; bytes: claimed … */
	uint64_t held_due_ns;	    /* … for this moment */
	uint64_t parked;	    /* jobs, at mounts */
};

struct scope {
	struct gate *gate;
	struct scope *parent; /* NULL: global */
	enum level level;
	char *name;
	uint32_t weight;
	bool paused;
	struct list children, sibling;
	size_t n_children;
	struct limiter limiter;
	struct resource res[RESOURCES];
	struct lane lane[LANES];

	/* statistics */
	uint64_t since_ns;
	uint64_t parked_now[COST_CLASSES], parked_bytes_now, keys_now;
	struct histogram wait[COST_CLASSES];
	struct counter_sums gone;     /* of mounts that were here once */
	struct counter_sums baseline; /* at the last reset */
};

/* One limit on the way of a class, as the scheduler needs it. */
struct hop {
	struct resource *res;
	uint8_t per_op, per_byte;
};

#define ROUTE_HOPS (LEVELS * (LIMIT_KINDS + 2))

/* The way of a class from its mount to the root. */
struct route {
	unsigned n, end[LEVELS]; /* hops of a level: from the end of the one before */
	struct hop hop[ROUTE_HOPS];
	/* time on the tightest limit from this level up, per op and per byte, ns << 32 */
	uint64_t op_ns[LEVELS], byte_ns[LEVELS];
	bool zero_op, zero_byte; /* some limit has rate 0 */
};

struct key;

struct key_queue {
	struct fq_item item; /* in its mount's lane */
	struct list jobs;    /* FIFO, by job->link */
	struct key *key;
};

struct key {
	struct fair_key id;
	struct key *next;      /* in its hash bucket */
	struct list idle;      /* in keys->idle while nothing is parked */
	uint64_t parked;       /* jobs now */
	uint64_t parked_bytes; /* memory that they pin */
	struct key_queue queue[LANES];
	uint64_t ops, bytes, ever_parked, wait_ns, max_wait_ns;
};

#define OVERFLOW_KEYS 16

struct keys {
	struct key **table; /* n_table is a power of two */
	size_t n_table, n;
	uint32_t max;
	struct list idle; /* longest idle first */
	struct key overflow[OVERFLOW_KEYS];
	struct weight_rule *rules; /* sorted */
	unsigned n_rules;
};

/* What probes of one class have found and may be fetched past the queue; see gate_probe.c. */
struct voucher {
	struct gate_mount *mount;
	unsigned n;
	struct cost sum;
	struct heap_item expiry; /* in gate->vouchers */
};

struct cached_chain {
	struct list link;
	struct chain *chain;
};

struct gate_fs {
	struct scope scope;
};

struct gate_mount {
	/* read by every request */
	_Atomic(const struct chain *) chain[COST_CLASSES];  /* what gate_try meets; NULL: nothing */
	_Atomic(const struct chain *) limits[COST_CLASSES]; /* the same without a pause */
	_Atomic uint32_t waiting;  /* bit per class: jobs of its lane are parked here */
	_Atomic uint32_t vouchers; /* bit per class: there is one */
	_Atomic bool dry_run, full_rejects;
	struct counters counters;

	struct scope scope;
	struct route route[COST_CLASSES];
	struct voucher voucher[COST_CLASSES];
	struct keys keys;
	const struct chain *compiled[COST_CLASSES]; /* to be published */
	struct list chains; /* all that were ever compiled: grants may name them */
	bool draining;
	uint64_t parked;
	uint64_t patient,
		patient_bytes; /* of these, and of their memory, what has room in any case */
	uint64_t max_wait_ns, max_parked, max_parked_bytes;
};

struct gate {
	pthread_mutex_t lock;
	const struct clock *clock;
	void (*dispatch)(void *ctx, struct list *ready);
	void *ctx;

	struct scope global;
	struct limiter closed; /* no permits at all: what a paused class meets … */
	struct chain *paused;  /* … in this chain */
	unsigned lanes, lane_of[COST_CLASSES];
	uint32_t classes_of[LANES]; /* bit per class */
	struct heap due;	    /* of struct resource */
	struct heap deadlines;	    /* of struct job */
	struct heap vouchers;	    /* of struct voucher */
	size_t n_scopes;
	uint64_t parked, seq;
	uint64_t stepped_ns;	    /* last wake-up */
	uint64_t next_ns, armed_ns; /* next event; what the clock was told for it */
	struct list ready, refused; /* to be handed over after unlocking */
};

static inline struct gate_mount *scope_mount(struct scope *s)
{
	return container_of(s, struct gate_mount, scope);
}

static inline void mount_count(struct gate_mount *m, enum cost_class cls, enum counter what,
			       uint64_t by)
{
	counters_add(&m->counters, cls, what, by);
}

static inline uint64_t hop_tokens(const struct hop *h, const struct cost *c)
{
	return (uint64_t)c->ops * h->per_op + c->bytes * h->per_byte;
}

static inline struct lane *lane_parent(const struct lane *l)
{
	return l->scope->parent ? &l->scope->parent->lane[l->index] : NULL;
}

/* gate.c */
void gate_lock(struct gate *g);
/* Unlocks, then hands over what was admitted or refused meanwhile. */
void gate_unlock_deliver(struct gate *g);

/* gate_lane.c: all with the lock held */
/* Something below this lane has changed: put it where it belongs. */
void lane_touch(struct lane *l, uint64_t v_ns);
/* Leaves every queue and gives back what it holds. */
void lane_reset(struct lane *l, uint64_t v_ns);
/* The first waiter of this resource may be able to go: have it looked at. */
void resource_kick(struct resource *r);

/* gate_step.c: all with the lock held */
/* Admits what may go, in fair order, from v_ns (≤ now_ns) on. */
void gate_dispatch_locked(struct gate *g, uint64_t v_ns, uint64_t now_ns);
/* The same, but refuses nobody: whose max_wait is over is left to the next step. */
void gate_release_locked(struct gate *g, uint64_t v_ns, uint64_t now_ns);
/* What was due before now is judged at the time when it was due. */
void gate_catch_up_locked(struct gate *g, uint64_t now_ns);
/* Tells the clock the next event, if that has changed. */
void gate_arm_locked(struct gate *g);

/* gate_park.c */
void job_enqueue(struct gate_mount *m, struct job *j, uint64_t now_ns);
/* Takes a parked job out of its queue, for whatever reason, and re-sorts what it leaves. */
void job_dequeue(struct job *j, uint64_t now_ns);
void job_refuse_locked(struct gate *g, struct job *j, enum grant_result why, uint64_t now_ns);
void job_set_deadline(struct gate *g, struct gate_mount *m, struct job *j);
void job_count_admitted(const struct job *j, struct gate_mount *m);
/* Adds to the wait histograms of the mount, its fs and global. */
void mount_waited(struct gate_mount *m, enum cost_class cls, uint64_t wait_ns);
/* A cost at one level of the tree, in the unit of the fair queues. */
uint64_t route_cost(const struct route *rt, enum level level, const struct cost *c);
/* True when the job meets a limit of rate 0. */
bool route_misconfigured(const struct route *rt, const struct cost *c);

/* gate_probe.c */
/* A probe has been admitted at v_ns: leaves a voucher if others wait. */
void voucher_issue(struct gate_mount *m, const struct cost *c, uint64_t v_ns);
void voucher_expire(struct voucher *vo);
void vouchers_drop(struct gate_mount *m);
/* Takes a voucher's tokens for grant->cost, in part if need be.  Not locked. */
bool voucher_use(struct gate_mount *m, struct grant *grant);

/* keys.c */
bool keys_init(struct keys *k, uint32_t max, const struct weight_rule *rules, unsigned n_rules);
void keys_free(struct keys *k);
/* The key of `id`, made if need be; an overflow key when the table is full or memory is out. */
struct key *keys_get(struct gate_mount *m, struct fair_key id, uint64_t now_ns);
/* It has become idle, or is no longer. */
void keys_idle(struct keys *k, struct key *key);
void keys_busy(struct key *key);
uint32_t keys_weight(const struct keys *k, struct fair_key id);
/* Calls fn for every key, the overflow keys included. */
void keys_each(struct keys *k, void (*fn)(struct key *key, void *arg), void *arg);
bool keys_is_overflow(const struct keys *k, const struct key *key);
int keys_rules_copy(const struct weight_rule *rules, unsigned n, struct weight_rule **out);

/* gate_lanes.c */
/* Sorts classes that meet the same kinds of limits into one lane, and all parked jobs into theirs.
 * Between change_begin and change_end of the whole tree. */
void gate_lanes_locked(struct gate *g, uint64_t now_ns);
/* A change to a scope and all below it.  Between begin and end nothing of it is queued anywhere:
 * limits, weights and routes may be set anew. */
void change_begin(struct scope *s, uint64_t now_ns);
void change_end(struct scope *s, uint64_t now_ns);
/* Calls fn for the scope, if it is a mount, or for all mounts below it. */
void mounts_each(struct scope *s, void (*fn)(struct gate_mount *m, void *arg), void *arg);
void jobs_each(struct gate_mount *m, void (*fn)(struct job *j, void *arg), void *arg);

/* gate_scopes.c */
/* Compiles the chains of all mounts of a scope, without publishing them.  0 or -ENOMEM. */
int chains_compile(struct scope *s);
/* Publishes them and computes the routes.  Cannot fail. */
void chains_publish(struct scope *s);
void mount_settings(struct gate_mount *m, const struct gate_mount_config *cfg);
uint32_t kinds_enabled(const struct limiter_config *cfg); /* bit per limit_kind */

#endif
