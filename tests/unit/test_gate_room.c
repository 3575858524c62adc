/* SPDX-License-Identifier: MIT */
/* The room for waiting requests is bounded, and one key cannot take all of it. */
#include "unit/gate_check.h"
#include "unit/world.h"

#define ROOM 40

static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;
static struct gate_mount_config cfg;
static struct work hog[2 * ROOM], others[ROOM];

static void up(void)
{
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
}

/* Parks as many requests as the gate accepts; returns their number. */
static unsigned park_all(struct work *k, unsigned n, uint64_t key)
{
	unsigned parked = 0;
	for (unsigned i = 0; i < n; i++)
		parked += work_submit(&w, &k[i], m, COST_META, 0, key) == GATE_PARKED;
	return parked;
}

START_TEST(who_parks_all_it_can_leaves_a_quarter_of_the_room)
{
	cfg = mount_config();
	cfg.max_parked = ROOM;
	set_limit(&cfg.limits, LIMIT_IOPS, 1);
	up();
	struct work first = {0};
	ck_assert_int_eq(work_submit(&w, &first, m, COST_META, 0, 9), GATE_GO);
	ck_assert_uint_eq(park_all(hog, ARRAY_SIZE(hog), 1), ROOM * 3 / 4);
	/* the next key gets half of what is left, and there is still room for another */
	ck_assert_uint_eq(park_all(others, ROOM, 2), ROOM / 8);
	struct work small = {0};
	ck_assert_int_eq(work_submit(&w, &small, m, COST_META, 0, 3), GATE_PARKED);
	world_until(&w, w.clock.now + 1000 * SEC);
	ck_assert_int_ne(small.fate, PENDING);
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(who_would_find_no_room_can_know_before)
{
	cfg = mount_config();
	cfg.max_parked = ROOM;
	set_limit(&cfg.limits, LIMIT_IOPS, 1);
	up();
	struct job mine = {.cost = {COST_META, 1, 0}, .caller = {.tid = 1}};
	struct job other = {.cost = {COST_META, 1, 0}, .caller = {.tid = 2}};
	struct work first = {0};
	ck_assert_int_eq(work_submit(&w, &first, m, COST_META, 0, 9), GATE_GO);
	ck_assert(!gate_has_no_room(m, &mine));
	ck_assert_uint_eq(park_all(hog, ROOM * 3 / 4, 1), ROOM * 3 / 4);
	struct scope_stats st;
	ck_assert(gate_has_no_room(m, &mine)); /* its share is used up … */
	ck_assert(!gate_has_no_room(m, &other));
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_META].no_room, 1);
	cfg.max_parked = 1;
	gate_set_mount(m, &cfg);
	ck_assert(gate_has_no_room(m, &other)); /* … or all room is */
	gate_mount_drain(m, true);
	ck_assert(!gate_has_no_room(m, &other));
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(what_may_not_be_refused_has_room_and_takes_none)
{
	cfg = mount_config();
	cfg.max_parked = ROOM;
	set_limit(&cfg.limits, LIMIT_IOPS, 1);
	up();
	struct work first = {0}, small = {0};
	ck_assert_int_eq(work_submit(&w, &first, m, COST_META, 0, 9), GATE_GO);
	for (unsigned i = 0; i < ARRAY_SIZE(hog); i++)
		hog[i] = (struct work){.job = {.must_run = true}};
	ck_assert_uint_eq(park_all(hog, ARRAY_SIZE(hog), 1), ARRAY_SIZE(hog));
	ck_assert_uint_eq(park_all(others, ROOM, 2), ROOM * 3 / 4);
	ck_assert_int_eq(work_submit(&w, &small, m, COST_META, 0, 3), GATE_PARKED);
	world_until(&w, w.clock.now + 1000 * SEC);
	ck_assert_int_ne(small.fate, PENDING);
	gate_check_empty(w.gate);
	ck_assert_uint_eq(m->must_run, 0);
	ck_assert_uint_eq(m->must_run_bytes, 0);
	world_fini(&w, fs, m);
}
END_TEST

START_TEST(a_refusal_is_not_held_back_for_longer_than_a_wait_may_take)
{
	cfg = mount_config();
	up();
	ck_assert_uint_eq(gate_no_room_delay_ns(m), GATE_NO_ROOM_DELAY_NS);
	cfg.max_wait_ns = 1000;
	gate_set_mount(m, &cfg);
	ck_assert_uint_eq(gate_no_room_delay_ns(m), 1000);
	cfg.max_wait_ns = 1000 * SEC;
	gate_set_mount(m, &cfg);
	ck_assert_uint_eq(gate_no_room_delay_ns(m), GATE_NO_ROOM_DELAY_NS);
	world_fini(&w, fs, m);
}
END_TEST

UNIT_MAIN("gate_room", who_parks_all_it_can_leaves_a_quarter_of_the_room,
	  who_would_find_no_room_can_know_before, what_may_not_be_refused_has_room_and_takes_none,
	  a_refusal_is_not_held_back_for_longer_than_a_wait_may_take)
