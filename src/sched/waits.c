/* SPDX-License-Identifier: MIT */
/* Who waits for which limit.  Nothing here influences scheduling. */
#include <stdio.h>
#include <string.h>

#include "sched/gate_internal.h"

/* --- limits --- */

static struct limit_ref ref_of(const struct node *bottom, unsigned depth, const struct node *n,
			       unsigned index)
{
	for (; bottom; bottom = bottom->parent, depth++)
		if (bottom == n)
			return (struct limit_ref){true, (uint8_t)depth, (uint8_t)index};
	return (struct limit_ref){0};
}

struct limit_ref limit_above(const struct key *key, const struct resource *r)
{
	return ref_of(&key->node, 0, r->node, r->index);
}

struct limit_ref limit_of(const struct leaf *f, const struct node *n, unsigned index)
{
	if (n->kind == SCOPE_KEY) /* its own */
		return (struct limit_ref){true, 0, (uint8_t)index};
	return ref_of(&f->node, 1, n, index);
}

static const char *index_name(unsigned index)
{
	if (index == RES_INFLIGHT)
		return "max_inflight";
	return index == RES_PAUSE ? "pause" : limit_kind_name(index / BUCKET_ROLES);
}

void limit_name(const struct key *key, struct limit_ref limit, struct waited_limit *out)
{
	const struct node *n = &key->node;
	for (unsigned i = 0; n && i < limit.depth; i++)
		n = n->parent;
	*out = (struct waited_limit){.known = limit.known && n};
	if (!out->known)
		return;
	out->each = n->kind == SCOPE_KEY;
	if (out->each)
		n = n->parent;
	out->scope = n->kind;
	out->name = index_name(limit.index);
	if (n->kind == SCOPE_CLASS)
		snprintf(out->of, sizeof(out->of), "%s", n->branch->name);
}

/* --- waiting --- */

void job_blocked_by(struct job *j, const struct resource *r)
{
	struct key *key = lane_key(j->lane);
	j->blocked_by = limit_above(key, r);
	if (!j->own)
		key->blocked_by = j->blocked_by;
}

static bool same(struct limit_ref a, struct limit_ref b)
{
	return a.known && b.known && a.depth == b.depth && a.index == b.index;
}

/* Where there are more limits than places, the one with the shortest wait loses its place; who comes into it inherits its
 * wait, so that a limit that matters gets there in the end. */
static struct key_wait *place_of(struct key *key, struct limit_ref limit)
{
	struct key_wait *least = &key->waits[0];
	for (unsigned i = 0; i < KEY_WAITS; i++) {
		struct key_wait *w = &key->waits[i];
		if (same(w->limit, limit))
			return w;
		if (w->ns < least->ns)
			least = w;
	}
	least->limit = limit;
	return least;
}

void key_waited(struct key *key, struct limit_ref limit, uint64_t wait_ns)
{
	key->wait_ns = add_sat_u64(key->wait_ns, wait_ns);
	key->max_wait_ns = max_u64(key->max_wait_ns, wait_ns);
	if (!limit.known)
		return;
	struct key_wait *w = place_of(key, limit);
	w->ns = add_sat_u64(w->ns, wait_ns);
}

/* --- names --- */

/* The end of a name is what tells it from others. */
static void put_name(char out[KEY_NAME_MAX], const char *name)
{
	size_t n = strlen(name);
	if (n >= KEY_NAME_MAX)
		name += n - (KEY_NAME_MAX - 1);
	memcpy(out, name, strlen(name) + 1);
}

static void name_key(struct leaf *f, struct fair_key id, const char *name)
{
	struct key *key = keys_find(&f->keys, id);
	if (key && !key->name[0])
		put_name(key->name, name);
}

void key_describe(struct gate_mount *m, const struct caller *c, enum cost_class cls)
{
	struct gate *g = m->leaf.node.gate;
	char text[CALLER_PATH_MAX] = "";
	struct fair_key id;
	struct leaf *f = leaf_of_lock(m, c, cls, &id);
	struct key *key = keys_find(&f->keys, id);
	bool mine = key && !key->described;
	if (mine)
		key->described = true; /* by this thread */
	gate_unlock_deliver(g);
	if (!mine || !g->callers)
		return;
	if (id.kind == FAIR_CGROUP)
		g->callers->cgroup_path(id.id, text, sizeof(text));
	else if (id.kind == FAIR_PROCESS || id.kind == FAIR_HANDLE)
		g->callers->name(c, text);
	gate_lock(g);
	name_key(&m->leaf, id, text); /* classes may have changed meanwhile */
	list_for_each (it, &m->class_leaves)
		name_key(list_entry(it, struct leaf, of_mount), id, text);
	gate_unlock_deliver(g);
}
