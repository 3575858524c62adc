/* SPDX-License-Identifier: MIT */
#include "fs/overwrite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "unit/unit.h"

static void write_direct(struct overwrites *o, uint64_t off, uint64_t size)
{
	struct range_io io;
	overwrite_begin(o, &io, off, size);
	overwrite_end(o, &io, (int64_t)size);
}

/* What a write-back of [off, off + size) writes, as "from-to from-to". */
static const char *written_back(struct overwrites *o, uint64_t off, uint64_t size)
{
	static char text[200];
	struct range_io io;
	struct byte_range part = {off, off};
	text[0] = '\0';
	write_back_begin(o, &io, off, size);
	while (write_back_next(o, &io, &part))
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%" PRIu64 "-%" PRIu64,
			 *text ? " " : "", part.from, part.to);
	write_back_end(o, &io);
	return text;
}

#define WITH_OVERWRITES(o)                                                                         \
	struct overwrites o __attribute__((cleanup(overwrites_destroy)));                          \
	overwrites_init(&o)

START_TEST(write_back_leaves_alone_what_was_written_since_the_page_was_read)
{
	WITH_OVERWRITES(o);
	ck_assert_str_eq(written_back(&o, 0, 4096), "0-4096");
	overwrite_pages_filled(&o, 0, 4096);
	write_direct(&o, 100, 50);
	ck_assert_str_eq(written_back(&o, 0, 4096), "0-100 150-4096");
	write_direct(&o, 0, 10);
	ck_assert_str_eq(written_back(&o, 0, 4096), "10-4096");
	write_direct(&o, 4000, 200);
	ck_assert_str_eq(written_back(&o, 0, 4096), "0-4000");
	ck_assert_str_eq(written_back(&o, 4096, 4096), "4200-8192");
}
END_TEST

START_TEST(a_page_that_was_read_since_is_written_back_whole)
{
	WITH_OVERWRITES(o);
	write_direct(&o, 0, 3 * 4096);
	overwrite_pages_filled(&o, 4096, 4096);
	ck_assert_str_eq(written_back(&o, 0, 3 * 4096), "4096-8192");
	overwrite_pages_filled(&o, 0, 3 * 4096);
	ck_assert_str_eq(written_back(&o, 0, 3 * 4096), "0-12288");
}
END_TEST

START_TEST(all_pieces_of_one_write_count)
{
	WITH_OVERWRITES(o);
	for (uint64_t i = 0; i < 100; i++)
		write_direct(&o, 50 + i * 1000, 1000);
	ck_assert_str_eq(written_back(&o, 0, 101000), "0-50 100050-101000");
}
END_TEST

START_TEST(a_page_filled_while_the_write_runs_may_be_old)
{
	WITH_OVERWRITES(o);
	struct range_io io;
	overwrite_begin(&o, &io, 100, 100);
	overwrite_pages_filled(&o, 0, 4096);
	ck_assert_str_eq(written_back(&o, 0, 4096), "0-100 200-4096");
	overwrite_end(&o, &io, 100);
	ck_assert_str_eq(written_back(&o, 0, 4096), "0-100 200-4096");
}
END_TEST

START_TEST(what_a_write_did_not_write_is_written_back)
{
	WITH_OVERWRITES(o);
	struct range_io io;
	overwrite_begin(&o, &io, 0, 100);
	overwrite_end(&o, &io, 40);
	ck_assert_str_eq(written_back(&o, 0, 200), "40-200");
	overwrite_begin(&o, &io, 1000, 100);
	overwrite_end(&o, &io, -1);
	ck_assert_str_eq(written_back(&o, 0, 2000), "0-2000");
}
END_TEST

START_TEST(more_holes_than_there_is_room_for_forget_the_oldest)
{
	WITH_OVERWRITES(o);
	write_direct(&o, 0, 1000);
	for (uint64_t i = 0; i < OVERWRITES_MAX; i++)
		overwrite_pages_filled(&o, 10 + i * 20, 10);
	ck_assert_uint_eq(o.n_done, OVERWRITES_MAX);
	ck_assert_str_eq(written_back(&o, 0, 31), "0-20 30-31");
}
END_TEST

static void *write_then_tell(void *arg)
{
	write_direct(arg, 0, 100);
	return NULL;
}

START_TEST(a_write_waits_for_the_write_back_of_the_same_bytes)
{
	WITH_OVERWRITES(o);
	struct range_io io;
	struct byte_range part = {0, 0};
	pthread_t writer;
	write_back_begin(&o, &io, 0, 4096);
	ck_assert(write_back_next(&o, &io, &part));
	pthread_create(&writer, NULL, write_then_tell, &o);
	bool begun = false;
	while (!begun) {
		pthread_mutex_lock(&o.lock);
		begun = !list_empty(&o.writes);
		ck_assert_uint_eq(o.n_done, 0);
		pthread_mutex_unlock(&o.lock);
	}
	write_back_end(&o, &io);
	pthread_join(writer, NULL);
	ck_assert_str_eq(written_back(&o, 0, 4096), "100-4096");
}
END_TEST

UNIT_MAIN("overwrite", write_back_leaves_alone_what_was_written_since_the_page_was_read,
	  a_page_that_was_read_since_is_written_back_whole, all_pieces_of_one_write_count,
	  a_page_filled_while_the_write_runs_may_be_old, what_a_write_did_not_write_is_written_back,
	  more_holes_than_there_is_room_for_forget_the_oldest,
	  a_write_waits_for_the_write_back_of_the_same_bytes)
