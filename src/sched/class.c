/* SPDX-License-Identifier: MIT */
/* Classes: finds the leaf of a mount that a request belongs to.
 *
 * Each thread caches the leaves of similar requests, so that rules are evaluated once for each kind
 * of caller and operation; if rules ask for cgroups or names, once per second for each calling
 * thread.  classes_id is part of the cache key, so that a change applies to the next request. */
#include <string.h>

#include "sched/gate_internal.h"

#define REMEMBERED 64

struct remembered {
	uint64_t classes_id;
	uint64_t second; /* 0 if the rules ask for nothing that changes */
	uint32_t tid, uid, gid;
	enum cost_class cls;
	uint64_t opened; /* for a request without a caller: its handle; otherwise 0 */
	struct leaf *leaf;
};
static _Thread_local struct remembered remembered[REMEMBERED];

static struct remembered *slot_of(const struct remembered *r)
{
	uint64_t h = (r->classes_id ^ (uint64_t)r->uid << 32 ^ r->gid) * 0x9E3779B97F4A7C15ULL;
	h = (h ^ h >> 29 ^ (uint64_t)r->tid << 8 ^ r->cls) * 0xD6E8FEB86659FD93ULL;
	return &remembered[h >> 58];
}

static struct leaf *match(const struct class_table *t, const struct rule_subject *s)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->row[i].rule && rule_matches(t->row[i].rule, s))
			return t->row[i].leaf;
	return NULL;
}

struct leaf *class_match(struct gate_mount *m, const struct caller *c, enum cost_class cls,
			 uint64_t now_ns)
{
	const struct class_table *t = m->classes;
	const struct caller_ops *ops = m->leaf.node.gate->callers;
	char cgroup[CALLER_PATH_MAX] = "", comm[CALLER_NAME_MAX] = "";
	struct rule_subject s = {.uid = c->uid, .gid = c->gid, .cls = cls};
	if (!t)
		return &m->leaf;
	if (ops && t->fields & 1U << RULE_CGROUP) {
		ops->cgroup_path(ops->cgroup(c, now_ns), cgroup, sizeof(cgroup));
		s.cgroup = cgroup[0] ? cgroup : NULL;
	}
	if (ops && t->fields & 1U << RULE_COMM) {
		ops->name(c, comm);
		s.comm = comm[0] ? comm : NULL;
	}
	struct leaf *f = match(t, &s);
	return f ? f : &m->leaf;
}

struct leaf *class_find(struct gate_mount *m, uint64_t classes_id, const struct caller *c,
			enum cost_class cls, uint64_t *now_ns)
{
	struct remembered like = {
		.classes_id = classes_id, .uid = c->uid, .gid = c->gid, .cls = cls};
	if (classes_id & 1) {
		if (!*now_ns)
			*now_ns = clock_now(m->leaf.node.gate->clock);
		like.tid = c->tid;
		like.second = *now_ns / NSEC_PER_SEC + 1;
		like.opened = c->opener ? c->handle : 0;
	}
	struct remembered *r = slot_of(&like);
	if (r->classes_id == like.classes_id && r->second == like.second && r->tid == like.tid &&
	    r->uid == like.uid && r->gid == like.gid && r->cls == like.cls &&
	    r->opened == like.opened)
		return r->leaf;
	pthread_rwlock_rdlock(&m->classes_lock);
	like.leaf = class_match(m, c, cls, *now_ns);
	like.classes_id = atomic_load(&m->classes_id);
	pthread_rwlock_unlock(&m->classes_lock);
	if (like.classes_id == classes_id)
		*r = like;
	return like.leaf;
}

bool gate_asks_for_openers(const struct gate_mount *m)
{
	return (atomic_load_explicit(&m->classes_id, memory_order_relaxed) & 1) ||
	       atomic_load_explicit(&m->class_by_cgroup, memory_order_relaxed) ||
	       atomic_load_explicit(&m->leaf.fair, memory_order_relaxed) == FAIR_CGROUP;
}

struct leaf *leaf_of_lock(struct gate_mount *m, const struct caller *c, enum cost_class cls,
			  struct fair_key *key)
{
	struct gate *g = m->leaf.node.gate;
	uint64_t now_ns = clock_now(g->clock);
	for (;;) {
		uint64_t classes_id = atomic_load(&m->classes_id);
		struct leaf *f = leaf_of(m, c, cls, &now_ns);
		*key = caller_key(c, g->callers, atomic_load(&f->fair), now_ns);
		outer_look_up(f, cls, c, now_ns);
		gate_lock(g);
		if (atomic_load(&m->classes_id) == classes_id)
			return f;
		gate_unlock_deliver(g);
	}
}

struct leaf *class_by_name(const struct gate_mount *m, const char *name)
{
	list_for_each (it, &m->class_leaves) {
		struct leaf *f = list_entry(it, struct leaf, of_mount);
		if (strcmp(f->node.branch->name, name) == 0)
			return f;
	}
	return NULL;
}
