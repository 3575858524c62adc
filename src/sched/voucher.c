/* SPDX-License-Identifier: MIT */
/* Fair turns for callers that do not wait: probes, places and vouchers.
 *
 * A probe (poll) takes its turn like a transfer but is not charged: the transfer follows later, as a
 * non-blocking one, which may not overtake waiting requests.  A non-blocking transfer that is refused
 * leaves its place, a probe of the gate's own, in its key's queue, so that a program that retries in a
 * loop gets the same share as one that polls.
 * While others wait, the transfer after such a turn would always be refused.  So a probe that has its
 * turn while others wait leaves its key a voucher: for a moment the tokens that it found are reserved,
 * and the next non-blocking transfer of that key and class may take them and bypass the queue.  A
 * voucher is used once, or expires.
 * The vouchers for a bucket never reserve more than its capacity, so that many probes together keep
 * to its rate. */
#include "sched/gate_internal.h"

#define VOUCHER_NS (20 * NSEC_PER_MSEC)

/* The limits that a voucher is for, from the leaf to the root; none in a dry run. */
static const struct chain *voucher_limits(const struct leaf *f, enum cost_class cls)
{
	return mount_is_dry(f->mount) ? NULL : leaf_limits(f, cls);
}

static bool chain_contested(const struct chain *ch)
{
	for (unsigned i = 0; ch && i < ch->links + ch->permits; i++)
		if (!list_empty(&link_resource(&ch->link[i])->waiters))
			return true;
	return false;
}

/* The limits of outer key i of a probe. */
static const struct chain *outer_limits(const struct job *j, unsigned i)
{
	return j->grant.key[i + 1].key->node.own[j->cost.cls];
}

static bool contested(const struct job *j, unsigned outer_keys, const struct key *key)
{
	const struct leaf *f = j->leaf;
	enum cost_class cls = j->cost.cls;
	for (unsigned i = 0; i < outer_keys; i++)
		if (chain_contested(outer_limits(j, i)))
			return true;
	uint32_t waiting = atomic_load_explicit(&f->waiting, memory_order_relaxed) |
			   atomic_load_explicit(&key->waiting, memory_order_relaxed);
	return waiting & 1U << cls || chain_contested(voucher_limits(f, cls)) ||
	       chain_contested(key->node.own[cls]);
}

static void earmark_in(const struct chain *ch, const struct cost *c, int vouchers)
{
	for (unsigned i = 0; ch && i < ch->links; i++) {
		struct resource *r = link_resource(&ch->link[i]);
		uint64_t tokens = chain_tokens(&ch->link[i], c);
		r->voucher_tokens += vouchers > 0 ? tokens : -tokens;
		r->vouchers += (unsigned)vouchers;
		resource_add_waiters(r, vouchers);
		if (vouchers < 0)
			resource_kick(r);
	}
}

/* Adds to (or subtracts from) what all limits on the way, and those of outer keys, reserve for
 * vouchers.  The key's own limits need not reserve anything: only its own requests use them. */
static void earmark(const struct account *a, const struct cost *c, int vouchers)
{
	earmark_in(voucher_limits(a->leaf, a->cls), c, vouchers);
	for (unsigned i = 0; i < a->outer_keys; i++)
		earmark_in(a->outer[i]->node.own[a->cls], c, vouchers);
}

/* --- vouchers --- */

/* All vouchers of an account are for the same outer keys. */
static void set_outer(struct account *a, const struct job *j, unsigned outer_keys)
{
	bool same = outer_keys == a->outer_keys;
	for (unsigned i = 0; i < outer_keys && same; i++)
		same = a->outer[i] == j->grant.key[i + 1].key;
	if (a->vouchers && !same)
		voucher_expire(a);
	if (a->vouchers)
		return;
	a->outer_keys = outer_keys;
	for (unsigned i = 0; i < outer_keys; i++) {
		a->outer[i] = j->grant.key[i + 1].key;
		key_pin(a->outer[i]);
	}
}

void voucher_issue(struct key *key, const struct job *j, unsigned outer_keys, uint64_t at_ns)
{
	struct gate *g = key->node.gate;
	const struct cost *c = &j->cost;
	if (!contested(j, outer_keys, key))
		return;
	struct account *a = account_get(j->leaf, key, c->cls);
	if (!a)
		return;
	set_outer(a, j, outer_keys);
	earmark(a, c, 1);
	a->vouchers++;
	a->found.cls = c->cls;
	a->found.ops += c->ops;
	a->found.bytes += c->bytes;
	a->expiry.key = at_ns + VOUCHER_NS;
	if (heap_contains(&a->expiry))
		heap_update(&g->vouchers, &a->expiry);
	else
		heap_push(&g->vouchers, &a->expiry);
}

static void give_up(struct account *a, struct cost c, unsigned n)
{
	earmark(a, &c, -(int)n);
	a->vouchers -= n;
	a->found.ops -= c.ops;
	a->found.bytes -= c.bytes;
	if (a->vouchers)
		return;
	heap_remove(&a->key->node.gate->vouchers, &a->expiry);
	while (a->outer_keys)
		key_unpin(a->outer[--a->outer_keys]);
}

void voucher_expire(struct account *a)
{
	give_up(a, a->found, a->vouchers);
}

static void key_lift(struct key *key, void *arg)
{
	for (struct account *a = key->accounts; a; a = a->next)
		if (a->vouchers)
			earmark(a, &a->found, -(int)a->vouchers);
}

static void key_lay(struct key *key, void *arg)
{
	for (struct account *a = key->accounts; a; a = a->next)
		if (a->vouchers)
			earmark(a, &a->found, (int)a->vouchers);
}

void vouchers_lift(struct leaf *f)
{
	keys_each(&f->keys, key_lift, NULL);
}

void vouchers_lay(struct leaf *f)
{
	keys_each(&f->keys, key_lay, NULL);
}

/* Bypasses the queue, so it cannot use chain_try, which refuses while other requests wait. */
static bool take_past_queue(const struct chain *ch, const struct cost *c, uint64_t now_ns)
{
	for (unsigned i = 0; ch && i < ch->links + ch->permits; i++) {
		const struct chain_link *l = &ch->link[i];
		if (l->bucket ? bucket_try(l->bucket, chain_tokens(l, c), now_ns)
			      : permits_try(&l->limiter->inflight))
			continue;
		while (i--) {
			l = &ch->link[i];
			if (l->bucket)
				bucket_refund(l->bucket, chain_tokens(l, c));
			else
				permits_release(&l->limiter->inflight);
		}
		return false;
	}
	return true;
}

static bool take_all_past_queue(const struct grant *grant, const struct cost *c, uint64_t now_ns)
{
	for (unsigned i = 0; i <= grant->keys; i++) {
		if (take_past_queue(i < grant->keys ? grant->key[i].chain : grant->chain, c,
				    now_ns))
			continue;
		while (i-- > 0)
			if (grant->key[i].chain)
				chain_refund(grant->key[i].chain, c);
		return false;
	}
	return true;
}

/* The grant names the limits that apply. */
static bool voucher_use(struct account *a, struct grant *grant, uint64_t now_ns)
{
	const struct leaf *f = a->leaf;
	if (!a->vouchers ||
	    atomic_load_explicit(&f->chain[a->cls], memory_order_relaxed) == f->node.gate->paused)
		return false;
	struct cost one = {a->cls, a->found.ops / a->vouchers, a->found.bytes / a->vouchers};
	give_up(a, one, 1);
	struct cost c = {one.cls, grant->cost.ops,
			 min_u64(grant->cost.bytes, max_u64(one.bytes, 1))};
	if (!take_all_past_queue(grant, &c, now_ns))
		return false;
	grant->cost = c;
	return true;
}

/* --- probes and places --- */

void probe_parked(struct key *key, struct job *j, uint64_t now_ns)
{
	struct account *a = account_get(j->leaf, key, j->cost.cls);
	if (!a)
		return;
	a->probe = j;
	if (a->place.state == JOB_PARKED) { /* one turn is enough for one transfer */
		a->place.state = JOB_NEW;
		job_dequeue(&a->place, now_ns);
	}
}

void probe_left(const struct key *key, const struct job *j)
{
	struct account *a = account_find(key, j->cost.cls);
	if (a && a->probe == j)
		a->probe = NULL;
}

/* Parks the place of a refused transfer.  True: the place has had its turn immediately. */
static bool leave_place(struct account *a, const struct caller *caller, const struct cost *c,
			uint64_t least, uint64_t now_ns)
{
	struct gate *g = a->key->node.gate;
	if (a->probe || a->place.state == JOB_PARKED)
		return false;
	a->place.cost = *c;
	a->place.cost.bytes = min_u64(c->bytes, least);
	(void)job_park(a->leaf, a->key, &a->place, caller, now_ns);
	gate_dispatch_locked(g, now_ns, now_ns);
	return a->place.state != JOB_PARKED;
}

static bool take_uncontested(struct grant *grant, uint64_t least, uint64_t now_ns)
{
	struct refusal why = {.wait_ns = 0};
	return (grant->chain || keys_limited(grant)) &&
	       grant_try_partial(grant, least, now_ns, &why) == GRANT_OK;
}

static bool turn_take_locked(struct grant *grant, const struct caller *c, struct fair_key id,
			     uint64_t least, uint64_t now_ns)
{
	struct leaf *f = grant->leaf;
	enum cost_class cls = grant->cost.cls;
	if (!leaf_limits_class(f, cls))
		return true; /* the limits were removed */
	if (chain_misconfigured(leaf_limits(f, cls), &grant->cost))
		return false;
	gate_catch_up_locked(f->node.gate, now_ns);
	struct account *a = account_get(f, keys_get(f, id, now_ns), cls);
	if (!a)
		return false;
	grant->chain = voucher_limits(f, cls);
	keys_pin_locked(grant, a->key, c, now_ns);
	if (voucher_use(a, grant, now_ns) ||
	    (leave_place(a, c, &grant->cost, least, now_ns) &&
	     (voucher_use(a, grant, now_ns) || take_uncontested(grant, least, now_ns))))
		return true;
	keys_unpin(grant);
	return false;
}

bool turn_take(struct gate_mount *m, const struct caller *c, uint64_t least, struct grant *grant)
{
	struct fair_key id;
	struct leaf *f = leaf_of_lock(m, c, grant->cost.cls, &id);
	struct gate *g = f->node.gate;
	uint64_t now_ns = clock_now(g->clock);
	grant->leaf = f;
	bool go = turn_take_locked(grant, c, id, least, now_ns);
	if (go)
		leaf_grant_begin(f);
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
	return go;
}
