/* SPDX-License-Identifier: MIT */
/* What lanes wait for: buckets, permits, the end of a pause. */
#include <stdlib.h>

#include "sched/gate_internal.h"

struct resource *resource_new(struct node *n, unsigned index)
{
	struct gate *g = n->gate;
	if (!heap_reserve(&g->due, g->n_resources + 1))
		return NULL;
	struct resource *r =
		calloc(1, sizeof(*r) + (n->kind == SCOPE_KEY ? 0 : sizeof(r->tags[0])));
	if (!r)
		return NULL;
	g->n_resources++;
	r->node = n;
	r->index = (uint16_t)index;
	if (index < RES_INFLIGHT) {
		r->bucket = n->limiter->bucket[index / BUCKET_ROLES][index % BUCKET_ROLES];
		r->bytes = limit_kind_is_bytes(index / BUCKET_ROLES);
	}
	list_init(&r->waiters);
	return r;
}

/* Newcomers check for waiters before they look at the tokens; waiters announce themselves before
 * they look at the tokens.  So no wake-up is lost. */
void resource_add_waiters(struct resource *r, int by)
{
	if (r->bucket)
		atomic_fetch_add(&r->bucket->waiters, (uint32_t)by);
	else if (r->index == RES_INFLIGHT)
		atomic_fetch_add(&r->node->limiter->inflight.waiters, (uint32_t)by);
}

void resource_set_due(struct resource *r, uint64_t due_ns)
{
	struct heap *h = &r->node->gate->due;
	if (due_ns == NEVER) {
		if (heap_contains(&r->due))
			heap_remove(h, &r->due);
		return;
	}
	r->due.key = due_ns;
	if (heap_contains(&r->due))
		heap_update(h, &r->due);
	else
		heap_push(h, &r->due);
}

void resource_kick(struct resource *r)
{
	if (r && !list_empty(&r->waiters))
		resource_set_due(r, 0);
}

struct hold *resource_hold(struct resource *r, const struct lane *l)
{
	for (unsigned i = 0; i < LANES; i++)
		if (r->held[i].lane == l)
			return &r->held[i];
	return NULL;
}

void resource_drop_held(struct resource *r, const struct lane *l)
{
	struct hold *h = resource_hold(r, l);
	if (!h)
		return;
	if (r->bytes)
		resource_add_waiters(r, -1);
	else
		bucket_refund(r->bucket, h->tokens);
	*h = (struct hold){0};
	resource_kick(r);
}

/* Claims of other lanes do not count: the dates of their turns are not known. */
static bool claims_count(const struct lane *l)
{
	return fq_queued(&l->item) || l->claims;
}

/* How long a lane must wait so that other lanes get what they have claimed.  0: what they claimed
 * stays available, or will be available again by the date of the claim.  Otherwise the time until
 * that date; NEVER if the date has passed: the lane waits until the others have been served. */
static uint64_t claims_wait_ns(const struct resource *r, const struct lane *l, uint64_t tokens,
			       uint64_t at_ns)
{
	const struct bucket *b = r->bucket;
	uint64_t wait_ns = 0;
	for (unsigned i = 0; i < LANES; i++) {
		const struct lane *o = r->held[i].lane;
		uint64_t claim = min_u64(r->held[i].tokens, bucket_capacity(b));
		if (!o || o == l || !claims_count(o))
			continue;
		uint64_t until_ns = o->claim_due_ns > at_ns ? o->claim_due_ns - at_ns : 0;
		int64_t missing =
			(int64_t)(claim + tokens + 1) - bucket_level(b, at_ns); /* 1: rounding */
		if (missing > 0 && (u128)missing * NSEC_PER_SEC > (u128)bucket_rate(b) * until_ns)
			wait_ns = max_u64(wait_ns, until_ns ? until_ns : NEVER);
	}
	return wait_ns;
}

static uint64_t bucket_resource_wait_ns(const struct resource *r, const struct lane *l,
					uint64_t tokens, bool probe, uint64_t at_ns)
{
	if (!r->bytes && resource_held(r, l))
		return 0;
	if (probe && r->vouchers && r->voucher_tokens + tokens > bucket_capacity(r->bucket))
		return NEVER;
	uint64_t wait_ns = bucket_wait_ns(r->bucket, tokens + r->voucher_tokens, at_ns);
	if (wait_ns || !r->bytes || !resource_is_shared(r))
		return wait_ns;
	return claims_wait_ns(r, l, tokens, at_ns);
}

uint64_t resource_wait_ns(const struct resource *r, const struct lane *l,
			  const struct chain_link *link, const struct job *j, uint64_t at_ns)
{
	if (r->bucket)
		return bucket_resource_wait_ns(r, l, chain_tokens(link, &j->cost), j->probe, at_ns);
	if (r->index == RES_PAUSE)
		return NEVER;
	if (job_is_debt(j))
		return 0; /* the request that it pays for had a permit */
	const struct permits *p = &r->node->limiter->inflight;
	return atomic_load(&p->in_flight) < atomic_load(&p->limit) ? 0 : NEVER;
}
