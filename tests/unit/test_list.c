/* SPDX-License-Identifier: MIT */
#include "base/list.h"
#include "unit/unit.h"

struct item {
	int n;
	struct list link;
};

START_TEST(a_list_keeps_the_order_of_its_tail_pushes)
{
	struct list head = LIST_INIT(head);
	struct item a = {1, {0}}, b = {2, {0}}, c = {3, {0}};
	list_push_tail(&head, &b.link);
	list_push_tail(&head, &c.link);
	list_push_head(&head, &a.link);
	int expect = 1;
	list_for_each (it, &head)
		ck_assert_int_eq(list_entry(it, struct item, link)->n, expect++);
	ck_assert_int_eq(expect, 4);
}
END_TEST

START_TEST(a_removed_node_is_in_no_list_and_can_be_removed_again)
{
	struct list head = LIST_INIT(head);
	struct item a = {1, {0}};
	list_push_tail(&head, &a.link);
	list_remove(&a.link);
	list_remove(&a.link);
	ck_assert(list_empty(&head));
	ck_assert_ptr_null(list_first(&head, struct item, link));
}
END_TEST

START_TEST(splicing_moves_everything_behind_what_is_there)
{
	struct list to = LIST_INIT(to), from = LIST_INIT(from);
	struct item a = {1, {0}}, b = {2, {0}}, c = {3, {0}};
	list_push_tail(&to, &a.link);
	list_push_tail(&from, &b.link);
	list_push_tail(&from, &c.link);
	list_splice_tail(&to, &from);
	ck_assert(list_empty(&from));
	int expect = 1;
	list_for_each_safe (it, &to) {
		ck_assert_int_eq(list_entry(it, struct item, link)->n, expect++);
		list_remove(it);
	}
	ck_assert_int_eq(expect, 4);
	ck_assert(list_empty(&to));
}
END_TEST

UNIT_MAIN("list", a_list_keeps_the_order_of_its_tail_pushes,
	  a_removed_node_is_in_no_list_and_can_be_removed_again,
	  splicing_moves_everything_behind_what_is_there)
