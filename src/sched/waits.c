/* SPDX-License-Identifier: MIT */
/* Statistics of who waits for which limit.  Nothing here influences scheduling. */
#include <stdio.h>
#include <string.h>

#include "sched/gate_internal.h"

/* --- limits --- */

struct limit_ref limit_of(const struct leaf *f, const struct node *n, unsigned index)
{
	bool each = n->kind == SCOPE_KEY;
	const struct node *scope = each ? n->parent : n, *at = &f->node;
	unsigned depth = 1;
	if (each && scope == at)
		return (struct limit_ref){true, 0, (uint8_t)index};
	for (; at && at != scope; at = at->parent)
		depth++;
	if (!at)
		return (struct limit_ref){0};
	return (struct limit_ref){true, (uint8_t)(each ? LIMIT_EACH + depth : depth),
				  (uint8_t)index};
}

struct limit_ref limit_above(const struct key *key, const struct resource *r)
{
	return limit_of(node_leaf(key->node.parent), r->node, r->index);
}

static const char *index_name(unsigned index)
{
	if (index == RES_INFLIGHT)
		return "max_inflight";
	return index == RES_PAUSE ? "pause" : limit_kind_name(index / BUCKET_ROLES);
}

static unsigned kind_of(unsigned index)
{
	return index == RES_INFLIGHT ? WAIT_INFLIGHT
	       : index == RES_PAUSE  ? WAIT_PAUSE
				     : index / BUCKET_ROLES;
}

static unsigned index_of(unsigned kind)
{
	return kind == WAIT_INFLIGHT ? RES_INFLIGHT
	       : kind == WAIT_PAUSE  ? RES_PAUSE
				     : kind * BUCKET_ROLES;
}

/* `n`: the node that has the limit; NULL: there is none. */
static void name_limit(const struct node *n, bool each, unsigned index, struct waited_limit *out)
{
	*out = (struct waited_limit){.known = n != NULL, .each = each};
	if (!n)
		return;
	out->scope =
		index < RES_INFLIGHT && index % BUCKET_ROLES == BUCKET_POOL ? SCOPE_POOL : n->kind;
	out->name = index_name(index);
	if (n->kind == SCOPE_CLASS)
		snprintf(out->of, sizeof(out->of), "%s", n->branch->name);
}

/* True: a limit of this depth belongs to a key; its scope has it for each key. */
static bool is_each(unsigned depth)
{
	return depth == 0 || depth > LIMIT_EACH;
}

/* The node that sets a limit at this depth; the limits of a key (depth 0) are set by its leaf. */
static const struct node *scope_above(const struct node *leaf, unsigned depth)
{
	for (depth %= LIMIT_EACH; leaf && depth > 1; depth--)
		leaf = leaf->parent;
	return leaf;
}

void leaf_limit_name(const struct leaf *f, unsigned depth, unsigned kind, struct waited_limit *out)
{
	name_limit(scope_above(&f->node, depth), is_each(depth), index_of(kind), out);
}

void limit_name(const struct key *key, struct limit_ref limit, struct waited_limit *out)
{
	const struct node *n = limit.known ? scope_above(key->node.parent, limit.depth) : NULL;
	name_limit(n, is_each(limit.depth), limit.index, out);
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

/* If a key waits for more limits than there are places, the new limit replaces the one with the shortest wait and
 * inherits that wait, so that a limit that matters eventually keeps a place. */
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

/* A request waits because a lane between its key and the root was refused; requests behind it in the queue waited for the
 * same limit.  Returns the latest refusal; of several at the same time, that of the widest scope, which was tried last. */
struct limit_ref lane_waited_for(const struct lane *bottom)
{
	struct limit_ref last = {0};
	uint64_t last_ns = 0;
	uint8_t depth = 0;
	for (const struct lane *l = bottom; l; depth += !lane_is_part(l), l = lane_parent(l))
		if (l->refused_ns && l->refused_ns >= last_ns) {
			uint8_t outer = (uint8_t)l->refused_outer;
			last = (struct limit_ref){true, outer ? outer : depth,
						  (uint8_t)l->refused_by};
			last_ns = l->refused_ns;
		}
	return last;
}

const uint64_t wait_bound_ns[WAIT_BOUNDS] = {
	1 * NSEC_PER_MSEC,   2500 * NSEC_PER_USEC, 5 * NSEC_PER_MSEC,	 10 * NSEC_PER_MSEC,
	25 * NSEC_PER_MSEC,  50 * NSEC_PER_MSEC,   100 * NSEC_PER_MSEC,	 250 * NSEC_PER_MSEC,
	500 * NSEC_PER_MSEC, 1 * NSEC_PER_SEC,	   2500 * NSEC_PER_MSEC, 5 * NSEC_PER_SEC,
	10 * NSEC_PER_SEC,   30 * NSEC_PER_SEC,	   60 * NSEC_PER_SEC,
};

static void wait_times_add(struct wait_times *t, uint64_t ns)
{
	unsigned i = 0;
	while (i < WAIT_BOUNDS && ns > wait_bound_ns[i])
		i++;
	t->count[i]++;
	t->sum_ns = add_sat_u64(t->sum_ns, ns);
}

void key_waited(struct key *key, struct limit_ref limit, uint64_t wait_ns)
{
	key->wait_ns = add_sat_u64(key->wait_ns, wait_ns);
	key->max_wait_ns = max_u64(key->max_wait_ns, wait_ns);
	if (!limit.known)
		return;
	struct key_wait *w = place_of(key, limit);
	w->ns = add_sat_u64(w->ns, wait_ns);
	struct leaf *f = node_leaf(key->node.parent);
	wait_times_add(&f->waited[limit.depth][kind_of(limit.index)], wait_ns);
}

/* --- names --- */

/* Keeps the end of a long name, which distinguishes it from others. */
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
	if (key && *name) /* "": the program has exited */
		put_name(key->name, name);
}

/* Names are kept this long, because reading /proc takes longer than parking a request. */
#define NAME_KEPT_NS (5 * NSEC_PER_SEC)

bool key_needs_name(const struct key *key, uint64_t now_ns)
{
	return !key->described_ns || now_ns - key->described_ns > NAME_KEPT_NS;
}

void key_describe(struct gate_mount *m, const struct caller *c, enum cost_class cls,
		  uint64_t now_ns)
{
	struct gate *g = m->leaf.node.gate;
	char text[CALLER_PATH_MAX] = "";
	struct fair_key id;
	struct leaf *f = leaf_of_lock(m, c, cls, &id);
	struct key *key = keys_find(&f->keys, id);
	bool mine = key && key_needs_name(key, now_ns);
	if (mine)
		key->described_ns = max_u64(now_ns, 1); /* other threads need not do it */
	gate_unlock_deliver(g);
	if (!mine || !g->callers)
		return;
	if (id.kind == FAIR_CGROUP)
		g->callers->cgroup_path(id.id, text, sizeof(text));
	else
		g->callers->name(c, text);
	gate_lock(g);
	name_key(&m->leaf, id, text); /* classes may have changed meanwhile */
	list_for_each (it, &m->class_leaves)
		name_key(list_entry(it, struct leaf, of_mount), id, text);
	gate_unlock_deliver(g);
}
