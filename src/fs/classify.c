/* SPDX-License-Identifier: MIT */
#include "fs/classify.h"

#include <fcntl.h>
#include <string.h>

#include "base/util.h"
#include "fs/handle.h"

/* Where a message says how many bytes are asked for. */
enum bytes_at {
	NO_BYTES,
	READ_SIZE,
	WRITE_SIZE,
	COPY_LENGTH,
	LISTING_SIZE,
	XATTR_SIZE,
	XATTR_SIZE_NO_ACL, /* the same, but none for an access control list */
};

struct rule {
	enum throttling throttling;
	enum cost_class cls;
	enum bytes_at bytes;
};

/* Operations that are not listed are treated as {THROTTLE_WAIT, COST_META}, so that those of a newer kernel
 * are throttled, too. */
static const struct rule rules[] = {
	[FUSE_LOOKUP] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_GETATTR] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[WIRE_STATX] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_SETATTR] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_READLINK] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_SYMLINK] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_MKNOD] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_MKDIR] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_UNLINK] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_RMDIR] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_RENAME] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_RENAME2] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_LINK] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_STATFS] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_ACCESS] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_SETXATTR] = {THROTTLE_WAIT, COST_META_WRITE, XATTR_SIZE},
	[FUSE_GETXATTR] = {THROTTLE_WAIT, COST_META_READ, XATTR_SIZE_NO_ACL},
	[FUSE_LISTXATTR] = {THROTTLE_WAIT, COST_META_READ, XATTR_SIZE},
	[FUSE_REMOVEXATTR] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_FSYNC] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_FSYNCDIR] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_FALLOCATE] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_LSEEK] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_IOCTL] = {THROTTLE_WAIT, COST_META, NO_BYTES},
	[FUSE_BMAP] = {THROTTLE_WAIT, COST_META, NO_BYTES},

	[FUSE_READDIR] = {THROTTLE_WAIT, COST_READDIR, LISTING_SIZE},
	[FUSE_READDIRPLUS] = {THROTTLE_WAIT, COST_READDIR, LISTING_SIZE},
	[FUSE_READ] = {THROTTLE_WAIT, COST_READ, READ_SIZE},
	[FUSE_WRITE] = {THROTTLE_WAIT, COST_WRITE, WRITE_SIZE},
	[FUSE_COPY_FILE_RANGE] = {THROTTLE_WAIT, COST_COPY, COPY_LENGTH},

	[FUSE_OPEN] = {THROTTLE_WAIT, COST_OPENCLOSE, NO_BYTES},
	[FUSE_CREATE] = {THROTTLE_WAIT, COST_OPENCLOSE, NO_BYTES},
	[WIRE_TMPFILE] = {THROTTLE_WAIT, COST_OPENCLOSE, NO_BYTES},
	[FUSE_OPENDIR] = {THROTTLE_WAIT, COST_OPENCLOSE, NO_BYTES},

	/* A parked flush would make close() return EINTR. */
	[FUSE_FLUSH] = {THROTTLE_CHARGE, COST_META, NO_BYTES},

	[FUSE_RELEASE] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_RELEASEDIR] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_FORGET] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_BATCH_FORGET] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_INTERRUPT] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_POLL] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_INIT] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_DESTROY] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_GETLK] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_SETLK] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_SETLKW] = {THROTTLE_EXEMPT, 0, NO_BYTES},
	[FUSE_NOTIFY_REPLY] = {THROTTLE_EXEMPT, 0, NO_BYTES},
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
	c->in_blocks = c->no_interrupt = arg->flags & O_DIRECT;
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
	c->in_blocks = c->no_interrupt = (arg->flags & O_DIRECT) && !write_back;
	c->refusable = !write_back;
}

/* A request for a size, or for an empty value, moves no bytes and need not wait for byte limits. */
static void classify_xattr(uint32_t bytes, struct classified *c)
{
	c->cost.bytes = bytes;
	if (!bytes)
		c->cost.cls = COST_META;
}

/* The first field is the same in all versions of the kernel's structure. */
struct xattr_size {
	uint32_t size;
};

/* The kernel reads access control lists itself to check permissions, and offers a page of room.  They are
 * as much a part of a lookup as the mode, so they should not wait for byte limits. */
static bool names_acl(const struct fuse_in_header *in, size_t len)
{
	static const char acl[] = "system.posix_acl_";
	struct named {
		struct fuse_getxattr_in arg;
		char name[sizeof(acl) - 1];
	};
	const struct named *m = wire_args(in, len, struct named);
	return m && memcmp(m->name, acl, sizeof(m->name)) == 0;
}

static void classify_bytes(const struct fuse_in_header *in, size_t len, enum bytes_at at,
			   struct classified *c)
{
	const struct fuse_read_in *listing;
	const struct fuse_copy_file_range_in *copy;
	const struct xattr_size *xattr;
	switch (at) {
	case NO_BYTES:
		break;
	case READ_SIZE:
		classify_read(wire_args(in, len, struct fuse_read_in), c);
		break;
	case WRITE_SIZE:
		classify_write(wire_args(in, len, struct fuse_write_in), c);
		break;
	case COPY_LENGTH:
		copy = wire_args(in, len, struct fuse_copy_file_range_in);
		c->cost.bytes = copy ? copy->len : 0;
		break;
	case LISTING_SIZE:
		listing = wire_args(in, len, struct fuse_read_in);
		c->cost.bytes = listing ? listing->size : 0;
		break;
	case XATTR_SIZE_NO_ACL:
		if (names_acl(in, len)) {
			c->cost.cls = COST_META;
			break;
		} /* fall through */
	case XATTR_SIZE:
		xattr = wire_args(in, len, struct xattr_size);
		classify_xattr(xattr ? xattr->size : 0, c);
		break;
	}
}

struct classified classify(const struct fuse_in_header *in, size_t len)
{
	static const struct rule unknown = {THROTTLE_WAIT, COST_META, NO_BYTES};
	const struct rule *r = in->opcode < ARRAY_SIZE(rules) ? &rules[in->opcode] : &unknown;
	struct classified c = {
		.throttling = r->throttling,
		.cost = {.cls = r->cls, .ops = r->throttling != THROTTLE_EXEMPT},
		.refusable = true,
	};
	classify_bytes(in, len, r->bytes, &c);
	return c;
}

struct device_access access_of(const struct fuse_in_header *in, size_t len)
{
	struct device_access a = {.op = DEVICE_META, .file = in->nodeid};
	const struct fuse_read_in *read = wire_args(in, len, struct fuse_read_in);
	const struct fuse_write_in *write = wire_args(in, len, struct fuse_write_in);
	const struct fuse_copy_file_range_in *copy =
		wire_args(in, len, struct fuse_copy_file_range_in);
	switch (in->opcode) {
	case FUSE_READ:
		a.op = DEVICE_READ;
		a.offset = read ? read->offset : 0;
		break;
	case FUSE_WRITE:
		a.op = DEVICE_WRITE;
		a.offset = write ? write->offset : 0;
		break;
	case FUSE_COPY_FILE_RANGE:
		a.op = DEVICE_COPY;
		a.offset = copy ? copy->off_in : 0;
		break;
	case FUSE_FSYNC:
	case FUSE_FSYNCDIR:
		a.op = DEVICE_SYNC;
		break;
	default:
		break;
	}
	return a;
}
