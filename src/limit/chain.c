/* SPDX-License-Identifier: MIT */
/* A grant takes two steps.  The first only reads: if any limit refuses, nothing has been written, so a
 * storm of refusals leaves the shared cache lines alone.  The second takes from narrow to wide, one
 * compare-and-swap per limit.  If another thread takes the last tokens between the two steps, what was
 * taken is given back and both steps are repeated.
 *
 * There is one fast path, try_plainly.  With six limits it takes about 32 ns of the 11 us of a
 * request, and 50 ns more or less change the time of a request by 0.6 % (bench_before.sh), so
 * further special cases would not pay. */
#include "limit/chain.h"

#include <stdlib.h>
#include <string.h>

#include "limit/bucket_view.h"

/* --- compiling --- */

static struct chain_link bucket_link(enum cost_class cls, struct limiter *l, unsigned kind,
				     enum bucket_role role, unsigned rank)
{
	bool bytes = limit_kind_is_bytes(kind);
	return (struct chain_link){
		.bucket = l->bucket[kind][role],
		.limiter = l,
		.kind = (uint8_t)kind,
		.role = (uint8_t)role,
		.per_op = !bytes,
		/* a copy moves its bytes twice, and bps counts both directions */
		.per_byte = !bytes				    ? 0
			    : kind == LIMIT_BPS && cls == COST_COPY ? 2
								    : 1,
		.rank = (uint8_t)rank,
	};
}

/* Adds the buckets of one scope, the last kind of limit first: a refusal names the last link that
 * refuses, so if several limits of the scope do, it names iops. */
static unsigned add_buckets(struct chain_link *link, enum cost_class cls, struct limiter *l,
			    unsigned rank)
{
	uint32_t kinds = limiter_kinds_for(l, cls), pooled = limiter_pool_kinds_for(l, cls);
	unsigned n = 0;
	for (int k = LIMIT_KINDS - 1; k >= 0; k--) {
		if (kinds & 1U << k && l->config.limit[k].peak_per_sec)
			link[n++] = bucket_link(cls, l, (unsigned)k, BUCKET_PEAK, rank);
		if (kinds & 1U << k)
			link[n++] = bucket_link(cls, l, (unsigned)k, BUCKET_STEADY, rank);
		if (pooled & 1U << k)
			link[n++] = bucket_link(cls, l, (unsigned)k, BUCKET_POOL, rank);
	}
	return n;
}

struct chain *chain_compile(enum cost_class cls, struct limiter *const narrow_to_wide[], unsigned n,
			    bool *oom)
{
	struct chain_link link[CHAIN_LINKS_MAX + CHAIN_SCOPES_MAX];
	unsigned links = 0, permits = 0;
	for (unsigned i = 0; i < n; i++)
		if (narrow_to_wide[i])
			links += add_buckets(&link[links], cls, narrow_to_wide[i], i);
	for (unsigned i = 0; i < n; i++)
		if (narrow_to_wide[i] && narrow_to_wide[i]->config.max_inflight)
			link[links + permits++] = (struct chain_link){.limiter = narrow_to_wide[i],
								      .rank = (uint8_t)i};
	size_t size = (links + permits) * sizeof(link[0]);
	struct chain *ch = size ? malloc(sizeof(*ch) + size) : NULL;
	if (oom)
		*oom = size && !ch;
	if (!ch)
		return NULL;
	ch->links = links;
	ch->permits = permits;
	memcpy(ch->link, link, size);
	return ch;
}

bool chain_equal(const struct chain *a, const struct chain *b)
{
	if (!a || !b)
		return a == b;
	if (a->links != b->links || a->permits != b->permits)
		return false;
	for (unsigned i = 0; i < a->links + a->permits; i++)
		if (a->link[i].bucket != b->link[i].bucket ||
		    a->link[i].limiter != b->link[i].limiter ||
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
	return atomic_load(&p->waiters) || atomic_load(&p->in_flight) >= atomic_load(&p->limit);
}

/* Links go from narrow to wide, so the last one to refuse is the widest.  A misconfigured limit takes
 * precedence over those that only need time. */
static void refuse_link(struct refusal *r, const struct chain_link *l, enum grant_result result)
{
	if (r->result == GRANT_MISCONFIGURED && result != GRANT_MISCONFIGURED)
		return;
	r->result = result;
	r->limiter = l->limiter;
	r->rank = l->rank;
	r->kind = l->bucket ? (int)l->kind : -1;
	r->role = l->role;
}

/* The common case: no waiters, enough steady tokens, before the horizon. */
ALWAYS_INLINE bool plainly_grants(const struct chain_link *l, uint64_t tokens, uint64_t now_ns,
				  struct bucket_view *v)
{
	return bucket_view_plain(l->bucket, now_ns, v) && bucket_view_level(v) >= (int64_t)tokens &&
	       !atomic_load(&l->bucket->waiters);
}

static void look_at_links(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			  struct refusal *r)
{
	bool others_wait = false;
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
		bool contested = atomic_load(&l->bucket->waiters) != 0;
		others_wait |= contested;
		r->wait_ns = max_u64(r->wait_ns, wait_ns);
		if (wait_ns || contested)
			refuse_link(r, l, GRANT_WOULD_BLOCK);
	}
	if (others_wait && r->wait_ns == 0)
		r->wait_ns = NEVER; /* the buckets hold enough tokens, but others wait for them */
}

static void look_at_permits(const struct chain *ch, struct refusal *r)
{
	for (unsigned i = 0; i < ch->permits; i++) {
		const struct chain_link *l = &ch->link[ch->links + i];
		if (!permit_refuses(&l->limiter->inflight))
			continue;
		r->wait_ns = NEVER;
		if (r->result == GRANT_OK || r->rank < l->rank)
			refuse_link(r, l, GRANT_WOULD_BLOCK);
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

struct taken {
	unsigned permits, links;
	struct bucket_taken bucket[CHAIN_LINKS_MAX];
};

static bool undo(const struct chain *ch, const struct taken *t)
{
	for (unsigned i = 0; i < t->links; i++)
		bucket_undo(ch->link[i].bucket, &t->bucket[i]);
	for (unsigned i = 0; i < t->permits; i++)
		permits_release(chain_permit(ch, i));
	return t->links || t->permits;
}

static bool take_from_all(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			  struct taken *t)
{
	for (t->links = t->permits = 0; t->permits < ch->permits; t->permits++)
		if (!permits_try(chain_permit(ch, t->permits)))
			return false;
	for (; t->links < ch->links; t->links++) {
		const struct chain_link *l = &ch->link[t->links];
		if (!bucket_try_taken(l->bucket, chain_tokens(l, c), now_ns, &t->bucket[t->links]))
			return false;
	}
	return true;
}

/* The common case of both steps: the second step starts from the values that the first has read, so
 * that every bucket is read once.  True: granted.  *gave_back: tokens were taken and returned,
 * because another thread was faster at a later bucket. */
#define PLAIN_LINKS 8
static bool try_plainly(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			bool *gave_back)
{
	struct bucket_view v[PLAIN_LINKS];
	unsigned n = ch->links;
	if (ch->permits || n > PLAIN_LINKS)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!plainly_grants(&ch->link[i], chain_tokens(&ch->link[i], c), now_ns, &v[i]))
			return false;
	for (unsigned i = 0; i < n; i++) {
		const struct chain_link *l = &ch->link[i];
		if (LIKELY(bucket_swap(l->bucket, &v[i], v[i].from + chain_tokens(l, c))))
			continue;
		*gave_back = i > 0;
		while (i--)
			bucket_refund(ch->link[i].bucket, chain_tokens(&ch->link[i], c));
		return false;
	}
	return true;
}

enum grant_result chain_try(const struct chain *ch, const struct cost *c, uint64_t now_ns,
			    struct refusal *why)
{
	bool gave_back = false;
	if (LIKELY(try_plainly(ch, c, now_ns, &gave_back)))
		return GRANT_OK;
	for (;;) {
		enum grant_result r = chain_look(ch, c, now_ns, why);
		if (r != GRANT_OK) {
			if (why)
				why->gave_back = gave_back;
			return r;
		}
		struct taken t;
		if (take_from_all(ch, c, now_ns, &t))
			return GRANT_OK;
		gave_back |= undo(ch, &t);
	}
}

/* Lowers *most to what every bucket holds now, in bytes, and *least to the smallest capacity. */
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
		least = min_u64(c->bytes, 1); /* never grant a transfer of nothing */
	struct cost part = {c->cls, c->ops, max_u64(most, least)};
	enum grant_result r = chain_try(ch, &part, now_ns, why);
	if (r == GRANT_WOULD_BLOCK && part.bytes > least) { /* another thread was faster */
		part.bytes = least;
		r = chain_try(ch, &part, now_ns, why);
	}
	if (r == GRANT_OK)
		c->bytes = part.bytes;
	return r;
}

uint64_t chain_take(const struct chain *ch, const struct cost *c, uint64_t now_ns)
{
	uint64_t wait_ns = 0;
	for (unsigned i = 0; i < ch->permits; i++) {
		if (permit_refuses(chain_permit(ch, i)))
			wait_ns = 1;
		permits_take(chain_permit(ch, i));
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

bool chain_misconfigured(const struct chain *ch, const struct cost *c)
{
	for (unsigned i = 0; ch && i < ch->links; i++)
		if (link_misconfigured(&ch->link[i], chain_tokens(&ch->link[i], c)))
			return true;
	return false;
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

void chain_release(const struct chain *ch)
{
	for (unsigned i = 0; i < ch->permits; i++)
		permits_release(chain_permit(ch, i));
}

void chain_take_permits(const struct chain *ch)
{
	for (unsigned i = 0; i < ch->permits; i++)
		permits_take(chain_permit(ch, i));
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
