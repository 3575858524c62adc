/* SPDX-License-Identifier: MIT */
#include "base/heap.h"
#include "unit/unit.h"

#define ITEMS 500

START_TEST(the_top_is_the_smallest_key_then_the_smallest_tie)
{
	struct heap h;
	heap_init(&h);
	ck_assert_ptr_null(heap_top(&h));
	ck_assert(heap_reserve(&h, 4));
	struct heap_item a = {5, 1, 0}, b = {3, 9, 0}, c = {3, 2, 0}, d = {UINT64_MAX, 0, 0};
	ck_assert(!heap_contains(&a));
	heap_push(&h, &a);
	heap_push(&h, &b);
	heap_push(&h, &c);
	heap_push(&h, &d); /* −1 as a signed difference: before 3 */
	struct heap_item *const order[] = {&d, &c, &b, &a};
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_ptr_eq(heap_top(&h), order[i]);
		heap_remove(&h, order[i]);
		ck_assert(!heap_contains(order[i]));
	}
	ck_assert_ptr_null(heap_top(&h));
	heap_free(&h);
}
END_TEST

START_TEST(random_pushes_removals_and_changes_keep_the_order)
{
	static struct heap_item item[ITEMS];
	struct heap h;
	uint64_t x = unit_seed();
	heap_init(&h);
	ck_assert(heap_reserve(&h, ITEMS));
	for (unsigned round = 0; round < 20000; round++) {
		struct heap_item *it = &item[unit_random(&x) % ITEMS];
		uint64_t key = UINT64_MAX - 500 + unit_random(&x) % 1000; /* wraps */
		if (!heap_contains(it)) {
			it->key = key;
			it->tie = round;
			heap_push(&h, it);
		} else if (unit_random(&x) % 2) {
			it->key = key;
			heap_update(&h, it);
		} else {
			heap_remove(&h, it);
		}
		const struct heap_item *top = heap_top(&h);
		size_t in = 0;
		bool first = true;
		for (unsigned i = 0; i < ITEMS; i++) {
			if (!heap_contains(&item[i]))
				continue;
			in++;
			int64_t d = (int64_t)(item[i].key - top->key);
			first &= d > 0 || (d == 0 && item[i].tie >= top->tie);
		}
		UNIT_REQUIRE(first);
		UNIT_REQUIRE(in == h.n);
	}
	heap_free(&h);
}
END_TEST

UNIT_MAIN("heap", the_top_is_the_smallest_key_then_the_smallest_tie,
	  random_pushes_removals_and_changes_keep_the_order)
