/* SPDX-License-Identifier: MIT */
/* Outer keys: the limits that a scope has for each key apply to all requests below it, including those of its classes.
 *
 * A request that belongs to a class queues under its key in that class, but its user (or process, …, by `fair` of the outer
 * scope) may have a limit in the mount, or in a class that contains the class.  The key there is an outer key of the request.
 *
 *	mount   fair=uid, each.bps=20M     key uid 1000: a bucket of 20M ◀─┬─ asked, too
 *	 └ class backup, fair=process      key pid 4711: the queue ────────┘
 *
 * The lane of the queue asks the limits of its own key first, then those of the outer keys of the job at its front, and
 * waits in line at the resource that refuses, where lanes of other classes, and the outer key's own lanes, wait for
 * the same tokens: classes share them by their weights (line.c).  A job pins its outer keys while it is parked, and its grant pins
 * them until it is settled, so that no key is forgotten meanwhile. */
#include "sched/gate_internal.h"

unsigned outer_leaves(const struct leaf *f, enum cost_class cls, struct leaf *out[GRANT_KEYS_MAX])
{
	const struct scope_way *way = atomic_load_explicit(&f->way, memory_order_acquire);
	unsigned n = 0;
	for (unsigned i = 1; i < way->n && node_is_leaf(way->node[i]); i++) {
		struct leaf *up = node_leaf(way->node[i]);
		if (atomic_load_explicit(&up->each_here, memory_order_relaxed) & 1U << cls)
			out[n++] = up;
	}
	return n;
}

static struct fair_key id_in(const struct leaf *f, const struct caller *c, uint64_t now_ns)
{
	return caller_key(c, f->node.gate->callers,
			  atomic_load_explicit(&f->fair, memory_order_relaxed), now_ns);
}

void outer_look_up(const struct leaf *f, enum cost_class cls, const struct caller *c,
		   uint64_t now_ns)
{
	struct leaf *up[GRANT_KEYS_MAX];
	for (unsigned n = outer_leaves(f, cls, up); n-- > 0;)
		(void)id_in(up[n], c, now_ns);
}

/* --- grants --- */

static void add_key(struct grant *grant, struct key *key, const struct chain *limits)
{
	grant->key[grant->keys++] = (struct granted_key){key, limits};
}

/* Pins the caller's key, so that the limits that are in force now stay valid. */
static struct key *pin(struct leaf *f, const struct caller *c, uint64_t now_ns)
{
	struct gate *g = f->node.gate;
	struct fair_key id = id_in(f, c, now_ns);
	pthread_mutex_lock(&f->keys.lock);
	struct key *key = keys_find(&f->keys, id);
	if (key)
		key_pin(key);
	pthread_mutex_unlock(&f->keys.lock);
	if (key)
		return key;
	gate_lock(g);
	key = keys_get(f, id, now_ns);
	key_pin(key);
	gate_unlock_deliver(g);
	return key;
}

static void pin_in(struct grant *grant, struct leaf *f, const struct caller *c, uint64_t now_ns)
{
	struct key *key = pin(f, c, now_ns);
	const struct key_limits *l = atomic_load_explicit(&key->limits, memory_order_acquire);
	add_key(grant, key, l ? l->cls[grant->cost.cls] : NULL);
}

void keys_pin(struct grant *grant, const struct caller *c, uint64_t now_ns)
{
	struct leaf *up[GRANT_KEYS_MAX];
	unsigned n = outer_leaves(grant->leaf, grant->cost.cls, up);
	pin_in(grant, grant->leaf, c, now_ns);
	for (unsigned i = 0; i < n; i++)
		pin_in(grant, up[i], c, now_ns);
}

void keys_pin_locked(struct grant *grant, struct key *key, const struct caller *c, uint64_t now_ns)
{
	struct leaf *up[GRANT_KEYS_MAX];
	unsigned n = outer_leaves(grant->leaf, grant->cost.cls, up);
	for (unsigned i = 0; i <= n; i++) {
		if (i > 0)
			key = keys_get(up[i - 1], id_in(up[i - 1], c, now_ns), now_ns);
		key_pin(key);
		add_key(grant, key, key->node.own[grant->cost.cls]);
	}
}

void keys_unpin(struct grant *grant)
{
	while (grant->keys)
		key_unpin(grant->key[--grant->keys].key);
}

bool keys_limited(const struct grant *grant)
{
	for (unsigned i = 0; i < grant->keys; i++)
		if (grant->key[i].chain)
			return true;
	return false;
}

/* --- parked jobs --- */

void outer_attach(struct job *j, const struct caller *c, uint64_t now_ns)
{
	struct leaf *up[GRANT_KEYS_MAX];
	unsigned n = outer_leaves(j->leaf, j->cost.cls, up);
	for (unsigned i = 0; i < n; i++) {
		struct key *key = keys_get(up[i], id_in(up[i], c, now_ns), now_ns);
		key_pin(key);
		key->parked_below++;
		j->grant.key[++j->outer_keys].key = key;
		j->had_turn[j->outer_keys] = 0;
	}
}

unsigned outer_place(const struct job *j, const struct node *n)
{
	for (unsigned i = 1; j && i <= j->outer_keys; i++)
		if (&j->grant.key[i].key->node == n)
			return i;
	return 0;
}

void outer_note_turn(struct job *j, const struct resource *r)
{
	unsigned i = outer_place(j, r->node);
	if (i)
		j->had_turn[i] |= 1U << r->index;
}

bool outer_had_turn(const struct job *j, const struct resource *r)
{
	unsigned i = outer_place(j, r->node);
	return i && j->had_turn[i] & 1U << r->index;
}

void outer_detach(struct job *j)
{
	for (; j->outer_keys; j->outer_keys--) {
		struct key *key = j->grant.key[j->outer_keys].key;
		key->parked_below--;
		key_unpin(key);
	}
}

/* True: these are still the keys that the job would get. */
static bool is_attached(const struct job *j)
{
	struct leaf *up[GRANT_KEYS_MAX];
	unsigned n = outer_leaves(j->leaf, j->cost.cls, up);
	for (unsigned i = 0; i < n && n == j->outer_keys; i++) {
		const struct key *key = j->grant.key[i + 1].key;
		if (key->node.parent != &up[i]->node ||
		    (int)key->id.kind != atomic_load(&up[i]->fair))
			return false;
	}
	return n == j->outer_keys;
}

/* The gate's own jobs have no caller: they take nothing from limits that came after them. */
void outer_renew(struct job *j, uint64_t now_ns)
{
	if (is_attached(j))
		return;
	outer_detach(j);
	if (!j->own)
		outer_attach(j, &j->caller, now_ns);
}
