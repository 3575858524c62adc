/* SPDX-License-Identifier: MIT */
/* The tree of scopes, as the gate keeps it.  Open this file first.
 *
 *	                lane 0   lane 1 …
 *	global            ●        ●        each ● is a struct lane: a fair queue of the lanes
 *	 └ fs             ●        ●        below it, and itself an item in the queue above it
 *	    └ mount       ●        ●
 *	       ├ class    ●        ●        any depth
 *	       │  └ key   ▤        ▤        the lane of a key: a FIFO of jobs
 *	       └ key      ▤        ▤
 *
 * Every scope is one struct node: limits, permits, weight, pause.  Requests enter the tree at a leaf
 * (a mount, or a class of it) under a key (whose turn it is), and must be admitted by every node
 * from the key to the root.  Classes of operations that meet the same kinds of limits everywhere
 * share a lane; lanes wait for each other only where they share a bucket.
 *
 * A lane below the root is in one of three places:
 *	idle     nothing waits below it
 *	blocked  a resource of its own node refuses its front: in that resource's FIFO
 *	ready    in its parent's fair queue; what it needs of its own node was there when it joined,
 *	         and is asked for again when it is released
 * A root lane is idle, blocked, or about to be released.
 *
 * A worked example.  global has bps=100 (capacity 10, empty), a mount has iops=1 (capacity 1, empty
 * for another 0.5 s), and two processes read: A wants 40 bytes, then B wants 40.
 *	t=0.0  A parks.  Its mount's iops refuses, so the mount's lane is *blocked* there, first in line,
 *	       with a due time of 0.5 s.  B parks behind it: the mount's fair queue orders A before B.
 *	t=0.5  The op is there.  The mount's lane gets its *turn* (it need not queue for iops again),
 *	       becomes ready in the queue of fs, fs in that of global; global's bps has 10 of the 40
 *	       bytes (more than it can hold, so it waits for a full bucket), and its lane is blocked
 *	       until t=0.6, say.  Meanwhile the mount *holds* what A needs there: the op is taken ahead
 *	       ("prepaid"), so that no other lane can take it just before the bytes arrive.  A byte
 *	       bucket of the mount would not be taken ahead but *claimed* for the date 0.6: other lanes
 *	       may use it meanwhile, as far as it will be full again by then.
 *	t=0.6  global grants.  Nothing was decided until now: the fair queues are asked once more from
 *	       the root down, A is still the front, every token is taken (the prepaid op is settled),
 *	       and A is dispatched.  B becomes the front.
 * If B had only asked when it could go (poll), its turn would have charged nothing and left its key a
 * *voucher*: the tokens that it found stay untouched for 20 ms for a non-blocking read of that key,
 * which may then overtake the queue.
 *
 * Locking: everything here is under gate->lock, except what is marked atomic. */
#ifndef SCHED_NODE_H
#define SCHED_NODE_H

#include "sched/counters.h"
#include "sched/fair_queue.h"
#include "sched/gate.h"

/* Meta and OpenClose meet the same limits everywhere. */
#define LANES (COST_CLASSES - 1)

/* What a node can refuse by: its buckets by kind and role, its permits, its pause. */
enum { RES_INFLIGHT = LIMIT_KINDS * BUCKET_ROLES, RES_PAUSE, RESOURCES };

struct node;

/* Something that a lane can wait for. */
struct resource {
	struct node *node;
	unsigned index;	       /* in node->res */
	struct bucket *bucket; /* NULL: permits or a pause */
	bool bytes;
	uint32_t lanes;	      /* bit per lane that meets it */
	struct list waiters;  /* of struct lane, in turn */
	struct heap_item due; /* in gate->due: when to look at the first waiter, at the earliest */
	uint64_t held[LANES]; /* by lanes of its node: ops prepaid, or bytes claimed */
	uint64_t voucher_tokens; /* to be left for vouchers … */
	uint32_t vouchers;	 /* … of this number */
	uint64_t blocked_ns;	 /* since when somebody waits */
	uint64_t blocking_ns;	 /* sum of the times before that */
	uint64_t would_wait;	 /* requests of dry runs that would have waited for it */
};

struct lane {
	struct node *node;
	unsigned index;
	struct fq *fq;		  /* lanes below that are ready; NULL at a key */
	struct list jobs;	  /* at a key: FIFO, by job->link */
	struct fq_item item;	  /* in the parent's fq */
	struct resource *blocked; /* in whose FIFO it is, by ->wait */
	struct resource *turn;	  /* whose first waiter it was: need not queue there again */
	struct list wait;
	uint64_t claim_due_ns; /* the date for which it has claimed bytes */
	uint64_t in_line;      /* when it last went to the end of a line; NEVER: idle */
};

/* How long an op and a byte take on the tightest limit of a node and those above it, ns << 32. */
struct turn_cost {
	uint64_t op_ns, byte_ns;
};

/* A share that is granted before weights divide the rest. */
struct reservation {
	uint64_t bps, iops; /* 0: none */
	uint64_t due_ns;  /* when its next request is due; each one puts that off by its own time */
	uint64_t idle_ns; /* since when nothing waits */
};

/* What nodes have that are not keys: a queue of what is below, and statistics. */
struct branch {
	char *name;
	struct fq fq[LANES];
	/* The last cost that was served in a lane, and what it was worth before the change that is being
	 * made: tells how to convert tags. */
	struct cost sample[LANES];
	uint64_t sample_was[LANES];
	struct chain *next_own[COST_CLASSES]; /* compiled, to be published */
	struct turn_cost cost[COST_CLASSES];
	struct reservation reserve;
	struct list children; /* nodes other than keys */
	size_t n_children;

	uint64_t since_ns;
	uint64_t parked_now[COST_CLASSES], parked_bytes_now;
	struct histogram wait[COST_CLASSES];
	/* requests in the device */
	uint64_t device_now[COST_CLASSES];
	struct histogram device[COST_CLASSES];
	struct counter_sums gone;     /* of leaves that were here once */
	struct counter_sums baseline; /* at the last reset */
};

struct node {
	struct gate *gate;
	struct node *parent; /* NULL: global */
	enum scope_kind kind;
	uint32_t weight;
	bool paused;
	struct limiter *limiter; /* NULL: no limits of its own */
	struct resource *res[RESOURCES];
	struct chain *own[COST_CLASSES]; /* its own limits, as the scheduler meets them */
	struct lane lane[LANES];
	struct branch *branch; /* NULL: a key */
	struct list sibling;
};

static inline struct lane *lane_parent(const struct lane *l)
{
	return l->node->parent ? &l->node->parent->lane[l->index] : NULL;
}

static inline bool lane_empty(const struct lane *l)
{
	return l->fq ? fq_empty(l->fq) : list_empty(&l->jobs);
}

static inline struct lane *first_waiter(const struct resource *r)
{
	return list_first(&r->waiters, struct lane, wait);
}

/* The resource behind a link of a node's chain. */
static inline struct resource *link_resource(const struct chain_link *l)
{
	const struct node *n = l->limiter->owner;
	return n->res[l->bucket ? l->kind * BUCKET_ROLES + l->role : RES_INFLIGHT];
}

/* The limits of a node in the order in which the scheduler asks them: ops first, so that they can be
 * prepaid, then bytes, then permits. */
static inline unsigned own_links(const struct chain *own)
{
	return own ? own->links + own->permits : 0;
}

static inline const struct chain_link *own_link(const struct chain *own, unsigned i)
{
	return i < own->links ? &own->link[own->links - 1 - i] : &own->link[i];
}

/* node.c: life of a node */

/* A key has no name, and gets neither a branch nor a pause.  False: out of memory; node_fini in any
 * case. */
bool node_init(struct node *n, struct gate *g, struct node *parent, enum scope_kind kind,
	       const char *name, uint64_t now_ns);
void node_fini(struct node *n);
/* Gets the memory for limits of this configuration and changes nothing else; a node that had no limits
 * has these from now on.  0 or -ENOMEM. */
int node_prepare(struct node *n, const struct limiter_config *cfg, uint64_t now_ns);
/* Into the tree and out of it.  False: out of memory. */
bool node_link(struct node *n);
void node_unlink(struct node *n);

/* lane.c */

/* Something below this lane has changed: put it where it belongs. */
void lane_touch(struct lane *l, uint64_t at_ns);
/* Asks its own node and waits there, or joins its parent's queue; does not tell the parent. */
void lane_enter(struct lane *l, uint64_t at_ns);
/* Leaves every queue and gives back what it holds. */
void lane_reset(struct lane *l, uint64_t at_ns);

/* The limits of the lane's own node that the job meets; NULL in a dry run. */
const struct chain *lane_limits(const struct lane *l, const struct job *j);
/* The first resource of the lane's own node that refuses the job; NULL when none does. */
struct resource *lane_ask(struct lane *l, const struct job *j, uint64_t at_ns);
/* The job whose turn it is below this lane, which is not empty, and the lane of its key. */
struct job *lane_front(struct lane *l, uint64_t at_ns);
struct lane *lane_bottom(struct lane *l, uint64_t at_ns);
/* Refused by `r`, of its own node. */
void lane_block(struct lane *l, struct resource *r, const struct job *j, uint64_t at_ns);
void lane_unblock(struct lane *l, uint64_t at_ns);
/* Of its own node's limits before `end` (NULL: all): prepays ops, and claims bytes for a date
 * (0: does not). */
void lane_hold(struct lane *l, const struct resource *end, uint64_t date_ns, const struct job *j,
	       uint64_t at_ns);

/* reserve.c */

/* When the front of the lane is due by a reservation of its node or below; NEVER: it has none. */
uint64_t lane_reserved_ns(struct lane *l, uint64_t at_ns);
/* Its node has something waiting again, has nothing any more, or has been served. */
void reserve_begin(struct node *n, uint64_t at_ns);
void reserve_end(struct node *n, uint64_t at_ns);
void reserve_serve(struct node *n, const struct cost *c, uint64_t at_ns);

/* resource.c */

struct resource *resource_new(struct node *n, unsigned index);
/* The first waiter may be able to go: have it looked at. */
void resource_kick(struct resource *r);
/* When to look at the first waiter; NEVER: when kicked. */
void resource_set_due(struct resource *r, uint64_t due_ns);
/* Adds to the number of those whom newcomers must not overtake. */
void resource_gate(struct resource *r, int by);
/* When it grants the job to the lane, in ns from at_ns: 0 now, NEVER on an event only. */
uint64_t resource_wait_ns(const struct resource *r, const struct lane *l,
			  const struct chain_link *link, const struct job *j, uint64_t at_ns);
/* Gives back what a lane holds of it. */
void resource_drop_held(struct resource *r, const struct lane *l);

static inline bool resource_is_shared(const struct resource *r)
{
	return r->lanes & (r->lanes - 1);
}

/* A cost in the unit of the fair queues, as time on the tightest limit of the node and those above. */
uint64_t turn_cost(const struct node *n, const struct job *j);
uint64_t turn_cost_of(const struct node *n, const struct cost *c);

#endif
