/* SPDX-License-Identifier: MIT */
/* Statistics of keys.  There may be 100,000 of them, so they are copied in slices, with the gate
 * unlocked in between, and sorted while the gate is unlocked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched/gate_internal.h"

#define SLICE_BUCKETS  256
#define SLICE_PAUSE_NS (20 * NSEC_PER_USEC)
#define KEY_ACTIVE_NS  (3 * NSEC_PER_SEC)

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

const struct job *lane_oldest_job(const struct lane *whole)
{
	const struct job *oldest = NULL;
	for (const struct lane *l = whole; l; l = part_next(whole, l == whole ? NULL : l))
		list_for_each (it, (struct list *)&l->jobs) {
			const struct job *j = list_entry(it, struct job, link);
			if (j->own || j->probe)
				continue;
			if (!oldest || (int64_t)(j->seq - oldest->seq) < 0)
				oldest = j;
			break;
		}
	return oldest;
}

static void put_limit(struct waited_limit *out, const struct leaf *f, const struct key_waits *w,
		      unsigned i)
{
	*out = f->wait_row[w->row[i]].limit;
	out->wait_ns = w->ns[i];
}

static void copy_limits(struct key_stats *k, const struct key *key)
{
	const struct leaf *f = node_leaf(key->node.parent);
	const struct key_waits *w = &key->waits;
	for (unsigned i = 0; i < KEY_WAITS; i++) {
		unsigned at = KEY_WAITS;
		if (!w->row[i])
			continue;
		if (w->dry[i]) {
			if (w->ns[i] >= k->would_limit.wait_ns)
				put_limit(&k->would_limit, f, w, i);
			continue;
		}
		for (; at > 0 && w->ns[i] > k->limit[at - 1].wait_ns; at--)
			if (at < KEY_WAITS)
				k->limit[at] = k->limit[at - 1];
		if (at < KEY_WAITS)
			put_limit(&k->limit[at], f, w, i);
	}
}

static void copy_waits(struct key_stats *k, const struct key *key, uint64_t now_ns)
{
	copy_limits(k, key);
	for (unsigned i = 0; i < key->node.gate->lanes; i++) {
		const struct lane *l = &key->node.lane[i];
		const struct job *j = lane_oldest_job(l);
		uint64_t age_ns = j && now_ns > j->parked_ns ? now_ns - j->parked_ns : 0;
		if (!j || (age_ns <= k->oldest_ns && k->waits_for.known))
			continue;
		const struct resource *r = lane_stop(j->lane);
		k->oldest_ns = age_ns;
		if (r)
			limit_name(r->node, r->index, &k->waits_for);
	}
}

/* True: requests of the key have ended since the leaf is watched, and not long ago.  Otherwise its count starts at zero
 * again, because programs that look at it have forgotten the key meanwhile. */
static bool is_active(struct key *key, uint64_t now_ns)
{
	uint64_t ops = atomic_load_explicit(&key->done_ops, memory_order_relaxed);
	if (ops != key->done_seen) {
		key->done_seen = ops;
		key->active_ns = now_ns;
	}
	if (ops && now_ns - key->active_ns <= KEY_ACTIVE_NS)
		return true;
	atomic_store_explicit(&key->done_ops, 0, memory_order_relaxed);
	atomic_store_explicit(&key->done_bytes, 0, memory_order_relaxed);
	key->done_seen = 0;
	return false;
}

static bool has_waited(const struct key *key)
{
	return key->parked != key->parked_own || key->waited.n || key->would_wait.n;
}

static void copy_key(struct key_copy *c, struct key *key)
{
	bool watched = leaf_is_watched(node_leaf(key->node.parent));
	if (!has_waited(key) && !(watched && is_active(key, c->now_ns)))
		return;
	struct key_stats *k = &c->key[c->n++];
	*k = (struct key_stats){
		.key = key->id,
		.shared = keys_is_overflow(&node_leaf(key->node.parent)->keys, key),
		.weight = key->node.weight,
		.ops = key->ops,
		.bytes = key->bytes,
		.done_ops = atomic_load_explicit(&key->done_ops, memory_order_relaxed),
		.done_bytes = atomic_load_explicit(&key->done_bytes, memory_order_relaxed),
		.parked = key->waited.n,
		.parked_now = key->parked - key->parked_own,
		.wait_ns = key->waited.ns,
		.max_wait_ns = key->waited.max_ns,
		.would_wait = key->would_wait.n,
		.would_wait_ns = key->would_wait.ns,
		.max_would_wait_ns = key->would_wait.max_ns,
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
static bool copy_slice_locked(struct key_copy *c, struct keys *k)
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
		for (struct key *key = k->table[c->at]; key; key = key->next)
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
	uint64_t a_ns = add_sat_u64(x->wait_ns, x->would_wait_ns);
	uint64_t b_ns = add_sat_u64(y->wait_ns, y->would_wait_ns);
	return a_ns > b_ns ? -1 : a_ns < b_ns;
}

static bool is_inside(const struct node *n, const struct node *scope)
{
	while (n && n != scope)
		n = n->parent;
	return n;
}

/* The mount itself, then its classes; if a class is given, that class, then those inside it.  NULL: no more. */
static struct leaf *leaf_at(struct gate_mount *m, const char *class, unsigned i)
{
	struct leaf *first = class ? class_by_name(m, class) : &m->leaf;
	if (i == 0 || !first)
		return first;
	list_for_each (it, &m->class_leaves) {
		struct leaf *f = list_entry(it, struct leaf, of_mount);
		if (f != first && is_inside(&f->node, &first->node) && --i == 0)
			return f;
	}
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
		struct leaf *f = leaf_at(m, class, i);
		bool more = f && copy_slice_locked(c, &f->keys);
		gate_unlock_deliver(g);
		if (!f)
			return;
		if (!more) {
			i++;
			c->n_before = c->n;
			c->n_table = 0;
		}
		/* Without a pause, we would take the lock again before the threads that wait for
		 * it. */
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

void gate_watch_keys(struct gate_mount *m, bool on)
{
	gate_lock(m->leaf.node.gate);
	atomic_store(&m->leaf.watched, on);
	list_for_each (it, &m->class_leaves)
		atomic_store(&list_entry(it, struct leaf, of_mount)->watched, on);
	list_for_each (it, &m->spare_leaves)
		atomic_store(&list_entry(it, struct leaf, of_mount)->watched, on);
	gate_unlock_deliver(m->leaf.node.gate);
}

static void count_keys(struct leaf *f, void *arg)
{
	*(unsigned *)arg += (unsigned)f->keys.n + OVERFLOW_KEYS;
}

unsigned gate_count_keys(struct gate_mount *m)
{
	unsigned n = 0;
	gate_lock(m->leaf.node.gate);
	leaves_each(&m->leaf.node, count_keys, &n);
	gate_unlock_deliver(m->leaf.node.gate);
	return n;
}
