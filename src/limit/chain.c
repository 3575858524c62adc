/* SPDX-License-Identifier: MIT */
/* Two ways to a grant.
 *
 * The exact way looks at everything, and then takes narrow to wide, one compare-and-swap per limit;
 * what a rival snatched in between makes it give back what it had and look again.  Where every limit
 * has enough steady tokens, the look is not repeated for the taking (try_plain).
 *
 * The short way is for a chain that was granted the exact way not long ago, with room for more.
 * Then each bucket has lost its overflow and knows a supply that time has reached.  For the next
 * CHAIN_FRESH_NS a request that fits below the known supply needs no arithmetic on time: `used` may
 * move up to it.  That dates the grant back by as much, which can only let overflow live longer; it
 * never grants what was not supplied.  Whatever does not fit goes the exact way. */
#include "limit/chain.h"

#include <stdlib.h>
#include <string.h>

#include "limit/bucket_view.h"

#define NOT_FRESH (UINT64_MAX / 2) /* not for centuries */

const char *grant_result_name(enum grant_result r)
{
	static const char *const names[] = {
		[GRANT_OK] = "ok",
		[GRANT_WOULD_BLOCK] = "would-block",
		[GRANT_TIMED_OUT] = "timed-out",
		[GRANT_CANCELLED] = "cancelled",
		[GRANT_MISCONFIGURED] = "misconfigured",
	};
	return names[r];
}

/* --- compiling --- */

static void add_scope(struct chain *ch, enum cost_class cls, struct limiter *l)
{
	uint32_t kinds = limiter_kinds_for(l, cls);
	for (int k = LIMIT_KINDS - 1; k >= 0; k--) { /* so that iops is reported first */
		if (!(kinds & 1U << k))
			continue;
		bool bytes = limit_kind_is_bytes(k);
		ch->link[ch->links++] = (struct chain_link){
			.bucket = &l->bucket[k],
			.limiter = l,
			.kind = (enum limit_kind)k,
			.per_op = !bytes,
			/* a copy moves its bytes twice, and bps counts both directions */
			.per_byte = !bytes				 ? 0
				    : k == LIMIT_BPS && cls == COST_COPY ? 2
									 : 1,
		};
	}
	if (permits_look(&l->inflight).limit != PERMITS_UNLIMITED)
		ch->permit[ch->permits++] = &l->inflight;
}

struct chain *chain_compile(enum cost_class cls, struct limiter *global, struct limiter *mount,
			    struct limiter *fs, bool *oom)
{
	struct limiter *const narrow_to_wide[SCOPES] = {fs, mount, global};
	struct chain *ch = calloc(1, sizeof(*ch) + CHAIN_LINKS_MAX * sizeof(ch->link[0]));
	if (oom)
		*oom = !ch;
	if (!ch)
		return NULL;
	for (unsigned i = 0; i < SCOPES; i++)
		if (narrow_to_wide[i])
			add_scope(ch, cls, narrow_to_wide[i]);
	if (!ch->links && !ch->permits) {
		free(ch);
		return NULL;
	}
	atomic_init(&ch->fresh_ns, NOT_FRESH);
	return ch;
}

bool chain_equal(const struct chain *a, const struct chain *b)
{
	if (!a || !b)
		return a == b;
	if (a->links != b->links || a->permits != b->permits)
		return false;
	for (unsigned i = 0; i < a->permits; i++)
		if (a->permit[i] != b->permit[i])
			return false;
	for (unsigned i = 0; i < a->links; i++)
		if (a->link[i].bucket != b->link[i].bucket ||
		    a->link[i].per_op != b->link[i].per_op ||
		    a->link[i].per_byte != b->link[i].per_byte)
			return false;
	return true;
}

/* --- looking --- */

static bool link_misconfigured(const struct chain_link *l, uint64_t tokens)
{
	return tokens && bucket_rate(l->bucket) == 0;
}

static bool permit_refuses(const struct permits *p)
{
	return atomic_load(&p->gate) || atomic_load(&p->in_flight) >= atomic_load(&p->limit);
}

static const struct limiter *permit_limiter(const struct permits *p)
{
	return container_of(p, const struct limiter, inflight);
}

/* The scope that is named is the first in the order global, mount, fs; the links are the other way
 * round.  A misconfiguration is named before anything that only needs time. */
static void refuse_link(struct refusal *r, const struct chain_link *l, enum grant_result result)
{
	if (r->result == GRANT_MISCONFIGURED && result != GRANT_MISCONFIGURED)
		return;
	r->result = result;
	r->limiter = l->limiter;
	r->kind = (int)l->kind;
}

/* Needs no second look: open, steady tokens enough, a rate, a horizon that is far. */
ALWAYS_INLINE bool plainly_grants(const struct chain_link *l, uint64_t tokens, uint64_t now_ns,
				  struct bucket_view *v)
{
	return bucket_view_plain(l->bucket, now_ns, v) && bucket_view_level(v) >= (int64_t)tokens &&
	       !atomic_load(&l->bucket->gate);
}

static void look_at_links(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			  struct refusal *r)
{
	bool gated = false;
	for (unsigned i = 0; i < ch->links; i++) {
		const struct chain_link *l = &ch->link[i];
		uint64_t tokens = chain_tokens(l, c);
		struct bucket_view v;
		if (plainly_grants(l, tokens, now_ns, &v))
			continue;
		if (link_misconfigured(l, tokens)) {
			refuse_link(r, l, GRANT_MISCONFIGURED);
			r->wait_ns = NEVER;
			continue;
		}
		uint64_t wait_ns = bucket_wait_ns(l->bucket, tokens, now_ns);
		bool closed = atomic_load(&l->bucket->gate) != 0;
		gated |= closed;
		r->wait_ns = max_u64(r->wait_ns, wait_ns);
		if (wait_ns || closed)
			refuse_link(r, l, GRANT_WOULD_BLOCK);
	}
	if (gated && r->wait_ns == 0)
		r->wait_ns = NEVER; /* the tokens are there, the turn is not */
}

static void look_at_permits(const struct chain *ch, struct refusal *r)
{
	for (unsigned i = 0; i < ch->permits; i++) {
		if (!permit_refuses(ch->permit[i]))
			continue;
		const struct limiter *l = permit_limiter(ch->permit[i]);
		r->wait_ns = NEVER;
		if (r->result == GRANT_MISCONFIGURED ||
		    (r->result != GRANT_OK && r->limiter->scope <= l->scope))
			continue;
		r->result = GRANT_WOULD_BLOCK;
		r->limiter = l;
		r->kind = -1;
	}
}

enum grant_result chain_look(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			     struct refusal *why)
{
	struct refusal r = {.result = GRANT_OK, .kind = -1};
	look_at_links(ch, c, now_ns, &r);
	look_at_permits(ch, &r);
	if (why && r.result != GRANT_OK)
		*why = r;
	return r.result;
}

/* --- taking --- */

enum attempt { TAKEN, REFUSED, RACED }; /* RACED: somebody was faster */

struct taken {
	unsigned permits, links;
	struct bucket_taken bucket[CHAIN_LINKS_MAX];
};

static bool give_back(const struct chain *ch, const struct taken *t)
{
	for (unsigned i = 0; i < t->links; i++)
		bucket_undo(ch->link[i].bucket, &t->bucket[i]);
	for (unsigned i = 0; i < t->permits; i++)
		permits_release(ch->permit[i]);
	return t->links || t->permits;
}

/* What is usual: all limits grant plainly, and nobody moves a bucket between the look and the swap.
 * REFUSED: something else than that; nothing was written.  A function of its own for the sake of
 * its registers. */
static __attribute__((noinline)) enum attempt try_plain(const struct chain *ch,
							const struct cost *c, uint64_t now_ns)
{
	struct {
		uint64_t seen, to, supply;
	} move[CHAIN_LINKS_MAX];
	const struct chain_link *end = ch->link + ch->links, *l;
	const uint64_t ops = c->ops, bytes = c->bytes;
	bool again = true; /* the same request could go once more: the short way is worth trying */
	unsigned i = 0;
	for (l = ch->link; l < end; l++, i++) {
		uint64_t tokens = l->per_byte ? bytes * l->per_byte : ops;
		struct bucket_view v;
		if (UNLIKELY(!plainly_grants(l, tokens, now_ns, &v)))
			return REFUSED;
		again &= bucket_view_level(&v) >= 2 * (int64_t)tokens;
		move[i].seen = v.seen;
		move[i].to = v.from + tokens;
		move[i].supply = v.supply;
	}
	for (l = ch->link, i = 0; l < end; l++, i++) {
		if (again) /* before the swap: a refund after it must have the last word */
			atomic_store_explicit(&l->bucket->known, move[i].supply,
					      memory_order_relaxed);
		if (UNLIKELY(!atomic_compare_exchange_strong(&l->bucket->used, &move[i].seen,
							     move[i].to)))
			goto raced;
	}
	if (again) {
		struct chain *hint = (struct chain *)ch; /* not part of what is promised */
		atomic_store_explicit(&hint->fresh_ns, now_ns, memory_order_release);
	}
	return TAKEN;
raced:
	while (l-- > ch->link)
		bucket_refund(l->bucket, chain_tokens(l, c));
	bucket_step_back();
	return RACED;
}

/* One bucket after the other, each in its own way: one-time burst, oversize, rivals. */
static bool take_all(const struct chain *ch, const struct cost *c, uint64_t now_ns, struct taken *t)
{
	for (t->links = t->permits = 0; t->permits < ch->permits; t->permits++)
		if (!permits_try(ch->permit[t->permits]))
			return false;
	for (; t->links < ch->links; t->links++) {
		const struct chain_link *l = &ch->link[t->links];
		if (!bucket_try_taken(l->bucket, chain_tokens(l, c), now_ns, &t->bucket[t->links]))
			return false;
	}
	return true;
}

static enum grant_result try_exact(const struct chain *ch, const struct cost *c, uint64_t now_ns,
				   struct refusal *why, bool gave_back)
{
	enum attempt plain = ch->permits ? REFUSED : try_plain(ch, c, now_ns);
	if (plain == TAKEN)
		return GRANT_OK;
	gave_back |= plain == RACED;
	for (;;) {
		enum grant_result r = chain_look(ch, c, now_ns, why);
		if (r != GRANT_OK) {
			if (why)
				why->gave_back = gave_back;
			return r;
		}
		struct taken t;
		if (take_all(ch, c, now_ns, &t))
			return GRANT_OK;
		gave_back |= give_back(ch, &t);
	}
}

/* The short way did not go through; forget the hint, or every refusal would come along here. */
static __attribute__((noinline)) enum grant_result leave_short(const struct chain *ch,
							       const struct cost *c,
							       uint64_t now_ns, struct refusal *why,
							       const struct chain_link *end)
{
	struct chain *hint = (struct chain *)ch;
	atomic_store_explicit(&hint->fresh_ns, NOT_FRESH, memory_order_relaxed);
	for (const struct chain_link *l = ch->link; l < end; l++)
		bucket_refund(l->bucket, chain_tokens(l, c));
	return try_exact(ch, c, now_ns, why, end > ch->link);
}

ALWAYS_INLINE enum attempt short_link(const struct chain_link *l, uint64_t ops, uint64_t bytes)
{
	struct bucket *b = l->bucket;
	uint64_t used = atomic_load(&b->used);
	uint64_t to = used + (l->per_byte ? bytes * l->per_byte : ops);
	uint64_t known = atomic_load_explicit(&b->known, memory_order_relaxed);
	if (UNLIKELY((int64_t)(known - to) < 0 || atomic_load(&b->gate)))
		return REFUSED;
	return LIKELY(atomic_compare_exchange_strong(&b->used, &used, to)) ? TAKEN : RACED;
}

/* Goes on from `l`, where somebody was faster. */
static __attribute__((noinline)) enum grant_result short_again(const struct chain *ch,
							       const struct cost *c,
							       uint64_t now_ns, struct refusal *why,
							       const struct chain_link *l)
{
	const struct chain_link *end = ch->link + ch->links;
	while (l < end) {
		enum attempt r = short_link(l, c->ops, c->bytes);
		if (r == REFUSED)
			return leave_short(ch, c, now_ns, why, l);
		if (r == TAKEN)
			l++;
		else
			bucket_step_back();
	}
	return GRANT_OK;
}

/* What is not short leaves by a last call, which keeps this a leaf that saves no registers.
 * Permits are not for the short way: they are bound to wait for something else, anyhow. */
HOT enum grant_result chain_try(const struct chain *ch, const struct cost *c, uint64_t now_ns,
				struct refusal *why)
{
	uint64_t fresh_ns = atomic_load_explicit(&ch->fresh_ns, memory_order_acquire);
	if (UNLIKELY(now_ns - fresh_ns >= CHAIN_FRESH_NS)) /* a clock that went back, too */
		return try_exact(ch, c, now_ns, why, false);
	const struct chain_link *l = ch->link, *end = l + ch->links;
	const uint64_t ops = c->ops, bytes = c->bytes;
	do {
		enum attempt r = short_link(l, ops, bytes);
		if (UNLIKELY(r == REFUSED))
			return leave_short(ch, c, now_ns, why, l);
		if (UNLIKELY(r == RACED))
			return short_again(ch, c, now_ns, why, l);
	} while (++l < end);
	return GRANT_OK;
}

/* What the buckets hold for bytes now, and the least that is worth granting. */
static void look_at_bytes(const struct chain *ch, uint64_t now_ns, uint64_t *most, uint64_t *least)
{
	for (unsigned i = 0; i < ch->links; i++) {
		const struct chain_link *l = &ch->link[i];
		if (!l->per_byte)
			continue;
		int64_t level = bucket_level(l->bucket, now_ns);
		uint64_t there = level > 0 ? (uint64_t)level / l->per_byte : 0;
		*most = min_u64(*most, there);
		*least = min_u64(*least, bucket_capacity(l->bucket) / l->per_byte);
	}
}

enum grant_result chain_try_partial(const struct chain *ch, struct cost *c, uint64_t floor_bytes,
				    uint64_t now_ns, struct refusal *why)
{
	uint64_t most = c->bytes, least = min_u64(c->bytes, floor_bytes);
	look_at_bytes(ch, now_ns, &most, &least);
	if (least == 0)
		least = min_u64(c->bytes, 1); /* asked for something: nothing is no answer */
	struct cost part = {c->cls, c->ops, max_u64(most, least)};
	enum grant_result r = chain_try(ch, &part, now_ns, why);
	if (r == GRANT_WOULD_BLOCK && part.bytes > least) { /* a rival was faster */
		part.bytes = least;
		r = chain_try(ch, &part, now_ns, why);
	}
	if (r == GRANT_OK)
		c->bytes = part.bytes;
	return r;
}

bool chain_may_take(const struct chain *ch, const struct cost *c, uint64_t now_ns, uint64_t most_ns)
{
	for (unsigned i = 0; i < ch->links; i++) {
		const struct chain_link *l = &ch->link[i];
		if (atomic_load(&l->bucket->gate) ||
		    bucket_wait_ns(l->bucket, chain_tokens(l, c), now_ns) > most_ns)
			return false;
	}
	return true;
}

uint64_t chain_take(const struct chain *ch, const struct cost *c, uint64_t now_ns)
{
	uint64_t wait_ns = 0;
	for (unsigned i = 0; i < ch->permits; i++) {
		if (permit_refuses(ch->permit[i]))
			wait_ns = 1;
		permits_take(ch->permit[i]);
	}
	for (unsigned i = 0; i < ch->links; i++) {
		const struct chain_link *l = &ch->link[i];
		uint64_t tokens = chain_tokens(l, c);
		uint64_t here_ns = link_misconfigured(l, tokens)
					   ? NEVER
					   : bucket_wait_ns(l->bucket, tokens, now_ns);
		wait_ns = max_u64(wait_ns, here_ns);
		bucket_take(l->bucket, tokens, now_ns);
	}
	return wait_ns;
}

/* --- settling --- */

void chain_refund(const struct chain *ch, const struct cost *c)
{
	for (unsigned i = 0; i < ch->links; i++)
		bucket_refund(ch->link[i].bucket, chain_tokens(&ch->link[i], c));
	chain_release(ch);
}

void chain_refund_bytes(const struct chain *ch, uint64_t bytes)
{
	for (unsigned i = 0; bytes && i < ch->links; i++)
		if (ch->link[i].per_byte)
			bucket_refund(ch->link[i].bucket, bytes * ch->link[i].per_byte);
}

void chain_charge_bytes(const struct chain *ch, uint64_t bytes, uint64_t now_ns)
{
	for (unsigned i = 0; bytes && i < ch->links; i++)
		if (ch->link[i].per_byte)
			bucket_take(ch->link[i].bucket, bytes * ch->link[i].per_byte, now_ns);
}

void chain_release(const struct chain *ch)
{
	for (unsigned i = 0; i < ch->permits; i++)
		permits_release(ch->permit[i]);
}

uint64_t chain_piece_bytes(const struct chain *ch, uint64_t least)
{
	uint64_t piece = UINT64_MAX;
	for (unsigned i = 0; ch && i < ch->links; i++)
		if (ch->link[i].per_byte)
			piece = min_u64(piece,
					bucket_capacity(ch->link[i].bucket) / ch->link[i].per_byte);
	return max_u64(piece, least);
}
