/* SPDX-License-Identifier: MIT */
#include "fuzz/gate_model.h"

#include "fuzz/fuzz.h"

/* The largest of (granted − given back − rate × length) over all intervals that end now, in tokens × 10⁹: never more
 * than rate × lateness + max(capacity, largest request). */
struct shadow {
	const struct bucket *bucket;
	const struct limiter *limiter;
	enum limit_kind kind;
	bool enabled;
	uint64_t rate, rate_max, capacity, largest;
	uint64_t once_set; /* one-time burst as configured */
	uint64_t once;	   /* added in all */
	i128 excess;
};

struct held {
	struct permits *permits;
	int64_t n;
};

#define SHADOWS 64
struct model {
	uint64_t now_ns;
	struct shadow shadow[SHADOWS];
	unsigned shadows;
	struct held held[SHADOWS];
	unsigned helds;
};

struct model *model_new(void)
{
	struct model *m = calloc(1, sizeof(*m));
	MUST(m);
	return m;
}

void model_free(struct model *m)
{
	free(m);
}

void model_time(struct model *m, uint64_t now_ns)
{
	for (unsigned i = 0; i < m->shadows; i++) {
		struct shadow *s = &m->shadow[i];
		s->excess -= (i128)s->rate * (now_ns - m->now_ns);
		if (s->excess < 0)
			s->excess = 0;
	}
	m->now_ns = now_ns;
}

static bool is_enabled(const struct shadow *s)
{
	return s->limiter->config.limit[s->kind].enabled;
}

static void look(struct shadow *s)
{
	uint64_t once = s->limiter->config.limit[s->kind].once;
	bool anew = is_enabled(s) && !s->enabled; /* it was off: full */
	if (anew)
		s->excess = 0;
	if (anew || once != s->once_set)
		s->once += once;
	s->once_set = once;
	s->enabled = is_enabled(s);
	s->rate = bucket_rate(s->bucket);
	s->rate_max = max_u64(s->rate_max, s->rate);
	/* What is left to grant stays what it was, or becomes the smaller capacity: nothing is minted. */
	if (!anew)
		s->excess +=
			((i128)bucket_capacity(s->bucket) - s->capacity) * (int64_t)NSEC_PER_SEC;
	if (s->excess < 0)
		s->excess = 0;
	s->capacity = bucket_capacity(s->bucket);
}

void model_reconfigured(struct model *m)
{
	for (unsigned i = 0; i < m->shadows; i++)
		look(&m->shadow[i]);
}

/* Shadows begin with the first grant: what was granted before is nothing. */
static struct shadow *shadow_of(struct model *m, const struct chain_link *l)
{
	for (unsigned i = 0; i < m->shadows; i++)
		if (m->shadow[i].bucket == l->bucket)
			return &m->shadow[i];
	MUST(m->shadows < SHADOWS);
	struct shadow *s = &m->shadow[m->shadows++];
	*s = (struct shadow){.bucket = l->bucket, .limiter = l->limiter, .kind = l->kind};
	look(s);
	return s;
}

static struct held *held_of(struct model *m, struct permits *p)
{
	for (unsigned i = 0; i < m->helds; i++)
		if (m->held[i].permits == p)
			return &m->held[i];
	MUST(m->helds < SHADOWS);
	m->held[m->helds].permits = p;
	return &m->held[m->helds++];
}

static void check(const struct shadow *s)
{
	i128 lateness = (i128)s->rate_max * LATENESS_NS;
	uint64_t room = max_u64(s->capacity, s->largest);
	/* One candidate per lane may have taken its op earlier, when it came to the front. */
	uint64_t candidates = limit_kind_is_bytes(s->kind) ? 0 : COST_CLASSES;
	i128 bound = lateness + ((i128)room + s->once + candidates + 1) * (int64_t)NSEC_PER_SEC;
	MUST(s->excess <= bound);
}

void model_grant(struct model *m, const struct grant *g, bool forced)
{
	const struct chain *ch = g->chain;
	for (unsigned i = 0; ch && i < ch->links; i++) {
		struct shadow *s = shadow_of(m, &ch->link[i]);
		uint64_t tokens = chain_tokens(&ch->link[i], &g->cost);
		look(s); /* a reconfiguration grants before it returns */
		if (forced)
			continue;
		s->excess += (i128)tokens * (int64_t)NSEC_PER_SEC;
		s->largest = max_u64(s->largest, tokens);
		check(s);
	}
	for (unsigned i = 0; ch && i < ch->permits; i++) {
		struct held *h = held_of(m, chain_permit(ch, i));
		h->n++;
		/* The gate takes all of a batch before it hands any of it out. */
		struct permits_snapshot now = permits_look(chain_permit(ch, i));
		MUST(now.in_flight >= h->n);
	}
}

void model_paid(struct model *m, const struct chain *ch, const struct cost *paid)
{
	for (unsigned i = 0; ch && i < ch->links; i++) {
		struct shadow *s = shadow_of(m, &ch->link[i]);
		uint64_t tokens = chain_tokens(&ch->link[i], paid);
		look(s);
		/* in instalments of a millisecond of the highest rate, or 4 KiB in each direction */
		uint64_t largest = max_u64(s->rate_max / 1000 + 1, ch->link[i].per_byte ? 8192 : 1);
		s->excess += (i128)tokens * (int64_t)NSEC_PER_SEC;
		s->largest = max_u64(s->largest, min_u64(tokens, largest));
	}
}

void model_done(struct model *m, const struct grant *g, uint64_t bytes_moved)
{
	const struct chain *ch = g->chain;
	for (unsigned i = 0; ch && i < ch->links; i++) {
		struct shadow *s = shadow_of(m, &ch->link[i]);
		if (bytes_moved < g->cost.bytes)
			s->excess -= (i128)((g->cost.bytes - bytes_moved) * ch->link[i].per_byte) *
				     (int64_t)NSEC_PER_SEC;
		if (s->excess < 0)
			s->excess = 0;
	}
	for (unsigned i = 0; ch && i < ch->permits; i++) {
		struct held *h = held_of(m, chain_permit(ch, i));
		MUST(h->n > 0);
		h->n--;
	}
}

void model_check_empty(const struct model *m)
{
	for (unsigned i = 0; i < m->shadows; i++)
		MUST(atomic_load(&m->shadow[i].bucket->waiters) == 0);
	for (unsigned i = 0; i < m->helds; i++) {
		MUST(m->held[i].n == 0);
		MUST(permits_look(m->held[i].permits).in_flight == 0);
		MUST(atomic_load(&m->held[i].permits->waiters) == 0);
	}
}
