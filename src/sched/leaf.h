/* SPDX-License-Identifier: MIT */
/* Where requests enter the tree: a leaf is a mount or a class of it, and has keys below it.
 * Locking: everything here is under gate->lock, except what is marked atomic or otherwise. */
#ifndef SCHED_LEAF_H
#define SCHED_LEAF_H

#include <pthread.h>

#include "sched/node.h"

struct leaf;

/* The limits of one key, compiled; immutable. */
struct key_limits {
	struct chain *cls[COST_CLASSES]; /* NULL: none for that class */
	struct key_limits *older;	 /* replaced, but a grant may still name it */
};

/* One competitor of a leaf: a process, a user, …; see enum fair_kind. */
struct key {
	struct node node;
	struct fair_key id;
	struct key *next;      /* in its hash bucket; changed under gate->lock and keys->lock */
	struct list idle;      /* in keys->idle while nothing is parked */
	uint64_t parked;       /* jobs now */
	uint64_t parked_own;   /* of these, the gate's own */
	uint64_t parked_bytes; /* memory that they pin */
	struct account *accounts;
	uint64_t ops, bytes, ever_parked, wait_ns, max_wait_ns;
	/* where the leaf has limits for each key */
	_Atomic uint32_t pins;	  /* grants that name it */
	_Atomic uint32_t waiting; /* bit per class: jobs of its lane are parked */
	_Atomic(struct key_limits *) limits;
	struct key_limits *next_limits; /* compiled, to be published */
};

#define OVERFLOW_KEYS 16

struct keys {
	pthread_mutex_t lock; /* for looking up without gate->lock; inside it otherwise */
	struct key **table;   /* n_table is a power of two */
	size_t n_table, n;
	uint32_t max;
	struct list idle; /* longest idle first */
	struct key overflow[OVERFLOW_KEYS];
	struct weight_rule *rules; /* those for one key first, sorted; their globs are owned */
	unsigned n_rules;
};

/* What a key has with one class of operations beside its parked jobs.  Made when first needed; lives as
 * long as its key. */
struct account {
	struct account *next; /* of the same key */
	struct leaf *leaf;
	struct key *key;
	enum cost_class cls;

	/* voucher.c */
	struct job place;	 /* of the last refused non-blocking transfer: a probe */
	const struct job *probe; /* of somebody who polls: stands for the place as well; or NULL */
	unsigned vouchers;	 /* for turns that probes have had … */
	struct cost found;	 /* … and what they may take in all */
	struct heap_item expiry; /* in gate->vouchers */

	/* debt.c */
	struct job debt; /* the next instalment; parked while anything is owed */
	uint64_t owed_ops, owed_bytes;
};

struct leaf {
	/* read by every request */
	_Atomic(const struct chain *) chain[COST_CLASSES];  /* what gate_try meets; NULL: nothing */
	_Atomic(const struct chain *) limits[COST_CLASSES]; /* the same without a pause */
	_Atomic uint32_t waiting; /* bit per class: jobs of its lane are parked here */
	_Atomic uint32_t each;	  /* bit per class: keys have limits of their own for it */
	_Atomic int fair;	  /* enum fair_kind */
	_Atomic(const struct open_way *) open_way;
	struct gate_mount *mount;
	struct counters counters;

	struct node node;
	uint64_t lane_parked[LANES];
	struct keys keys;
	const struct chain *compiled[COST_CLASSES]; /* to be published */
	const struct open_way *compiled_open;
	struct list chains;    /* all that were ever compiled: grants may name them */
	struct list open_ways; /* the same for handles */
	uint64_t max_wait_ns;
	struct limiter_config each_limits;
	/* by limit_kind: keys that wait for their own limit, since when there are any, and the sum of
	 * the times before that */
	struct each_wait {
		uint32_t waiting;
		uint64_t since_ns, sum_ns, would_wait;
	} each_wait[LIMIT_KINDS];
	/* a class */
	struct list of_mount; /* in mount->class_leaves, or mount->spare_leaves once removed */
	struct counter_sums before; /* what was counted here for a class that it was before */
	_Atomic uint64_t grants;    /* that name it: it can be used again when there are none */
};

/* Where a handle is counted from its opening to its end, wherever its class moves meanwhile. */
struct open_way {
	struct list link; /* in leaf->open_ways */
	unsigned n;
	struct limiter *limiter[];
};

/* What classes a mount has, in the order in which they are asked. */
struct class_table {
	unsigned n;
	uint32_t fields; /* of all rules */
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
	/* of these, and of their memory: jobs that may not be refused; not counted against max_parked */
	uint64_t must_run, must_run_bytes;
	uint64_t max_parked, max_parked_bytes;
	_Atomic uint32_t
		limited; /* bit per class of operations: something here limits it for somebody */

	/* gate_device.c */
	_Atomic int model; /* enum gate_model */
	_Atomic uint64_t iops_size;
	struct device *device;		       /* NULL: none */
	struct list in_device;		       /* jobs, by link */
	uint64_t n_in_device, in_device_bytes; /* of these, those that count against max_parked */

	/* 0: there are no classes.  Another number for every other set of classes of any mount, odd where
	 * rules ask for a cgroup or a name. */
	_Atomic uint64_t classes_id;
	pthread_rwlock_t classes_lock; /* inside gate->lock */
	struct class_table *classes;   /* classes_lock; NULL: none */
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

/* The limits that a class of operations meets here, without pauses.  NULL: none. */
static inline const struct chain *leaf_limits(const struct leaf *f, enum cost_class cls)
{
	return atomic_load_explicit(&f->limits[cls], memory_order_acquire);
}

/* Something limits (or pauses) a class of operations here. */
static inline bool leaf_limits_class(const struct leaf *f, enum cost_class cls)
{
	return atomic_load_explicit(&f->chain[cls], memory_order_acquire) ||
	       (atomic_load_explicit(&f->each, memory_order_relaxed) & 1U << cls);
}

/* An admission begins to name the leaf, or has been settled. */
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

/* class.c: the leaf of a request.  *now_ns is read from the clock if it is needed and still 0. */
struct leaf *class_find(struct gate_mount *m, uint64_t classes_id, const struct caller *c,
			enum cost_class cls, uint64_t *now_ns);
static inline struct leaf *leaf_of(struct gate_mount *m, const struct caller *c,
				   enum cost_class cls, uint64_t *now_ns)
{
	uint64_t id = atomic_load_explicit(&m->classes_id, memory_order_acquire);
	return id ? class_find(m, id, c, cls, now_ns) : &m->leaf;
}
/* The same with the caller's key, and takes gate->lock: until that is released the leaf is in the tree,
 * while one that was found without it may have been removed since.  Whatever is queued is queued in a
 * leaf from here.  Looks into /proc, if it has to, before it takes the lock. */
struct leaf *leaf_of_lock(struct gate_mount *m, const struct caller *c, enum cost_class cls,
			  struct fair_key *key);
void classes_free(struct gate_mount *m);

/* each.c: limits for each key */
/* Gets all memory for it; changes nothing else.  0 or -ENOMEM. */
int each_prepare(struct leaf *f, const struct limiter_config *cfg, uint64_t now_ns);
void each_apply(struct leaf *f, const struct limiter_config *cfg, uint64_t now_ns);
/* The same for a key that is being made. */
bool each_make(struct leaf *f, struct key *key, uint64_t now_ns);
void each_fini(struct key *key);
/* True when forgetting the key would forgive it something. */
bool each_owes(const struct key *key, uint64_t now_ns);
void each_mark_lanes(struct leaf *f);
/* The key of a caller, pinned.  Not locked. */
struct key *each_pin(struct leaf *f, const struct caller *c, uint64_t now_ns);
static inline void each_unpin(struct key *key)
{
	atomic_fetch_sub_explicit(&key->pins, 1, memory_order_release);
}

/* stats.c: adds what the leaf itself has counted */
void leaf_sums(const struct leaf *f, struct counter_sums *sums);
/* From now on: how long requests waited, for what, and whose they were. */
void node_forget_waits(struct node *n, uint64_t now_ns);

/* keys.c */
bool keys_init(struct leaf *f, uint64_t now_ns);
void keys_free(struct keys *k);
/* The key of `id` if there is one.  With gate->lock or keys->lock held. */
struct key *keys_find(const struct keys *k, struct fair_key id);
/* The key of `id`, made if need be; an overflow key when the table is full or memory is out. */
struct key *keys_get(struct leaf *f, struct fair_key id, uint64_t now_ns);
/* It has become idle, or is no longer. */
void keys_idle(struct keys *k, struct key *key);
void keys_busy(struct key *key);
uint32_t keys_weight(const struct leaf *f, struct fair_key id);
/* Takes over a copy of the rules. */
void keys_set_rules(struct keys *k, struct weight_rule *rules, unsigned n);
void keys_rules_free(struct weight_rule *rules, unsigned n);
/* Calls fn for every key, the overflow keys included. */
void keys_each(struct keys *k, void (*fn)(struct key *key, void *arg), void *arg);
bool keys_is_overflow(const struct keys *k, const struct key *key);
int keys_rules_copy(const struct weight_rule *rules, unsigned n, struct weight_rule **out);

/* NULL: there is none; account_get: memory is out. */
struct account *account_find(const struct key *key, enum cost_class cls);
struct account *account_get(struct leaf *f, struct key *key, enum cost_class cls);
/* The leaf ends: vouchers, places and debts go. */
void accounts_drop(struct leaf *f, uint64_t now_ns);

/* voucher.c */
/* A probe has been parked: stands for the place of its key's non-blocking transfers, too. */
void probe_parked(struct key *key, struct job *j, uint64_t now_ns);
void probe_left(const struct key *key, const struct job *j);
/* A probe of this key has been admitted at at_ns: leaves a voucher if others wait. */
void voucher_issue(struct key *key, const struct job *j, uint64_t at_ns);
void voucher_expire(struct account *a);
/* For a change of limits: what vouchers hold is released, and is held again by the new ones. */
void vouchers_lift(struct leaf *f);
void vouchers_lay(struct leaf *f);
/* A non-blocking transfer was refused.  True: its key has earned a turn, and grant says what it took.
 * False: it has a place in the fair order from now on.  In both cases grant names the leaf.  Not locked. */
bool turn_take(struct gate_mount *m, const struct caller *c, uint64_t least, struct grant *grant);

/* debt.c */
/* An instalment has been paid at at_ns.  The next one takes its place, if anything is left. */
void debt_paid(struct job *j, uint64_t at_ns);
/* The limits have changed, and with them what is paid at a time.  While the key is not queued. */
void debts_resize(struct key *key);
/* A request goes without its tokens: its key pays, and grant says where.  Not locked. */
void debt_add(struct gate_mount *m, const struct caller *c, struct grant *grant);
static inline bool job_is_debt(const struct job *j)
{
	return j->own && !j->probe;
}

/* tags.c */
/* What the lane's last request that was served costs under the limits of this moment; 0: none was. */
uint64_t lane_sample_cost(const struct lane *l);
/* Part of a change: the tags of the node's children are made to fit the new limits and lanes. */
void tags_convert(struct node *n, uint64_t now_ns);

#endif
