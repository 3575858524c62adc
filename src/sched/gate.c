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

/* The limits of a request: those of its keys, narrowest first, then the chain from its leaf to the
 * root. */
static const struct chain *limits_at(const struct grant *grant, unsigned i)
{
	return i < grant->keys ? grant->key[i].chain : grant->chain;
}

/* Takes everything or nothing. */
static enum grant_result try_all(const struct grant *grant, uint64_t now_ns, struct refusal *why)
{
	for (unsigned i = 0; i <= grant->keys; i++) {
		const struct chain *ch = limits_at(grant, i);
		enum grant_result r = ch ? chain_try(ch, &grant->cost, now_ns, why) : GRANT_OK;
		if (r == GRANT_OK)
			continue;
		while (i-- > 0)
			if (limits_at(grant, i)) {
				chain_refund(limits_at(grant, i), &grant->cost);
				why->gave_back = true;
			}
		return r;
	}
	return GRANT_OK;
}

enum grant_result grant_try_partial(struct grant *grant, uint64_t least, uint64_t now_ns,
				    struct refusal *why)
{
	struct cost part = grant->cost;
	uint64_t took[GRANT_KEYS_MAX + 1]; /* bytes; each limit may reduce them further */
	for (unsigned i = 0; i <= grant->keys; i++) {
		const struct chain *ch = limits_at(grant, i);
		enum grant_result r =
			ch ? chain_try_partial(ch, &part, least, now_ns, why) : GRANT_OK;
		took[i] = part.bytes;
		if (r == GRANT_OK)
			continue;
		while (i-- > 0) {
			part.bytes = took[i];
			if (limits_at(grant, i)) {
				chain_refund(limits_at(grant, i), &part);
				why->gave_back = true;
			}
		}
		return r;
	}
	for (unsigned i = 0; i < grant->keys; i++)
		if (limits_at(grant, i))
			chain_refund_bytes(limits_at(grant, i), took[i] - part.bytes);
	grant->cost.bytes = part.bytes;
	return GRANT_OK;
}

static void wake_all(struct gate *g, const struct grant *grant, enum given_back what)
{
	for (unsigned i = 0; i <= grant->keys; i++)
		if (limits_at(grant, i))
			wake_waiters(g, limits_at(grant, i), what);
}

/* Records who would have waited, how long, and for which limit. */
static void count_dry_wait(struct grant *grant, const struct caller *caller,
			   const struct refusal *why, uint64_t now_ns)
{
	struct leaf *f = grant->leaf;
	const struct cost *c = &grant->cost;
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
		node_leaf(n->parent)->each_wait[why->kind].would_wait++;
	struct key *key = keys_get(f, id, now_ns);
	key->ops += c->ops;
	atomic_fetch_add_explicit(&key->bytes, c->bytes, memory_order_relaxed);
	if (!grant->keys) {
		grant->key[grant->keys++] = (struct granted_key){.key = key};
		key_pin(key);
	}
	grant->waited = grant->key[0].key == key;
	key->uid = caller->uid;
	key_would_wait(key, wait_row_of(f, n, index), wait_ns);
	bool needs_name = key_needs_name(key, now_ns);
	gate_unlock_deliver(g);
	if (needs_name)
		key_describe(f->mount, caller, c->cls, now_ns);
}

/* Takes whatever is left, and returns the permits. */
static void take_rest(const struct grant *grant, uint64_t now_ns)
{
	struct grant rest = *grant;
	struct refusal unused = {.wait_ns = 0};
	if (grant_try_partial(&rest, 1, now_ns, &unused) != GRANT_OK)
		return;
	for (unsigned i = 0; i <= rest.keys; i++)
		if (limits_at(&rest, i))
			chain_release(limits_at(&rest, i));
}

/* In a dry run no request waits.  A request that would have waited takes what is left, so that the
 * next one finds an empty bucket, but causes no debt, which other mounts would have to pay, and all
 * requests once the dry run ends. */
static enum gate_verdict go_dry(const struct caller *caller, struct grant *grant, uint64_t now_ns)
{
	struct leaf *f = grant->leaf;
	const struct cost *c = &grant->cost;
	grant->chain = leaf_limits(f, c->cls);
	struct refusal why = {.wait_ns = 0};
	bool at_once = try_all(grant, now_ns, &why) == GRANT_OK;
	leaf_count(f, c->cls, COUNT_OPS, c->ops);
	leaf_count(f, c->cls, COUNT_BYTES, c->bytes);
	leaf_grant_begin(f);
	if (at_once) {
		leaf_count(f, c->cls, COUNT_AT_ONCE, 1);
		return GATE_GO;
	}
	take_rest(grant, now_ns);
	/* tokens or permits may have been taken and returned, so others may proceed */
	wake_all(f->node.gate, grant, ALL);
	count_dry_wait(grant, caller, &why, now_ns);
	for (unsigned i = 0; i < grant->keys; i++)
		grant->key[i].chain = NULL; /* nothing was taken */
	grant->chain = NULL;
	return GATE_GO;
}

static enum gate_verdict refused(const struct grant *grant, const struct refusal *why,
				 const struct caller *c)
{
	struct leaf *f = grant->leaf;
	struct gate *g = f->node.gate;
	enum cost_class cls = grant->cost.cls;
	if (why->gave_back)
		wake_all(g, grant, ALL);
	if (why->result == GRANT_MISCONFIGURED) {
		leaf_count(f, cls, COUNT_MISCONFIGURED, 1);
		event_of_refusal(EVENT_MISCONFIGURED, f, c, &grant->cost);
		return GATE_MISCONFIGURED;
	}
	if (atomic_load_explicit(&f->mount->full_rejects, memory_order_relaxed) && grant->chain &&
	    grant->chain != g->paused && inflight_is_full(grant->chain)) {
		leaf_count(f, cls, COUNT_FULL, 1);
		event_of_refusal(EVENT_FULL, f, c, &grant->cost);
		return GATE_FULL;
	}
	return GATE_WOULD_BLOCK;
}

/* True: jobs of the same lane are parked in the leaf (if keys have limits: under its key), and the
 * request must not overtake them. */
static bool must_queue(const struct grant *grant)
{
	uint32_t waiting = atomic_load_explicit(&grant->leaf->waiting, memory_order_relaxed);
	if (grant->keys)
		waiting |= atomic_load_explicit(&grant->key[0].key->waiting, memory_order_relaxed);
	return waiting & 1U << grant->cost.cls;
}

/* Finds the keys whose limits apply, or the one for which the request is counted, and pins them until the request is
 * settled. */
static void find_keys(struct grant *grant, const struct caller *c, uint64_t *now_ns)
{
	struct leaf *f = grant->leaf;
	bool watched = leaf_is_watched(f);
	if (!(atomic_load_explicit(&f->each, memory_order_relaxed) & 1U << grant->cost.cls) &&
	    !watched)
		return;
	if (!*now_ns)
		*now_ns = clock_now(f->node.gate->clock);
	keys_pin(grant, c, *now_ns);
	if (watched && key_needs_name(grant->key[0].key, *now_ns))
		key_introduce(f, grant->key[0].key, c, grant->cost.cls, *now_ns);
}

/* least 0: everything or nothing. */
static enum gate_verdict ask_limits(struct grant *grant, const struct caller *c, uint64_t least,
				    uint64_t now_ns)
{
	const struct leaf *f = grant->leaf;
	struct refusal why = {.result = GRANT_WOULD_BLOCK};
	if (!must_queue(grant)) {
		if (!now_ns)
			now_ns = clock_now(f->node.gate->clock);
		if (mount_is_dry(f->mount) && grant->chain != f->node.gate->paused)
			return go_dry(c, grant, now_ns);
		why.result = least ? grant_try_partial(grant, least, now_ns, &why)
				   : try_all(grant, now_ns, &why);
	}
	if (why.result != GRANT_OK) {
		enum gate_verdict v = refused(grant, &why, c);
		keys_unpin(grant);
		return v;
	}
	leaf_grant_begin(grant->leaf);
	count_at_once(grant->leaf, &grant->cost);
	return GATE_GO;
}

static enum gate_verdict gate_ask(struct leaf *f, const struct cost *cost, const struct caller *c,
				  struct grant *grant, uint64_t least, uint64_t now_ns)
{
	grant_init(grant, f, cost);
	grant->chain = load_chain(f, cost->cls);
	find_keys(grant, c, &now_ns);
	if (grant->chain || grant->keys)
		return ask_limits(grant, c, least, now_ns);
	leaf_grant_begin(f);
	count_at_once(f, cost);
	return GATE_GO;
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
	grant_init(grant, f, cost);
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
	uint64_t now_ns = 0;
	struct leaf *f = leaf_of(m, caller, cost->cls, &now_ns);
	struct refusal why = {.gave_back = false};
	grant_init(grant, f, cost);
	grant->chain = leaf_limits(f, cost->cls);
	find_keys(grant, caller, &now_ns);
	if (!now_ns)
		now_ns = clock_now(f->node.gate->clock);
	if (mount_is_dry(m) && (grant->chain || grant->keys)) {
		go_dry(caller, grant, now_ns);
		return true;
	}
	bool charged = !must_queue(grant) && try_all(grant, now_ns, &why) == GRANT_OK;
	if (charged) {
		leaf_grant_begin(f);
	} else {
		if (why.gave_back)
			wake_all(f->node.gate, grant, ALL);
		keys_unpin(grant);
		debt_add(m, caller, grant);
	}
	count_at_once(grant->leaf, cost);
	return charged;
}

uint64_t gate_piece_bytes(struct gate_mount *m, enum cost_class cls, const struct caller *caller,
			  uint64_t least)
{
	uint64_t now_ns = 0, piece = UINT64_MAX;
	struct grant look;
	struct leaf *f = leaf_of(m, caller, cls, &now_ns);
	grant_init(&look, f, &(const struct cost){.cls = cls});
	look.chain = leaf_limits(f, cls);
	find_keys(&look, caller, &now_ns);
	for (unsigned i = 0; i <= look.keys; i++)
		piece = min_u64(piece, chain_piece_bytes(limits_at(&look, i), 1));
	keys_unpin(&look);
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
		[OUTCOME_TOO_MANY_OPEN] = COUNT_TOO_MANY_OPEN,
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
	if (grant->keys && leaf_is_watched(f))
		key_did(grant->key[0].key, grant->cost.ops, moved);
	if (grant->waited && moved != charged)
		key_moved_less(grant->key[0].key, charged - moved);
	for (unsigned i = 0; i < grant->keys; i++) {
		if (grant->key[i].chain)
			settle(f, grant->key[i].chain, charged, moved);
		key_unpin(grant->key[i].key);
	}
	if (grant->chain)
		settle(f, grant->chain, charged, moved);
	leaf_grant_end(f);
}

/* --- open handles --- */

const struct scope_way *gate_open_try(struct gate_mount *m, const struct caller *caller)
{
	uint64_t now_ns = 0;
	const struct leaf *f = leaf_of(m, caller, COST_OPENCLOSE, &now_ns);
	const struct scope_way *way = atomic_load_explicit(&f->way, memory_order_acquire);
	for (unsigned i = 0; i < way->n; i++) {
		if (permits_try(&way->node[i]->limiter->open))
			continue;
		while (i--)
			permits_release(&way->node[i]->limiter->open);
		return NULL;
	}
	return way;
}

void gate_open_release(const struct scope_way *way)
{
	for (unsigned i = 0; i < way->n; i++)
		permits_release(&way->node[i]->limiter->open);
}
