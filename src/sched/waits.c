/* SPDX-License-Identifier: MIT */
/* Statistics of who waits for which limit.  Nothing here influences scheduling. */
#include <stdio.h>
#include <string.h>

#include "sched/gate_internal.h"

/* --- limits --- */

static const char *index_name(unsigned index)
{
	if (index == RES_INFLIGHT)
		return "max_inflight";
	return index == RES_PAUSE ? "pause" : limit_kind_name(index / BUCKET_ROLES);
}

static bool is_pool(unsigned index)
{
	return index < RES_INFLIGHT && index % BUCKET_ROLES == BUCKET_POOL;
}

static const struct node *set_by(const struct node *n)
{
	return n->kind == SCOPE_KEY ? n->parent : n;
}

void limit_name(const struct node *n, unsigned index, struct waited_limit *out)
{
	const struct node *by = set_by(n);
	*out = (struct waited_limit){.known = true, .each = n->kind == SCOPE_KEY};
	out->scope = is_pool(index) ? SCOPE_POOL : by->kind;
	out->name = index_name(index);
	if (is_pool(index))
		snprintf(out->of, sizeof(out->of), "%s", by->limiter->config.pool);
	else if (by->kind == SCOPE_CLASS)
		snprintf(out->of, sizeof(out->of), "%s", by->branch->name);
}

static bool same_limit(const struct waited_limit *a, const struct waited_limit *b)
{
	return a->each == b->each && a->scope == b->scope && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->of, b->of) == 0;
}

unsigned wait_row_named(struct leaf *f, const struct waited_limit *limit)
{
	for (unsigned i = 1; i < f->n_wait_rows; i++)
		if (same_limit(&f->wait_row[i].limit, limit))
			return i;
	if (f->n_wait_rows == WAIT_ROWS)
		return 0;
	f->wait_row[f->n_wait_rows] = (struct wait_row){.limit = *limit};
	return f->n_wait_rows++;
}

unsigned wait_row_of(struct leaf *f, const struct node *n, unsigned index)
{
	const struct node *by = set_by(n);
	bool each = n->kind == SCOPE_KEY;
	struct waited_limit limit;
	if (index < RES_INFLIGHT && !is_pool(index)) /* a limit and its peak are one limit */
		index -= index % BUCKET_ROLES;
	for (unsigned i = 1; i < f->n_wait_rows; i++) {
		const struct wait_row *w = &f->wait_row[i];
		if (w->node == by && w->index == index && w->limit.each == each)
			return i;
	}
	limit_name(n, index, &limit);
	unsigned row = wait_row_named(f, &limit);
	if (row) {
		f->wait_row[row].node = by;
		f->wait_row[row].index = index;
	}
	return row;
}

static void unbind(struct leaf *f, void *unused)
{
	for (unsigned i = 1; i < f->n_wait_rows; i++)
		f->wait_row[i].node = NULL;
	for (unsigned i = 0; i < LANES; i++)
		f->clock[i].stop = NULL;
}

void wait_rows_unbind(struct node *n)
{
	leaves_each(n, unbind, NULL);
}

/* --- waiting --- */

/* If a key waits for more limits than there are places, the new limit replaces the one with the shortest wait and
 * inherits that wait, so that a limit that matters eventually keeps a place. */
static uint64_t *place_of(struct key *key, unsigned row, bool dry)
{
	struct key_waits *w = &key->waits;
	unsigned least = 0;
	for (unsigned i = 0; i < KEY_WAITS; i++) {
		if (w->row[i] == row && w->dry[i] == dry)
			return &w->ns[i];
		if (w->ns[i] < w->ns[least])
			least = i;
	}
	w->row[least] = (uint8_t)row;
	w->dry[least] = dry;
	return &w->ns[least];
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

static void add_to_place(struct key *key, unsigned row, bool dry, uint64_t ns)
{
	uint64_t *sum_ns = place_of(key, row, dry);
	*sum_ns = add_sat_u64(*sum_ns, ns);
}

static void key_sum_add(struct key_sum *s, uint64_t ns)
{
	s->ns = add_sat_u64(s->ns, ns);
	s->max_ns = max_u64(s->max_ns, ns);
}

void key_waited(struct key *key, const uint64_t ns[WAIT_ROWS], uint64_t wait_ns)
{
	struct leaf *f = node_leaf(key->node.parent);
	key_sum_add(&key->waited, wait_ns);
	for (unsigned i = 1; i < f->n_wait_rows; i++)
		if (ns[i]) {
			add_to_place(key, i, false, ns[i]);
			wait_times_add(&f->wait_row[i].waited, ns[i]);
		}
}

void key_would_wait(struct key *key, unsigned row, uint64_t wait_ns)
{
	struct leaf *f = node_leaf(key->node.parent);
	key->would_wait.n++;
	key_sum_add(&key->would_wait, wait_ns);
	if (row) {
		add_to_place(key, row, true, wait_ns);
		wait_times_add(&f->wait_row[row].would_wait, wait_ns);
	}
}

/* --- the limits that requests of a scope waited for --- */

struct waited_sum {
	struct waited_limit *limit;
	unsigned n, room;
	bool dry_run;
	const struct job *oldest; /* that waits now */
};

static void sum_add(struct waited_sum *sum, const struct waited_limit *limit, uint64_t ns)
{
	unsigned i = 0;
	while (i < sum->n && !same_limit(&sum->limit[i], limit))
		i++;
	if (!ns || i == sum->room)
		return;
	if (i == sum->n) {
		sum->limit[sum->n++] = *limit;
		sum->limit[i].wait_ns = 0;
	}
	sum->limit[i].wait_ns = add_sat_u64(sum->limit[i].wait_ns, ns);
}

static void sum_leaf(struct leaf *f, void *arg)
{
	struct waited_sum *sum = arg;
	for (unsigned i = 1; i < f->n_wait_rows; i++) {
		const struct wait_row *w = &f->wait_row[i];
		sum_add(sum, &w->limit, sum->dry_run ? w->would_wait.sum_ns : w->waited.sum_ns);
	}
}

static void find_oldest_of_key(struct key *key, void *arg)
{
	struct waited_sum *sum = arg;
	for (unsigned i = 0; i < LANES; i++) {
		const struct job *j = lane_oldest_job(&key->node.lane[i]);
		if (j && (!sum->oldest || (int64_t)(j->seq - sum->oldest->seq) < 0))
			sum->oldest = j;
	}
}

static void find_oldest(struct leaf *f, void *arg)
{
	keys_each(&f->keys, find_oldest_of_key, arg);
}

unsigned gate_waited_limits(struct gate_mount *m, const char *class, bool dry_run,
			    struct waited_limit *out, unsigned n)
{
	struct gate *g = m->leaf.node.gate;
	struct waited_sum sum = {.limit = out, .room = n, .dry_run = dry_run};
	struct waited_limit now;
	gate_lock(g);
	struct leaf *f = class ? class_by_name(m, class) : &m->leaf;
	if (f)
		leaves_each(&f->node, sum_leaf, &sum);
	if (f && !sum.n)
		leaves_each(&f->node, find_oldest, &sum);
	const struct resource *stop = sum.oldest ? lane_stop(sum.oldest->lane) : NULL;
	if (stop) {
		limit_name(stop->node, stop->index, &now);
		sum_add(&sum, &now, 1);
	}
	gate_unlock_deliver(g);
	return sum.n;
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

static void name_key(struct leaf *f, struct fair_key id, const char *name, const char *program)
{
	struct key *key = keys_find(&f->keys, id);
	if (key && *name) /* "": the program has exited */
		put_name(key->name, name);
	/* while lanes of the key are queued, they get it with their next turn */
	if (key && *program)
		key->node.weight = keys_weight_named(f, id, program);
}

/* Names are kept this long, because reading /proc takes longer than parking a request. */
#define NAME_KEPT_NS (5 * NSEC_PER_SEC)

bool key_needs_name(const struct key *key, uint64_t now_ns)
{
	uint64_t at_ns = atomic_load_explicit(&key->described_ns, memory_order_relaxed);
	if (keys_is_overflow(&node_leaf(key->node.parent)->keys, key))
		return false; /* callers share it */
	return !at_ns || (now_ns > at_ns && now_ns - at_ns > NAME_KEPT_NS);
}

void key_describe(struct gate_mount *m, const struct caller *c, enum cost_class cls,
		  uint64_t now_ns)
{
	struct gate *g = m->leaf.node.gate;
	char text[CALLER_PATH_MAX] = "", program[CALLER_NAME_MAX] = "";
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
	/* The key may be older than the program that its process executes now. */
	if (id.kind == FAIR_PROCESS && c->opener)
		g->callers->name(&(const struct caller){.tid = (uint32_t)id.id}, program);
	else if (id.kind == FAIR_PROCESS)
		memcpy(program, text, sizeof(program));
	gate_lock(g);
	name_key(&m->leaf, id, text, program); /* classes may have changed meanwhile */
	list_for_each (it, &m->class_leaves)
		name_key(list_entry(it, struct leaf, of_mount), id, text, program);
	gate_unlock_deliver(g);
}

void key_introduce(struct leaf *f, struct key *key, const struct caller *c, enum cost_class cls,
		   uint64_t now_ns)
{
	struct gate *g = f->node.gate;
	gate_lock(g);
	key->uid = c->uid;
	gate_unlock_deliver(g);
	key_describe(f->mount, c, cls, now_ns);
}
