/* SPDX-License-Identifier: MIT */
/* The fast path for requests that need not wait, and the end of every request. */
#include "sched/gate.h"

#include "sched/gate_internal.h"

void gate_lock(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
}

void gate_unlock_deliver(struct gate *g)
{
	struct list ready = LIST_INIT(ready), refused = LIST_INIT(refused);
	list_splice_tail(&ready, &g->ready);
	list_splice_tail(&refused, &g->refused);
	pthread_mutex_unlock(&g->lock);
	if (!list_empty(&ready))
		g->dispatch(g->ctx, &ready);
	list_for_each_safe (it, &refused) {
		struct job *j = list_entry(it, struct job, link);
		list_init(&j->link);
		j->ops->refuse(j, j->refusal);
	}
}

static const struct chain *load_chain(const struct leaf *f, enum cost_class cls)
{
	return atomic_load_explicit(&f->chain[cls], memory_order_acquire);
}

bool gate_unlimited(const struct gate_mount *m, enum cost_class cls)
{
	return !(atomic_load_explicit(&m->limited, memory_order_acquire) & 1U << cls);
}

static void count_at_once(struct leaf *f, const struct cost *c)
{
	leaf_count(f, c->cls, COUNT_OPS, c->ops);
	leaf_count(f, c->cls, COUNT_BYTES, c->bytes);
	leaf_count(f, c->cls, COUNT_AT_ONCE, 1);
}

/* --- waking --- */

enum given_back { PERMITS_ONLY, BYTES, ALL };

/* True: requests wait for what is returned to this chain.  Call after returning it: waiters
 * announce themselves first and then check the tokens again, so that no wake-up is lost. */
static bool anybody_waits(const struct chain *ch, enum given_back what)
{
	for (unsigned i = 0; i < ch->permits; i++)
		if (atomic_load(&chain_permit(ch, i)->waiters))
			return true;
	for (unsigned i = 0; what != PERMITS_ONLY && i < ch->links; i++)
		if ((what == ALL || ch->link[i].per_byte) &&
		    atomic_load(&ch->link[i].bucket->waiters))
			return true;
	return false;
}

static void wake_waiters(struct gate *g, const struct chain *ch, enum given_back what)
{
	if (!anybody_waits(ch, what))
		return;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	for (unsigned i = 0; i < ch->links + ch->permits; i++)
		resource_kick(link_resource(&ch->link[i]));
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
}

/* --- without waiting --- */

bool inflight_is_full(const struct chain *ch)
{
	for (unsigned i = 0; i < ch->permits; i++)
		if (permits_look(chain_permit(ch, i)).available == 0)
			return true;
	return false;
}

/* The limits of a request: those of its key, if any, and those from its leaf to the root. */
struct way {
	struct key *key;
	const struct chain *own, *chain;
};

/* Takes everything or nothing. */
static enum grant_result way_try(const struct way *w, const struct cost *c, uint64_t now_ns,
				 struct refusal *why)
{
	enum grant_result r = w->own ? chain_try(w->own, c, now_ns, why) : GRANT_OK;
	if (r != GRANT_OK || !w->chain)
		return r;
	r = chain_try(w->chain, c, now_ns, why);
	if (r != GRANT_OK && w->own) {
		chain_refund(w->own, c);
		why->gave_back = true;
	}
	return r;
}

/* Takes a part; c->bytes says how much. */
static enum grant_result way_try_partial(const struct way *w, struct cost *c, uint64_t least,
					 uint64_t now_ns, struct refusal *why)
{
	struct cost part = *c;
	enum grant_result r =
		w->own ? chain_try_partial(w->own, &part, least, now_ns, why) : GRANT_OK;
	if (r != GRANT_OK)
		return r;
	uint64_t own_bytes = part.bytes;
	if (w->chain)
		r = chain_try_partial(w->chain, &part, least, now_ns, why);
	if (w->own && r == GRANT_OK) {
		chain_refund_bytes(w->own, own_bytes - part.bytes);
	} else if (w->own) {
		part.bytes = own_bytes;
		chain_refund(w->own, &part);
		why->gave_back = true;
	}
	if (r == GRANT_OK)
		c->bytes = part.bytes;
	return r;
}

static void way_wake(struct gate *g, const struct way *w, enum given_back what)
{
	if (w->own)
		wake_waiters(g, w->own, what);
	if (w->chain)
		wake_waiters(g, w->chain, what);
}

/* Records who would have waited, how long, and for which limit. */
static void count_dry_wait(struct leaf *f, const struct caller *caller, const struct cost *c,
			   const struct refusal *why, uint64_t now_ns)
{
	struct gate *g = f->node.gate;
	struct fair_key id = caller_key(caller, g->callers, atomic_load(&f->fair), now_ns);
	/* For a permit, the length of the wait is unknown: count the shortest possible one. */
	uint64_t wait_ns = why->wait_ns == NEVER || !why->wait_ns ? 1 : why->wait_ns;
	gate_lock(g);
	for (struct node *up = &f->node; up; up = up->parent)
		histogram_add(&up->branch->would_wait[c->cls], wait_ns);
	const struct node *n = why->limiter->owner;
	unsigned index =
		why->kind < 0 ? RES_INFLIGHT : (unsigned)why->kind * BUCKET_ROLES + why->role;
	n->res[index]->would_wait++;
	if (n->kind == SCOPE_KEY)
		f->each_wait[why->kind].would_wait++;
	struct key *key = keys_get(f, id, now_ns);
	key->ops += c->ops;
	key->bytes += c->bytes;
	key->uid = caller->uid;
	key_would_wait(key, wait_row_of(f, n, index), wait_ns);
	bool needs_name = key_needs_name(key, now_ns);
	gate_unlock_deliver(g);
	if (needs_name)
		key_describe(f->mount, caller, c->cls, now_ns);
}

/* In a dry run no request waits.  A request that would have waited takes what is left, so that the
 * next one finds an empty bucket, but causes no debt, which other mounts would have to pay, and all
 * requests once the dry run ends. */
static enum gate_verdict go_dry(struct leaf *f, const struct way *paused_or_not,
				const struct caller *caller, struct grant *grant, uint64_t now_ns)
{
	const struct cost *c = &grant->cost;
	struct gate *g = f->node.gate;
	struct way w = *paused_or_not;
	w.chain = leaf_limits(f, c->cls);
	struct refusal why = {.wait_ns = 0};
	bool at_once = way_try(&w, c, now_ns, &why) == GRANT_OK;
	leaf_count(f, c->cls, COUNT_OPS, c->ops);
	leaf_count(f, c->cls, COUNT_BYTES, c->bytes);
	leaf_grant_begin(f);
	if (at_once) {
		leaf_count(f, c->cls, COUNT_AT_ONCE, 1);
		grant->chain = w.chain;
		grant->own = w.own;
		return GATE_GO;
	}
	struct cost rest = *c;
	struct refusal unused;
	if (way_try_partial(&w, &rest, 1, now_ns, &unused) == GRANT_OK) {
		if (w.chain)
			chain_release(w.chain);
		if (w.own)
			chain_release(w.own);
	}
	way_wake(g, &w, ALL); /* tokens or permits may have been taken and returned */
	count_dry_wait(f, caller, c, &why, now_ns);
	return GATE_GO;
}

static enum gate_verdict refused(struct leaf *f, const struct way *w, const struct refusal *why,
				 const struct caller *c, const struct cost *cost)
{
	struct gate *g = f->node.gate;
	enum cost_class cls = cost->cls;
	if (why->gave_back)
		way_wake(g, w, ALL);
	if (why->result == GRANT_MISCONFIGURED) {
		leaf_count(f, cls, COUNT_MISCONFIGURED, 1);
		event_of_refusal(EVENT_MISCONFIGURED, f, c, cost);
		return GATE_MISCONFIGURED;
	}
	if (atomic_load_explicit(&f->mount->full_rejects, memory_order_relaxed) && w->chain &&
	    w->chain != g->paused && inflight_is_full(w->chain)) {
		leaf_count(f, cls, COUNT_FULL, 1);
		event_of_refusal(EVENT_FULL, f, c, cost);
		return GATE_FULL;
	}
	return GATE_WOULD_BLOCK;
}

/* True: jobs of the same lane are parked in the leaf (if its keys have limits of their own: under
 * this key), and the request must not overtake them. */
static bool must_queue(const struct leaf *f, const struct way *w, enum cost_class cls)
{
	uint32_t waiting = atomic_load_explicit(&f->waiting, memory_order_relaxed);
	if (w->key)
		waiting |= atomic_load_explicit(&w->key->waiting, memory_order_relaxed);
	return waiting & 1U << cls;
}

/* least 0: everything or nothing. */
static enum gate_verdict try_way(struct leaf *f, const struct way *w, const struct caller *c,
				 struct grant *grant, uint64_t least, uint64_t now_ns)
{
	struct refusal why = {.result = GRANT_WOULD_BLOCK};
	if (!must_queue(f, w, grant->cost.cls)) {
		if (!now_ns)
			now_ns = clock_now(f->node.gate->clock);
		if (mount_is_dry(f->mount) && w->chain != f->node.gate->paused)
			return go_dry(f, w, c, grant, now_ns);
		why.result = least ? way_try_partial(w, &grant->cost, least, now_ns, &why)
				   : way_try(w, &grant->cost, now_ns, &why);
	}
	if (why.result != GRANT_OK)
		return refused(f, w, &why, c, &grant->cost);
	grant->chain = w->chain;
	grant->own = w->own;
	leaf_grant_begin(f);
	count_at_once(f, &grant->cost);
	return GATE_GO;
}

/* Finds the key whose own limits apply, and pins it; it stays pinned until the request is
 * settled. */
static void find_own(struct leaf *f, const struct caller *c, enum cost_class cls, struct way *w,
		     uint64_t *now_ns)
{
	if (!(atomic_load_explicit(&f->each, memory_order_relaxed) & 1U << cls))
		return;
	if (!*now_ns)
		*now_ns = clock_now(f->node.gate->clock);
	w->key = each_pin(f, c, *now_ns);
	const struct key_limits *l = atomic_load_explicit(&w->key->limits, memory_order_acquire);
	w->own = l ? l->cls[cls] : NULL;
}

static enum gate_verdict gate_ask(struct leaf *f, const struct cost *cost, const struct caller *c,
				  struct grant *grant, uint64_t least, uint64_t now_ns)
{
	struct way w = {.chain = load_chain(f, cost->cls)};
	*grant = (struct grant){.leaf = f, .cost = *cost};
	find_own(f, c, cost->cls, &w, &now_ns);
	if (!w.chain && !w.own) {
		if (w.key)
			each_unpin(w.key);
		leaf_grant_begin(f);
		count_at_once(f, cost);
		return GATE_GO;
	}
	enum gate_verdict v = try_way(f, &w, c, grant, least, now_ns);
	if (v == GATE_GO && grant->own)
		grant->key = w.key;
	else if (w.key)
		each_unpin(w.key);
	return v;
}

enum gate_verdict gate_try(struct gate_mount *m, const struct cost *cost,
			   const struct caller *caller, struct grant *grant)
{
	uint64_t now_ns = 0;
	struct leaf *f = leaf_of(m, caller, cost->cls, &now_ns);
	return gate_ask(f, cost, caller, grant, 0, now_ns);
}

enum gate_verdict gate_try_nonblocking(struct gate_mount *m, const struct cost *cost,
				       const struct caller *caller, uint64_t least,
				       struct grant *grant)
{
	uint64_t now_ns = 0;
	struct leaf *f = leaf_of(m, caller, cost->cls, &now_ns);
	enum gate_verdict v = gate_ask(f, cost, caller, grant, least, now_ns);
	if (v != GATE_WOULD_BLOCK)
		return v;
	*grant = (struct grant){.leaf = f, .cost = *cost};
	if (!turn_take(m, caller, least, grant)) {
		leaf_count(grant->leaf, cost->cls, COUNT_WOULD_BLOCK, 1);
		event_of_refusal(EVENT_WOULD_BLOCK, grant->leaf, caller, cost);
		return GATE_WOULD_BLOCK;
	}
	count_at_once(grant->leaf, &grant->cost);
	return GATE_GO;
}

bool gate_take(struct gate_mount *m, const struct cost *cost, const struct caller *caller,
	       struct grant *grant)
{
	bool charged = true;
	uint64_t now_ns = 0;
	struct leaf *f = leaf_of(m, caller, cost->cls, &now_ns);
	struct way w = {.chain = leaf_limits(f, cost->cls)};
	*grant = (struct grant){.leaf = f, .cost = *cost};
	find_own(f, caller, cost->cls, &w, &now_ns);
	if (!now_ns)
		now_ns = clock_now(f->node.gate->clock);
	if (mount_is_dry(m) && (w.chain || w.own)) {
		go_dry(f, &w, caller, grant, now_ns);
	} else {
		struct refusal why = {.gave_back = false};
		if (!must_queue(f, &w, cost->cls) && way_try(&w, cost, now_ns, &why) == GRANT_OK) {
			grant->chain = w.chain;
			grant->own = w.own;
			leaf_grant_begin(f);
		} else {
			if (why.gave_back)
				way_wake(f->node.gate, &w, ALL);
			debt_add(m, caller, grant); /* pins the key itself */
			charged = false;
		}
		count_at_once(grant->leaf, cost);
	}
	if (w.key && grant->own && !grant->key)
		grant->key = w.key;
	else if (w.key)
		each_unpin(w.key);
	return charged;
}

uint64_t gate_piece_bytes(struct gate_mount *m, enum cost_class cls, const struct caller *caller,
			  uint64_t least)
{
	uint64_t now_ns = 0, piece = UINT64_MAX;
	struct way w = {0};
	const struct leaf *f = leaf_of(m, caller, cls, &now_ns);
	find_own(leaf_of(m, caller, cls, &now_ns), caller, cls, &w, &now_ns);
	piece = min_u64(chain_piece_bytes(leaf_limits(f, cls), 1), chain_piece_bytes(w.own, 1));
	if (w.key)
		each_unpin(w.key);
	return max_u64(piece, least);
}

/* --- the end of a request --- */

static void settle(const struct leaf *f, const struct chain *ch, uint64_t charged, uint64_t moved)
{
	chain_refund_bytes(ch, charged - moved);
	chain_release(ch);
	if (moved < charged || ch->permits)
		wake_waiters(f->node.gate, ch, moved < charged ? BYTES : PERMITS_ONLY);
}

void gate_done(const struct grant *grant, enum gate_outcome outcome, uint64_t bytes_moved)
{
	static const enum counter counters[] = {
		[OUTCOME_OK] = COUNT_OK,
		[OUTCOME_ERROR] = COUNT_OK,
		[OUTCOME_FAILED] = COUNT_FAILED,
		[OUTCOME_NO_SPACE] = COUNT_NO_SPACE,
		[OUTCOME_CANCELLED] = COUNT_ABORTED,
	};
	struct leaf *f = grant->leaf;
	enum cost_class cls = grant->cost.cls;
	uint64_t charged = grant->cost.bytes;
	uint64_t moved = outcome == OUTCOME_OK ? min_u64(bytes_moved, charged) : 0;
	if (grant->probe)
		return;
	if (moved != charged)
		leaf_count(f, cls, COUNT_BYTES, moved - charged);
	leaf_count(f, cls, counters[outcome], 1);
	if (outcome == OUTCOME_ERROR)
		leaf_count(f, cls, COUNT_ERRORS, 1);
	if (grant->own)
		settle(f, grant->own, charged, moved);
	if (grant->chain)
		settle(f, grant->chain, charged, moved);
	if (grant->key)
		each_unpin(grant->key);
	leaf_grant_end(f);
}

/* --- open handles --- */

const struct open_way *gate_open_try(struct gate_mount *m, const struct caller *caller)
{
	uint64_t now_ns = 0;
	struct leaf *f = leaf_of(m, caller, COST_OPENCLOSE, &now_ns);
	const struct open_way *way = atomic_load_explicit(&f->open_way, memory_order_acquire);
	for (unsigned i = 0; i < way->n; i++) {
		if (permits_try(&way->limiter[i]->open))
			continue;
		while (i--)
			permits_release(&way->limiter[i]->open);
		leaf_count(f, COST_OPENCLOSE, COUNT_TOO_MANY_OPEN, 1);
		return NULL;
	}
	return way;
}

void gate_open_release(const struct open_way *way)
{
	for (unsigned i = 0; i < way->n; i++)
		permits_release(&way->limiter[i]->open);
}
