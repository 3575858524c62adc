/* SPDX-License-Identifier: MIT */
/* The tree of scopes inside the gate.  Open this file first.
 *
 *	                lane 0   lane 1 …
 *	global            ●        ●        each ● is a struct lane: a fair queue of the lanes
 *	 └ fs             ●        ●        below it, and itself an item in the queue above it
 *	    └ mount       ●        ●
 *	       ├ class    ●        ●        any depth
 *	       │  └ key   ▤        ▤        the lane of a key: a FIFO of jobs, or a queue of
 *	       └ key      ▤        ▤        several FIFOs (part.c)
 *
 * Every scope is a struct node with limits and a weight; all but keys also have permits and can be
 * paused.  A request enters the tree at a leaf (a mount or one of its classes) under a key (the
 * process, user, … whose share it uses), and every node from the key to the root must admit it.
 * Kinds of operations (enum cost_class) that are subject to the same kinds of limits everywhere
 * share a lane; lanes delay each other only where they share a bucket.  A node whose requests wait in
 * several lanes for the same bucket divides its weight among these lanes (lane.c).
 *
 * A scope above the leaf may have limits for each key, too, by its own idea of a key: then the
 * request is also subject to the limits of its key in that scope, an *outer key* (outer.c).  Outer
 * keys are not on the way to the root.  The lane of the leaf's key asks them after its own node,
 * and waits for their resources beside lanes of other classes (line.c).
 *
 * A lane below the root is in one of three states:
 *	idle     nothing below it is waiting
 *	blocked  a resource of its own node (for the lane of a key: or of an outer key) refuses the
 *	         request at its front; the lane is in line at that resource (line.c)
 *	ready    in its parent's fair queue.  Its own node could admit the request when the lane
 *	         joined the queue, and is asked again when the request is released.
 * A lane of the root is idle, blocked, or about to be released.
 *
 * Worked examples (test_gate.c checks them).
 *
 * Turn and hold.  A mount has iops=1 (capacity 1), whose next token comes at 0.5 s.  Global has
 * bps=100 (capacity 10), and another mount has just read more than that, so it is 50 bytes in debt.
 * Two processes read: A wants 40 bytes, then B wants 40.
 *	t=0.0  A is parked.  The mount's iops refuses, so the mount's lane is *blocked* there, first
 *	       in line, with a due time of 0.5 s.  B is parked behind it: the mount's fair queue
 *	       orders A before B.
 *	t=0.5  The iops token is available.  The mount's lane gets its *turn* (it need not queue for
 *	       iops again) and becomes ready in the queue of fs, and fs in that of global.  Global's
 *	       bps has paid its debt and holds nothing.  40 bytes are more than its capacity, so they
 *	       wait for a full bucket: the lane of global is blocked until 0.6.  Meanwhile the mount
 *	       *holds* what A needs of it: the op is taken in advance (*prepaid*), so that metadata
 *	       requests, which use iops in another lane, cannot take it just before the bytes become
 *	       available.  (Bytes are not taken in advance but claimed; see below.)
 *	t=0.6  Global has 10 bytes: it is full, and grants.  Only now is the decision made: the fair
 *	       queues are asked once more from the root down, A is still at the front, all tokens are
 *	       taken (the prepaid op is settled), and A is dispatched.  Global is 30 bytes in debt.
 *	       B becomes the front, and the mount's lane is blocked by iops again, until 1.5 s; by
 *	       then global is full, and B is dispatched immediately.
 *
 * Voucher.  A mount has bps=100 (capacity 10) and holds nothing.  P is a probe for 6 bytes (poll
 * asks when it could read), and C, which wants 6 bytes, waits behind it.  P has its turn at 0.06 s.
 * It takes nothing but leaves its key a *voucher*: the 6 bytes that it found are kept until 0.08 s
 * for a non-blocking read of that key, which may bypass the queue.  If there is none, C is
 * dispatched at 0.08 s.  (If nobody waited behind P, there would be no voucher.)
 *
 * Claim.  A mount has read_bps=100 and write_bps=100 (capacity 10 each).  A copy of 10 bytes needs
 * both.  It has had its turn at both, but each time a reader or a writer had used up the other one.
 *	t=0.25 The copy's lane has its turn at read_bps, which is full.  It asks write_bps, which has
 *	       3 bytes, and is first in line there, with a due time of 0.32 s.  Because it had its
 *	       turn there before, it *claims* the 10 bytes of read_bps for that date.  Others may use
 *	       them until then, provided that the bucket is full enough again by that date.
 *	t=0.26 A reader wants 2 bytes.  8 are left, and 6 more come until 0.32: it may proceed.
 *	t=0.30 A reader wants 5 bytes.  The bucket is full again; 5 would be left, and only 2 more
 *	       come until 0.32: it waits.
 *	t=0.32 write_bps has 10 bytes, and read_bps, too: the copy is dispatched.
 *
 * Locking: everything here is guarded by gate->lock, except what is marked atomic. */
#ifndef SCHED_NODE_H
#define SCHED_NODE_H

#include "sched/counters.h"
#include "sched/fair_queue.h"
#include "sched/gate.h"

/* Meta and OpenClose are subject to the same limits everywhere. */
#define LANES (COST_CLASSES - 1)

/* The resources of a node, each of which can refuse a request: its buckets by kind and role, its permits,
 * its pause. */
enum { RES_INFLIGHT = LIMIT_KINDS * BUCKET_ROLES, RES_PAUSE, RESOURCES };

struct node;

/* Something that a lane can wait for: a bucket, permits, or the end of a pause. */
struct resource {
	struct node *node;
	struct bucket *bucket; /* NULL: permits or a pause */
	uint16_t index;	       /* in node->res */
	bool bytes;
	uint8_t lanes;	   /* bit per lane that uses it */
	uint32_t vouchers; /* number of vouchers for which tokens are reserved, … */
	/* struct lane, in the order of the line.  If the line is divided: lanes that had their turn
	 * and need not queue again, and the first of the others */
	struct list waiters;
	struct line *line; /* the rest of the line, if it is divided (line.c); or NULL */
	/* in gate->due: the earliest time at which the first waiter may be able to proceed */
	struct heap_item due;
	/* prepaid ops or claimed bytes, by lane.  There is room for every lane of its node.  If the
	 * node is a key, lanes of other leaves use it, too; while there is no room, they hold
	 * nothing. */
	struct hold {
		const struct lane *lane; /* NULL: free */
		uint64_t tokens;
	} held[LANES];
	uint64_t voucher_tokens; /* … and how many tokens */
	uint64_t blocked_ns;	 /* when the current wait began, if any lane waits */
	uint64_t blocking_ns;	 /* total duration of earlier waits */
	uint64_t would_wait;	 /* requests in dry runs that would have waited for it */
	/* How the lanes of its node share it (line.c).  Resources of keys have none, since there
	 * are many keys. */
	struct lane_tags {
		uint64_t tag[LANES];	      /* tokens per weight, << FQ_SHIFT */
		uint64_t weight[LANES];	      /* the weight that the tag is for, in 1/FQ_WHOLE */
		uint64_t vtime;		      /* the tag that was served last */
		uint64_t left_ns;	      /* when a lane last left the line … */
		uint64_t lane_left_ns[LANES]; /* … and when each of them did */
	} tags[];			      /* one, or none */
};

/* A line that is divided into shares: what each node gets of the tokens of an outer key. */
struct line_share {
	struct resource *resource;
	const struct node *node;
	struct line_share *up;	 /* of the node above; NULL: line->top */
	struct line_share *next; /* in its hash bucket */
	struct list of_line;	 /* in line->shares */
	struct heap below;	 /* the shares directly below it in which lanes wait, by tag */
	struct heap_item tag;	 /* in up->below; key: tokens per weight, << FQ_SHIFT */
	uint64_t vtime;		 /* tag of the share below that was served last */
	uint64_t fresh; /* tag that a new share below gets: tokens given so far, per weight that waits */
	uint64_t weight;   /* of the node, when lanes began to wait in it */
	uint64_t weights;  /* sum over the shares in `below` */
	uint64_t ties;	   /* number of tags given below: equal ones are served in this order */
	size_t n_below;	   /* shares directly below it, whether or not lanes wait there */
	uint32_t waiting;  /* number of lanes that wait in it and below it */
	struct list lanes; /* at a key: those that wait, except line->first */
};
struct line {
	struct line_share top; /* of the scope that has the key */
	struct list shares;    /* all others */
	size_t n;
	struct lane *first; /* of those in shares; it is in resource->waiters */
	bool is_empty;	    /* nothing waits, since empty_ns */
	uint64_t empty_ns;
	struct list empty; /* in gate->shares.empty */
};

struct lane {
	struct node *node;
	uint32_t parked; /* at a key: number of jobs, those in parts included */
	/* bit per resource of its node where it was first in line: it need not queue there again
	 * before a request is admitted */
	uint32_t had_turn;
	uint16_t index;
	bool in_share;		 /* it waits in a share of a line */
	bool by_tag;		 /* it waits in the order of resource->tags */
	bool claims;		 /* it is first in line, and what it has claimed is kept for it */
	struct key_clock *clock; /* wait_clock.c; at the bottom: may be NULL */
	/* the lanes below that are ready; NULL at the bottom.  At a key: those of the parts of the
	 * lane, if it is divided (part.c) */
	struct fq *fq;
	struct list jobs;	  /* at the bottom: FIFO, linked by job->link */
	struct fq_item item;	  /* in the parent's fq */
	struct resource *blocked; /* the resource at which it waits in line, linked by ->wait */
	struct list wait;
	uint64_t claim_due_ns; /* the date for which it has claimed bytes */
	/* sequence number of when it last joined a line: decides between equal tags, and where
	 * there are none (permits, pauses, keys); NEVER: idle */
	uint64_t in_line;
};

/* Time per op and per byte on the tightest limit of a node and its ancestors, in ns << 32. */
struct turn_cost {
	uint64_t op_ns, byte_ns;
};

/* A guaranteed minimum, granted before weights divide the rest. */
struct reservation {
	uint64_t bps, iops; /* 0: none */
	/* when its next request is due; each request postpones it by the time it takes at this
	 * rate */
	uint64_t due_ns;
	bool waits;	  /* requests of the node wait */
	uint64_t idle_ns; /* when the last of its requests left the queue */
};

/* What nodes other than keys have in addition: queues of what is below, and statistics. */
struct branch {
	char *name;
	struct fq fq[LANES];
	/* The cost last served in each lane, and its value in queue units before the change in
	 * progress: their ratio converts tags. */
	struct cost sample[LANES];
	uint64_t sample_was[LANES];
	struct chain *next_own[COST_CLASSES]; /* compiled, not yet published */
	struct turn_cost cost[COST_CLASSES];
	struct reservation reserve;
	struct list children; /* nodes that are not keys */
	size_t n_children;

	uint64_t since_ns;
	uint64_t parked_now[COST_CLASSES], parked_bytes_now;
	struct histogram wait[COST_CLASSES];
	uint64_t clocked_ns[LANES]; /* when wait_clock.c last advanced the clocks of all leaves below */
	struct histogram would_wait[COST_CLASSES]; /* in dry runs */
	/* requests in the device */
	uint64_t device_now[COST_CLASSES];
	struct histogram device[COST_CLASSES];
	struct counter_sums gone;     /* of leaves that have been removed */
	struct counter_sums baseline; /* at the last reset of the statistics */
};

struct node {
	struct gate *gate;
	struct node *parent; /* NULL: global */
	enum scope_kind kind : 8;
	bool paused;
	uint32_t weight;
	struct limiter *limiter; /* NULL: no limits of its own */
	struct resource *res[RESOURCES];
	struct chain *own[COST_CLASSES]; /* its own limits, as the scheduler asks them */
	struct lane lane[LANES];
	struct branch *branch; /* NULL: a key */
	struct list sibling;
};

/* The lane that a part belongs to; otherwise the lane itself. */
static inline struct lane *lane_whole(const struct lane *l)
{
	return &l->node->lane[l->index];
}

static inline bool lane_is_part(const struct lane *l)
{
	return lane_whole(l) != l;
}

static inline struct lane *lane_parent(const struct lane *l)
{
	if (lane_is_part(l))
		return lane_whole(l);
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

/* The resource that a link of a node's chain stands for. */
static inline struct resource *link_resource(const struct chain_link *l)
{
	const struct node *n = l->limiter->owner;
	return n->res[l->bucket ? l->kind * BUCKET_ROLES + l->role : RES_INFLIGHT];
}

/* The node's share of a limit that many hosts have in common; NULL: the node has none of this
 * kind. */
static inline struct resource *pool_resource(const struct node *n, unsigned kind)
{
	return n->res[kind * BUCKET_ROLES + BUCKET_POOL];
}

/* The limits of a node in the order in which the scheduler asks them: ops first, so that they can
 * be prepaid, then bytes, then permits. */
static inline unsigned own_links(const struct chain *own)
{
	return own ? own->links + own->permits : 0;
}

static inline const struct chain_link *own_link(const struct chain *own, unsigned i)
{
	return i < own->links ? &own->link[own->links - 1 - i] : &own->link[i];
}

/* node.c: the life of a node */

void lane_init(struct lane *l, struct node *n, unsigned index);

/* A key has no name, no branch and no pause.  False: out of memory.  Call node_fini in either
 * case. */
bool node_init(struct node *n, struct gate *g, struct node *parent, enum scope_kind kind,
	       const char *name, uint64_t now_ns);
void node_fini(struct node *n);
/* Allocates what limits of this configuration need and changes nothing else, except that a node
 * which never had limits gets these.  0 or -ENOMEM. */
int node_prepare(struct node *n, const struct limiter_config *cfg, uint64_t now_ns);
/* Adds a node to the tree (false: out of memory), and removes it. */
bool node_link(struct node *n);
void node_unlink(struct node *n);

/* lane.c */

/* Moves a lane to where it belongs after something below it has changed. */
void lane_touch(struct lane *l, uint64_t at_ns);
/* Asks the lane's own node and waits there, or joins the parent's queue.  Does not update the
 * parent. */
void lane_enter(struct lane *l, uint64_t at_ns);
/* Leaves every queue and returns what it holds. */
void lane_reset(struct lane *l, uint64_t at_ns);

/* Goes through the limits that a lane asks for a job: those of its own node and, at the lane of a
 * key, those of the outer keys.  There are none in a dry run. */
struct lane_limits {
	const struct job *job;
	const struct chain *chain; /* of the current node */
	unsigned link;		   /* the next one of the chain */
	unsigned outer, outer_end; /* the next outer key; the end */
};
struct lane_limits lane_limits(const struct lane *l, const struct job *j);
const struct chain_link *next_limit(struct lane_limits *limits); /* NULL: no more */
/* The first resource that the lane asks and that refuses the job; NULL: none does. */
struct resource *lane_ask(struct lane *l, const struct job *j, uint64_t at_ns);
/* The job whose turn it is below this lane, and the lane of its key.  The lane must not be empty.
 * */
struct job *lane_front(struct lane *l, uint64_t at_ns);
struct lane *lane_bottom(struct lane *l, uint64_t at_ns);
/* Queues the lane at `r`, a resource that refused it; and takes it out again. */
void lane_block(struct lane *l, struct resource *r, struct job *j, uint64_t at_ns);
void lane_unblock(struct lane *l, uint64_t at_ns);
/* Prepays ops and claims bytes for a date (date_ns 0: claims none), at all limits that it asks
 * before `end` (NULL: at all that it asks). */
void lane_hold(struct lane *l, const struct resource *end, uint64_t date_ns, const struct job *j,
	       uint64_t at_ns);
/* The lane is first in line at r, had its turn there before, and will have it again at a date:
 * until then it claims what it asks of the same node before r.  Otherwise a copy, which needs two
 * byte limits of a scope, would find one of them used up by readers whenever it has waited for the
 * other one. */
void lane_claim(struct lane *l, struct resource *r, const struct job *j, uint64_t date_ns,
		uint64_t at_ns);
/* The lane is not first in line any more. */
void lane_stop_claiming(struct lane *l);
/* The link that stands for the resource; NULL: the lane does not ask it for the job (any more). */
const struct chain_link *lane_link(const struct lane *l, const struct resource *r,
				   const struct job *j);
/* Job j was at the front of the lane of a key and has left: the lane also leaves the resources of
 * those outer keys of j that the next job does not have. */
void lane_leave_outer(struct lane *l, const struct job *j, uint64_t at_ns);

/* part.c: lanes of keys whose jobs have different outer keys */

/* The lane in which to queue a job of a key: its lane or a part of it.  May divide the lane. */
struct lane *lane_for(struct lane *whole, const struct job *j, uint64_t now_ns);
/* The parts of a lane, one after the other; NULL: no more. */
struct lane *part_next(const struct lane *whole, const struct lane *part);
/* For a change of limits.  parts_join takes the parts out of all queues and makes the lane whole
 * again; parts_divide divides a lane that is in no queue if necessary, and queues the parts. */
void parts_join(struct lane *whole, uint64_t now_ns);
void parts_divide(struct lane *whole, uint64_t now_ns);
void parts_free(struct lane *whole);

/* reserve.c */

/* When the front of the lane is due by a reservation of its node or one below; NEVER: it has none.
 * */
uint64_t lane_reserved_ns(struct lane *l, uint64_t at_ns);
/* True: a request of this cost is due by the node's own reservation. */
bool reserve_is_due(const struct node *n, const struct cost *c, uint64_t at_ns);
/* The node has something waiting again, has nothing waiting any more, or has been served. */
void reserve_begin(struct node *n, uint64_t at_ns);
void reserve_end(struct node *n, uint64_t at_ns);
void reserve_serve(struct node *n, const struct cost *c, uint64_t at_ns);

/* line.c */

/* The lane waits at the resource: where it belongs by its tag or its share, or behind the others.
 * */
void line_join(struct resource *r, struct lane *l, uint64_t at_ns);
/* The lane that is served next: the one whose reservation has been due the longest, if any is due;
 * otherwise the first in line.  Something must be waiting. */
struct lane *line_next(struct resource *r, uint64_t at_ns);
/* The lane has its turn, for so many tokens.  Call line_leave next. */
void line_serve(struct resource *r, const struct lane *l, uint64_t tokens);
void line_leave(struct resource *r, struct lane *l, uint64_t at_ns);
/* More may wait in the lane than before. */
void line_grew(struct resource *r, struct lane *l);
/* False: if the lane joined the line now, others would be ahead of it. */
bool line_would_be_first(const struct resource *r, const struct lane *l);
/* A request of the lane has taken tokens. */
void line_charge(struct resource *r, const struct lane *l, uint64_t tokens);
/* Frees the line of a resource for which nothing waits. */
void line_forget(struct resource *r);
/* Frees all lines in which nothing waits, because their nodes may not exist any more. */
void lines_forget(struct gate *g);
void lines_init(struct gate *g);
void lines_fini(struct gate *g);

/* resource.c */

struct resource *resource_new(struct node *n, unsigned index);
/* Schedules a look at the first waiter, which may be able to proceed. */
void resource_kick(struct resource *r);
/* When to look at the first waiter; NEVER: only after resource_kick. */
void resource_set_due(struct resource *r, uint64_t due_ns);
/* Changes the number of waiters that newcomers must not overtake. */
void resource_add_waiters(struct resource *r, int by);
/* When the resource would grant the job to the lane, in ns from at_ns: 0 means now, NEVER only
 * after an event. */
uint64_t resource_wait_ns(const struct resource *r, const struct lane *l,
			  const struct chain_link *link, const struct job *j, uint64_t at_ns);
/* Returns what a lane holds of it. */
void resource_drop_held(struct resource *r, const struct lane *l);
/* Where it is recorded what a lane holds of it; NULL: the lane holds nothing. */
struct hold *resource_hold(struct resource *r, const struct lane *l);
static inline uint64_t resource_held(const struct resource *r, const struct lane *l)
{
	const struct hold *h = resource_hold((struct resource *)r, l);
	return h ? h->tokens : 0;
}

/* True: several lanes use it.  Lanes of classes use the keys of the scopes above them. */
static inline bool resource_is_shared(const struct resource *r)
{
	return r->lanes & (r->lanes - 1) ||
	       (r->node->kind == SCOPE_KEY && r->node->parent->branch->n_children);
}

/* A cost in the unit of the fair queues: the time that it takes on the tightest limit of the node and its ancestors.
 */
uint64_t turn_cost(const struct node *n, const struct job *j);
uint64_t turn_cost_of(const struct node *n, const struct cost *c);

#endif
