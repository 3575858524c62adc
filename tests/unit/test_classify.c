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
		ck_assert_int_eq(c.throttling, THROTTLE_WAIT);
		ck_assert_int_eq(c.cost.cls, expect[i].cls);
		ck_assert_int_eq(c.cost.ops, 1);
		ck_assert(c.refusable);
		ck_assert(!c.nonblock);
	}
}
END_TEST

static struct classified of_size(uint32_t opcode, uint32_t size)
{
	struct message m = {.in = {.opcode = opcode}};
	if (opcode == FUSE_READDIR || opcode == FUSE_READDIRPLUS)
		m.read.size = size;
	else
		memcpy(m.bytes, &size, sizeof(size));
	return classify(&m.in, sizeof(m));
}

START_TEST(values_of_attributes_are_bytes_of_metadata)
{
	static const struct {
		uint32_t opcode;
		enum cost_class cls;
	} expect[] = {{FUSE_GETXATTR, COST_META_READ},
		      {FUSE_LISTXATTR, COST_META_READ},
		      {FUSE_SETXATTR, COST_META_WRITE}};
	for (size_t i = 0; i < ARRAY_SIZE(expect); i++) {
		struct classified c = of_size(expect[i].opcode, 5000);
		ck_assert_int_eq(c.cost.cls, expect[i].cls);
		ck_assert_uint_eq(c.cost.bytes, 5000);
		ck_assert_uint_eq(c.cost.ops, 1);
		/* who asks for the size only moves nothing */
		ck_assert_int_eq(of_size(expect[i].opcode, 0).cost.cls, COST_META);
	}
}
END_TEST

START_TEST(an_acl_that_the_kernel_reads_is_metadata_alone)
{
	struct message m = {.in = {.opcode = FUSE_GETXATTR}};
	const struct fuse_getxattr_in arg = {.size = 4096};
	memcpy(m.bytes, &arg, sizeof(arg));
	strcpy(m.bytes + sizeof(arg), "system.posix_acl_access");
	ck_assert_int_eq(classify(&m.in, sizeof(m)).cost.cls, COST_META);
	ck_assert_uint_eq(classify(&m.in, sizeof(m)).cost.bytes, 0);
	/* to write one is to write bytes */
	m.in.opcode = FUSE_SETXATTR;
	ck_assert_int_eq(classify(&m.in, sizeof(m)).cost.cls, COST_META_WRITE);
	m.in.opcode = FUSE_GETXATTR;
	strcpy(m.bytes + sizeof(arg), "user.x");
	ck_assert_int_eq(classify(&m.in, sizeof(m)).cost.cls, COST_META_READ);
	ck_assert_int_eq(classify(&m.in, sizeof(m.in) + sizeof(arg)).cost.cls, COST_META_READ);
}
END_TEST

START_TEST(a_listing_costs_the_bytes_that_it_asks_for)
{
	ck_assert_uint_eq(of_size(FUSE_READDIR, 32768).cost.bytes, 32768);
	ck_assert_uint_eq(of_size(FUSE_READDIRPLUS, 1 << 20).cost.bytes, 1 << 20);
}
END_TEST

START_TEST(what_must_never_wait_is_free)
{
	static const uint32_t opcodes[] = {FUSE_RELEASE,      FUSE_RELEASEDIR, FUSE_FORGET,
					   FUSE_BATCH_FORGET, FUSE_INTERRUPT,  FUSE_POLL,
					   FUSE_INIT,	      FUSE_DESTROY,    FUSE_GETLK,
					   FUSE_SETLK,	      FUSE_SETLKW};
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		ck_assert_int_eq(of(opcodes[i]).throttling, THROTTLE_EXEMPT);
		ck_assert_int_eq(of(opcodes[i]).cost.ops, 0);
	}
}
END_TEST

START_TEST(a_flush_is_charged_but_never_waits)
{
	struct classified c = of(FUSE_FLUSH);
	ck_assert_int_eq(c.throttling, THROTTLE_CHARGE);
	ck_assert_int_eq(c.cost.cls, COST_META);
	ck_assert_int_eq(c.cost.ops, 1);
}
END_TEST

START_TEST(an_operation_of_a_newer_kernel_is_limited_as_meta)
{
	ck_assert_int_eq(of(53).throttling, THROTTLE_WAIT);
	ck_assert_int_eq(of(4000).throttling, THROTTLE_WAIT);
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
	ck_assert_int_eq(c.throttling, THROTTLE_WAIT);
	ck_assert_uint_eq(c.cost.bytes, 0);
	in.opcode = FUSE_COPY_FILE_RANGE;
	ck_assert_uint_eq(classify(&in, sizeof(in)).cost.bytes, 0);
}
END_TEST

START_TEST(a_device_sees_transfers_syncs_and_the_rest)
{
	struct message m = {.in = {.opcode = FUSE_READ, .nodeid = 7}};
	m.read = (struct fuse_read_in){.offset = 4096, .size = 10};
	struct device_access a = access_of(&m.in, sizeof(m));
	ck_assert(a.op == DEVICE_READ && a.file == 7 && a.offset == 4096);
	m.in.opcode = FUSE_WRITE;
	m.write = (struct fuse_write_in){.offset = 8192, .size = 10};
	a = access_of(&m.in, sizeof(m));
	ck_assert(a.op == DEVICE_WRITE && a.file == 7 && a.offset == 8192);
	m.in.opcode = FUSE_COPY_FILE_RANGE;
	m.copy = (struct fuse_copy_file_range_in){.off_in = 5, .off_out = 6};
	a = access_of(&m.in, sizeof(m));
	ck_assert(a.op == DEVICE_COPY && a.offset == 5);
	static const uint32_t syncs[] = {FUSE_FSYNC, FUSE_FSYNCDIR};
	for (unsigned i = 0; i < ARRAY_SIZE(syncs); i++) {
		m.in.opcode = syncs[i];
		ck_assert_int_eq(access_of(&m.in, sizeof(m)).op, DEVICE_SYNC);
	}
	m.in.opcode = FUSE_LOOKUP;
	ck_assert_int_eq(access_of(&m.in, sizeof(m)).op, DEVICE_META);
	m.in.opcode = FUSE_READ; /* cut short */
	ck_assert_uint_eq(access_of(&m.in, sizeof(m.in)).offset, 0);
}
END_TEST

UNIT_MAIN("classify", a_device_sees_transfers_syncs_and_the_rest, every_class_has_its_requests,
	  values_of_attributes_are_bytes_of_metadata,
	  an_acl_that_the_kernel_reads_is_metadata_alone,
	  a_listing_costs_the_bytes_that_it_asks_for, what_must_never_wait_is_free,
	  a_flush_is_charged_but_never_waits, an_operation_of_a_newer_kernel_is_limited_as_meta,
	  only_read_and_write_calls_on_direct_handles_may_be_told_eagain,
	  a_cut_off_message_is_not_read_beyond_its_end)
