/* SPDX-License-Identifier: MIT */
/* Counters of scopes while classes change.
 *
 * The counters of a scope include those of the scopes below it.  When a class moves or is removed, its ancestors must keep
 * what they have counted, and its new ancestors must not gain what it counted before.  So all counters are read before
 * the change, and afterwards `gone` of each scope is set so that its total stays the same. */
#include "sched/gate_internal.h"

static void total_before(struct node *n)
{
	struct leaf *f = node_leaf(n);
	f->own_was = (struct counter_sums){0};
	leaf_sums(f, &f->own_was);
	f->total_was = f->own_was;
	counter_sums_add(&f->total_was, &n->branch->gone);
	list_for_each (it, &n->branch->children) {
		struct node *below = list_entry(it, struct node, sibling);
		total_before(below);
		counter_sums_add(&f->total_was, &node_leaf(below)->total_was);
	}
}

void totals_begin_former(struct leaf *f)
{
	total_before(&f->node);
	counter_sums_add(&f->mount->leaf.total_was, &f->own_was);
}

void totals_begin(struct gate_mount *m)
{
	total_before(&m->leaf.node);
	list_for_each (it, &m->spare_leaves)
		totals_begin_former(list_entry(it, struct leaf, of_mount));
}

void leaf_count_anew(struct leaf *f)
{
	counter_sums_add(&f->before, &f->own_was);
	f->own_was = f->total_was = (struct counter_sums){0};
	f->node.branch->gone = f->node.branch->baseline = (struct counter_sums){0};
}

static void total_after(struct node *n)
{
	const struct leaf *f = node_leaf(n);
	struct counter_sums *gone = &n->branch->gone;
	*gone = f->total_was;
	counter_sums_sub(gone, &f->own_was);
	list_for_each (it, &n->branch->children) {
		struct node *below = list_entry(it, struct node, sibling);
		counter_sums_sub(gone, &node_leaf(below)->total_was);
		total_after(below);
	}
}

void totals_end(struct gate_mount *m)
{
	list_for_each (it, &m->spare_leaves)
		leaf_count_anew(list_entry(it, struct leaf, of_mount));
	total_after(&m->leaf.node);
}
