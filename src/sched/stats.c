/* SPDX-License-Identifier: MIT */
/* Looking at the gate.  Nothing here changes an outcome. */
#include "sched/stats.h"

#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

/* --- histogram: index = 4 × log2 + the next two bits --- */

static unsigned bucket_of(uint64_t ns)
{
	if (ns < 4)
		return (unsigned)ns;
	unsigned log2 = 63 - (unsigned)__builtin_clzll(ns);
	return 4 * (log2 - 1) + (unsigned)(ns >> (log2 - 2) & 3);
}

/* The middle of a bucket. */
static uint64_t bucket_ns(unsigned i)
{
	if (i < 4)
		return i;
	unsigned log2 = i / 4 + 1;
	uint64_t low = (uint64_t)(4 + i % 4) << (log2 - 2), width = 1ULL << (log2 - 2);
	return low + width / 2;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->count[bucket_of(ns)]++;
	h->total++;
	h->sum_ns = add_sat_u64(h->sum_ns, ns);
	h->max_ns = max_u64(h->max_ns, ns);
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->count[i] += from->count[i];
	to->total += from->total;
	to->sum_ns = add_sat_u64(to->sum_ns, from->sum_ns);
	to->max_ns = max_u64(to->max_ns, from->max_ns);
}

uint64_t histogram_quantile_ns(const struct histogram *h, unsigned per_mille)
{
	uint64_t rank = (h->total * per_mille + 999) / 1000, seen = 0;
	if (!h->total)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->count[i];
		if (seen >= max_u64(rank, 1))
			return min_u64(bucket_ns(i), h->max_ns);
	}
	return h->max_ns;
}

/* --- scopes --- */

static void scope_sums(struct scope *s, struct counter_sums *sums)
{
	if (s->level == LEVEL_MOUNT)
		counters_sum(&scope_mount(s)->counters, sums);
	counter_sums_add(sums, &s->gone);
	list_for_each (it, &s->children)
		scope_sums(list_entry(it, struct scope, sibling), sums);
}

static void fill_class(struct class_stats *c, const uint64_t n[COUNTERS])
{
	c->ops = n[COUNT_OPS];
	c->bytes = n[COUNT_BYTES];
	c->at_once = n[COUNT_AT_ONCE];
	c->parked = n[COUNT_PARKED];
	c->would_block = n[COUNT_WOULD_BLOCK];
	c->full = n[COUNT_FULL];
	c->timed_out = n[COUNT_TIMED_OUT];
	c->cancelled = n[COUNT_CANCELLED];
	c->misconfigured = n[COUNT_MISCONFIGURED];
	c->ok = n[COUNT_OK];
	c->failed = n[COUNT_FAILED];
	c->aborted = n[COUNT_ABORTED];
}

static uint64_t refused_ns(const struct resource *r, uint64_t now_ns)
{
	bool waits = !list_empty(&r->waiters) && now_ns > r->blocked_ns;
	return r->refused_ns + (waits ? now_ns - r->blocked_ns : 0);
}

static void fill_limit(struct limit_stats *l, const struct scope *s, unsigned kind, uint64_t now_ns)
{
	const struct bucket *b = &s->limiter.bucket[kind];
	l->refused_ns = refused_ns(&s->res[kind], now_ns);
	l->enabled = s->limiter.config.limit[kind].enabled;
	if (!l->enabled)
		return;
	l->rate_per_sec = bucket_rate(b);
	l->capacity = bucket_capacity(b);
	l->level = bucket_level(b, now_ns);
	l->once_left = bucket_once_left(b);
}

static void scope_look(struct scope *s, struct scope_stats *out)
{
	struct counter_sums sums = {0};
	memset(out, 0, sizeof(*out));
	gate_lock(s->gate);
	uint64_t now_ns = clock_now(s->gate->clock);
	scope_sums(s, &sums);
	counter_sums_sub(&sums, &s->baseline);
	out->since_ns = s->since_ns;
	out->now_ns = now_ns;
	for (unsigned c = 0; c < COST_CLASSES; c++) {
		fill_class(&out->cls[c], sums.n[c]);
		out->cls[c].parked_now = s->parked_now[c];
		out->cls[c].wait = s->wait[c];
		out->parked_now += s->parked_now[c];
	}
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		fill_limit(&out->limit[k], s, k, now_ns);
	out->inflight = permits_look(&s->limiter.inflight);
	out->open = permits_look(&s->limiter.open);
	out->inflight_refused_ns = refused_ns(&s->res[RES_INFLIGHT], now_ns);
	out->parked_bytes_now = s->parked_bytes_now;
	out->keys_now = s->keys_now;
	out->paused = s->paused;
	gate_unlock_deliver(s->gate);
}

void gate_stats_global(struct gate *g, struct scope_stats *out)
{
	scope_look(&g->global, out);
}

void gate_stats_fs(struct gate_fs *fs, struct scope_stats *out)
{
	scope_look(&fs->scope, out);
}

void gate_stats_mount(struct gate_mount *m, struct scope_stats *out)
{
	scope_look(&m->scope, out);
}

/* --- keys: the n that waited most, in a small heap kept as a sorted array --- */

struct top {
	struct key_stats *out;
	unsigned n, room;
};

static void top_add(struct key *key, void *arg)
{
	struct top *t = arg;
	if (!key->parked && !key->ever_parked)
		return;
	unsigned at = t->n;
	while (at && t->out[at - 1].wait_ns < key->wait_ns)
		at--;
	if (at == t->room)
		return;
	unsigned tail = (t->n < t->room ? t->n : t->room - 1) - at;
	memmove(&t->out[at + 1], &t->out[at], tail * sizeof(*t->out));
	t->out[at] = (struct key_stats){
		.key = key->id,
		.weight = key->queue[0].item.weight,
		.ops = key->ops,
		.bytes = key->bytes,
		.parked = key->ever_parked,
		.parked_now = key->parked,
		.wait_ns = key->wait_ns,
		.max_wait_ns = key->max_wait_ns,
	};
	t->n += t->n < t->room;
}

unsigned gate_stats_keys(struct gate_mount *m, struct key_stats *out, unsigned n)
{
	struct top t = {out, 0, n};
	gate_lock(m->scope.gate);
	keys_each(&m->keys, top_add, &t);
	gate_unlock_deliver(m->scope.gate);
	return t.n;
}

/* --- reset --- */

static void key_reset(struct key *key, void *arg)
{
	key->ops = key->bytes = key->ever_parked = key->wait_ns = key->max_wait_ns = 0;
}

static void scope_reset(struct scope *s, uint64_t now_ns)
{
	s->baseline = (struct counter_sums){0};
	scope_sums(s, &s->baseline);
	memset(s->wait, 0, sizeof(s->wait));
	s->since_ns = now_ns;
	for (unsigned k = 0; k < RESOURCES; k++) {
		s->res[k].refused_ns = 0;
		s->res[k].blocked_ns = now_ns;
	}
	if (s->level == LEVEL_MOUNT)
		keys_each(&scope_mount(s)->keys, key_reset, NULL);
	list_for_each (it, &s->children)
		scope_reset(list_entry(it, struct scope, sibling), now_ns);
}

void gate_stats_reset(struct gate *g)
{
	gate_lock(g);
	scope_reset(&g->global, clock_now(g->clock));
	gate_unlock_deliver(g);
}
