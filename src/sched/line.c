/* SPDX-License-Identifier: MIT */
/* The line at a resource: which of the waiting lanes is first.
 *
 * The lanes of one node wait in the order in which they came.  For the tokens of an outer key (outer.c), lanes of several classes
 * wait, and a class of a hundred processes has a hundred lanes.  So that it does not get a hundred turns for each turn of a
 * class with one process, the line is divided into shares, one for each node directly below the scope of the key: by start-time
 * fair queueing, each share gets tokens in proportion to the weight of its node.  Inside a share, lanes take turns.
 *
 *	mount, each.bps=20M: key uid 1000      waiters   many(p1) ─ one(p9) ─ uid 1000
 *	 ├ class many: processes 1 … 8         behind    p2 … p8
 *	 ├ class one:  process 9
 *	 └ no class:   its own lanes           one lane of each share is in resource->waiters, ordered by tag
 *
 * A share exists while anything waits at the resource.  Without memory for one, a lane waits in the order of arrival. */
#include <stdlib.h>

#include "sched/gate_internal.h"

static bool after(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) > 0;
}

/* The node directly below the scope of the key whose tokens the lane waits for. */
static const struct node *child_of(const struct resource *r, const struct lane *l)
{
	const struct node *n = l->node;
	while (n->parent != r->node->parent)
		n = n->parent;
	return n;
}

/* The share of the lane; NULL: the line is not divided, or the lane has none. */
static struct line_share *find_share(const struct resource *r, const struct lane *l)
{
	if (!r->line)
		return NULL;
	const struct node *child = child_of(r, l);
	list_for_each (it, &r->line->shares) {
		struct line_share *s = list_entry(it, struct line_share, link);
		if (s->child == child)
			return s;
	}
	return NULL;
}

static struct line *make_line(void)
{
	struct line *line = calloc(1, sizeof(*line));
	if (line)
		list_init(&line->shares);
	return line;
}

static struct line_share *get_share(struct resource *r, const struct lane *l)
{
	struct line_share *s = find_share(r, l);
	if (s || r->node->kind != SCOPE_KEY || !r->node->parent->branch->n_children)
		return s;
	if (!r->line)
		r->line = make_line();
	s = r->line ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return NULL;
	s->child = child_of(r, l);
	list_init(&s->behind);
	list_push_tail(&r->line->shares, &s->link);
	return s;
}

/* Makes the lane the first of its share, and puts it where the tag of the share belongs. */
static void put_first(struct resource *r, struct line_share *s, struct lane *l)
{
	struct line_share *next = NULL;
	list_for_each (it, &r->line->shares) {
		struct line_share *o = list_entry(it, struct line_share, link);
		if (o->first && after(o->tag, s->tag) && (!next || after(next->tag, o->tag)))
			next = o;
	}
	s->first = l;
	list_push_tail(next ? &next->first->wait : &r->waiters, &l->wait);
}

void line_join(struct resource *r, struct lane *l)
{
	struct line_share *s = get_share(r, l);
	if (!s) {
		list_push_tail(&r->waiters, &l->wait);
	} else if (s->first) {
		list_push_tail(&s->behind, &l->wait);
	} else {
		if (after(r->line->vtime, s->tag))
			s->tag = r->line->vtime;
		put_first(r, s, l);
	}
}

void line_serve(struct resource *r, const struct lane *l, uint64_t tokens)
{
	struct line_share *s = find_share(r, l);
	if (!s || s->first != l)
		return; /* it came back to the head of the line, and has been charged before */
	r->line->vtime = s->tag;
	s->tag += max_u64((tokens << FQ_SHIFT) / max_u64(s->child->weight, 1), 1);
}

static void line_free(struct resource *r)
{
	list_for_each_safe (it, &r->line->shares)
		free(list_entry(it, struct line_share, link));
	free(r->line);
	r->line = NULL;
}

void line_leave(struct resource *r, struct lane *l)
{
	struct line_share *s = find_share(r, l);
	list_remove(&l->wait);
	if (s && s->first == l) {
		struct lane *next = list_first(&s->behind, struct lane, wait);
		s->first = NULL;
		if (next) {
			list_remove(&next->wait);
			put_first(r, s, next);
		}
	}
	if (r->line && list_empty(&r->waiters))
		line_free(r);
}
