/* SPDX-License-Identifier: MIT */
/* Debts: requests that must not wait are charged afterwards, to the key that made them.
 *
 * A close must not wait, but a program that keeps closing files must not use up the tokens of
 * others either.  So a request that must not wait and finds no tokens proceeds, and its key owes
 * the tokens.  Until they are paid, a job of the gate's own is parked in the key's queue: it gets
 * its turns like a request and takes the tokens, but is never run.  Later requests of the key wait
 * behind it; other keys keep their shares.  A debt is paid in instalments of about a millisecond,
 * so that no instalment delays others by more than that.
 *
 * A key owes at most the operations that its slowest limit grants in DEBT_SECONDS; the rest is
 * forgiven.  A loop of dup and close makes tens of thousands of requests per second, and its key,
 * whose process may have exited by then, would keep paying for days out of a share that others
 * could use.  Bytes are owed in full: only requests that transfer data can owe them.
 *
 * Debts to outer keys (outer.c) are not paid in instalments: the request takes their tokens immediately and leaves their
 * limits in debt, because only requests of the same caller wait for these tokens.  The bound is the same. */
#include "sched/gate_internal.h"

#define DEBT_SECONDS	 10
#define INSTALMENT_NS	 NSEC_PER_MSEC
#define INSTALMENT_BYTES 4096 /* at least */

/* The tokens that a rate yields in INSTALMENT_NS, at least `least`; UINT64_MAX if there is no
 * limit. */
static uint64_t instalment(uint64_t token_ns_32, uint64_t least)
{
	return token_ns_32 ? max_u64((INSTALMENT_NS << 32) / token_ns_32, least) : UINT64_MAX;
}

static void set_instalment(struct account *a)
{
	const struct turn_cost *per = &a->leaf->node.branch->cost[a->cls];
	uint64_t ops = min_u64(a->owed_ops, instalment(per->op_ns, 1));
	uint64_t bytes = instalment(per->byte_ns, INSTALMENT_BYTES);
	a->debt.cost = (struct cost){
		.cls = a->cls,
		.ops = (uint32_t)min_u64(ops, UINT32_MAX),
		.bytes = min_u64(a->owed_bytes, bytes),
	};
}

void debts_resize(struct key *key)
{
	for (struct account *a = key->accounts; a; a = a->next)
		if (a->debt.state == JOB_PARKED)
			set_instalment(a);
}

void debt_paid(struct job *j, uint64_t at_ns)
{
	struct account *a = j->own;
	a->owed_ops -= j->cost.ops;
	a->owed_bytes -= j->cost.bytes;
	if (!a->owed_ops && !a->owed_bytes) {
		j->state = JOB_NEW;
		job_dequeue(j, at_ns);
		return;
	}
	set_instalment(a);
	lane_touch(j->lane, at_ns);
}

/* The most operations that may be owed to these limits. */
static uint64_t most_ops(const struct chain *ch)
{
	uint64_t rate = UINT64_MAX / DEBT_SECONDS;
	for (unsigned i = 0; ch && i < ch->links; i++)
		if (ch->link[i].per_op)
			rate = min_u64(rate, bucket_rate(ch->link[i].bucket));
	return rate * DEBT_SECONDS;
}

/* Takes tokens from the limits of an outer key, which may go into debt. */
static void take_in_advance(const struct chain *ch, const struct cost *c, uint64_t now_ns)
{
	for (unsigned i = 0; ch && i < ch->links; i++) {
		const struct chain_link *l = &ch->link[i];
		int64_t most = (int64_t)min_u64(bucket_rate(l->bucket) * DEBT_SECONDS, INT64_MAX);
		if (l->per_byte || bucket_level(l->bucket, now_ns) > -most)
			bucket_take(l->bucket, chain_tokens(l, c), now_ns);
	}
}

static void owe(struct account *a, const struct chain *ch, const struct chain *own,
		const struct cost *c)
{
	uint64_t most = min_u64(most_ops(ch), most_ops(own));
	if (a->owed_ops < most)
		a->owed_ops = min_u64(add_sat_u64(a->owed_ops, c->ops), most);
	a->owed_bytes = add_sat_u64(a->owed_bytes, c->bytes);
}

static bool any_misconfigured(const struct grant *grant)
{
	bool any = chain_misconfigured(grant->chain, &grant->cost);
	for (unsigned i = 0; i < grant->keys; i++)
		any |= chain_misconfigured(grant->key[i].chain, &grant->cost);
	return any;
}

static void add_locked(struct grant *grant, struct key *key, uint64_t now_ns)
{
	struct leaf *f = grant->leaf;
	const struct cost *c = &grant->cost;
	const struct chain *ch = grant->chain, *own = grant->key[0].chain;
	for (unsigned i = 1; i < grant->keys; i++)
		take_in_advance(grant->key[i].chain, c, now_ns);
	if (!ch && !own)
		return;
	struct account *a = account_get(f, key, c->cls);
	if (!a) { /* out of memory: take the tokens now, at the expense of all keys */
		if (ch)
			chain_take(ch, c, now_ns);
		if (own)
			chain_take(own, c, now_ns);
		return;
	}
	if (ch)
		chain_take_permits(ch);
	owe(a, ch, own, c);
	if (a->debt.state == JOB_PARKED)
		return;
	set_instalment(a);
	(void)job_park(f, key, &a->debt, NULL, now_ns);
}

void debt_add(struct gate_mount *m, const struct caller *c, struct grant *grant)
{
	struct fair_key id;
	struct leaf *f = leaf_of_lock(m, c, grant->cost.cls, &id);
	struct gate *g = f->node.gate;
	uint64_t now_ns = clock_now(g->clock);
	grant->leaf = f;
	leaf_grant_begin(f);
	gate_catch_up_locked(g, now_ns);
	struct key *key = keys_get(f, id, now_ns);
	grant->chain = leaf_limits(f, grant->cost.cls);
	keys_pin_locked(grant, key, c, now_ns);
	if (!any_misconfigured(grant)) {
		add_locked(grant, key, now_ns);
	} else { /* a rate is 0 and the debt could never be paid */
		keys_unpin(grant);
		grant->chain = NULL;
	}
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
}
