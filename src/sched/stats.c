/* SPDX-License-Identifier: MIT */
/* Statistics.  Nothing here influences scheduling. */
#include "sched/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

void leaf_sums(const struct leaf *f, struct counter_sums *sums)
{
	counters_sum(&f->counters, sums);
	counter_sums_sub(sums, &f->before);
}

static void node_sums(struct node *n, struct counter_sums *sums)
{
	if (node_is_leaf(n))
		leaf_sums(node_leaf(n), sums);
	if (n->kind ==
	    SCOPE_MOUNT) /* for classes that were removed while requests were under way */
		list_for_each (it, &node_leaf(n)->mount->spare_leaves)
			leaf_sums(list_entry(it, struct leaf, of_mount), sums);
	counter_sums_add(sums, &n->branch->gone);
	list_for_each (it, &n->branch->children)
		node_sums(list_entry(it, struct node, sibling), sums);
}

static void add_class(struct class_stats *c, const uint64_t n[COUNTERS])
{
	c->ops += n[COUNT_OPS];
	c->bytes += n[COUNT_BYTES];
	c->at_once += n[COUNT_AT_ONCE];
	c->parked += n[COUNT_PARKED];
	c->would_block += n[COUNT_WOULD_BLOCK];
	c->full += n[COUNT_FULL];
	c->no_room += n[COUNT_NO_ROOM];
	c->too_many_open += n[COUNT_TOO_MANY_OPEN];
	c->no_space += n[COUNT_NO_SPACE];
	c->timed_out += n[COUNT_TIMED_OUT];
	c->cancelled += n[COUNT_CANCELLED];
	c->misconfigured += n[COUNT_MISCONFIGURED];
	c->ok += n[COUNT_OK];
	c->errors += n[COUNT_ERRORS];
	c->failed += n[COUNT_FAILED];
	c->aborted += n[COUNT_ABORTED];
}

static uint64_t blocking_ns(const struct resource *r, uint64_t now_ns)
{
	if (!r)
		return 0;
	bool waits = !list_empty(&r->waiters) && now_ns > r->blocked_ns;
	return r->blocking_ns + (waits ? now_ns - r->blocked_ns : 0);
}

static void fill_limit(struct limit_stats *l, const struct node *n, unsigned kind, uint64_t now_ns)
{
	const struct bucket *b = n->limiter->bucket[kind][BUCKET_STEADY];
	for (unsigned role = 0; role < BUCKET_POOL; role++) {
		const struct resource *r = n->res[kind * BUCKET_ROLES + role];
		l->blocking_ns += blocking_ns(r, now_ns);
		l->would_wait += r ? r->would_wait : 0;
	}
	l->enabled = n->limiter->config.limit[kind].enabled;
	if (!l->enabled)
		return;
	l->rate_per_sec = bucket_rate(b);
	l->peak_per_sec = n->limiter->config.limit[kind].peak_per_sec;
	l->capacity = bucket_capacity(b);
	l->level = bucket_level(b, now_ns);
	l->once_left = bucket_once_left(b);
}

static void count_keys(struct leaf *f, void *keys)
{
	*(uint64_t *)keys += f->keys.n;
}

static void node_look_locked(struct node *n, struct scope_stats *out)
{
	const struct branch *b = n->branch;
	struct counter_sums sums = {0};
	memset(out, 0, sizeof(*out));
	uint64_t now_ns = clock_now(n->gate->clock);
	node_sums(n, &sums);
	counter_sums_sub(&sums, &b->baseline);
	out->since_ns = b->since_ns;
	out->now_ns = now_ns;
	for (unsigned c = 0; c < COST_CLASSES; c++) {
		struct class_stats *shown = &out->cls[cost_class_shown(c)];
		add_class(shown, sums.n[c]);
		shown->parked_now += b->parked_now[c];
		histogram_merge(&shown->wait, &b->wait[c]);
		shown->device_now += b->device_now[c];
		histogram_merge(&shown->device, &b->device[c]);
		out->device_now += b->device_now[c];
		out->parked_now += b->parked_now[c];
	}
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		fill_limit(&out->limit[k], n, k, now_ns);
	out->inflight = permits_look(&n->limiter->inflight);
	out->open = permits_look(&n->limiter->open);
	out->inflight_blocking_ns = blocking_ns(n->res[RES_INFLIGHT], now_ns);
	out->parked_bytes_now = b->parked_bytes_now;
	leaves_each(n, count_keys, &out->keys_now);
	out->paused = n->paused;
}

static void node_look(struct node *n, struct scope_stats *out)
{
	gate_lock(n->gate);
	node_look_locked(n, out);
	gate_unlock_deliver(n->gate);
}

void gate_stats_global(struct gate *g, struct scope_stats *out)
{
	node_look(&g->global, out);
}

void gate_stats_fs(struct gate_fs *fs, struct scope_stats *out)
{
	node_look(&fs->node, out);
}

void gate_stats_mount(struct gate_mount *m, struct scope_stats *out)
{
	node_look(&m->leaf.node, out);
}

static struct leaf *find_class(struct gate_mount *m, const char *name)
{
	list_for_each (it, &m->class_leaves) {
		struct leaf *f = list_entry(it, struct leaf, of_mount);
		if (strcmp(f->node.branch->name, name) == 0)
			return f;
	}
	return NULL;
}

bool gate_stats_class(struct gate_mount *m, const char *name, struct scope_stats *out)
{
	struct gate *g = m->leaf.node.gate;
	gate_lock(g);
	struct leaf *found = find_class(m, name);
	if (found)
		node_look_locked(&found->node, out);
	gate_unlock_deliver(g);
	return found;
}

/* --- what is used of a pool, and what is leased of it --- */

static struct node *pool_node_locked(const struct gate_pool_scope *s)
{
	struct leaf *f = s->class ? find_class(s->mount, s->class) : NULL;
	return s->class	  ? f ? &f->node : NULL
	       : s->mount ? &s->mount->leaf.node
	       : s->fs	  ? &s->fs->node
			  : &s->gate->global;
}

static struct resource *pool_resource(const struct node *n, unsigned kind)
{
	return n->res[kind * BUCKET_ROLES + BUCKET_POOL];
}

bool gate_lease(const struct gate_pool_scope *s, const struct gate_lease *lease)
{
	struct gate *g = s->gate;
	gate_lock(g);
	uint64_t now_ns = clock_now(g->clock);
	gate_catch_up_locked(g, now_ns);
	struct node *n = pool_node_locked(s);
	for (unsigned k = 0; n && k < LIMIT_KINDS; k++) {
		struct resource *r = pool_resource(n, k);
		if (!r)
			continue;
		bucket_lease(r->bucket, &lease->limit[k], now_ns);
		resource_kick(r);
	}
	gate_dispatch_locked(g, now_ns, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
	return n;
}

static uint64_t pool_tokens(const struct node *n, const struct counter_sums *sums, unsigned kind)
{
	uint64_t tokens = 0;
	for (unsigned c = 0; c < COST_CLASSES; c++)
		if (limiter_pool_kinds_for(n->limiter, c) & 1U << kind)
			tokens += !limit_kind_is_bytes(kind) ? sums->n[c][COUNT_OPS]
				  : c == COST_COPY && kind == LIMIT_BPS
					  ? 2 * sums->n[c][COUNT_BYTES]
					  : sums->n[c][COUNT_BYTES];
	return tokens;
}

bool gate_pool_look(const struct gate_pool_scope *s, struct gate_pool_use *out)
{
	struct counter_sums sums = {0};
	memset(out, 0, sizeof(*out));
	gate_lock(s->gate);
	uint64_t now_ns = clock_now(s->gate->clock);
	struct node *n = pool_node_locked(s);
	if (n)
		node_sums(n, &sums);
	for (unsigned k = 0; n && k < LIMIT_KINDS; k++) {
		const struct resource *r = pool_resource(n, k);
		if (!r)
			continue;
		out->tokens[k] = pool_tokens(n, &sums, k);
		out->blocking_ns[k] = blocking_ns(r, now_ns);
		out->waiting[k] = !list_empty(&r->waiters);
		out->level[k] = bucket_level(r->bucket, now_ns);
	}
	gate_unlock_deliver(s->gate);
	return n;
}

/* --- limits of a scope and its ancestors --- */

static void each_look(const struct leaf *f, uint64_t now_ns, struct limit_stats each[LIMIT_KINDS])
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		const struct limit_config *l = &f->each_limits.limit[k];
		const struct each_wait *w = &f->each_wait[k];
		uint64_t waits_ns = w->waiting && now_ns > w->since_ns ? now_ns - w->since_ns : 0;
		each[k] = (struct limit_stats){
			.enabled = l->enabled,
			.rate_per_sec = l->rate_per_sec,
			.peak_per_sec = l->peak_per_sec,
			.capacity = limit_capacity(l, f->each_limits.window_ns),
			.blocking_ns = w->sum_ns + waits_ns,
			.would_wait = w->would_wait,
		};
	}
}

static void pool_limit_look(struct limit_stats *l, const struct node *n, unsigned kind,
			    uint64_t now_ns)
{
	const struct resource *r = pool_resource(n, kind);
	l->enabled = r && n->limiter->config.limit[kind].pool_per_sec;
	if (!l->enabled)
		return;
	l->blocking_ns = blocking_ns(r, now_ns);
	l->would_wait = r->would_wait;
	l->rate_per_sec = bucket_rate(r->bucket);
	l->capacity = bucket_capacity(r->bucket);
	l->level = bucket_level(r->bucket, now_ns);
}

static void limits_look(struct node *n, uint64_t now_ns, struct scope_limits *out)
{
	const struct resource *inflight = n->res[RES_INFLIGHT];
	*out = (struct scope_limits){.since_ns = n->branch->since_ns, .now_ns = now_ns};
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		fill_limit(&out->limit[k], n, k, now_ns);
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		pool_limit_look(&out->pool[k], n, k, now_ns);
	out->inflight.now = permits_look(&n->limiter->inflight);
	out->inflight.blocking_ns = blocking_ns(inflight, now_ns);
	out->inflight.would_wait = inflight ? inflight->would_wait : 0;
	out->open.now = permits_look(&n->limiter->open);
	if (node_is_leaf(n))
		each_look(node_leaf(n), now_ns, out->each);
}

static unsigned limits_upward_locked(struct node *at, struct scope_limits *out)
{
	uint64_t now_ns = clock_now(at->gate->clock);
	unsigned n = 0;
	for (; at; at = at->parent)
		limits_look(at, now_ns, &out[n++]);
	return n;
}

static unsigned limits_upward(struct node *at, struct scope_limits *out)
{
	gate_lock(at->gate);
	unsigned n = limits_upward_locked(at, out);
	gate_unlock_deliver(at->gate);
	return n;
}

unsigned gate_limits_global(struct gate *g, struct scope_limits *out)
{
	return limits_upward(&g->global, out);
}

unsigned gate_limits_fs(struct gate_fs *fs, struct scope_limits *out)
{
	return limits_upward(&fs->node, out);
}

unsigned gate_limits_mount(struct gate_mount *m, struct scope_limits *out)
{
	return limits_upward(&m->leaf.node, out);
}

unsigned gate_limits_class(struct gate_mount *m, const char *name, struct scope_limits *out)
{
	struct gate *g = m->leaf.node.gate;
	gate_lock(g);
	struct leaf *f = find_class(m, name);
	unsigned n = f ? limits_upward_locked(&f->node, out) : 0;
	gate_unlock_deliver(g);
	return n;
}

/* --- waiting by limit --- */

static bool anybody_waited(const struct wait_times *t)
{
	uint64_t n = 0;
	for (unsigned i = 0; i <= WAIT_BOUNDS; i++)
		n += t->count[i];
	return n;
}

static unsigned copy_times(const struct leaf *f, struct limit_wait *out, unsigned room)
{
	unsigned n = 0;
	for (unsigned depth = 0; depth < CHAIN_SCOPES_MAX; depth++)
		for (unsigned k = 0; k < WAIT_KINDS && n < room; k++) {
			if (!anybody_waited(&f->waited[depth][k]))
				continue;
			leaf_limit_name(f, depth, k, &out[n].limit);
			out[n++].times = f->waited[depth][k];
		}
	return n;
}

unsigned gate_stats_waits(struct gate_mount *m, const char *class, struct limit_wait *out,
			  unsigned n)
{
	struct gate *g = m->leaf.node.gate;
	gate_lock(g);
	const struct leaf *f = class ? find_class(m, class) : &m->leaf;
	n = f ? copy_times(f, out, n) : 0;
	gate_unlock_deliver(g);
	return n;
}

/* --- keys: copied in slices, with the gate unlocked in between; sorted without its lock --- */

#define SLICE_BUCKETS  256
#define SLICE_PAUSE_NS (20 * NSEC_PER_USEC)

struct key_copy {
	struct key_stats *key;
	size_t n, room;
	size_t n_before;    /* from other leaves */
	size_t n_table, at; /* size of the table at the last slice; next bucket */
	uint64_t now_ns;
};

static void copy_caps(struct key_stats *k, const struct key *key, uint64_t now_ns)
{
	const struct limiter *l = key->node.limiter;
	bool limited = atomic_load(&key->limits); /* has limits now, not only prepared ones */
	for (unsigned i = 0; limited && i < LIMIT_KINDS; i++) {
		if (!l->config.limit[i].enabled)
			continue;
		k->capped |= 1U << i;
		k->level[i] = bucket_level(l->bucket[i][BUCKET_STEADY], now_ns);
	}
}

/* The lane that stops this one: itself, or one above it. */
static const struct resource *stopped_by(const struct lane *l)
{
	for (; l; l = lane_parent(l))
		if (l->blocked)
			return l->blocked;
	return NULL;
}

static const struct job *oldest_job(const struct lane *l)
{
	list_for_each (it, (struct list *)&l->jobs) {
		const struct job *j = list_entry(it, struct job, link);
		if (!j->own && !j->probe)
			return j;
	}
	return NULL;
}

static void copy_waits(struct key_stats *k, const struct key *key, uint64_t now_ns)
{
	const struct key_wait *most = &key->waits[0];
	for (unsigned i = 1; i < KEY_WAITS; i++)
		if (key->waits[i].ns > most->ns)
			most = &key->waits[i];
	limit_name(key, most->limit, &k->limit);
	k->limit.wait_ns = most->ns;
	for (unsigned i = 0; i < key->node.gate->lanes; i++) {
		const struct lane *l = &key->node.lane[i];
		const struct job *j = oldest_job(l);
		uint64_t age_ns = j && now_ns > j->parked_ns ? now_ns - j->parked_ns : 0;
		if (!j || (age_ns <= k->oldest_ns && k->waits_for.known))
			continue;
		const struct resource *r = stopped_by(l);
		k->oldest_ns = age_ns;
		if (r)
			limit_name(key, limit_above(key, r), &k->waits_for);
	}
}

static void copy_key(struct key_copy *c, const struct key *key)
{
	if (key->parked == key->parked_own && !key->ever_parked)
		return;
	struct key_stats *k = &c->key[c->n++];
	*k = (struct key_stats){
		.key = key->id,
		.weight = key->node.weight,
		.ops = key->ops,
		.bytes = key->bytes,
		.parked = key->ever_parked,
		.parked_now = key->parked - key->parked_own,
		.wait_ns = key->wait_ns,
		.max_wait_ns = key->max_wait_ns,
		.uid = key->uid,
	};
	memcpy(k->name, key->name, sizeof(k->name));
	if (key->node.parent->kind == SCOPE_CLASS)
		snprintf(k->leaf, sizeof(k->leaf), "%s", key->node.parent->branch->name);
	copy_waits(k, key, c->now_ns);
	copy_caps(k, key, c->now_ns);
}

static size_t chain_length(const struct key *key)
{
	size_t n = 0;
	for (; key; key = key->next)
		n++;
	return n;
}

/* False: all have been copied.  If the table has grown, it is copied again from the start, because
 * keys have moved; tables grow only a few times. */
static bool copy_slice_locked(struct key_copy *c, const struct keys *k)
{
	if (c->n_table != k->n_table) {
		c->n_table = k->n_table;
		c->at = 0;
		c->n = c->n_before;
		for (unsigned i = 0; i < OVERFLOW_KEYS; i++)
			copy_key(c, &k->overflow[i]);
	}
	for (unsigned i = 0; i < SLICE_BUCKETS && c->at < c->n_table; i++, c->at++) {
		if (c->n + chain_length(k->table[c->at]) > c->room)
			return true;
		for (const struct key *key = k->table[c->at]; key; key = key->next)
			copy_key(c, key);
	}
	return c->at < c->n_table;
}

static bool make_room(struct key_copy *c, size_t n)
{
	if (c->room - c->n >= n)
		return true;
	size_t room = c->room * 2 + n;
	struct key_stats *key = realloc(c->key, room * sizeof(*key));
	if (!key)
		return false;
	c->key = key;
	c->room = room;
	return true;
}

static int by_wait(const void *a, const void *b)
{
	const struct key_stats *x = a, *y = b;
	return x->wait_ns > y->wait_ns ? -1 : x->wait_ns < y->wait_ns;
}

/* The mount itself, or one of its classes; only the class of that name if one is given.  NULL: no
 * more. */
static struct leaf *leaf_at(struct gate_mount *m, const char *class, unsigned i)
{
	if (class)
		return i ? NULL : find_class(m, class);
	if (i == 0)
		return &m->leaf;
	list_for_each (it, &m->class_leaves)
		if (--i == 0)
			return list_entry(it, struct leaf, of_mount);
	return NULL;
}

/* Classes that are added or removed meanwhile may be missed or seen twice. */
static void copy_keys(struct gate_mount *m, const char *class, struct key_copy *c)
{
	struct gate *g = m->leaf.node.gate;
	const struct timespec pause = {.tv_nsec = SLICE_PAUSE_NS};
	for (unsigned i = 0; make_room(c, 2 * SLICE_BUCKETS);) {
		gate_lock(g);
		c->now_ns = clock_now(g->clock);
		const struct leaf *f = leaf_at(m, class, i);
		bool more = f && copy_slice_locked(c, &f->keys);
		gate_unlock_deliver(g);
		if (!f)
			return;
		if (!more) {
			i++;
			c->n_before = c->n;
			c->n_table = 0;
		}
		/* Otherwise we would take the lock again before those who wait for it. */
		nanosleep(&pause, NULL);
	}
}

unsigned gate_stats_keys(struct gate_mount *m, const char *class, struct key_stats *out, unsigned n)
{
	struct key_copy c = {0};
	copy_keys(m, class, &c);
	n = (unsigned)min_u64(n, c.n);
	if (n) {
		qsort(c.key, c.n, sizeof(*c.key), by_wait);
		memcpy(out, c.key, n * sizeof(*out));
	}
	free(c.key);
	return n;
}

/* --- reset --- */

static void key_reset(struct key *key, void *arg)
{
	key->ops = key->bytes = key->ever_parked = key->wait_ns = key->max_wait_ns = 0;
	memset(key->waits, 0, sizeof(key->waits));
}

void node_forget_waits(struct node *n, uint64_t now_ns)
{
	struct branch *b = n->branch;
	memset(b->wait, 0, sizeof(b->wait));
	memset(b->device, 0, sizeof(b->device));
	b->since_ns = now_ns;
	for (unsigned i = 0; i < RESOURCES; i++)
		if (n->res[i]) {
			n->res[i]->blocking_ns = n->res[i]->would_wait = 0;
			n->res[i]->blocked_ns = now_ns;
		}
	if (node_is_leaf(n)) {
		struct leaf *f = node_leaf(n);
		keys_each(&f->keys, key_reset, NULL);
		memset(f->waited, 0, sizeof(f->waited));
		for (unsigned k = 0; k < LIMIT_KINDS; k++)
			f->each_wait[k] = (struct each_wait){.waiting = f->each_wait[k].waiting,
							     .since_ns = now_ns};
	}
}

static void node_reset(struct node *n, uint64_t now_ns)
{
	struct branch *b = n->branch;
	b->baseline = (struct counter_sums){0};
	node_sums(n, &b->baseline);
	node_forget_waits(n, now_ns);
	list_for_each (it, &b->children)
		node_reset(list_entry(it, struct node, sibling), now_ns);
}

void gate_stats_reset(struct gate *g)
{
	gate_lock(g);
	node_reset(&g->global, clock_now(g->clock));
	gate_unlock_deliver(g);
}
