/* SPDX-License-Identifier: MIT */
/* Intrusive doubly linked list with a head; a node not in a list points to itself. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>

#include "base/util.h"

struct list {
	struct list *prev, *next;
};

/* clang-format off */
#define LIST_INIT(name) {&(name), &(name)}
/* clang-format on */

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_insert_before(struct list *pos, struct list *n)
{
	n->prev = pos->prev;
	n->next = pos;
	pos->prev->next = n;
	pos->prev = n;
}

static inline void list_push_tail(struct list *head, struct list *n)
{
	list_insert_before(head, n);
}

static inline void list_push_head(struct list *head, struct list *n)
{
	list_insert_before(head->next, n);
}

static inline void list_remove(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* Moves all of `from` to the tail of `to`. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(n, T, m)    container_of(n, T, m)
#define list_first(head, T, m) (list_empty(head) ? NULL : list_entry((head)->next, T, m))

#define list_for_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
#define list_for_each_safe(it, head)                                                               \
	for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                  \
	     it = it##_next, it##_next = it->next)

#endif
