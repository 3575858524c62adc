/* SPDX-License-Identifier: MIT */
/* The gate's doors: what a request meets when it need not wait, and the way out. */
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

static const struct chain *load_chain(const struct gate_mount *m, enum cost_class cls)
{
	return atomic_load_explicit(&m->chain[cls], memory_order_acquire);
}

bool gate_unlimited(const struct gate_mount *m, enum cost_class cls)
{
	return load_chain(m, cls) == NULL;
}

static void count_at_once(struct gate_mount *m, const struct cost *c)
{
	mount_count(m, c->cls, COUNT_OPS, c->ops);
	mount_count(m, c->cls, COUNT_BYTES, c->bytes);
	mount_count(m, c->cls, COUNT_AT_ONCE, 1);
}

/* --- waking --- */

enum given_back { PERMITS_ONLY, BYTES, ALL };

/* True when somebody waits for what this chain gives back.  Comes after the giving back; waiters
 * set the gate and then look again. */
static bool anybody_waits(const struct chain *ch, enum given_back what)
{
	for (unsigned i = 0; i < ch->permits; i++)
		if (atomic_load(&ch->permit[i]->gate))
			return true;
	for (unsigned i = 0; what != PERMITS_ONLY && i < ch->links; i++)
		if ((what == ALL || ch->link[i].per_byte) && atomic_load(&ch->link[i].bucket->gate))
			return true;
	return false;
}

static struct scope *limiter_scope(struct limiter *l)
{
	return container_of(l, struct scope, limiter);
}

static void wake_waiters(struct gate *g, const struct chain *ch, enum given_back what)
{
	if (!anybody_waits(ch, what))
		return;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	for (unsigned i = 0; i < ch->links; i++)
		resource_kick(&limiter_scope(ch->link[i].limiter)->res[ch->link[i].kind]);
	for (unsigned i = 0; i < ch->permits; i++) {
		struct limiter *l = container_of(ch->permit[i], struct limiter, inflight);
		resource_kick(&limiter_scope(l)->res[RES_INFLIGHT]);
	}
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
}

/* --- going at once --- */

static bool inflight_full(const struct chain *ch)
{
	for (unsigned i = 0; i < ch->permits; i++)
		if (permits_look(ch->permit[i]).available == 0)
			return true;
	return false;
}

/* A dry run waits for nothing; what would have waited is recorded and takes what is left, so that
 * the next one sees an empty bucket, but leaves no debt: that would have to be paid by others, and
 * by all once the run is real. */
static enum gate_verdict go_dry(struct gate_mount *m, struct grant *grant, uint64_t now_ns)
{
	const struct cost *c = &grant->cost;
	struct gate *g = m->scope.gate;
	const struct chain *ch = atomic_load_explicit(&m->limits[c->cls], memory_order_acquire);
	struct refusal why = {.wait_ns = 0};
	bool at_once = !ch || chain_try(ch, c, now_ns, &why) == GRANT_OK;
	grant->chain = at_once ? ch : NULL;
	mount_count(m, c->cls, COUNT_OPS, c->ops);
	mount_count(m, c->cls, COUNT_BYTES, c->bytes);
	mount_count(m, c->cls, at_once ? COUNT_AT_ONCE : COUNT_PARKED, 1);
	if (at_once)
		return GATE_GO;
	struct cost rest = *c;
	if (chain_try_partial(ch, &rest, 1, now_ns, NULL) == GRANT_OK)
		chain_release(ch);
	wake_waiters(g, ch, ALL); /* something may have been held for a moment */
	gate_lock(g);
	/* a permit comes back when it likes: counted, for the least time that there is */
	mount_waited(m, c->cls, why.wait_ns == NEVER ? 1 : why.wait_ns);
	gate_unlock_deliver(g);
	return GATE_GO;
}

static enum gate_verdict refused(struct gate_mount *m, const struct chain *ch,
				 const struct refusal *why, enum cost_class cls)
{
	if (why->gave_back)
		wake_waiters(m->scope.gate, ch, ALL);
	if (why->result == GRANT_MISCONFIGURED) {
		mount_count(m, cls, COUNT_MISCONFIGURED, 1);
		return GATE_MISCONFIGURED;
	}
	if (atomic_load_explicit(&m->full_rejects, memory_order_relaxed) &&
	    ch != m->scope.gate->paused && inflight_full(ch)) {
		mount_count(m, cls, COUNT_FULL, 1);
		return GATE_FULL;
	}
	return GATE_WOULD_BLOCK;
}

enum admission { WHOLE, PARTIAL };

static enum gate_verdict try_chain(struct gate_mount *m, const struct chain *ch,
				   struct grant *grant, enum admission how)
{
	struct refusal why = {.result = GRANT_WOULD_BLOCK};
	uint32_t bit = 1U << grant->cost.cls;
	if (!(atomic_load_explicit(&m->waiting, memory_order_relaxed) & bit)) {
		uint64_t now_ns = clock_now(m->scope.gate->clock);
		if (atomic_load_explicit(&m->dry_run, memory_order_relaxed) &&
		    ch != m->scope.gate->paused)
			return go_dry(m, grant, now_ns);
		why.result = how == WHOLE ? chain_try(ch, &grant->cost, now_ns, &why)
					  : chain_try_partial(ch, &grant->cost, 4096, now_ns, &why);
	}
	if (why.result != GRANT_OK)
		return refused(m, ch, &why, grant->cost.cls);
	grant->chain = ch;
	count_at_once(m, &grant->cost);
	return GATE_GO;
}

static enum gate_verdict gate_ask(struct gate_mount *m, const struct cost *cost,
				  struct grant *grant, enum admission how)
{
	const struct chain *ch = load_chain(m, cost->cls);
	*grant = (struct grant){.cost = *cost};
	if (ch)
		return try_chain(m, ch, grant, how);
	count_at_once(m, cost);
	return GATE_GO;
}

enum gate_verdict gate_try(struct gate_mount *m, const struct cost *cost, struct grant *grant)
{
	return gate_ask(m, cost, grant, WHOLE);
}

enum gate_verdict gate_try_partial(struct gate_mount *m, const struct cost *cost,
				   struct grant *grant)
{
	enum gate_verdict v = gate_ask(m, cost, grant, PARTIAL);
	uint32_t vouchers = atomic_load_explicit(&m->vouchers, memory_order_relaxed);
	if (v == GATE_WOULD_BLOCK && (vouchers & 1U << cost->cls) && voucher_use(m, grant)) {
		count_at_once(m, &grant->cost);
		return GATE_GO;
	}
	if (v == GATE_WOULD_BLOCK)
		mount_count(m, cost->cls, COUNT_WOULD_BLOCK, 1);
	return v;
}

void gate_take(struct gate_mount *m, const struct cost *cost, struct grant *grant)
{
	const struct chain *ch = atomic_load_explicit(&m->limits[cost->cls], memory_order_acquire);
	*grant = (struct grant){.chain = ch, .cost = *cost};
	if (ch && atomic_load_explicit(&m->dry_run, memory_order_relaxed)) {
		go_dry(m, grant, clock_now(m->scope.gate->clock));
		return;
	}
	if (ch) {
		uint64_t now_ns = clock_now(m->scope.gate->clock);
		if (chain_may_take(ch, cost, now_ns, GATE_DEBT_NS))
			chain_take(ch, cost, now_ns);
		else
			grant->chain = NULL;
	}
	count_at_once(m, cost);
}

uint64_t gate_piece_bytes(const struct gate_mount *m, enum cost_class cls, uint64_t least)
{
	const struct chain *ch = atomic_load_explicit(&m->limits[cls], memory_order_acquire);
	return chain_piece_bytes(ch, least);
}

/* --- the way out --- */

void gate_done(struct gate_mount *m, const struct grant *grant, enum gate_outcome outcome,
	       uint64_t bytes_moved)
{
	const struct chain *ch = grant->chain;
	enum cost_class cls = grant->cost.cls;
	uint64_t charged = grant->cost.bytes, moved = outcome == OUTCOME_OK ? bytes_moved : 0;
	if (grant->probe)
		return;
	if (moved != charged)
		mount_count(m, cls, COUNT_BYTES, moved - charged);
	mount_count(m, cls,
		    outcome == OUTCOME_OK	? COUNT_OK
		    : outcome == OUTCOME_FAILED ? COUNT_FAILED
						: COUNT_ABORTED,
		    1);
	if (!ch)
		return;
	if (moved > charged) /* a directory listing: known only now */
		chain_charge_bytes(ch, moved - charged, clock_now(m->scope.gate->clock));
	else
		chain_refund_bytes(ch, charged - moved);
	chain_release(ch);
	if (moved < charged || ch->permits)
		wake_waiters(m->scope.gate, ch, moved < charged ? BYTES : PERMITS_ONLY);
}

/* --- open handles --- */

bool gate_open_try(struct gate_mount *m)
{
	for (struct scope *s = &m->scope; s; s = s->parent) {
		if (permits_try(&s->limiter.open))
			continue;
		for (struct scope *u = &m->scope; u != s; u = u->parent)
			permits_release(&u->limiter.open);
		return false;
	}
	return true;
}

void gate_open_release(struct gate_mount *m)
{
	for (struct scope *s = &m->scope; s; s = s->parent)
		permits_release(&s->limiter.open);
}
