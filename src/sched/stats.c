/* SPDX-License-Identifier: MIT */
/* Statistics of scopes; those of keys are in stats_keys.c.  Nothing here influences scheduling. */
#include "sched/stats.h"

#include <string.h>

#include "sched/gate_internal.h"

/* --- scopes --- */

void leaf_sums(const struct leaf *f, struct counter_sums *sums)
{
	counters_sum(&f->counters, sums);
	counter_sums_sub(sums, &f->before);
}

void node_sums(struct node *n, struct counter_sums *sums)
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

uint64_t resource_blocking_ns(const struct resource *r, uint64_t now_ns)
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
		l->blocking_ns += resource_blocking_ns(r, now_ns);
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
		histogram_merge(&shown->would_wait, &b->would_wait[c]);
		shown->device_now += b->device_now[c];
		histogram_merge(&shown->device, &b->device[c]);
		out->device_now += b->device_now[c];
		out->parked_now += b->parked_now[c];
	}
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		fill_limit(&out->limit[k], n, k, now_ns);
	out->inflight = permits_look(&n->limiter->inflight);
	out->open = permits_look(&n->limiter->open);
	out->inflight_blocking_ns = resource_blocking_ns(n->res[RES_INFLIGHT], now_ns);
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

bool gate_stats_class(struct gate_mount *m, const char *name, struct scope_stats *out)
{
	struct gate *g = m->leaf.node.gate;
	gate_lock(g);
	struct leaf *found = class_by_name(m, name);
	if (found)
		node_look_locked(&found->node, out);
	gate_unlock_deliver(g);
	return found;
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
	l->blocking_ns = resource_blocking_ns(r, now_ns);
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
	out->inflight.blocking_ns = resource_blocking_ns(inflight, now_ns);
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
	struct leaf *f = class_by_name(m, name);
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
	for (unsigned i = 1; i < f->n_wait_rows && n < room; i++) {
		const struct wait_row *w = &f->wait_row[i];
		if (anybody_waited(&w->waited) || anybody_waited(&w->would_wait))
			out[n++] = (struct limit_wait){w->limit, w->waited, w->would_wait};
	}
	return n;
}

unsigned gate_stats_waits(struct gate_mount *m, const char *class, struct limit_wait *out,
			  unsigned n)
{
	struct gate *g = m->leaf.node.gate;
	gate_lock(g);
	const struct leaf *f = class ? class_by_name(m, class) : &m->leaf;
	n = f ? copy_times(f, out, n) : 0;
	gate_unlock_deliver(g);
	return n;
}

/* --- reset --- */

static void key_reset(struct key *key, void *arg)
{
	key->ops = key->done_seen = 0;
	atomic_store(&key->bytes, 0); /* clang 14 does not assign one _Atomic to another */
	atomic_store(&key->done_ops, 0);
	atomic_store(&key->done_bytes, 0);
	key->waited = key->would_wait = (struct key_sum){0};
	key->waits = (struct key_waits){0};
}

void node_forget_waits(struct node *n, uint64_t now_ns)
{
	struct branch *b = n->branch;
	memset(b->wait, 0, sizeof(b->wait));
	memset(b->would_wait, 0, sizeof(b->would_wait));
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
		for (unsigned i = 0; i < f->n_wait_rows; i++)
			f->wait_row[i].waited = f->wait_row[i].would_wait = (struct wait_times){0};
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
