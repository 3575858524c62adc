/* SPDX-License-Identifier: MIT */
/* Where requests enter the tree: a leaf is a mount or one of its classes, and has keys below it.
 * Locking: everything here is guarded by gate->lock, except where it says otherwise. */
#ifndef SCHED_LEAF_H
#define SCHED_LEAF_H

#include <pthread.h>

#include "sched/node.h"

struct leaf;

/* The compiled limits of one key; immutable. */
struct key_limits {
	struct chain *cls[COST_CLASSES]; /* NULL: none for that class */
	struct key_limits *older;	 /* the ones before; grants may still refer to them */
};

/* One competitor in a leaf: a process, a user, …; see enum fair_kind.  There may be 100,000, so fields are in an order that
 * leaves no room between them. */
struct key {
	struct node node;
	struct fair_key id;
	struct key *next; /* in its hash bucket; changed with both gate->lock and keys->lock held */
	struct list idle; /* in keys->idle while none of its jobs is parked */
	uint32_t parked;  /* number of jobs */
	uint32_t parked_own;   /* of these, the gate's own jobs */
	uint32_t parked_below; /* number of parked jobs of classes for which it is an outer key */
	uint32_t uid;	       /* of the last caller that had to wait */
	uint64_t parked_bytes; /* memory that the jobs hold */
	struct account *accounts;
	uint64_t ops;		/* of requests that had to wait */
	_Atomic uint64_t bytes; /* of these: what they move, or are going to move */
	_Atomic uint64_t done_ops,
		done_bytes; /* of all that have ended while the leaf was watched */
	uint64_t done_seen,
		active_ns; /* done_ops when it was last looked at; when it had grown then */
	struct key_sum {
		uint64_t n, ns, max_ns;
	} waited, would_wait;	       /* in dry runs: would have waited */
	_Atomic uint64_t described_ns; /* when its name was last looked up; 0: never */
	char name[KEY_NAME_MAX];       /* of the cgroup, or of the program that waited last */
	struct key_waits {
		uint64_t ns[KEY_WAITS];
		uint8_t row[KEY_WAITS]; /* of leaf->wait_row; 0: unused */
		bool dry[KEY_WAITS];	/* would have waited */
	} waits; /* the limits that it waited for longest; others are dropped */
	/* used if the leaf, or a scope above it, has limits for each key, or while the leaf is watched: */
	_Atomic uint32_t pins;	  /* grants, jobs and vouchers that refer to it */
	_Atomic uint32_t waiting; /* bit per class: jobs of its lane are parked */
	_Atomic(struct key_limits *) limits;
	struct key_limits *next_limits; /* compiled, not yet published */
};

#define OVERFLOW_KEYS 16

struct keys {
	pthread_mutex_t
		lock; /* allows look-ups without gate->lock; taken inside gate->lock otherwise */
	struct key **table; /* n_table is a power of two */
	size_t n_table, n;
	uint32_t max;
	struct list idle; /* longest idle first */
	struct key overflow[OVERFLOW_KEYS];
	/* the callers that have used each overflow key since its limits were last full: a bit per id, by hash */
	uint64_t overflow_users[OVERFLOW_KEYS];
	struct weight_rule *rules; /* rules for one key first, sorted; owns their globs */
	unsigned n_rules;
};

/* The state of a key for one class of operations, apart from its parked jobs.  Created when first
 * needed; lives as long as its key. */
struct account {
	struct account *next; /* of the same key */
	struct leaf *leaf;
	struct key *key;
	enum cost_class cls;

	/* voucher.c */
	/* a probe of the gate's own that keeps the place of the last refused non-blocking
	 * transfer */
	struct job place;
	const struct job
		*probe;	   /* a probe parked by a poll, which keeps the place instead; or NULL */
	unsigned vouchers; /* number of turns that probes have had and that are not used yet … */
	struct cost found; /* … and what may be taken for them in total … */
	unsigned outer_keys; /* … outer keys whose limits reserve it, too; pinned */
	struct key *outer[GRANT_KEYS_MAX - 1];
	struct heap_item expiry; /* in gate->vouchers */

	/* debt.c */
	struct job debt; /* the next instalment; parked while the key owes anything */
	uint64_t owed_ops, owed_bytes;
};

/* A limit that requests of a leaf have waited for.  Rows are named by the limit, not by its place in the tree, which may
 * change. */
struct wait_row {
	struct waited_limit limit;
	/* the node that sets the limit and the index of its resource; NULL: to be found by name again, because the
	 * tree has changed */
	const struct node *node;
	unsigned index;
	struct wait_times waited, would_wait;
};
#define WAIT_ROWS (WAITED_LIMITS_MAX + 1) /* row 0: the limit is not known */

/* How long a request that is always waiting would have waited for each limit.  The difference of two readings is what a
 * request that waited in between waited for; see wait_clock.c. */
struct wait_clock {
	uint64_t at_ns;		     /* when it was last advanced */
	const struct resource *stop; /* what stopped the lane then or before … */
	unsigned row;		     /* … and its row */
	uint64_t ns[WAIT_ROWS];
};

struct leaf {
	/* read by every request */
	_Atomic(const struct chain *) chain[COST_CLASSES];  /* what gate_try asks; NULL: nothing */
	_Atomic(const struct chain *) limits[COST_CLASSES]; /* the same, ignoring pauses */
	_Atomic uint32_t waiting; /* bit per class: jobs of its lane are parked here */
	_Atomic uint32_t each; /* bit per class: keys here or in a scope above have limits for it */
	_Atomic uint32_t each_here; /* bit per class: keys here have limits for it */
	_Atomic bool watched;	    /* requests that need not wait are counted by key, too */
	_Atomic int fair;	    /* enum fair_kind */
	_Atomic(const struct scope_way *) way;
	struct gate_mount *mount;
	struct counters counters;

	struct node node;
	uint64_t lane_parked[LANES];
	struct keys keys;
	const struct chain *compiled[COST_CLASSES]; /* not yet published */
	const struct scope_way *compiled_way;
	struct list chains; /* all chains ever compiled: grants may refer to them */
	struct list ways;   /* the same: open handles may refer to them */
	uint64_t max_wait_ns;
	struct limiter_config each_limits;
	/* By limit_kind: how many keys wait for their own limit, since when, and the total
	 * duration of earlier waits. */
	struct each_wait {
		uint32_t waiting;
		uint64_t since_ns, sum_ns, would_wait;
	} each_wait[LIMIT_KINDS];
	struct wait_row wait_row[WAIT_ROWS];
	unsigned n_wait_rows; /* ≥ 1 */
	struct wait_clock clock[LANES];
	/* used if it is a class: */
	struct list of_mount; /* in mount->class_leaves, or mount->spare_leaves once removed */
	struct counter_sums before; /* counted by a class that used this struct before */
	struct counter_sums own_was, total_was; /* during a change of the classes */
	_Atomic uint64_t grants; /* grants that refer to it; with none it can be reused */
};

/* The scopes from a leaf to the root; immutable.  An open handle is counted in them until it is
 * closed, even if its class moves meanwhile. */
struct scope_way {
	struct list link; /* in leaf->ways */
	unsigned n;
	struct node *node[]; /* the leaf first */
};

/* The classes of a mount, in the order in which they are tried. */
struct class_table {
	unsigned n;
	uint32_t fields; /* those that any rule asks for */
	struct class_row {
		struct rule *rule; /* NULL: matches nothing by itself */
		struct leaf *leaf;
	} row[];
};

struct gate_fs {
	struct node node;
};

struct gate_mount {
	struct leaf leaf;
	_Atomic bool dry_run, full_rejects;
	uint64_t parked;
	/* of these, those that may not be refused; not counted against max_parked */
	uint64_t must_run, must_run_bytes;
	uint64_t max_parked, max_parked_bytes;
	/* bit per class of operations: something on this mount limits it for some callers */
	_Atomic uint32_t limited;

	/* gate_device.c */
	_Atomic int model; /* enum gate_model */
	_Atomic uint64_t iops_size;
	struct device *device;		       /* NULL: none */
	struct list in_device;		       /* jobs, by link */
	uint64_t n_in_device, in_device_bytes; /* of these, those counted against max_parked */

	/* 0: there are no classes.  Otherwise unique for each set of classes of each mount, and
	 * odd if a rule asks for a cgroup or a name. */
	_Atomic uint64_t classes_id;
	_Atomic bool class_by_cgroup;  /* callers of a class compete by cgroup */
	pthread_rwlock_t classes_lock; /* inside gate->lock */
	struct class_table *classes;   /* classes_lock; NULL: none */
	/* Classes change, and the jobs that were parked are not in any of them yet: requests that come now wait for gate->lock,
	 * so that they do not overtake these jobs. */
	bool moving;
	struct list class_leaves, spare_leaves;
};

static inline struct leaf *node_leaf(struct node *n)
{
	return container_of(n, struct leaf, node);
}

static inline bool node_is_leaf(const struct node *n)
{
	return n->kind == SCOPE_MOUNT || n->kind == SCOPE_CLASS;
}

static inline struct key *lane_key(const struct lane *l)
{
	return container_of(l->node, struct key, node);
}

static inline void leaf_count(struct leaf *f, enum cost_class cls, enum counter what, uint64_t by)
{
	counters_add(&f->counters, cls, what, by);
}

/* The limits for a class of operations in this leaf, without pauses.  NULL: none. */
static inline const struct chain *leaf_limits(const struct leaf *f, enum cost_class cls)
{
	return atomic_load_explicit(&f->limits[cls], memory_order_acquire);
}

/* True: something limits or pauses a class of operations in this leaf. */
static inline bool leaf_limits_class(const struct leaf *f, enum cost_class cls)
{
	return atomic_load_explicit(&f->chain[cls], memory_order_acquire) ||
	       (atomic_load_explicit(&f->each, memory_order_relaxed) & 1U << cls);
}

static inline bool leaf_is_watched(const struct leaf *f)
{
	return atomic_load_explicit(&f->watched, memory_order_relaxed);
}

/* A grant begins to refer to the leaf, or ceases to. */
static inline void leaf_grant_begin(struct leaf *f)
{
	if (f->node.kind == SCOPE_CLASS)
		atomic_fetch_add_explicit(&f->grants, 1, memory_order_relaxed);
}

static inline void leaf_grant_end(struct leaf *f)
{
	if (f->node.kind == SCOPE_CLASS)
		atomic_fetch_sub_explicit(&f->grants, 1, memory_order_release);
}

static inline bool mount_is_dry(const struct gate_mount *m)
{
	return atomic_load_explicit(&m->dry_run, memory_order_relaxed);
}

/* class.c */
/* Evaluates the rules to find the leaf of a request, without the cache.  Call with classes_lock or
 * gate->lock held. */
struct leaf *class_match(struct gate_mount *m, const struct caller *c, enum cost_class cls,
			 uint64_t now_ns);
/* The leaf of a class; NULL: there is no class of that name.  Call with gate->lock held. */
struct leaf *class_by_name(const struct gate_mount *m, const char *name);
/* Finds the leaf of a request.  Reads the clock into *now_ns if that is needed and still 0. */
struct leaf *class_find(struct gate_mount *m, uint64_t classes_id, const struct caller *c,
			enum cost_class cls, uint64_t *now_ns);
static inline struct leaf *leaf_of(struct gate_mount *m, const struct caller *c,
				   enum cost_class cls, uint64_t *now_ns)
{
	uint64_t id = atomic_load_explicit(&m->classes_id, memory_order_acquire);
	return id ? class_find(m, id, c, cls, now_ns) : &m->leaf;
}
/* Finds the leaf and the caller's key, and takes gate->lock.  A leaf found without that lock may
 * have been removed since, so whatever is queued is queued in a leaf found here.  Reads /proc, if
 * necessary, before it takes the lock. */
struct leaf *leaf_of_lock(struct gate_mount *m, const struct caller *c, enum cost_class cls,
			  struct fair_key *key);

/* class_totals.c: bracket a change of the classes of a mount, so that no counter goes backwards */
void totals_begin(struct gate_mount *m);
/* The same for a former class that is about to be reused: it has nothing but what requests that were still running have
 * added. */
void totals_begin_former(struct leaf *f);
/* The counters of the leaf start at zero again. */
void leaf_count_anew(struct leaf *f);
void totals_end(struct gate_mount *m);

/* each.c: limits for each key */
/* Allocates everything and changes nothing else.  0 or -ENOMEM. */
int each_prepare(struct leaf *f, const struct limiter_config *cfg, uint64_t now_ns);
void each_apply(struct leaf *f, const struct limiter_config *cfg, uint64_t now_ns);
/* Gives a new key its limits.  False: out of memory. */
bool each_make(struct leaf *f, struct key *key, uint64_t now_ns);
void each_fini(struct key *key);
/* True: the key's limits are not full, so forgetting the key would forgive it something. */
bool each_owes(const struct key *key, uint64_t now_ns);
/* Leaves the key, which is new, no more of its limits than `shared` has left. */
void each_inherit(struct key *key, const struct key *shared, uint64_t now_ns);
void each_mark_lanes(struct leaf *f);
static inline void key_pin(struct key *key)
{
	atomic_fetch_add_explicit(&key->pins, 1, memory_order_relaxed);
}

static inline void key_unpin(struct key *key)
{
	atomic_fetch_sub_explicit(&key->pins, 1, memory_order_release);
}
/* A request that had to wait has moved fewer bytes than it asked for.  A reset may have come first. */
static inline void key_moved_less(struct key *key, uint64_t bytes)
{
	uint64_t was = atomic_load_explicit(&key->bytes, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&key->bytes, &was, was - min_u64(was, bytes),
						      memory_order_relaxed, memory_order_relaxed))
		;
}
/* A request of the key, whose leaf is watched, has ended. */
static inline void key_did(struct key *key, uint64_t ops, uint64_t bytes)
{
	atomic_fetch_add_explicit(&key->done_ops, ops, memory_order_relaxed);
	atomic_fetch_add_explicit(&key->done_bytes, bytes, memory_order_relaxed);
}
/* Finds the keys of a caller whose limits apply to the request, in grant->leaf and above it, and
 * pins them.  Call without gate->lock. */
void keys_pin(struct grant *grant, const struct caller *c, uint64_t now_ns);
/* The same with gate->lock held; `key` is the caller's key in grant->leaf. */
void keys_pin_locked(struct grant *grant, struct key *key, const struct caller *c, uint64_t now_ns);
/* Unpins the keys; the grant then refers to none. */
void keys_unpin(struct grant *grant);
/* True: a key of the grant has limits. */
bool keys_limited(const struct grant *grant);

/* outer.c: limits of keys in the scopes above a leaf, for parked jobs */
/* Finds the outer keys of a job that is being parked. */
void outer_attach(struct job *j, const struct caller *c, uint64_t now_ns);
/* Where the key with this node is in j->grant.key; 0: it is not an outer key of the job, or there is no job. */
unsigned outer_place(const struct job *j, const struct node *n);
/* The job was first in line at a resource; nothing happens if that is not of an outer key. */
void outer_note_turn(struct job *j, const struct resource *r);
bool outer_had_turn(const struct job *j, const struct resource *r);
void outer_detach(struct job *j);
/* After a change: finds the outer keys of a parked job anew if the scopes with limits for each key
 * have changed. */
void outer_renew(struct job *j, uint64_t now_ns);
/* The scopes above a leaf that have limits for each key, for a class of operations, narrowest
 * first; returns their number.  Safe without gate->lock. */
unsigned outer_leaves(const struct leaf *f, enum cost_class cls, struct leaf *out[GRANT_KEYS_MAX]);
/* Looks up what identifies the caller's outer keys, which may read /proc, so that this need not be
 * done with gate->lock held.  The result is remembered for a second. */
void outer_look_up(const struct leaf *f, enum cost_class cls, const struct caller *c,
		   uint64_t now_ns);

/* waits.c: who waits for which limit */
/* Names limit `index` of a node for people; the limits of a key are named after the scope that sets them. */
void limit_name(const struct node *n, unsigned index, struct waited_limit *out);
/* The row of this limit in the leaf's table, which is added if necessary; 0: there is no room. */
unsigned wait_row_of(struct leaf *f, const struct node *n, unsigned index);
unsigned wait_row_named(struct leaf *f, const struct waited_limit *limit);
/* The tree below the node has changed, or its pool: rows find their nodes by name again. */
void wait_rows_unbind(struct node *n);
/* A request of the key has waited: ns[row] for each limit, wait_ns in total. */
void key_waited(struct key *key, const uint64_t ns[WAIT_ROWS], uint64_t wait_ns);
/* The same in a dry run, in which it would have waited. */
void key_would_wait(struct key *key, unsigned row, uint64_t wait_ns);
/* True: the key's name is unknown or old.  Names change: a process may exec another program, and a
 * user runs many.  Overflow keys have none. */
bool key_needs_name(const struct key *key, uint64_t now_ns);
/* Looks up the name of the caller's program or cgroup and stores it in the caller's key, to which it gives the weight of that
 * program.  Call without gate->lock. */
void key_describe(struct gate_mount *m, const struct caller *c, enum cost_class cls,
		  uint64_t now_ns);
/* The same for a key of a watched leaf, which need not have waited; also notes the caller's user. */
void key_introduce(struct leaf *f, struct key *key, const struct caller *c, enum cost_class cls,
		   uint64_t now_ns);

/* wait_clock.c: how long a request waited for each limit */
/* The resource that stops the lane: its own, or that of the nearest blocked lane above it.  NULL: none. */
const struct resource *lane_stop(const struct lane *l);
/* Call before the lane is blocked or unblocked. */
void lane_stop_changes(struct lane *l, uint64_t at_ns);
/* Frees the clock of a lane at the bottom; no job that is measured waits there. */
void lane_clock_free(struct lane *l);
/* Begins and ends the measurement of a job that is parked in its lane.  False: out of memory. */
bool job_clock_start(struct job *j, uint64_t at_ns);
void job_clock_stop(struct job *j);
/* How long the job has waited for each limit; the sum is wait_ns. */
void job_clock_read(const struct job *j, uint64_t at_ns, uint64_t wait_ns, uint64_t ns[WAIT_ROWS]);
/* Bracket a change, during which the jobs in a lane of a key, and its parts, may move to other lanes. */
void lane_clocks_lift(struct lane *whole, uint64_t at_ns);
void lane_clocks_lay(struct lane *whole, uint64_t at_ns);
/* Between the two: the job has moved from `was` to the leaf where it is now. */
void job_clock_rename(struct job *j, const struct leaf *was);

/* stats.c */
/* Add to *sums what the leaf itself has counted; what the node and everything below it have. */
void leaf_sums(const struct leaf *f, struct counter_sums *sums);
void node_sums(struct node *n, struct counter_sums *sums);
/* How long lanes have waited for the resource, in total; 0 if it is NULL. */
uint64_t resource_blocking_ns(const struct resource *r, uint64_t now_ns);
/* Restarts what is recorded about waiting: how long, for what, and by whom. */
void node_forget_waits(struct node *n, uint64_t now_ns);

/* keys.c */
bool keys_init(struct leaf *f, uint64_t now_ns);
void keys_free(struct keys *k);
/* The key of `id`, or NULL.  Call with gate->lock or keys->lock held. */
struct key *keys_find(const struct keys *k, struct fair_key id);
/* The key of `id`, created if necessary; an overflow key if the table is full or memory is
 * exhausted. */
struct key *keys_get(struct leaf *f, struct fair_key id, uint64_t now_ns);
/* The key has become idle, or is no longer idle. */
void keys_idle(struct keys *k, struct key *key);
void keys_busy(struct key *key);
/* Reads /proc if a pattern may match the key. */
uint32_t keys_weight(const struct leaf *f, struct fair_key id);
/* The same if the path of the cgroup, or the name of the process, is known. */
uint32_t keys_weight_named(const struct leaf *f, struct fair_key id, const char *text);
/* Takes ownership of the rules. */
void keys_set_rules(struct keys *k, struct weight_rule *rules, unsigned n);
void keys_rules_free(struct weight_rule *rules, unsigned n);
/* Calls fn for every key, including the overflow keys. */
void keys_each(struct keys *k, void (*fn)(struct key *key, void *arg), void *arg);
bool keys_is_overflow(const struct keys *k, const struct key *key);
int keys_rules_copy(const struct weight_rule *rules, unsigned n, struct weight_rule **out);

/* account_find returns NULL if there is none, account_get if memory is exhausted. */
struct account *account_find(const struct key *key, enum cost_class cls);
struct account *account_get(struct leaf *f, struct key *key, enum cost_class cls);
/* Removes vouchers, places and debts, because the leaf ends. */
void accounts_drop(struct leaf *f, uint64_t now_ns);

/* voucher.c */
/* A probe has been parked; it also keeps the place of its key's non-blocking transfers. */
void probe_parked(struct key *key, struct job *j, uint64_t now_ns);
void probe_left(const struct key *key, const struct job *j);
/* A probe of this key was admitted at at_ns, which had this many outer keys: issues a voucher if
 * others wait. */
void voucher_issue(struct key *key, const struct job *j, unsigned outer_keys, uint64_t at_ns);
void voucher_expire(struct account *a);
/* For a change of limits: releases what vouchers hold, so that it can be held again under the new
 * limits. */
void vouchers_lift(struct leaf *f);
void vouchers_lay(struct leaf *f);
/* After a non-blocking transfer was refused.  True: its key has earned a turn, and grant says what
 * was taken.  False: it now has a place in the fair order.  In both cases grant names the leaf.
 * Call without gate->lock. */
bool turn_take(struct gate_mount *m, const struct caller *c, uint64_t least, struct grant *grant);

/* debt.c */
/* An instalment was paid at at_ns.  The next one takes its place, if the key still owes anything. */
void debt_paid(struct job *j, uint64_t at_ns);
/* Adapts the size of instalments to changed limits.  Call while the key is not queued. */
void debts_resize(struct key *key);
/* Lets a request proceed without tokens: its key will pay, and grant says for which limits.  Call
 * without gate->lock. */
void debt_add(struct gate_mount *m, const struct caller *c, struct grant *grant);
static inline bool job_is_debt(const struct job *j)
{
	return j->own && !j->probe;
}

/* tags.c */
/* What the request last served in the lane would cost under the current limits; 0: none was
 * served. */
uint64_t lane_sample_cost(const struct lane *l);
/* Part of a change: adapts the tags of the node's children to the new limits and lanes. */
void tags_convert(struct node *n, uint64_t now_ns);

#endif
