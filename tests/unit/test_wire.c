/* SPDX-License-Identifier: MIT */
#include "fs/wire.h"

#include <unistd.h>

#include "unit/unit.h"

static uint64_t retrieve_number(const int pipe[2])
{
	struct {
		struct fuse_out_header out;
		struct fuse_notify_retrieve_out arg;
	} message;
	ck_assert_int_eq(wire_notify_retrieve(pipe[1], 5), 0);
	ck_assert_int_eq(read(pipe[0], &message, sizeof(message)), sizeof(message));
	ck_assert_uint_eq(message.out.len, sizeof(message));
	ck_assert_int_eq(message.out.error, FUSE_NOTIFY_RETRIEVE);
	ck_assert_uint_eq(message.arg.nodeid, 5);
	return message.arg.notify_unique;
}

/* With io_uring, the kernel finds what is committed by this number: if two threads had the same, each might commit the
 * other's entry. */
START_TEST(each_message_that_is_asked_for_has_a_number_of_its_own)
{
	int ends[2];
	ck_assert_int_eq(pipe(ends), 0);
	uint64_t first = retrieve_number(ends), second = retrieve_number(ends);
	ck_assert_uint_ne(first, second);
	/* Requests have smaller numbers, interrupts odd ones. */
	ck_assert_uint_ge(first, 1ULL << 62);
	ck_assert_uint_ge(second, 1ULL << 62);
	ck_assert(!(first & FUSE_INT_REQ_BIT) && !(second & FUSE_INT_REQ_BIT));
	close(ends[0]);
	close(ends[1]);
}
END_TEST

UNIT_MAIN("wire", each_message_that_is_asked_for_has_a_number_of_its_own)
