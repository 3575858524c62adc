/* SPDX-License-Identifier: MIT */
/* Reservations and the books, against a model of a filesystem in memory. */
#include <pthread.h>
#include <string.h>

#include "fs/space_count.h"
#include "fs/space_table.h"
#include "unit/unit.h"

/* --- reservations ---------------------------------------------------------------------------- */

START_TEST(a_reservation_fits_up_to_the_limit_and_not_beyond)
{
	struct space_count c = {0};
	ck_assert(space_reserve(&c, 100, 0, 100));
	ck_assert(!space_reserve(&c, 1, 0, 100));
	ck_assert(space_reserve(&c, 0, 0, 100));
	space_unreserve(&c, 100);
	space_add(&c, 60);
	ck_assert(!space_reserve(&c, 41, 0, 100));
	ck_assert(space_reserve(&c, 40, 0, 100));
	ck_assert_uint_eq(space_used(&c), 60);
}
END_TEST

START_TEST(no_limit_admits_everything)
{
	struct space_count c = {0};
	ck_assert(space_reserve(&c, INT64_MAX / 2, 1000, 0));
	ck_assert_uint_eq(space_tighter(0, 0), 0);
	ck_assert_uint_eq(space_tighter(0, 5), 5);
	ck_assert_uint_eq(space_tighter(5, 0), 5);
	ck_assert_uint_eq(space_tighter(5, 7), 5);
}
END_TEST

START_TEST(a_margin_must_be_left_over)
{
	struct space_count c = {0};
	ck_assert(space_reserve(&c, 50, 50, 100));
	ck_assert(!space_reserve(&c, 1, 50, 100));
	ck_assert(space_reserve(&c, 1, 49, 100));
}
END_TEST

START_TEST(a_part_is_whole_blocks)
{
	struct space_count c = {0};
	space_add(&c, 1000);
	ck_assert_uint_eq(space_reserve_part(&c, 8192, 4096, 1000 + 8191), 4096);
	ck_assert_uint_eq(space_reserve_part(&c, 8192, 4096, 1000 + 8191), 0);
	space_unreserve(&c, 4096);
	ck_assert_uint_eq(space_reserve_part(&c, 8192, 4096, 1000 + 8192), 8192);
}
END_TEST

START_TEST(below_what_is_used_nothing_fits)
{
	struct space_count c = {0};
	space_add(&c, 1000);
	ck_assert_uint_eq(space_left(500, 1000), 0);
	ck_assert(!space_reserve(&c, 1, 0, 500));
	ck_assert_uint_eq(space_reserve_part(&c, 4096, 1, 500), 0);
}
END_TEST

START_TEST(a_span_is_the_blocks_that_are_touched)
{
	ck_assert_uint_eq(space_span(0, 0, 4096), 0);
	ck_assert_uint_eq(space_span(0, 1, 4096), 4096);
	ck_assert_uint_eq(space_span(4095, 2, 4096), 8192);
	ck_assert_uint_eq(space_span(4096, 4096, 4096), 4096);
	ck_assert_uint_eq(space_round_up(4097, 4096), 8192);
	ck_assert_uint_eq(space_round_up(UINT64_MAX, 4096), UINT64_MAX / 4096 * 4096);
}
END_TEST

#define RACERS 4
static struct space_count raced;
static _Atomic int64_t got;

static void *race(void *unused)
{
	for (int i = 0; i < 100000; i++) {
		uint64_t n = space_reserve_part(&raced, 3, 1, 1000);
		UNIT_REQUIRE(atomic_fetch_add(&got, (int64_t)n) + (int64_t)n <= 1000);
		atomic_fetch_sub(&got, (int64_t)n);
		space_unreserve(&raced, n);
	}
	return NULL;
}

START_TEST(racing_reservations_never_exceed_the_limit)
{
	pthread_t t[RACERS];
	for (int i = 0; i < RACERS; i++)
		pthread_create(&t[i], NULL, race, NULL);
	for (int i = 0; i < RACERS; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(raced.committed, 0);
}
END_TEST

/* --- the books ------------------------------------------------------------------------------- */

static struct slot_stat stat_of(int64_t bytes, uint64_t cap, bool exists)
{
	return (struct slot_stat){bytes, (uint64_t)bytes, cap, UINT64_MAX, exists, false};
}

static void settle(struct space_table *t, struct space_slot *s, uint64_t ticket, int64_t bytes,
		   uint64_t cap)
{
	const struct slot_stat st = stat_of(bytes, cap, true);
	(void)table_settle(t, s, ticket, &st);
}

static void base(struct space_table *t, struct space_slot *s, int64_t bytes)
{
	const struct slot_stat st = stat_of(bytes, UINT64_MAX, true);
	table_base(t, s, &st);
}

#define FILES 40
#define DEV   7

/* A file of the model: its blocks, names and open handles. */
struct model_file {
	int64_t bytes;
	unsigned names, handles;
	struct space_slot *slot[4]; /* of its handles */
};

struct model {
	struct space_table t;
	struct model_file file[FILES];
	uint64_t rnd, now_ns;
	bool quiet; /* nobody changes anything during a scan */
};

static uint32_t pick(struct model *m, uint32_t n)
{
	return (uint32_t)(unit_random(&m->rnd) >> 33) % n;
}

/* A file without holes. */
static void prove(struct space_table *t, struct space_slot *s, int64_t bytes)
{
	struct slot_proof p = {.solid_to = (uint64_t)bytes, .solid_end = true};
	if (table_wants_proof(t, s, &p.epoch))
		table_prove(t, s, &p);
}

static void enter(struct model *m, struct space_slot *s, unsigned i)
{
	const struct model_file *f = &m->file[i];
	const struct slot_stat st = stat_of(f->bytes, UINT64_MAX, f->names > 0);
	if (slot_needs_base(s))
		table_base(&m->t, s, &st);
	else
		ck_assert(table_settle(&m->t, s, slot_ticket(s), &st));
}

static void make(struct model *m, unsigned i)
{
	struct model_file *f = &m->file[i];
	f->bytes = pick(m, 2) * 4096;
	f->names = 1;
	struct space_slot *s = table_get_new(&m->t, DEV, i + 1, f->bytes);
	table_put(&m->t, s, m->now_ns);
}

static void unlink_one(struct model *m, unsigned i)
{
	struct model_file *f = &m->file[i];
	struct slot_victim v = {.drops = m->t.drops};
	if (f->names && --f->names == 0) {
		const struct slot_stat st = stat_of(f->bytes, UINT64_MAX, true);
		ck_assert(table_remove_begin(&m->t, DEV, i + 1, &st, &v));
		table_remove_end(&m->t, &v, true, m->now_ns);
	}
	if (!f->names && !f->handles)
		f->bytes = 0;
}

static void open_one(struct model *m, unsigned i)
{
	static const struct fhandle none;
	struct model_file *f = &m->file[i];
	if (f->handles == 4 || !(f->names || f->handles))
		return;
	struct space_slot *s = table_get(&m->t, DEV, i + 1);
	table_opened(&m->t, s, false, &none);
	f->slot[f->handles++] = s;
}

static void close_one(struct model *m, unsigned i)
{
	struct model_file *f = &m->file[i];
	if (!f->handles)
		return;
	table_closed(&m->t, f->slot[--f->handles], false, m->now_ns);
	if (!f->names && !f->handles)
		f->bytes = 0;
}

static void change(struct model *m, unsigned i)
{
	struct model_file *f = &m->file[i];
	if (!f->names && !f->handles)
		return;
	struct space_slot *s = table_get(&m->t, DEV, i + 1);
	if (slot_needs_base(s))
		enter(m, s, i);
	/* The model's files have no holes: a write within or at the end of one makes it as long as that. */
	uint64_t growth, from = pick(m, 30) * 4096;
	struct slot_write w = {from, from + 1 + pick(m, 9000), 4096, 0};
	prove(&m->t, s, f->bytes);
	if (pick(m, 2) && table_write_begin(&m->t, s, &w, &growth)) {
		int64_t end = (int64_t)space_round_up(w.to, 4096);
		UNIT_REQUIRE((int64_t)growth == (end > f->bytes ? end - f->bytes : 0));
		f->bytes = end > f->bytes ? end : f->bytes;
		if (pick(m, 4) == 0 || !table_write_end(&m->t, s, &w, 0))
			enter(m, s, i);
	} else {
		table_change_begin(&m->t, s, CHANGE_ANY);
		f->bytes = pick(m, 100) * 4096;
		table_change_end(&m->t, s, CHANGE_ANY);
		enter(m, s, i);
	}
	table_put(&m->t, s, m->now_ns);
}

static void step(struct model *m)
{
	unsigned i = pick(m, FILES);
	m->now_ns += pick(m, 1000) * NSEC_PER_MSEC;
	switch (pick(m, 8)) {
	case 0:
		if (!m->file[i].names && !m->file[i].handles)
			make(m, i);
		break;
	case 1:
		unlink_one(m, i);
		break;
	case 2:
		m->file[i].names += m->file[i].names > 0;
		break;
	case 3:
		open_one(m, i);
		break;
	case 4:
		close_one(m, i);
		break;
	case 5: {
		struct space_slot *due[8];
		unsigned n = table_due(&m->t, m->now_ns, 8, due, 8);
		while (n)
			table_put(&m->t, due[--n], m->now_ns);
		break;
	}
	default:
		change(m, i);
	}
}

static void check(struct model *m)
{
	int64_t bytes = 0, inodes = 0;
	for (unsigned i = 0; i < FILES; i++) {
		bytes += m->file[i].bytes;
		inodes += m->file[i].names || m->file[i].handles;
	}
	UNIT_REQUIRE(m->t.bytes.used == bytes);
	UNIT_REQUIRE(m->t.bytes.committed == bytes);
	UNIT_REQUIRE(m->t.inodes.used == inodes);
}

static void finish(struct model *m)
{
	for (unsigned i = 0; i < FILES; i++)
		while (m->file[i].handles)
			close_one(m, i);
	check(m);
	table_destroy(&m->t);
}

START_TEST(the_total_follows_every_change)
{
	struct model *m = calloc(1, sizeof(*m) + CACHE_LINE);
	m->rnd = unit_seed();
	table_init(&m->t);
	for (int i = 0; i < 200000; i++) {
		step(m);
		check(m);
	}
	finish(m);
	free(m);
}
END_TEST

/* Visits every file that has a name, in order, with changes in between; some have to be visited twice, as hard links are. */
static void scan(struct model *m)
{
	int64_t bytes = 0, inodes = 0;
	table_scan_begin(&m->t, m->quiet);
	for (unsigned i = 0; i < FILES; i++) {
		for (unsigned name = 0; name < m->file[i].names && name < 3; name++) {
			int64_t seen = m->file[i].bytes;
			switch (table_visit(&m->t, DEV, i + 1, m->file[i].names > 1)) {
			case VISIT_COUNT:
				bytes += seen;
				inodes++;
				break;
			case VISIT_SLOT: {
				struct space_slot *s = table_find(&m->t, DEV, i + 1);
				enter(m, s, i);
				table_put(&m->t, s, m->now_ns);
				break;
			}
			default:
				break;
			}
			for (unsigned k = m->quiet ? 0 : pick(m, 4); k; k--)
				step(m);
		}
	}
	ck_assert(!m->t.disturbed);
	table_scan_end(&m->t, bytes, inodes);
}

START_TEST(a_scan_of_a_tree_that_changes_counts_everything_once)
{
	struct model *m = calloc(1, sizeof(*m) + CACHE_LINE);
	m->rnd = unit_seed();
	table_init(&m->t);
	for (int i = 0; i < 3000; i++) {
		for (int k = pick(m, 20); k; k--)
			step(m);
		scan(m);
		check(m);
	}
	finish(m);
	free(m);
}
END_TEST

START_TEST(a_scan_finds_what_was_changed_behind)
{
	struct model *m = calloc(1, sizeof(*m) + CACHE_LINE);
	m->rnd = unit_seed();
	table_init(&m->t);
	make(m, 0);
	make(m, 1);
	m->file[0].bytes = 1 << 20;
	m->file[1] = (struct model_file){0};
	m->file[2] = (struct model_file){.bytes = 4096, .names = 1};
	m->quiet = true;
	scan(m);
	check(m);
	finish(m);
	free(m);
}
END_TEST

START_TEST(an_older_result_does_not_undo_a_newer_one)
{
	struct space_table t;
	table_init(&t);
	struct space_slot *s = table_get(&t, DEV, 1);
	base(&t, s, 0);
	uint64_t first = slot_ticket(s), second = slot_ticket(s);
	settle(&t, s, second, 8192, UINT64_MAX);
	settle(&t, s, first, 4096, UINT64_MAX);
	ck_assert_int_eq(t.bytes.used, 8192);
	table_put(&t, s, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(a_write_into_a_solid_file_needs_no_stat)
{
	struct space_table t;
	uint64_t growth;
	table_init(&t);
	struct space_slot *s = table_get(&t, DEV, 1);
	base(&t, s, 8192);
	prove(&t, s, 8192);
	space_add(&t.bytes, 8192);
	struct slot_write inside = {100, 5000, 4096, 0}, beyond = {8000, 9000, 4096, 0};
	struct slot_write far = {20000, 20001, 4096, 0};
	ck_assert(table_write_begin(&t, s, &inside, &growth));
	ck_assert_uint_eq(growth, 0);
	ck_assert(table_write_begin(&t, s, &beyond, &growth));
	ck_assert_uint_eq(growth, 4096);
	ck_assert(!table_write_begin(&t, s, &far, &growth)); /* leaves a hole */
	ck_assert(table_write_end(&t, s, &inside, 0));
	ck_assert_int_eq(t.bytes.used, 8192);
	ck_assert(table_write_end(&t, s, &beyond, 0));
	ck_assert(table_write_end(&t, s, &beyond, 0)); /* twice the same is there once */
	ck_assert_int_eq(t.bytes.used, 12288);
	ck_assert(slot_is_unverified(s));
	table_put(&t, s, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(a_stat_that_may_not_have_seen_a_write_is_taken_again)
{
	struct space_table t;
	uint64_t growth;
	table_init(&t);
	struct space_slot *s = table_get(&t, DEV, 1);
	base(&t, s, 4096);
	prove(&t, s, 4096);
	struct slot_write w = {4096, 8192, 4096, 0};
	const struct slot_stat old = stat_of(4096, UINT64_MAX, true);
	ck_assert(table_write_begin(&t, s, &w, &growth));
	uint64_t ticket = slot_ticket(s);
	ck_assert(table_write_end(&t, s, &w, 0));
	ck_assert(!table_settle(&t, s, ticket, &old));
	ck_assert_int_eq(t.bytes.used, 4096); /* what the write added */
	table_put(&t, s, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(a_write_beside_a_truncation_is_settled_by_stat)
{
	struct space_table t;
	uint64_t growth;
	table_init(&t);
	struct space_slot *s = table_get(&t, DEV, 1);
	base(&t, s, 4096);
	prove(&t, s, 4096);
	struct slot_write w = {4096, 8192, 4096, 0}, later = w;
	ck_assert(table_write_begin(&t, s, &w, &growth));
	table_change_begin(&t, s, CHANGE_ANY);
	ck_assert(!table_write_begin(&t, s, &later, &growth));
	table_change_end(&t, s, CHANGE_ANY);
	settle(&t, s, slot_ticket(s), 4096, UINT64_MAX);
	ck_assert(!table_write_end(&t, s, &w, 0));
	ck_assert(!table_write_begin(&t, s, &later, &growth));
	s->proof_in = 0;
	prove(&t, s, 4096);
	ck_assert(table_write_begin(&t, s, &later, &growth));
	ck_assert(table_write_end(&t, s, &later, 0));
	table_put(&t, s, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(blocks_beyond_the_end_count_when_somebody_asked_for_them_or_the_file_is_closed)
{
	static const struct fhandle none;
	struct space_table t;
	table_init(&t);
	struct space_slot *s = table_get(&t, DEV, 1), *again;
	base(&t, s, 0);
	table_opened(&t, s, false, &none);
	settle(&t, s, slot_ticket(s), 65536, 8192);
	ck_assert_int_eq(t.bytes.used, 8192);
	table_keep(&t, s, 16384);
	settle(&t, s, slot_ticket(s), 65536, 8192);
	ck_assert_int_eq(t.bytes.used, 16384);
	table_cut(&t, s);
	settle(&t, s, slot_ticket(s), 65536, 8192);
	ck_assert_int_eq(t.bytes.used, 8192);
	again = table_get(&t, DEV, 1);
	table_closed(&t, s, false, 0);
	settle(&t, again, slot_ticket(again), 65536, 8192);
	ck_assert_int_eq(t.bytes.used, 65536);
	table_put(&t, again, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(preallocated_blocks_that_will_be_freed_are_excess_even_of_a_closed_file)
{
	struct space_table t;
	const struct fhandle handle = {.bytes = 8};
	table_init(&t);
	struct space_slot *s = table_get(&t, DEV, 1);
	table_opened(&t, s, false, &handle);
	base(&t, s, 0);
	struct slot_stat st = stat_of(16384, 8192, true);
	st.cap_closed = 8192;
	table_settle(&t, s, slot_ticket(s), &st);
	ck_assert_int_eq(t.bytes.used, 8192);
	ck_assert_int_eq(t.excess, 8192);
	ck_assert(!table_has_waste(&t, s)); /* it is open */
	table_closed(&t, s, false, 0);
	ck_assert_ptr_eq(table_find(&t, DEV, 1), s);
	table_settle(&t, s, slot_ticket(s), &st);
	ck_assert_int_eq(t.bytes.used, 8192);
	ck_assert(table_has_waste(&t, s));
	/* What could not be freed counts. */
	st.cap_closed = UINT64_MAX;
	uint64_t ticket = slot_ticket(s);
	ck_assert(table_is_untouched(&t, s, ticket));
	ck_assert(!table_is_untouched(&t, s, ticket + 1));
	table_settle(&t, s, ticket, &st);
	ck_assert_int_eq(t.bytes.used, 16384);
	ck_assert_int_eq(t.excess, 0);
	ck_assert(!table_has_waste(&t, s));
	st.cap_closed = 8192;
	table_settle(&t, s, slot_ticket(s), &st);
	ck_assert_int_eq(t.excess, 8192);
	table_check_all(&t);
	ck_assert_int_eq(t.excess, 0);
	table_settle(&t, s, slot_ticket(s), &st);
	ck_assert_int_eq(t.excess, 8192);
	st.bytes = 12288;
	st.cap_closed = 12288;
	table_settle(&t, s, slot_ticket(s), &st);
	table_keep_all(&t, s);
	st.cap_closed = 8192;
	table_settle(&t, s, slot_ticket(s), &st);
	ck_assert_int_eq(t.bytes.used, 12288);
	ck_assert_int_eq(t.excess, 0);
	st.bytes = 16384;
	slot_count_all(s);
	table_settle(&t, s, slot_ticket(s), &st);
	ck_assert_int_eq(t.bytes.used, 16384);
	ck_assert_int_eq(t.excess, 0);
	table_put(&t, s, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(all_blocks_of_a_closed_file_that_cannot_be_found_again_count)
{
	struct space_table t;
	table_init(&t);
	struct space_slot *s = table_get(&t, DEV, 1);
	base(&t, s, 4096);
	struct slot_stat st = stat_of(8192, 4096, true);
	st.cap_closed = 4096;
	table_settle(&t, s, slot_ticket(s), &st);
	ck_assert_int_eq(t.bytes.used, 4096);
	ck_assert_int_eq(t.excess, 0);
	table_put(&t, s, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(a_file_without_a_name_goes_with_its_last_handle)
{
	static const struct fhandle none;
	struct space_table t;
	table_init(&t);
	struct space_slot *s = table_get_new(&t, DEV, 1, 4096); /* O_TMPFILE */
	table_vanished(&t, s, slot_ticket(s));
	table_opened(&t, s, false, &none);
	settle(&t, s, slot_ticket(s), 12288, UINT64_MAX);
	ck_assert_int_eq(t.bytes.used, 12288);
	ck_assert_int_eq(t.inodes.used, 1);
	table_closed(&t, s, false, 0);
	ck_assert_int_eq(t.bytes.used, 0);
	ck_assert_int_eq(t.inodes.used, 0);
	ck_assert_uint_eq(t.slots, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(a_deleted_file_that_is_held_goes_when_it_is_released)
{
	static const struct fhandle none;
	struct space_table t;
	table_init(&t);
	struct space_slot *s = table_get_new(&t, DEV, 1, 4096);
	table_opened(&t, s, false, &none);
	const struct slot_stat st = stat_of(4096, UINT64_MAX, true);
	struct slot_victim v = {0};
	ck_assert(table_remove_begin(&t, DEV, 1, &st, &v));
	table_hold(&t, v.slot, 5);
	table_remove_end(&t, &v, true, 5);
	table_closed(&t, s, false, 6);
	ck_assert_int_eq(t.bytes.used, 4096);
	ck_assert_int_eq(t.inodes.used, 1);
	ck_assert_uint_eq(t.held, 1);
	ck_assert_uint_eq(t.held_ns, 5);
	table_scan_begin(&t, false); /* which does not find it in the tree */
	table_scan_visited(&t);
	table_scan_end(&t, 0, 0);
	ck_assert_int_eq(t.bytes.used, 4096);
	ck_assert_int_eq(t.inodes.used, 1);
	table_release(&t, s, 7);
	ck_assert_int_eq(t.bytes.used, 0);
	ck_assert_int_eq(t.inodes.used, 0);
	ck_assert_uint_eq(t.held, 0);
	ck_assert_uint_eq(t.slots, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(a_file_whose_size_equals_its_blocks_may_still_have_holes)
{
	struct space_table t;
	uint64_t growth;
	table_init(&t);
	struct space_slot *s = table_get(&t, DEV, 1);
	base(&t, s, 8192); /* one block of data, one of attributes */
	settle(&t, s, slot_ticket(s), 8192, UINT64_MAX);
	struct slot_write w = {4096, 8192, 4096, 0};
	ck_assert(!table_write_begin(&t, s, &w, &growth));
	table_put(&t, s, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(a_write_beyond_a_hole_leaves_what_is_known_of_the_blocks_before_it)
{
	struct space_table t;
	uint64_t growth;
	table_init(&t);
	struct space_slot *s = table_get_new(&t, DEV, 1, 0);
	struct slot_write first = {0, 8192, 4096, 0}, far = {65536, 65537, 4096, 0};
	struct slot_write inside = {0, 8000, 4096, 0}, beyond = {8000, 9000, 4096, 0};
	ck_assert(table_write_begin(&t, s, &first, &growth)); /* a new file has no blocks */
	ck_assert_uint_eq(growth, 8192);
	ck_assert(table_write_end(&t, s, &first, 0));
	ck_assert(!table_write_begin(&t, s, &far, &growth));
	table_change_begin(&t, s, CHANGE_WRITE);
	ck_assert(table_write_begin(&t, s, &inside, &growth));
	ck_assert(!table_write_begin(&t, s, &beyond, &growth));
	table_change_end(&t, s, CHANGE_WRITE);
	settle(&t, s, slot_ticket(s), 12288, UINT64_MAX);
	ck_assert(table_write_begin(&t, s, &inside, &growth));
	ck_assert(!table_write_begin(&t, s, &beyond, &growth));
	ck_assert_int_eq(t.bytes.used, 12288);
	table_put(&t, s, 0);
	table_destroy(&t);
}
END_TEST

START_TEST(a_new_file_with_the_number_of_a_removed_one_is_another_file)
{
	struct space_table t;
	struct slot_victim v = {0};
	const struct slot_stat old = stat_of(8192, UINT64_MAX, true);
	table_init(&t);
	space_add(&t.bytes, 8192);
	space_add(&t.inodes, 1);
	ck_assert(table_remove_begin(&t, DEV, 1, &old, &v));
	uint64_t looked = slot_ticket(v.slot); /* of a check that found the old file gone */
	struct space_slot *s = table_get_new(&t, DEV, 1, 4096);
	table_remove_end(&t, &v, true, 0);
	table_vanished(&t, s, looked);
	table_put(&t, s, 0);
	ck_assert_int_eq(t.bytes.used, 4096);
	ck_assert_int_eq(t.inodes.used, 1);
	table_destroy(&t);
}
END_TEST

START_TEST(a_stat_from_before_a_truncation_does_not_tell_what_a_removal_frees)
{
	struct space_table t;
	struct slot_victim v = {0};
	const struct slot_stat old = stat_of(8192, UINT64_MAX, true);
	struct slot_stat empty = stat_of(0, UINT64_MAX, true);
	empty.final = true;
	table_init(&t);
	space_add(&t.bytes, 8192);
	space_add(&t.inodes, 1);
	v.drops = t.drops; /* here, the file is found to have 8192 bytes */
	struct space_slot *s = table_get(&t, DEV, 1);
	table_base(&t, s, &old);
	ck_assert(table_settle(&t, s, slot_ticket(s), &empty));
	table_put(&t, s, 0);
	ck_assert(!table_remove_begin(&t, DEV, 1, &old, &v));
	table_base(&t, v.slot, &empty);
	table_remove_end(&t, &v, true, 0);
	ck_assert_int_eq(t.bytes.used, 0);
	ck_assert_int_eq(t.inodes.used, 0);
	table_destroy(&t);
}
END_TEST

/* Counts how often a file is checked while time passes. */
static unsigned looks_until(struct space_table *t, uint64_t *now_ns, uint64_t end_ns)
{
	struct space_slot *due[4];
	unsigned looks = 0;
	for (; *now_ns < end_ns; *now_ns += NSEC_PER_SEC) {
		unsigned n = table_due(t, *now_ns, 100, due, 4);
		looks += n;
		while (n)
			table_put(t, due[--n], *now_ns);
	}
	return looks;
}

START_TEST(a_file_that_was_changed_is_checked_every_five_seconds_until_its_data_is_written)
{
	static const struct fhandle none;
	struct space_table t;
	for (int closed = 0; closed < 2; closed++) {
		uint64_t now_ns = NSEC_PER_SEC;
		table_init(&t);
		struct space_slot *s = table_get(&t, DEV, 1);
		base(&t, s, 0);
		table_opened(&t, s, false, &none);
		settle(&t, s, slot_ticket(s), 65536, UINT64_MAX);
		if (closed)
			table_closed(&t, s, false, now_ns);
		for (int i = 0; i < 6; i++) {
			unsigned n = looks_until(&t, &now_ns, now_ns + 6 * NSEC_PER_SEC);
			ck_assert_uint_ge(n, 1);
			ck_assert_uint_le(n, 4);
		}
		ck_assert_uint_le(looks_until(&t, &now_ns, now_ns + 1000 * NSEC_PER_SEC), 6);
		ck_assert_uint_eq(t.pending, 0);
		ck_assert_uint_eq(t.idle, 0);
		if (!closed)
			table_closed(&t, s, false, now_ns);
		table_destroy(&t);
	}
}
END_TEST

START_TEST(a_file_that_cannot_change_any_more_is_forgotten_when_closed)
{
	static const struct fhandle none;
	struct space_table t;
	struct slot_stat st = stat_of(4096, UINT64_MAX, true);
	st.final = true;
	table_init(&t);
	struct space_slot *s = table_get_new(&t, DEV, 1, 0);
	table_opened(&t, s, false, &none);
	ck_assert(table_settle(&t, s, slot_ticket(s), &st));
	table_closed(&t, s, false, 0);
	ck_assert_uint_eq(t.slots, 0);
	ck_assert_int_eq(t.bytes.used, 4096);
	table_destroy(&t);
}
END_TEST

START_TEST(a_scan_that_relied_on_quiet_knows_that_it_was_disturbed)
{
	struct space_table t;
	table_init(&t);
	table_scan_begin(&t, true);
	ck_assert_int_eq(table_visit(&t, DEV, 1, false), VISIT_COUNT);
	ck_assert_int_eq(table_visit(&t, DEV, 2, true), VISIT_COUNT);
	ck_assert_int_eq(table_visit(&t, DEV, 2, true), VISIT_KNOWN);
	ck_assert(!t.disturbed);
	table_put(&t, table_get(&t, DEV, 1), 0);
	ck_assert(t.disturbed);
	table_scan_abort(&t);
	table_destroy(&t);
}
END_TEST

START_TEST(a_file_whose_creation_outlasts_the_visits_of_a_scan_is_counted_once)
{
	struct space_table t;
	table_init(&t);
	unsigned before = table_name_begin(&t);
	table_scan_begin(&t, false);
	ck_assert(!table_names_settled(&t));
	table_name_end(&t, before);
	ck_assert(table_names_settled(&t));

	unsigned creation = table_name_begin(&t);
	ck_assert_int_eq(table_visit(&t, DEV, 1, false), VISIT_COUNT);
	table_scan_visited(&t);
	ck_assert(!table_names_settled(&t));
	struct space_slot *s = table_get_new(&t, DEV, 1, 4096);
	table_name_end(&t, creation);
	table_put(&t, s, 0);
	unsigned later = table_name_begin(&t); /* creates a file that the scan does not visit */
	ck_assert(table_names_settled(&t));
	table_scan_end(&t, 4096, 1);
	ck_assert_int_eq(t.inodes.used, 1);
	ck_assert_int_eq(t.bytes.used, 4096);
	table_put(&t, table_get_new(&t, DEV, 2, 4096), 0);
	table_name_end(&t, later);
	ck_assert_int_eq(t.inodes.used, 2);
	table_destroy(&t);
}
END_TEST

START_TEST(a_stat_from_before_a_file_got_its_name_does_not_take_the_name_away)
{
	const struct fhandle none = {0};
	struct space_table t;
	table_init(&t);
	struct space_slot *s = table_get_new(&t, DEV, 1, 4096);
	table_vanished(&t, s, slot_ticket(s)); /* O_TMPFILE */
	table_opened(&t, s, false, &none);
	uint64_t ticket = slot_ticket(s);
	table_named(&t, s);
	table_vanished(&t, s, ticket);
	table_closed(&t, s, false, 0);
	ck_assert_int_eq(t.inodes.used, 1);
	ck_assert_int_eq(t.bytes.used, 4096);
	table_destroy(&t);
}
END_TEST

UNIT_MAIN("space", a_reservation_fits_up_to_the_limit_and_not_beyond, no_limit_admits_everything,
	  a_margin_must_be_left_over, a_part_is_whole_blocks, below_what_is_used_nothing_fits,
	  a_span_is_the_blocks_that_are_touched, racing_reservations_never_exceed_the_limit,
	  the_total_follows_every_change, a_scan_of_a_tree_that_changes_counts_everything_once,
	  a_scan_finds_what_was_changed_behind, an_older_result_does_not_undo_a_newer_one,
	  a_write_into_a_solid_file_needs_no_stat,
	  a_stat_that_may_not_have_seen_a_write_is_taken_again,
	  a_write_beside_a_truncation_is_settled_by_stat,
	  blocks_beyond_the_end_count_when_somebody_asked_for_them_or_the_file_is_closed,
	  preallocated_blocks_that_will_be_freed_are_excess_even_of_a_closed_file,
	  all_blocks_of_a_closed_file_that_cannot_be_found_again_count,
	  a_file_without_a_name_goes_with_its_last_handle,
	  a_deleted_file_that_is_held_goes_when_it_is_released,
	  a_file_whose_size_equals_its_blocks_may_still_have_holes,
	  a_write_beyond_a_hole_leaves_what_is_known_of_the_blocks_before_it,
	  a_new_file_with_the_number_of_a_removed_one_is_another_file,
	  a_stat_from_before_a_truncation_does_not_tell_what_a_removal_frees,
	  a_file_that_was_changed_is_checked_every_five_seconds_until_its_data_is_written,
	  a_file_that_cannot_change_any_more_is_forgotten_when_closed,
	  a_scan_that_relied_on_quiet_knows_that_it_was_disturbed,
	  a_file_whose_creation_outlasts_the_visits_of_a_scan_is_counted_once,
	  a_stat_from_before_a_file_got_its_name_does_not_take_the_name_away)
