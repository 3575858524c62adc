/* SPDX-License-Identifier: MIT */
#include "fs/request.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/wire.h"
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

static struct fs fs;
static struct handle direct = {.direct_io = true, .pid = 7, .uid = 8, .gid = 9};
static struct handle cached;
static struct dir_stream stream;
static struct handle directory = {.dir = &stream};

static bool open_handles(void)
{
	handle_table_init(&fs.handle_table);
	return handle_table_add(&fs.handle_table, &direct) == 0 &&
	       handle_table_add(&fs.handle_table, &cached) == 0 &&
	       handle_table_add(&fs.handle_table, &directory) == 0;
}

static void close_handles(void)
{
	handle_table_free(&fs.handle_table);
}

static int parse(struct request *r, struct message *m, size_t len)
{
	static const struct transport none;
	*r = (struct request){.fs = &fs, .transport = &none};
	request_split(r, m, len);
	return request_parse(r);
}

static struct request of_message(struct message *m)
{
	struct request r;
	ck_assert_int_eq(parse(&r, m, sizeof(*m)), 0);
	return r;
}

/* The number of an open file where the kernel would put it. */
static void put_handle(struct message *m)
{
	enum handle_at at = opcode_of(m->in.opcode)->handle;
	if (at == OPEN_DIR)
		memcpy(m->bytes, &directory.number, sizeof(uint64_t));
	else if (at == OPEN_FILE || at == OPEN_ANY)
		memcpy(m->bytes, &direct.number, sizeof(uint64_t));
}

static struct request of(uint32_t opcode)
{
	struct message m = {.in = {.len = sizeof(m), .opcode = opcode, .unique = 2}};
	put_handle(&m);
	return of_message(&m);
}

static struct request of_read(const struct handle *h, uint32_t read_flags, uint32_t flags)
{
	struct message m = {.in = {.opcode = FUSE_READ}};
	m.read = (struct fuse_read_in){
		.fh = h->number, .size = 4096, .read_flags = read_flags, .flags = flags};
	return of_message(&m);
}

static struct request of_write(const struct handle *h, uint32_t write_flags, uint32_t flags)
{
	struct message m = {.in = {.opcode = FUSE_WRITE}};
	m.write = (struct fuse_write_in){
		.fh = h->number, .size = 100, .write_flags = write_flags, .flags = flags};
	return of_message(&m);
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
		struct request c = of(expect[i].opcode);
		ck_assert_int_eq(c.op->throttling, THROTTLE_WAIT);
		ck_assert_int_eq(c.cost.cls, expect[i].cls);
		ck_assert_int_eq(c.cost.ops, 1);
		ck_assert(c.refusable);
		ck_assert(!c.nonblock);
	}
}
END_TEST

static struct request of_size(uint32_t opcode, uint32_t size)
{
	struct message m = {.in = {.opcode = opcode}};
	put_handle(&m);
	if (opcode == FUSE_READDIR || opcode == FUSE_READDIRPLUS)
		m.read.size = size;
	else
		memcpy(m.bytes, &size, sizeof(size));
	return of_message(&m);
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
		struct request c = of_size(expect[i].opcode, 5000);
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
	ck_assert_int_eq(of_message(&m).cost.cls, COST_META);
	ck_assert_uint_eq(of_message(&m).cost.bytes, 0);
	/* to write one is to write bytes */
	m.in.opcode = FUSE_SETXATTR;
	ck_assert_int_eq(of_message(&m).cost.cls, COST_META_WRITE);
	m.in.opcode = FUSE_GETXATTR;
	strcpy(m.bytes + sizeof(arg), "user.x");
	ck_assert_int_eq(of_message(&m).cost.cls, COST_META_READ);
	struct request r;
	ck_assert_int_eq(parse(&r, &m, sizeof(m.in) + sizeof(arg)), 0);
	ck_assert_int_eq(r.cost.cls, COST_META_READ);
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
		ck_assert_int_eq(of(opcodes[i]).op->throttling, THROTTLE_EXEMPT);
		ck_assert_int_eq(of(opcodes[i]).cost.ops, 0);
	}
}
END_TEST

START_TEST(a_flush_is_charged_but_never_waits)
{
	struct request c = of(FUSE_FLUSH);
	ck_assert_int_eq(c.op->throttling, THROTTLE_CHARGE);
	ck_assert_int_eq(c.cost.cls, COST_META);
	ck_assert_int_eq(c.cost.ops, 1);
}
END_TEST

START_TEST(an_operation_of_a_newer_kernel_is_limited_as_meta)
{
	ck_assert_int_eq(of(54).op->throttling, THROTTLE_WAIT);
	ck_assert_int_eq(of(4000).op->throttling, THROTTLE_WAIT);
	ck_assert_int_eq(of(4000).cost.cls, COST_META);
	ck_assert_int_eq(of(4000).cost.ops, 1);
}
END_TEST

START_TEST(only_read_and_write_calls_on_direct_handles_may_be_told_eagain)
{
	struct request c = of_read(&direct, FUSE_READ_LOCKOWNER, O_NONBLOCK);
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
	static const uint32_t opcodes[] = {FUSE_READ, FUSE_WRITE, FUSE_COPY_FILE_RANGE,
					   FUSE_SETATTR};
	struct request r;
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct message m = {.in = {.opcode = opcodes[i]}};
		put_handle(&m);
		size_t args = opcode_of(opcodes[i])->args;
		ck_assert_int_eq(parse(&r, &m, sizeof(m.in) + args - 1), -EINVAL);
		ck_assert_uint_eq(r.cost.bytes, 0);
		ck_assert_int_eq(parse(&r, &m, sizeof(m.in) + args), 0);
	}
	/* a write that says more than it brings */
	struct message m = {.in = {.opcode = FUSE_WRITE}};
	m.write = (struct fuse_write_in){.fh = direct.number, .size = 4096};
	ck_assert_int_eq(parse(&r, &m, sizeof(m)), -EINVAL);
}
END_TEST

START_TEST(a_handle_that_is_not_open_or_of_the_wrong_kind_is_refused)
{
	struct message m = {.in = {.opcode = FUSE_READ}};
	struct request r;
	m.read.fh = direct.number + (1ULL << 32); /* another generation */
	ck_assert_int_eq(parse(&r, &m, sizeof(m)), -EBADF);
	m.read.fh = (uintptr_t)&direct;
	ck_assert_int_eq(parse(&r, &m, sizeof(m)), -EBADF);
	m.read.fh = 0;
	ck_assert_int_eq(parse(&r, &m, sizeof(m)), -EBADF);
	m.read.fh = directory.number;
	ck_assert_int_eq(parse(&r, &m, sizeof(m)), -EBADF);
	m.in.opcode = FUSE_READDIR;
	ck_assert_int_eq(parse(&r, &m, sizeof(m)), 0);
	m.read.fh = direct.number;
	ck_assert_int_eq(parse(&r, &m, sizeof(m)), -EBADF);
}
END_TEST

START_TEST(attributes_are_asked_of_a_handle_only_where_the_message_says_so)
{
	struct message m = {.in = {.opcode = FUSE_GETATTR}};
	struct fuse_getattr_in arg = {.fh = direct.number};
	memcpy(m.bytes, &arg, sizeof(arg));
	ck_assert_ptr_null(of_message(&m).handle);
	arg.getattr_flags = FUSE_GETATTR_FH;
	memcpy(m.bytes, &arg, sizeof(arg));
	ck_assert_ptr_eq(of_message(&m).handle, &direct);
	arg.fh++;
	memcpy(m.bytes, &arg, sizeof(arg));
	struct request r;
	ck_assert_int_eq(parse(&r, &m, sizeof(m)), -EBADF);
}
END_TEST

START_TEST(what_has_no_caller_is_on_behalf_of_the_opener)
{
	struct request r = of_write(&direct, FUSE_WRITE_CACHE, 0);
	ck_assert_uint_eq(r.caller.tid, 7);
	ck_assert_uint_eq(r.caller.uid, 8);
	ck_assert_uint_eq(r.caller.gid, 9);
	ck_assert_uint_eq(r.caller.handle, direct.number);
}
END_TEST

START_TEST(names_are_found_only_where_they_end)
{
	struct message m = {.in = {.opcode = FUSE_SYMLINK}};
	struct request r;
	memcpy(m.bytes, "name\0target", 12);
	ck_assert_int_eq(parse(&r, &m, sizeof(m.in) + 12), 0);
	ck_assert_str_eq(request_name(&r, 0), "name");
	ck_assert_str_eq(request_name(&r, 1), "target");
	ck_assert_ptr_null(request_name(&r, 2));
	ck_assert_int_eq(parse(&r, &m, sizeof(m.in) + 11), 0);
	ck_assert_ptr_null(request_name(&r, 1));
	ck_assert_int_eq(parse(&r, &m, sizeof(m.in)), 0);
	ck_assert_ptr_null(request_name(&r, 0));
}
END_TEST

START_TEST(a_device_sees_transfers_syncs_and_the_rest)
{
	struct message m = {.in = {.opcode = FUSE_READ, .nodeid = 7}};
	m.read = (struct fuse_read_in){.fh = direct.number, .offset = 4096, .size = 10};
	struct request r = of_message(&m);
	struct device_access a = request_access(&r);
	ck_assert(a.op == DEVICE_READ && a.file == 7 && a.offset == 4096);
	m.in.opcode = FUSE_WRITE;
	m.write = (struct fuse_write_in){.fh = direct.number, .offset = 8192, .size = 10};
	r = of_message(&m);
	a = request_access(&r);
	ck_assert(a.op == DEVICE_WRITE && a.file == 7 && a.offset == 8192);
	m.in.opcode = FUSE_COPY_FILE_RANGE;
	m.copy =
		(struct fuse_copy_file_range_in){.fh_in = direct.number, .off_in = 5, .off_out = 6};
	r = of_message(&m);
	a = request_access(&r);
	ck_assert(a.op == DEVICE_COPY && a.offset == 5);
	static const uint32_t syncs[] = {FUSE_FSYNC, FUSE_FSYNCDIR};
	for (unsigned i = 0; i < ARRAY_SIZE(syncs); i++) {
		r = of(syncs[i]);
		ck_assert_int_eq(request_access(&r).op, DEVICE_SYNC);
	}
	r = of(FUSE_LOOKUP);
	ck_assert_int_eq(request_access(&r).op, DEVICE_META);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_device_sees_transfers_syncs_and_the_rest,
		every_class_has_its_requests,
		values_of_attributes_are_bytes_of_metadata,
		an_acl_that_the_kernel_reads_is_metadata_alone,
		a_listing_costs_the_bytes_that_it_asks_for,
		what_must_never_wait_is_free,
		a_flush_is_charged_but_never_waits,
		an_operation_of_a_newer_kernel_is_limited_as_meta,
		only_read_and_write_calls_on_direct_handles_may_be_told_eagain,
		a_cut_off_message_is_not_read_beyond_its_end,
		a_handle_that_is_not_open_or_of_the_wrong_kind_is_refused,
		attributes_are_asked_of_a_handle_only_where_the_message_says_so,
		what_has_no_caller_is_on_behalf_of_the_opener,
		names_are_found_only_where_they_end,
	};
	int rc = open_handles() ? unit_run("request", tests, ARRAY_SIZE(tests)) : EXIT_FAILURE;
	close_handles();
	return rc;
}
