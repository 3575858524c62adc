/* SPDX-License-Identifier: MIT */
#include "fs/classify.h"

#include <fcntl.h>

#include "base/util.h"
#include "fs/handle.h"

struct rule {
	enum passage passage;
	enum cost_class cls;
};

/* The whole of it.  What is not named here is {PASS_LIMITED, COST_META} too, so that an operation
 * of a newer kernel never slips through. */
static const struct rule rules[] = {
	[FUSE_LOOKUP] = {PASS_LIMITED, COST_META},
	[FUSE_GETATTR] = {PASS_LIMITED, COST_META},
	[WIRE_STATX] = {PASS_LIMITED, COST_META},
	[FUSE_SETATTR] = {PASS_LIMITED, COST_META},
	[FUSE_READLINK] = {PASS_LIMITED, COST_META},
	[FUSE_SYMLINK] = {PASS_LIMITED, COST_META},
	[FUSE_MKNOD] = {PASS_LIMITED, COST_META},
	[FUSE_MKDIR] = {PASS_LIMITED, COST_META},
	[FUSE_UNLINK] = {PASS_LIMITED, COST_META},
	[FUSE_RMDIR] = {PASS_LIMITED, COST_META},
	[FUSE_RENAME] = {PASS_LIMITED, COST_META},
	[FUSE_RENAME2] = {PASS_LIMITED, COST_META},
	[FUSE_LINK] = {PASS_LIMITED, COST_META},
	[FUSE_STATFS] = {PASS_LIMITED, COST_META},
	[FUSE_ACCESS] = {PASS_LIMITED, COST_META},
	[FUSE_SETXATTR] = {PASS_LIMITED, COST_META},
	[FUSE_GETXATTR] = {PASS_LIMITED, COST_META},
	[FUSE_LISTXATTR] = {PASS_LIMITED, COST_META},
	[FUSE_REMOVEXATTR] = {PASS_LIMITED, COST_META},
	[FUSE_FSYNC] = {PASS_LIMITED, COST_META},
	[FUSE_FSYNCDIR] = {PASS_LIMITED, COST_META},
	[WIRE_SYNCFS] = {PASS_LIMITED, COST_META},
	[FUSE_FALLOCATE] = {PASS_LIMITED, COST_META},
	[FUSE_LSEEK] = {PASS_LIMITED, COST_META},
	[FUSE_IOCTL] = {PASS_LIMITED, COST_META},
	[FUSE_BMAP] = {PASS_LIMITED, COST_META},

	[FUSE_READDIR] = {PASS_LIMITED, COST_READDIR},
	[FUSE_READDIRPLUS] = {PASS_LIMITED, COST_READDIR},
	[FUSE_READ] = {PASS_LIMITED, COST_READ},
	[FUSE_WRITE] = {PASS_LIMITED, COST_WRITE},
	[FUSE_COPY_FILE_RANGE] = {PASS_LIMITED, COST_COPY},

	[FUSE_OPEN] = {PASS_LIMITED, COST_OPENCLOSE},
	[FUSE_CREATE] = {PASS_LIMITED, COST_OPENCLOSE},
	[WIRE_TMPFILE] = {PASS_LIMITED, COST_OPENCLOSE},
	[FUSE_OPENDIR] = {PASS_LIMITED, COST_OPENCLOSE},

	/* A parked flush would make close() return EINTR. */
	[FUSE_FLUSH] = {PASS_CHARGED, COST_META},

	[FUSE_RELEASE] = {PASS_FREE, 0},
	[FUSE_RELEASEDIR] = {PASS_FREE, 0},
	[FUSE_FORGET] = {PASS_FREE, 0},
	[FUSE_BATCH_FORGET] = {PASS_FREE, 0},
	[FUSE_INTERRUPT] = {PASS_FREE, 0},
	[FUSE_POLL] = {PASS_FREE, 0},
	[FUSE_INIT] = {PASS_FREE, 0},
	[FUSE_DESTROY] = {PASS_FREE, 0},
	[FUSE_GETLK] = {PASS_FREE, 0},
	[FUSE_SETLK] = {PASS_FREE, 0},
	[FUSE_SETLKW] = {PASS_FREE, 0},
	[FUSE_NOTIFY_REPLY] = {PASS_FREE, 0},
};

static void classify_read(const struct fuse_read_in *arg, struct classified *c)
{
	if (!arg)
		return;
	const struct handle *h = handle_from_fh(arg->fh);
	c->cost.bytes = arg->size;
	/* Direct I/O tells read(2) from a page fault by the lock owner; the page cache does not. */
	c->transfer = h->direct_io && (arg->read_flags & FUSE_READ_LOCKOWNER);
	c->nonblock = c->transfer && (arg->flags & O_NONBLOCK);
	c->in_blocks = c->unheard = arg->flags & O_DIRECT;
	c->refusable = c->transfer;
}

static void classify_write(const struct fuse_write_in *arg, struct classified *c)
{
	if (!arg)
		return;
	const struct handle *h = handle_from_fh(arg->fh);
	bool write_back = arg->write_flags & FUSE_WRITE_CACHE;
	c->cost.bytes = arg->size;
	c->transfer = h->direct_io && !write_back;
	c->nonblock = c->transfer && (arg->flags & O_NONBLOCK);
	c->in_blocks = c->unheard = (arg->flags & O_DIRECT) && !write_back;
	c->refusable = !write_back;
}

struct classified classify(const struct fuse_in_header *in, size_t len)
{
	static const struct rule unknown = {PASS_LIMITED, COST_META};
	const struct rule *r = in->opcode < ARRAY_SIZE(rules) ? &rules[in->opcode] : &unknown;
	struct classified c = {
		.passage = r->passage,
		.cost = {.cls = r->cls, .ops = r->passage != PASS_FREE},
		.refusable = true,
	};
	if (in->opcode == FUSE_READ)
		classify_read(wire_args(in, len, struct fuse_read_in), &c);
	else if (in->opcode == FUSE_WRITE)
		classify_write(wire_args(in, len, struct fuse_write_in), &c);
	else if (in->opcode == FUSE_COPY_FILE_RANGE &&
		 wire_args(in, len, struct fuse_copy_file_range_in))
		c.cost.bytes = wire_args(in, len, struct fuse_copy_file_range_in)->len;
	return c;
}
