/* SPDX-License-Identifier: MIT */
/* Changes the classes of a mount at run time, as a part of a change of the gate (gate_change.c).
 *
 * The memory of a removed class is kept until the mount ends, because a request may be about to enter
 * the class.  Once no grant refers to it, the memory is reused for the next class that is added. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

#define SUBJECT_FIELDS (1U << RULE_CGROUP | 1U << RULE_COMM)

/* --- planning --- */

/* The plan for one class of the new set. */
struct plan_row {
	const struct gate_class_config *cfg;
	struct leaf *leaf;
	enum { KEPT, FRESH, REUSED } origin;
	struct leaf *parent;
	char *name; /* REUSED: its new name */
	struct weight_rule *weights;
	/* the new limits, or the old ones while chains are compiled for the new */
	struct limiter_config limits;
};

struct class_plan {
	struct gate_mount *m;
	struct class_table *table;
	uint64_t now_ns;
	bool committed;
	struct list jobs; /* waiting jobs, from class_plan_commit to class_plan_place_jobs */
	unsigned n;
	struct plan_row row[];
};

static int find_parent(const struct class_plan *p, unsigned i, unsigned *parent)
{
	for (unsigned k = 0; k < p->n; k++)
		if (strcmp(p->row[k].cfg->name, p->row[i].cfg->parent) == 0) {
			*parent = k;
			return 0;
		}
	return -EINVAL;
}

/* Checks that parents exist, form no cycle and are not nested too deeply. */
static int plan_parents(struct class_plan *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		unsigned at = i, depth = 0, up;
		for (; p->row[at].cfg->parent; at = up)
			if (find_parent(p, at, &up) < 0 || ++depth >= GATE_CLASS_DEPTH_MAX)
				return -EINVAL;
	}
	return 0;
}

/* A removed class that no grant refers to any more. */
static struct leaf *take_spare(struct gate_mount *m)
{
	list_for_each (it, &m->spare_leaves) {
		struct leaf *f = list_entry(it, struct leaf, of_mount);
		if (atomic_load_explicit(&f->grants, memory_order_acquire) ||
		    permits_look(&f->node.limiter->open).in_flight)
			continue;
		list_remove(&f->of_mount);
		return f;
	}
	return NULL;
}

static int get_leaf(struct class_plan *p, struct plan_row *row)
{
	struct gate_mount *m = p->m;
	row->leaf = class_by_name(m, row->cfg->name);
	if (row->leaf)
		return 0;
	row->leaf = take_spare(m);
	if (row->leaf) {
		row->origin = REUSED;
		row->name = strdup(row->cfg->name);
		return row->name ? 0 : -ENOMEM;
	}
	row->leaf = aligned_alloc(CACHE_LINE, sizeof(*row->leaf));
	if (!row->leaf)
		return -ENOMEM;
	row->origin = FRESH;
	return leaf_init(row->leaf, m, &m->leaf.node, SCOPE_CLASS, row->cfg->name,
			 &row->cfg->limits, p->now_ns)
		       ? 0
		       : -ENOMEM;
}

static int plan_leaf(struct class_plan *p, struct plan_row *row)
{
	int rc = get_leaf(p, row);
	if (rc == 0)
		rc = node_prepare(&row->leaf->node, &row->cfg->limits, p->now_ns);
	if (rc == 0)
		rc = each_prepare(row->leaf, &row->cfg->each, p->now_ns);
	if (rc == 0)
		rc = keys_rules_copy(row->cfg->weights, row->cfg->n_weights, &row->weights);
	return rc;
}

static int plan_table(struct class_plan *p)
{
	struct class_table *t = calloc(1, sizeof(*t) + p->n * sizeof(t->row[0]));
	p->table = t;
	if (!t)
		return -ENOMEM;
	for (unsigned i = 0; i < p->n; i++) {
		const struct rule *match = p->row[i].cfg->match;
		t->row[i].leaf = p->row[i].leaf;
		t->n = i + 1;
		if (!match)
			continue;
		t->row[i].rule = rule_copy(match);
		if (!t->row[i].rule)
			return -ENOMEM;
		t->fields |= match->fields;
	}
	return 0;
}

/* Reserves room in every queue for everything that may be below it, whichever classes are its
 * parents. */
static int plan_room(struct class_plan *p)
{
	for (unsigned i = 0; i <= p->n; i++) {
		struct leaf *f = i < p->n ? p->row[i].leaf : &p->m->leaf;
		for (unsigned k = 0; k < LANES; k++)
			if (!fq_reserve(f->node.lane[k].fq, f->keys.n + OVERFLOW_KEYS + p->n))
				return -ENOMEM;
	}
	return 0;
}

static int compile_row(const struct class_plan *p, const struct plan_row *row)
{
	struct node *way[CHAIN_SCOPES_MAX];
	unsigned n = 0;
	for (struct leaf *f = row->leaf; f != &p->m->leaf;) {
		const struct plan_row *at = p->row;
		while (at->leaf != f)
			at++;
		way[n++] = &f->node;
		f = at->parent;
	}
	for (struct node *up = &p->m->leaf.node; up; up = up->parent)
		way[n++] = up;
	int rc = own_compile(&row->leaf->node);
	return rc < 0 ? rc : leaf_compile(row->leaf, way, n);
}

void class_plan_swap_limits(struct class_plan *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct limiter *l = p->row[i].leaf->node.limiter;
		struct limiter_config was = l->config;
		l->config = p->row[i].limits;
		p->row[i].limits = was;
	}
}

int class_plan_compile(struct class_plan *p)
{
	int rc = 0;
	for (unsigned i = 0; i < p->n && rc == 0; i++)
		rc = compile_row(p, &p->row[i]);
	return rc;
}

int class_plan_prepare(struct class_plan *p, uint64_t now_ns)
{
	p->now_ns = now_ns;
	int rc = plan_parents(p);
	for (unsigned i = 0; i < p->n && rc == 0; i++)
		rc = plan_leaf(p, &p->row[i]);
	for (unsigned i = 0; i < p->n && rc == 0; i++) {
		unsigned up;
		p->row[i].parent = &p->m->leaf;
		if (p->row[i].cfg->parent && find_parent(p, i, &up) == 0)
			p->row[i].parent = p->row[up].leaf;
	}
	if (rc == 0)
		rc = plan_table(p);
	return rc == 0 ? plan_room(p) : rc;
}

struct class_plan *class_plan_new(struct gate_mount *m, const struct gate_class_config *cfg,
				  unsigned n)
{
	struct class_plan *p = calloc(1, sizeof(*p) + n * sizeof(p->row[0]));
	if (!p)
		return NULL;
	p->m = m;
	p->n = n;
	list_init(&p->jobs);
	for (unsigned i = 0; i < n; i++) {
		p->row[i].cfg = &cfg[i];
		p->row[i].limits = cfg[i].limits;
	}
	return p;
}

static void table_free(struct class_table *t)
{
	for (unsigned i = 0; t && i < t->n; i++)
		rule_free(t->row[i].rule);
	free(t);
}

static void plan_drop(struct class_plan *p)
{
	table_free(p->table);
	for (unsigned i = 0; i < p->n; i++) {
		struct plan_row *row = &p->row[i];
		keys_rules_free(row->weights, row->cfg->n_weights);
		free(row->name);
		if (row->origin == REUSED) {
			list_push_tail(&p->m->spare_leaves, &row->leaf->of_mount);
		} else if (row->origin == FRESH) {
			leaf_fini(row->leaf);
			free(row->leaf);
		}
	}
}

void class_plan_free(struct class_plan *p)
{
	if (p && !p->committed)
		plan_drop(p);
	free(p);
}

/* --- the change itself --- */

static void forget_place(struct node *n)
{
	for (unsigned i = 0; i < LANES; i++)
		fq_item_init(&n->lane[i].item, n->lane[i].item.weight);
}

/* Resets the leaf as if it were new. */
static void begin_anew(struct leaf *f, char **name, uint64_t now_ns)
{
	struct branch *b = f->node.branch;
	leaf_count_anew(f);
	free(b->name);
	b->name = *name;
	*name = NULL;
	b->reserve = (struct reservation){0};
	f->node.paused = false;
	node_forget_waits(&f->node, now_ns);
	f->n_wait_rows = 1;
	memset(f->clock, 0, sizeof(f->clock));
	forget_place(&f->node);
}

static void settle_row(struct class_plan *p, struct plan_row *row)
{
	const struct gate_class_config *cfg = row->cfg;
	struct leaf *f = row->leaf;
	struct reservation *r = &f->node.branch->reserve;
	if (row->origin == REUSED)
		begin_anew(f, &row->name, p->now_ns);
	limiter_configure(f->node.limiter, &cfg->limits, p->now_ns);
	each_apply(f, &cfg->each, p->now_ns);
	atomic_store(&f->fair, cfg->fair);
	f->node.weight = cfg->weight ? cfg->weight : 1;
	if (f->node.parent != &row->parent->node)
		forget_place(&f->node); /* its siblings have changed */
	f->node.parent = &row->parent->node;
	f->max_wait_ns = cfg->max_wait_ns;
	f->keys.max = cfg->max_keys ? cfg->max_keys : GATE_MAX_KEYS_DEFAULT;
	leaf_set_weights(f, row->weights, cfg->n_weights);
	row->weights = NULL;
	r->bps = cfg->reserve_bps;
	r->iops = cfg->reserve_iops;
	leaf_tell_newcomers(f);
	list_remove(&f->of_mount); /* from the list of former classes */
	list_push_tail(&p->m->class_leaves, &f->of_mount);
}

/* A request that moves is counted where its wait ends.  After a reset of the statistics, its old key has not counted it. */
static void count_leaving(struct key *key, const struct job *j)
{
	if (!j->probe && j->waited && key->waited.n)
		key->waited.n--;
}

static void count_moved(struct key *key, const struct job *j)
{
	if (j->probe || !j->waited)
		return;
	key->waited.n++;
	key->uid = j->caller.uid;
}

/* The gate's own jobs stay where they are: they belong to a key, not to a request. */
static void collect_job(struct job *j, void *arg)
{
	if (j->own)
		return;
	if (j->probe)
		probe_left(lane_key(j->lane), j);
	count_leaving(lane_key(j->lane), j);
	list_remove(&j->link);
	job_count_parked(j, -1);
	job_tell_newcomers(j);
	list_push_tail(arg, &j->link);
}

static void collect_jobs(struct leaf *f, void *arg)
{
	leaf_tell_newcomers(f);
	jobs_each(f, collect_job, arg);
}

/* Merge sort by arrival, because there may be thousands of jobs. */
static void sort_jobs(struct list *jobs)
{
	struct list left = LIST_INIT(left), right = LIST_INIT(right);
	unsigned n = 0;
	list_for_each_safe (it, jobs) {
		list_remove(it);
		list_push_tail(n++ & 1 ? &left : &right, it);
	}
	if (n > 2) {
		sort_jobs(&left);
		sort_jobs(&right);
	}
	while (!list_empty(&left) || !list_empty(&right)) {
		struct job *a = list_first(&left, struct job, link),
			   *b = list_first(&right, struct job, link);
		struct job *first = !b || (a && (int64_t)(a->seq - b->seq) < 0) ? a : b;
		list_remove(&first->link);
		list_push_tail(jobs, &first->link);
	}
}

/* Puts the job behind those that arrived before it in its new class. */
static void place_job(struct gate_mount *m, struct job *j, uint64_t now_ns)
{
	struct gate *g = m->leaf.node.gate;
	struct leaf *f = class_match(m, &j->caller, j->cost.cls, now_ns), *was = j->leaf;
	j->leaf = f;
	job_clock_rename(j, was);
	/* There may be thousands of jobs, and looking up their processes would read /proc with the lock held.  Only the cgroup
	 * of a caller changes. */
	enum fair_kind fair = atomic_load(&f->fair);
	if (j->key.kind != fair || fair == FAIR_CGROUP)
		j->key = caller_key(&j->caller, g->callers, fair, now_ns);
	struct key *key = keys_get(f, j->key, now_ns);
	count_moved(key, j);
	j->lane = &key->node.lane[g->lane_of[j->cost.cls]];
	outer_renew(j, now_ns);
	list_remove(&j->link);
	list_push_tail(&j->lane->jobs, &j->link);
	job_count_parked(j, 1);
	job_tell_newcomers(j);
	job_set_deadline(g, j);
	struct account *a = j->probe ? account_get(f, key, j->cost.cls) : NULL;
	if (a)
		a->probe = j;
}

/* Retires removed classes: switches their limits off.  What their requests that are still running add to their counters
 * is included in the counters of the mount (node_sums). */
static void retire(struct gate_mount *m, struct list *removed, uint64_t now_ns)
{
	static const struct limiter_config none;
	list_for_each_safe (it, removed) {
		struct leaf *f = list_entry(it, struct leaf, of_mount);
		limiter_configure(f->node.limiter, &none, now_ns);
		list_remove(it);
		list_push_tail(&m->spare_leaves, it);
	}
}

/* Lets requests find the new classes.  Call after tree_publish: requests look for their class without gate->lock, and a new
 * class has no limits and no way to the root before.  Until then they find the old classes; those that are removed keep
 * what requests read of them. */
static void publish_table(struct class_plan *p)
{
	static _Atomic uint64_t last_id;
	struct gate_mount *m = p->m;
	bool looks_up = p->table->fields & SUBJECT_FIELDS, by_cgroup = false;
	for (unsigned i = 0; i < p->n; i++)
		by_cgroup |= p->row[i].cfg->fair == FAIR_CGROUP;
	atomic_store(&m->class_by_cgroup, by_cgroup);
	uint64_t id = (atomic_fetch_add(&last_id, 1) + 1) << 1 | looks_up;
	pthread_rwlock_wrlock(&m->classes_lock);
	table_free(m->classes);
	m->classes = p->n ? p->table : NULL;
	atomic_store(&m->classes_id, p->n ? id : 0);
	pthread_rwlock_unlock(&m->classes_lock);
	if (!p->n)
		table_free(p->table);
	p->table = NULL;
}

static bool is_planned(const struct class_plan *p, const struct leaf *f)
{
	for (unsigned i = 0; i < p->n; i++)
		if (p->row[i].leaf == f)
			return true;
	return false;
}

void class_plan_begin(struct class_plan *p)
{
	list_for_each (it, &p->m->class_leaves)
		if (!is_planned(p, list_entry(it, struct leaf, of_mount)))
			accounts_drop(list_entry(it, struct leaf, of_mount), p->now_ns);
	device_uncount(p->m);
}

void class_plan_commit(struct class_plan *p)
{
	struct gate_mount *m = p->m;
	struct list before = LIST_INIT(before);
	p->committed = true;
	m->moving = m->parked;
	leaves_each(&m->leaf.node, collect_jobs, &p->jobs);
	sort_jobs(&p->jobs);
	totals_begin(m);
	for (unsigned i = 0; i < p->n; i++)
		if (p->row[i].origin == REUSED)
			totals_begin_former(p->row[i].leaf);
	list_for_each (it, &m->class_leaves)
		node_unlink(&list_entry(it, struct leaf, of_mount)->node);
	list_splice_tail(&before, &m->class_leaves);
	for (unsigned i = 0; i < p->n; i++)
		settle_row(p, &p->row[i]);
	for (unsigned i = 0; i < p->n; i++)
		(void)node_link(&p->row[i].leaf->node); /* plan_room has reserved the memory */
	retire(m, &before, p->now_ns);
	totals_end(m);
	wait_rows_unbind(&m->leaf.node);
	device_count(m);
}

void class_plan_place_jobs(struct class_plan *p)
{
	publish_table(p);
	list_for_each_safe (it, &p->jobs)
		place_job(p->m, list_entry(it, struct job, link), p->now_ns);
	p->m->moving = false; /* change_end follows */
}

/* --- the end of a mount --- */

static void free_leaves(struct list *leaves)
{
	list_for_each_safe (it, leaves) {
		struct leaf *f = list_entry(it, struct leaf, of_mount);
		list_remove(it);
		leaf_fini(f);
		free(f);
	}
}

void classes_free(struct gate_mount *m)
{
	list_for_each (it, &m->class_leaves)
		node_unlink(&list_entry(it, struct leaf, of_mount)->node);
	free_leaves(&m->class_leaves);
	free_leaves(&m->spare_leaves);
	table_free(m->classes);
	pthread_rwlock_destroy(&m->classes_lock);
}
