/* SPDX-License-Identifier: MIT */
/* Asserts what must hold inside a gate while no operation is in progress. */
#ifndef UNIT_GATE_CHECK_H
#define UNIT_GATE_CHECK_H

#include <check.h>

#include "sched/gate_internal.h"

/* ck_assert writes to a pipe each time it passes: too slow for millions of them. */
#define must(cond) must_say(cond, "not true: %s", #cond)
#define must_say(cond, ...)                                                                        \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ck_abort_msg(__VA_ARGS__);                                                 \
	} while (0)

static inline uint32_t res_gate_now(const struct resource *r)
{
	if (r->bucket)
		return atomic_load(&r->bucket->waiters);
	return r->index == RES_INFLIGHT ? atomic_load(&r->node->limiter->inflight.waiters) : 0;
}

/* A share is in the heap of the one above it while lanes wait in it, and these are counted.  Returns the number of lanes that
 * are not in resource->waiters. */
static inline uint32_t check_line(const struct resource *r)
{
	uint32_t waiting = 0, top = 0;
	size_t n = 0;
	list_for_each (it, &r->line->shares) {
		const struct line_share *s = list_entry(it, struct line_share, of_line);
		uint32_t lanes = 0;
		list_for_each (lane, (struct list *)(uintptr_t)&s->lanes) {
			must(list_entry(lane, struct lane, wait)->blocked == r);
			must(list_entry(lane, struct lane, wait)->in_share);
			lanes++;
		}
		waiting += lanes;
		must(heap_contains(&s->tag) == (s->waiting > 0));
		if (s->waiting && !s->n_below) { /* a key */
			lanes += r->line->first && r->line->first->node == s->node;
			must(s->waiting == lanes);
		}
		if (s->up == &r->line->top)
			top += s->waiting;
		n++;
	}
	must(n == r->line->n);
	must(top == waiting + (r->line->first != NULL));
	must(!r->line->first || first_waiter(r)); /* it is there, perhaps behind others */
	must(!r->line->is_empty || !top);
	return waiting;
}

/* Waiters and claims are counted exactly; the first waiter of a bucket has a due time in the future;
 * nobody waits for a free permit or for the end of a pause that is over. */
static inline void check_resource(const struct resource *r, uint64_t now_ns)
{
	uint32_t waiters = 0, claimants = r->vouchers;
	list_for_each (it, (struct list *)(uintptr_t)&r->waiters) {
		must((list_entry(it, struct lane, wait)->blocked) == (r));
		waiters++;
	}
	must(!r->line || r->line->is_empty || waiters);
	if (r->line)
		waiters += check_line(r);
	for (unsigned i = 0; r->bytes && i < LANES; i++)
		claimants += r->held[i].lane != NULL;
	if (r->index != RES_PAUSE)
		must((res_gate_now(r)) == (waiters + claimants));
	if (!waiters)
		must(!heap_contains(&r->due));
	else if (r->bucket && claimants)
		; /* may wait for the lane that has the claim, which may wait for anything */
	else if (r->bucket)
		must(heap_contains(&r->due) &&
		     (r->due.key > now_ns || now_ns < r->node->gate->stepped_ns + COALESCE_NS));
	else if (r->index == RES_INFLIGHT)
		must(permits_look(&r->node->limiter->inflight).available == 0);
	else
		must(r->node->paused);
}

static inline void check_lane(const struct lane *l)
{
	const struct lane *up = lane_parent(l);
	bool empty = lane_empty(l), queued = fq_queued(&l->item);
	if (empty) {
		must(!l->blocked && !queued && !l->had_turn);
		for (unsigned i = 0; i < RES_INFLIGHT; i++)
			must(!l->node->res[i] || !resource_held(l->node->res[i], l));
	} else {
		must(l->blocked ? !queued : up ? queued : false);
	}
}

static inline void check_node(const struct node *n, uint64_t now_ns);

static inline void check_key(struct key *key, void *arg)
{
	check_node(&key->node, *(uint64_t *)arg);
	for (unsigned i = 0; i < LANES; i++) {
		const struct lane *whole = &key->node.lane[i];
		uint64_t jobs = 0;
		for (const struct lane *l = whole; l; l = part_next(whole, l == whole ? NULL : l)) {
			list_for_each (it, (struct list *)(uintptr_t)&l->jobs)
				jobs++;
			if (l != whole)
				check_lane(l);
		}
		must(jobs == whole->parked);
		must(!whole->fq || list_empty(&whole->jobs));
	}
}

static inline void check_node(const struct node *n, uint64_t now_ns)
{
	for (unsigned i = 0; i < RESOURCES; i++)
		if (n->res[i])
			check_resource(n->res[i], now_ns);
	for (unsigned i = 0; i < LANES; i++) {
		check_lane(&n->lane[i]);
		if (node_is_leaf(n) && !n->branch->n_children && !lane_empty(&n->lane[i]))
			must(container_of(n, const struct leaf, node)->lane_parked[i] > 0);
	}
	if (!n->branch)
		return;
	if (node_is_leaf(n))
		keys_each(&node_leaf((struct node *)(uintptr_t)n)->keys, check_key, &now_ns);
	list_for_each (it, &n->branch->children)
		check_node(list_entry(it, struct node, sibling), now_ns);
}

static inline void gate_check(const struct gate *g)
{
	check_node(&g->global, g->clock->now_ns(g->clock));
	must(list_empty(&g->ready) && list_empty(&g->refused));
	const struct heap_item *due = heap_top(&g->due), *late = heap_top(&g->deadlines);
	if (due)
		must((g->next_ns) <= (due->key));
	if (late)
		must((g->next_ns) <= (late->key));
	must((g->armed_ns) <= (max_u64(g->next_ns, g->stepped_ns + COALESCE_NS)));
}

/* Nothing is parked: nothing may be left of it. */
static inline void check_key_empty(struct key *key, void *arg)
{
	must(key->parked == 0);
	for (const struct account *a = key->accounts; a; a = a->next)
		must(!a->vouchers && !a->probe && !a->owed_ops && !a->owed_bytes);
}

static inline void check_node_empty(const struct node *n)
{
	const struct branch *b = n->branch;
	for (unsigned i = 0; i < RESOURCES; i++) {
		if (!n->res[i])
			continue;
		must(list_empty(&n->res[i]->waiters));
		must(n->res[i]->voucher_tokens == 0);
		must(res_gate_now(n->res[i]) == 0);
	}
	for (unsigned i = 0; i < LANES; i++)
		must(lane_empty(&n->lane[i]));
	for (unsigned c = 0; c < COST_CLASSES; c++)
		must(b->parked_now[c] == 0);
	must(b->parked_bytes_now == 0);
	if (node_is_leaf(n)) {
		const struct leaf *f = container_of(n, const struct leaf, node);
		must(atomic_load(&f->waiting) == 0);
		must(f->mount->parked == 0);
		keys_each((struct keys *)(uintptr_t)&f->keys, check_key_empty, NULL);
	}
	list_for_each (it, &b->children)
		check_node_empty(list_entry(it, struct node, sibling));
}

static inline void gate_check_empty(const struct gate *g)
{
	gate_check(g);
	check_node_empty(&g->global);
	must(g->parked == 0);
	must((heap_top(&g->due)) == NULL);
	must((heap_top(&g->deadlines)) == NULL);
	must((heap_top(&g->vouchers)) == NULL);
	must(g->in_device == 0 && heap_top(&g->dates) == NULL);
}

#endif
