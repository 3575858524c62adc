/* SPDX-License-Identifier: MIT */
#include "fs/classify.h"

#include <fcntl.h>
#include <string.h>

#include "fs/handle.h"
#include "unit/unit.h"

/* A message as the kernel writes it. */
struct message {
	struct fuse_in_header in;
	union {
		struct fuse_read_in read;
		struct fuse_write_in write;
		struct fuse_copy_file_range_in copy;
		char bytes[256];
	};
};

static struct classified of(uint32_t opcode)
{
	struct message m = {.in = {.len = sizeof(m), .opcode = opcode, .unique = 2}};
	return classify(&m.in, sizeof(m));
}

static struct classified of_read(struct handle *h, uint32_t read_flags, uint32_t flags)
{
	struct message m = {.in = {.opcode = FUSE_READ}};
	m.read = (struct fuse_read_in){
		.fh = (uintptr_t)h, .size = 4096, .read_flags = read_flags, .flags = flags};
	return classify(&m.in, sizeof(m));
}

static struct classified of_write(struct handle *h, uint32_t write_flags, uint32_t flags)
{
	struct message m = {.in = {.opcode = FUSE_WRITE}};
	m.write = (struct fuse_write_in){
		.fh = (uintptr_t)h, .size = 100, .write_flags = write_flags, .flags = flags};
	return classify(&m.in, sizeof(m));
}

START_TEST(every_class_has_its_requests)
{
	static const struct {
		uint32_t opcode;
		enum cost_class cls;
	} expect[] = {
		{FUSE_LOOKUP, COST_META},	   {FUSE_GETATTR, COST_META},
		{FUSE_SETATTR, COST_META},	   {FUSE_READLINK, COST_META},
		{FUSE_SYMLINK, COST_META},	   {FUSE_MKNOD, COST_META},
		{FUSE_MKDIR, COST_META},	   {FUSE_UNLINK, COST_META},
		{FUSE_RMDIR, COST_META},	   {FUSE_RENAME, COST_META},
		{FUSE_RENAME2, COST_META},	   {FUSE_LINK, COST_META},
		{FUSE_STATFS, COST_META},	   {FUSE_ACCESS, COST_META},
		{FUSE_SETXATTR, COST_META},	   {FUSE_GETXATTR, COST_META},
		{FUSE_LISTXATTR, COST_META},	   {FUSE_REMOVEXATTR, COST_META},
		{FUSE_FSYNC, COST_META},	   {FUSE_FSYNCDIR, COST_META},
		{FUSE_FALLOCATE, COST_META},	   {FUSE_LSEEK, COST_META},
		{WIRE_STATX, COST_META},	   {FUSE_IOCTL, COST_META},
		{FUSE_READDIR, COST_READDIR},	   {FUSE_READDIRPLUS, COST_READDIR},
		{FUSE_OPEN, COST_OPENCLOSE},	   {FUSE_CREATE, COST_OPENCLOSE},
		{WIRE_TMPFILE, COST_OPENCLOSE},	   {FUSE_OPENDIR, COST_OPENCLOSE},
		{FUSE_COPY_FILE_RANGE, COST_COPY},
	};
	for (size_t i = 0; i < ARRAY_SIZE(expect); i++) {
		struct classified c = of(expect[i].opcode);
		ck_assert_int_eq(c.passage, PASS_LIMITED);
		ck_assert_int_eq(c.cost.cls, expect[i].cls);
		ck_assert_int_eq(c.cost.ops, 1);
		ck_assert(c.refusable);
		ck_assert(!c.nonblock);
	}
}
END_TEST

START_TEST(what_must_never_wait_is_free)
{
	static const uint32_t opcodes[] = {FUSE_RELEASE,      FUSE_RELEASEDIR, FUSE_FORGET,
					   FUSE_BATCH_FORGET, FUSE_INTERRUPT,  FUSE_POLL,
					   FUSE_INIT,	      FUSE_DESTROY,    FUSE_GETLK,
					   FUSE_SETLK,	      FUSE_SETLKW};
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		ck_assert_int_eq(of(opcodes[i]).passage, PASS_FREE);
		ck_assert_int_eq(of(opcodes[i]).cost.ops, 0);
	}
}
END_TEST

START_TEST(a_flush_is_charged_but_never_waits)
{
	struct classified c = of(FUSE_FLUSH);
	ck_assert_int_eq(c.passage, PASS_CHARGED);
	ck_assert_int_eq(c.cost.cls, COST_META);
	ck_assert_int_eq(c.cost.ops, 1);
}
END_TEST

START_TEST(an_operation_of_a_newer_kernel_is_limited_as_meta)
{
	ck_assert_int_eq(of(53).passage, PASS_LIMITED);
	ck_assert_int_eq(of(4000).passage, PASS_LIMITED);
	ck_assert_int_eq(of(4000).cost.cls, COST_META);
	ck_assert_int_eq(of(4000).cost.ops, 1);
}
END_TEST

START_TEST(only_read_and_write_calls_on_direct_handles_may_be_told_eagain)
{
	struct handle direct = {.direct_io = true}, cached = {.direct_io = false};
	struct classified c = of_read(&direct, FUSE_READ_LOCKOWNER, O_NONBLOCK);
	ck_assert(c.nonblock && c.transfer && c.refusable);
	ck_assert_uint_eq(c.cost.bytes, 4096);
	ck_assert(!of_read(&direct, FUSE_READ_LOCKOWNER, 0).nonblock);
	c = of_read(&direct, 0, O_NONBLOCK); /* a page fault: SIGBUS */
	ck_assert(!c.nonblock && !c.refusable);
	c = of_read(&cached, FUSE_READ_LOCKOWNER, O_NONBLOCK); /* read-ahead or fault, who knows */
	ck_assert(!c.nonblock && !c.refusable);

	c = of_write(&direct, 0, O_NONBLOCK);
	ck_assert(c.nonblock && c.transfer && c.refusable);
	ck_assert_uint_eq(c.cost.bytes, 100);
	c = of_write(&direct, FUSE_WRITE_CACHE, O_NONBLOCK); /* write-back: lost data */
	ck_assert(!c.nonblock && !c.refusable);
	c = of_write(&cached, 0, O_NONBLOCK);
	ck_assert(!c.nonblock && c.refusable);
}
END_TEST

START_TEST(a_cut_off_message_is_not_read_beyond_its_end)
{
	struct fuse_in_header in = {.len = sizeof(in), .opcode = FUSE_READ};
	struct classified c = classify(&in, sizeof(in));
	ck_assert_int_eq(c.passage, PASS_LIMITED);
	ck_assert_uint_eq(c.cost.bytes, 0);
	in.opcode = FUSE_COPY_FILE_RANGE;
	ck_assert_uint_eq(classify(&in, sizeof(in)).cost.bytes, 0);
}
END_TEST

UNIT_MAIN("classify", every_class_has_its_requests, what_must_never_wait_is_free,
	  a_flush_is_charged_but_never_waits, an_operation_of_a_newer_kernel_is_limited_as_meta,
	  only_read_and_write_calls_on_direct_handles_may_be_told_eagain,
	  a_cut_off_message_is_not_read_beyond_its_end)
