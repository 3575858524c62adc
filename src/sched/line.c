/* SPDX-License-Identifier: MIT */
/* The line at a resource: which of the waiting lanes is first.
 *
 * The lanes of one node share its tokens by start-time fair queueing: a lane has the weight of
 * everything that waits in it, its tag (resource->tags) grows by what its requests take, and the
 * smallest tag is served first.  They share its permits (max_inflight) in the same way, request by
 * request.
 *
 * For the tokens of an outer key (outer.c), lanes of several classes wait, and a class of a hundred
 * processes has a hundred lanes. So that it does not get a hundred turns for each turn of a class
 * with one process, the line is divided into shares, as the tree of scopes is: one for each node on
 * the way from a waiting lane to the scope of the key.  At every level, the shares get tokens in
 * proportion to the weights of their nodes, in the same way.  The lanes of one key take turns.
 *
 *	mount, each.bps=20M: key uid 1000      line         tag (tokens per weight), lanes
 *	 ├ class ci, weight 2                   ├ ci         8M
 *	 │  ├ class build                       │  ├ build   16M   p1 … p8, by the weights of these keys
 *	 │  └ class deploy, weight 3            │  └ deploy  15M   p9                                 ◀ first
 *	 └ no class: its own lanes              └ uid 1000   9M    reads, writes
 *
 * The first lane is found from the top: ci has the smallest tag, and in ci deploy.  When it is
 * served, 1M tokens raise the tag of deploy by 1M / 3, and that of ci by 1M / 2.  A share in which
 * a lane waits again starts at least at the tag that was served last beside it: idleness earns no
 * credit.  A new share starts at a clock (`fresh`) that advances with every token.  If it started
 * at the tag that was served last, a sequence of processes that make one request each would keep
 * that tag where it is, and the processes that were served before would never be served again.
 *
 * resource->waiters contains the lanes that need not queue, and behind them the first lane of the
 * line; the others are in their shares.  An operation takes O(depth × log n).  Memory is allocated
 * when a node first waits in a line, not for each request: a line in which nothing waits any more
 * is kept, because callers with one request at a time return to it.  It is used again within
 * FQ_PAUSE_NS; later it would make no difference.  A few small ones are kept.  Without memory for a
 * share, a lane waits in the order of arrival. */
#include <stdlib.h>

#include "sched/gate_internal.h"

#define EMPTY_LINES  64
#define EMPTY_SHARES 16 /* in each of them */
#define TABLE_MIN    64
#define SWEEP	     2

static bool after(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) > 0;
}

/* --- the table of shares, by resource and node --- */

static struct line_share **slot(const struct shares *t, const struct resource *r,
				const struct node *n)
{
	uint64_t h = ((uintptr_t)r ^ (uintptr_t)n >> 4) * 0x9E3779B97F4A7C15ULL;
	return &t->table[(h ^ h >> 32) & (t->n_table - 1)];
}

/* NULL: the node has no share. */
static struct line_share *find_share(const struct resource *r, const struct node *n)
{
	const struct shares *t = &r->node->gate->shares;
	struct line_share *s = t->n_table ? *slot(t, r, n) : NULL;
	while (s && (s->resource != r || s->node != n))
		s = s->next;
	return s;
}

/* False: there is no table.  If it cannot grow, its chains become longer. */
static bool table_reserve(struct shares *t)
{
	size_t n = t->n_table ? t->n_table * 2 : TABLE_MIN;
	if (t->n < t->n_table)
		return true;
	struct shares grown = {.table = calloc(n, sizeof(struct line_share *)), .n_table = n};
	if (!grown.table)
		return t->n_table != 0;
	for (size_t i = 0; i < t->n_table; i++)
		for (struct line_share *s = t->table[i], *next; s; s = next) {
			struct line_share **at = slot(&grown, s->resource, s->node);
			next = s->next;
			s->next = *at;
			*at = s;
		}
	free(t->table);
	t->table = grown.table;
	t->n_table = n;
	return true;
}

/* --- shares --- */

static void share_free(struct line_share *s)
{
	struct shares *t = &s->resource->node->gate->shares;
	struct line_share **at = slot(t, s->resource, s->node);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	t->n--;
	list_remove(&s->of_line);
	heap_free(&s->below);
	free(s);
}

static void share_drop(struct line_share *s)
{
	s->resource->line->n--;
	s->up->n_below--;
	share_free(s);
}

/* True: a new share of this node would be the same, to about one request. */
static bool share_is_settled(const struct line_share *s)
{
	return !s->waiting && !s->n_below && !after(s->tag.key, s->up->vtime);
}

/* In a line that never becomes empty, shares of keys that no longer exist make room for new ones.
 * Looks at a few only, in turn. */
static void sweep(struct line *line)
{
	for (unsigned i = 0; i < SWEEP && line->n; i++) {
		struct line_share *s = list_first(&line->shares, struct line_share, of_line);
		list_remove(&s->of_line);
		list_push_tail(&line->shares, &s->of_line);
		if (share_is_settled(s))
			share_drop(s);
	}
}

static struct line_share *share_new(struct resource *r, const struct node *n, struct line_share *up)
{
	struct shares *t = &r->node->gate->shares;
	if (!table_reserve(t) || !heap_reserve(&up->below, up->n_below + 1))
		return NULL;
	struct line_share *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->resource = r;
	s->node = n;
	s->up = up;
	s->tag.key = after(up->vtime, up->fresh) ? up->vtime : up->fresh;
	list_init(&s->lanes);
	struct line_share **at = slot(t, r, n);
	s->next = *at;
	*at = s;
	t->n++;
	up->n_below++;
	sweep(r->line);
	list_push_tail(&r->line->shares, &s->of_line);
	r->line->n++;
	return s;
}

/* The share of a node in the scope of the key.  NULL: out of memory.  A share that is found may be
 * that of a key that no longer exists, in another class, whose address was used again. */
static struct line_share *get_share(struct resource *r, const struct node *n)
{
	if (n == r->node->parent)
		return &r->line->top;
	struct line_share *s = find_share(r, n);
	if (s && s->up->node == n->parent)
		return s;
	if (s)
		share_drop(s);
	struct line_share *up = get_share(r, n->parent);
	return up ? share_new(r, n, up) : NULL;
}

/* --- lines --- */

void lines_init(struct gate *g)
{
	list_init(&g->shares.empty);
}

void lines_fini(struct gate *g)
{
	free(g->shares.table);
}

static bool line_make(struct resource *r)
{
	if (r->line)
		return true;
	r->line = calloc(1, sizeof(*r->line));
	if (!r->line)
		return false;
	r->line->top.resource = r;
	r->line->top.node = r->node->parent;
	list_init(&r->line->top.lanes);
	list_init(&r->line->shares);
	list_init(&r->line->empty);
	return true;
}

void line_forget(struct resource *r)
{
	struct line *line = r->line;
	if (!line)
		return;
	if (line->is_empty)
		r->node->gate->shares.n_empty--;
	list_remove(&line->empty);
	list_for_each_safe (it, &line->shares)
		share_free(list_entry(it, struct line_share, of_line));
	heap_free(&line->top.below);
	free(line);
	r->line = NULL;
}

/* False: there is none. */
static bool forget_oldest(struct gate *g)
{
	const struct line *line = list_first(&g->shares.empty, struct line, empty);
	if (line)
		line_forget(line->top.resource);
	return line;
}

void lines_forget(struct gate *g)
{
	while (forget_oldest(g))
		;
}

static void line_became_empty(struct resource *r, uint64_t at_ns)
{
	struct gate *g = r->node->gate;
	if (r->line->n > EMPTY_SHARES) {
		line_forget(r);
		return;
	}
	r->line->is_empty = true;
	r->line->empty_ns = at_ns;
	list_push_tail(&g->shares.empty, &r->line->empty);
	if (++g->shares.n_empty > EMPTY_LINES)
		forget_oldest(g);
}

static void line_is_used(struct resource *r, uint64_t at_ns)
{
	struct line *line = r->line;
	if (!line || !line->is_empty)
		return;
	if (at_ns > line->empty_ns && at_ns - line->empty_ns > FQ_PAUSE_NS) {
		line_forget(r);
		return;
	}
	list_remove(&line->empty);
	line->is_empty = false;
	r->node->gate->shares.n_empty--;
}

/* --- lanes of one node --- */

static bool is_divided(const struct resource *r)
{
	return r->node->kind == SCOPE_KEY && r->node->parent->branch->n_children;
}

static bool takes_turns(const struct resource *r, const struct lane *l)
{
	return (r->bucket || r->index == RES_INFLIGHT) && l->node == r->node &&
	       r->node->kind != SCOPE_KEY;
}

/* A lane counts as much as everything that waits in it. */
static uint64_t weight_of(const struct lane *l)
{
	return max_u64(l->fq->weights, 1);
}

/* Where it would join the line.  If more waits in the lane than when it was charged, it has used
 * less per weight: newcomers do not pay in full for what others of the lane have used. */
static uint64_t tag_of(const struct resource *r, const struct lane *l)
{
	const struct lane_tags *t = r->tags;
	uint64_t weight = weight_of(l), was = max_u64(t->weight[l->index], 1);
	if (!after(t->tag[l->index], t->vtime))
		return t->vtime;
	uint64_t lead = t->tag[l->index] - t->vtime;
	return t->vtime + (weight > was ? (uint64_t)((u128)lead * was / weight) : lead);
}

/* By how much tokens raise the tag of something with this weight, in 1/FQ_WHOLE. */
static uint64_t tag_of_tokens(uint64_t tokens, uint64_t weight)
{
	return max_u64((uint64_t)((u128)(tokens << FQ_SHIFT) * FQ_WHOLE / weight), 1);
}

/* A request of long ago is neither a credit nor a penalty. */
static void forget_tags(struct lane_tags *t)
{
	for (unsigned i = 0; i < LANES; i++)
		t->tag[i] = t->vtime;
}

static void insert_by_tag(struct resource *r, struct lane *l)
{
	uint64_t tag = tag_of(r, l);
	struct list *next = &r->waiters;
	while (next->prev != &r->waiters) {
		const struct lane *o = list_entry(next->prev, struct lane, wait);
		if (!o->by_tag || !after(r->tags->tag[o->index], tag))
			break;
		next = next->prev;
	}
	r->tags->tag[l->index] = tag;
	r->tags->weight[l->index] = max_u64(r->tags->weight[l->index], weight_of(l));
	l->by_tag = true;
	list_push_tail(next, &l->wait);
}

static void join_by_tag(struct resource *r, struct lane *l, uint64_t at_ns)
{
	if (list_empty(&r->waiters) && at_ns > r->tags->left_ns + FQ_PAUSE_NS)
		forget_tags(r->tags);
	insert_by_tag(r, l);
}

void line_grew(struct resource *r, struct lane *l)
{
	if (!l->by_tag || weight_of(l) <= r->tags->weight[l->index])
		return;
	list_remove(&l->wait);
	insert_by_tag(r, l);
}

bool line_would_be_first(const struct resource *r, const struct lane *l)
{
	const struct lane *first = first_waiter(r);
	return !first || (takes_turns(r, l) && first->by_tag &&
			  after(r->tags->tag[first->index], tag_of(r, l)));
}

void line_charge(struct resource *r, const struct lane *l, uint64_t tokens)
{
	if (!takes_turns(r, l) || (list_empty(&r->waiters) && !(l->had_turn & 1U << r->index)))
		return; /* no lane has waited */
	r->tags->vtime = tag_of(r, l);
	for (unsigned i = 0; i < LANES; i++) /* tags wrap: none may stay behind */
		if (after(r->tags->vtime, r->tags->tag[i]))
			r->tags->tag[i] = r->tags->vtime;
	r->tags->weight[l->index] = weight_of(l);
	r->tags->tag[l->index] = r->tags->vtime + tag_of_tokens(tokens, weight_of(l));
}

/* --- lanes --- */

/* By weights alone, a lane in which little waits would be served long after its date if much waits
 * in the others. */
struct lane *line_next(struct resource *r, uint64_t at_ns)
{
	struct lane *next = first_waiter(r);
	uint64_t next_ns = NEVER;
	if (!r->node->branch || r->waiters.prev == &next->wait)
		return next; /* lanes of keys have no dates */
	list_for_each (it, &r->waiters) {
		struct lane *l = list_entry(it, struct lane, wait);
		uint64_t date_ns = lane_reserved_ns(l, at_ns);
		if (date_ns <= at_ns && date_ns < next_ns) {
			next = l;
			next_ns = date_ns;
		}
	}
	struct lane *first = first_waiter(r);
	if (next != first) {
		list_remove(&next->wait);
		list_push_head(&r->waiters, &next->wait);
		next->by_tag = false;
		lane_stop_claiming(first);
	}
	return next;
}

/* Puts the lane that is first in the line into resource->waiters. */
static void line_elect(struct resource *r)
{
	struct line *line = r->line;
	struct line_share *s = &line->top;
	struct lane *was = line->first;
	while (s->below.n)
		s = container_of(heap_top(&s->below), struct line_share, tag);
	if (s == &line->top || (was && was->node == s->node))
		return;
	if (was) {
		list_remove(&was->wait);
		list_push_head(&find_share(r, was->node)->lanes, &was->wait);
	}
	line->first = list_first(&s->lanes, struct lane, wait);
	list_remove(&line->first->wait);
	list_push_tail(&r->waiters, &line->first->wait);
}

/* A lane waits in the share again. */
static void share_begin(struct line_share *s)
{
	struct line_share *up = s->up;
	if (after(up->vtime, s->tag.key))
		s->tag.key = up->vtime;
	s->tag.tie = up->ties++;
	s->weight = max_u64(s->node->weight, 1);
	up->weights += s->weight;
	heap_push(&up->below, &s->tag);
}

void line_join(struct resource *r, struct lane *l, uint64_t at_ns)
{
	if (takes_turns(r, l)) {
		join_by_tag(r, l, at_ns);
		return;
	}
	line_is_used(r, at_ns);
	struct line_share *s = is_divided(r) && line_make(r) ? get_share(r, l->node) : NULL;
	if (!s) {
		list_push_tail(&r->waiters, &l->wait);
		return;
	}
	l->in_share = true;
	list_push_tail(&s->lanes, &l->wait);
	for (; s->up; s = s->up)
		if (s->waiting++ == 0)
			share_begin(s);
	line_elect(r);
}

void line_serve(struct resource *r, const struct lane *l, uint64_t tokens)
{
	if (!r->line || r->line->first != l)
		return; /* it came back to the head of the line, and has been charged before */
	for (struct line_share *s = find_share(r, l->node), *up; (up = s->up) != NULL; s = up) {
		uint64_t fresh = after(s->tag.key, up->fresh) ? s->tag.key : up->fresh;
		fresh += max_u64((tokens << FQ_SHIFT) / up->weights, 1);
		up->vtime = s->tag.key;
		s->tag.key += max_u64((tokens << FQ_SHIFT) / s->weight, 1);
		up->fresh = after(fresh, s->tag.key) ? s->tag.key : fresh;
		s->tag.tie = up->ties++;
		heap_update(&up->below, &s->tag);
	}
}

static void leave_shares(struct resource *r, struct lane *l)
{
	struct line *line = r->line;
	l->in_share = false;
	for (struct line_share *s = find_share(r, l->node); s->up; s = s->up)
		if (--s->waiting == 0) {
			heap_remove(&s->up->below, &s->tag);
			s->up->weights -= s->weight;
		}
	if (line->first == l) {
		line->first = NULL;
		line_elect(r);
	}
}

void line_leave(struct resource *r, struct lane *l, uint64_t at_ns)
{
	list_remove(&l->wait);
	if (r->node->kind != SCOPE_KEY)
		r->tags->lane_left_ns[l->index] = at_ns;
	if (l->by_tag)
		r->tags->left_ns = at_ns;
	l->by_tag = false;
	if (l->in_share)
		leave_shares(r, l);
	if (r->line && list_empty(&r->waiters) && !r->line->is_empty)
		line_became_empty(r, at_ns);
}
