/* SPDX-License-Identifier: MIT */
/* Limits for each key of a leaf.  A key with limits is looked up for every request, not only for
 * those that wait, and is pinned until the request is settled. */
#include <errno.h>
#include <stdlib.h>

#include "sched/gate_internal.h"

static bool is_on(const struct limiter_config *cfg)
{
	return limiter_config_kinds(cfg) != 0;
}

/* Classes with the same limits share a chain.  This saves a tenth of the memory of each key, of
 * which there may be 100,000. */
static void share_chain(struct key_limits *l, enum cost_class cls)
{
	for (unsigned c = 0; c < cls; c++)
		if (l->cls[cls] && chain_equal(l->cls[c], l->cls[cls])) {
			free(l->cls[cls]);
			l->cls[cls] = l->cls[c];
			return;
		}
}

static void limits_free(struct key_limits *l)
{
	for (unsigned c = 0; l && c < COST_CLASSES; c++) {
		struct chain *ch = l->cls[c];
		for (unsigned k = c; k < COST_CLASSES; k++)
			if (l->cls[k] == ch)
				l->cls[k] = NULL;
		free(ch);
	}
	free(l);
}

/* Frees replaced limits that no grant can refer to any more.  Checks the pins under the lock under
 * which requests pin the key: a request that pins it later sees the new limits. */
static void free_older(struct key *key)
{
	struct key_limits *l = atomic_load(&key->limits);
	pthread_mutex_t *lock = &node_leaf(key->node.parent)->keys.lock;
	pthread_mutex_lock(lock);
	bool pinned = atomic_load_explicit(&key->pins, memory_order_acquire);
	pthread_mutex_unlock(lock);
	if (pinned)
		return;
	while (l->older) {
		struct key_limits *old = l->older;
		l->older = old->older;
		limits_free(old);
	}
}

/* --- changing --- */

static int compile(struct key *key, const struct limiter_config *cfg)
{
	struct limiter *way[] = {key->node.limiter};
	const struct limiter_config old = way[0]->config;
	bool oom = false;
	key->next_limits = calloc(1, sizeof(*key->next_limits));
	if (!key->next_limits)
		return -ENOMEM;
	way[0]->config = *cfg;
	for (unsigned c = 0; c < COST_CLASSES && !oom; c++) {
		key->next_limits->cls[c] = chain_compile(c, way, 1, &oom);
		share_chain(key->next_limits, c);
	}
	way[0]->config = old;
	return oom ? -ENOMEM : 0;
}

/* True: both have the same buckets for every class. */
static bool same_chains(const struct key_limits *a, const struct key_limits *b)
{
	for (unsigned c = 0; c < COST_CLASSES; c++)
		if (!chain_equal(a->cls[c], b->cls[c]))
			return false;
	return true;
}

static int key_prepare(struct key *key, const struct limiter_config *cfg, uint64_t now_ns)
{
	limits_free(key->next_limits);
	key->next_limits = NULL;
	if (!key->node.limiter && !is_on(cfg))
		return 0;
	int rc = node_prepare(&key->node, cfg, now_ns);
	return rc < 0 ? rc : compile(key, cfg);
}

static void key_apply(struct key *key, const struct limiter_config *cfg, uint64_t now_ns)
{
	struct key_limits *next = key->next_limits, *now = atomic_load(&key->limits);
	if (!next)
		return; /* the key had no limits and gets none */
	limiter_configure(key->node.limiter, cfg, now_ns);
	key->next_limits = NULL;
	if (now && same_chains(now, next)) {
		limits_free(next);
		return;
	}
	next->older = now;
	for (unsigned c = 0; c < COST_CLASSES; c++)
		key->node.own[c] = next->cls[c];
	atomic_store(&key->limits, next);
	free_older(key);
}

struct each_change {
	const struct limiter_config *cfg;
	uint64_t now_ns;
	int rc;
};

static void prepare_one(struct key *key, void *arg)
{
	struct each_change *e = arg;
	if (e->rc == 0)
		e->rc = key_prepare(key, e->cfg, e->now_ns);
}

static void apply_one(struct key *key, void *arg)
{
	const struct each_change *e = arg;
	key_apply(key, e->cfg, e->now_ns);
}

int each_prepare(struct leaf *f, const struct limiter_config *cfg, uint64_t now_ns)
{
	struct each_change e = {cfg, now_ns, 0};
	if (is_on(cfg) || is_on(&f->each_limits))
		keys_each(&f->keys, prepare_one, &e);
	return e.rc;
}

void each_apply(struct leaf *f, const struct limiter_config *cfg, uint64_t now_ns)
{
	struct each_change e = {cfg, now_ns, 0};
	const struct limiter like = {.config = *cfg};
	uint32_t each = 0;
	if (is_on(cfg) || is_on(&f->each_limits))
		keys_each(&f->keys, apply_one, &e);
	for (unsigned c = 0; c < COST_CLASSES; c++)
		if (limiter_kinds_for(&like, c))
			each |= 1U << c;
	f->each_limits = *cfg;
	atomic_store(&f->each_here, each);
}

/* Records which lanes use each limit of a key. */
static void mark_lanes(struct key *key, void *arg)
{
	const struct gate *g = key->node.gate;
	for (unsigned i = 0; i < RES_INFLIGHT; i++) {
		struct resource *r = key->node.res[i];
		if (!r)
			continue;
		r->lanes = 0;
		for (unsigned c = 0; c < COST_CLASSES; c++)
			if (limiter_kinds_for(key->node.limiter, c) & 1U << i / BUCKET_ROLES)
				r->lanes |= 1U << g->lane_of[c];
	}
}

bool each_make(struct leaf *f, struct key *key, uint64_t now_ns)
{
	if (!is_on(&f->each_limits))
		return true;
	if (key_prepare(key, &f->each_limits, now_ns) < 0)
		return false;
	key_apply(key, &f->each_limits, now_ns);
	mark_lanes(key, NULL);
	return true;
}

void each_fini(struct key *key)
{
	struct key_limits *l = atomic_load(&key->limits);
	for (unsigned c = 0; c < COST_CLASSES; c++)
		key->node.own[c] = NULL;
	limits_free(key->next_limits);
	while (l) {
		struct key_limits *older = l->older;
		limits_free(l);
		l = older;
	}
}

bool each_owes(const struct key *key, uint64_t now_ns)
{
	const struct limiter *l = key->node.limiter;
	for (unsigned i = 0; l && i < RES_INFLIGHT; i++) {
		const struct bucket *b = l->bucket[i / BUCKET_ROLES][i % BUCKET_ROLES];
		if (!b || !l->config.limit[i / BUCKET_ROLES].enabled)
			continue;
		uint64_t once = i % BUCKET_ROLES == BUCKET_STEADY
					? l->config.limit[i / BUCKET_ROLES].once
					: 0;
		if (bucket_level(b, now_ns) < (int64_t)(bucket_capacity(b) + once))
			return true;
	}
	return false;
}

void each_inherit(struct key *key, const struct key *shared, uint64_t now_ns)
{
	const struct limiter *to = key->node.limiter, *from = shared->node.limiter;
	for (unsigned i = 0; to && from && i < RES_INFLIGHT; i++) {
		struct bucket *b = to->bucket[i / BUCKET_ROLES][i % BUCKET_ROLES];
		const struct bucket *used = from->bucket[i / BUCKET_ROLES][i % BUCKET_ROLES];
		if (!b || !used || !to->config.limit[i / BUCKET_ROLES].enabled)
			continue;
		int64_t spent = bucket_level(b, now_ns) - bucket_level(used, now_ns);
		if (spent > 0)
			bucket_take(b, (uint64_t)spent, now_ns);
	}
}

void each_mark_lanes(struct leaf *f)
{
	if (is_on(&f->each_limits))
		keys_each(&f->keys, mark_lanes, NULL);
}
