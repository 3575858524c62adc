/* SPDX-License-Identifier: MIT */
#include "fs/request.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "fs/creds.h"
#include "fs/dying.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/mount_internal.h"
#include "fs/reply.h"
#include "sched/gate.h"

void request_split(struct request *r, void *message, size_t len)
{
	r->in = message;
	r->op = opcode_of(r->in->opcode);
	size_t head = sizeof(*r->in) + r->op->args;
	r->args = len < head ? NULL : r->in + 1;
	r->payload = (char *)message + min_u64(head, len);
	r->payload_len = len - min_u64(head, len);
}

const char *request_name(const struct request *r, unsigned nth)
{
	const char *at = r->payload, *end = r->payload + r->payload_len;
	for (;; nth--) {
		const char *zero = memchr(at, '\0', (size_t)(end - at));
		if (!zero)
			return NULL;
		if (nth == 0)
			return at;
		at = zero + 1;
	}
}

/* --- its cost ------------------------------------------------------------------------------ */

static void parse_read(struct request *r)
{
	const struct fuse_read_in *arg = r->args;
	r->cost.bytes = arg->size;
	/* With direct I/O, only read(2) carries a lock owner, page faults do not.  With the page cache, they cannot be
	 * distinguished. */
	r->transfer = r->handle && r->handle->direct_io && (arg->read_flags & FUSE_READ_LOCKOWNER);
	r->nonblock = r->transfer && (arg->flags & O_NONBLOCK);
	r->in_blocks = arg->flags & O_DIRECT;
	r->no_interrupt = r->in_blocks || r->transfer;
	r->refusable = r->transfer;
}

static void parse_write(struct request *r)
{
	const struct fuse_write_in *arg = r->args;
	bool write_back = arg->write_flags & FUSE_WRITE_CACHE;
	r->cost.bytes = arg->size;
	r->transfer = r->handle && r->handle->direct_io && !write_back;
	r->nonblock = r->transfer && (arg->flags & O_NONBLOCK);
	r->in_blocks = (arg->flags & O_DIRECT) && !write_back;
	r->no_interrupt = r->in_blocks || r->transfer;
	r->refusable = !write_back;
}

/* A request that asks only for the size, or sets an empty value, transfers no bytes: byte limits do not apply. */
static void parse_xattr(struct request *r)
{
	/* The first field is the same in all versions of the kernel's structures. */
	r->cost.bytes = ((const struct fuse_getxattr_in *)r->args)->size;
	if (!r->cost.bytes)
		r->cost.cls = COST_META;
}

/* To check permissions, the kernel itself reads access control lists, with a buffer of a page.  Like the mode, they are
 * part of a lookup, so byte limits do not apply to them. */
static bool names_acl(const struct request *r)
{
	static const char acl[] = "system.posix_acl_";
	return r->payload_len >= sizeof(acl) - 1 && memcmp(r->payload, acl, sizeof(acl) - 1) == 0;
}

static void parse_bytes(struct request *r)
{
	switch (r->op->bytes) {
	case NO_BYTES:
		break;
	case READ_SIZE:
		parse_read(r);
		break;
	case WRITE_SIZE:
		parse_write(r);
		break;
	case COPY_LENGTH:
		r->cost.bytes = ((const struct fuse_copy_file_range_in *)r->args)->len;
		break;
	case LISTING_SIZE:
		r->cost.bytes = ((const struct fuse_read_in *)r->args)->size;
		break;
	case XATTR_SIZE_NO_ACL:
		if (names_acl(r)) {
			r->cost.cls = COST_META;
			break;
		} /* fall through */
	case XATTR_SIZE:
		parse_xattr(r);
		break;
	}
}

/* --- its handle and its caller ---------------------------------------------------------------------- */

/* The handle of requests that have one, else 0. */
static uint64_t handle_number(const struct request *r)
{
	struct {
		uint32_t flags, reserved;
		uint64_t fh;
	} flagged;
	uint64_t fh;
	switch (r->op->handle) {
	case NO_HANDLE:
		return 0;
	case IF_FLAGGED:
		memcpy(&flagged, r->args, sizeof(flagged));
		return flagged.flags & r->op->flag ? flagged.fh : 0;
	default:
		memcpy(&fh, r->args, sizeof(fh));
		return fh;
	}
}

static bool right_kind(const struct request *r)
{
	switch (r->op->handle) {
	case OPEN_FILE:
		return !r->handle->dir;
	case OPEN_DIR:
		return r->handle->dir;
	default:
		return true;
	}
}

static int find_handle(struct request *r)
{
	uint64_t fh = handle_number(r);
	bool must = r->op->handle != NO_HANDLE && r->op->handle != IF_FLAGGED;
	r->handle = NULL;
	r->caller = (struct caller){
		.tid = r->in->pid, .uid = r->in->uid, .gid = r->in->gid, .handle = fh};
	if (!fh && !must)
		return 0;
	r->handle = handle_find(&r->fs->handle_table, fh);
	if (!r->handle || !right_kind(r))
		return -EBADF;
	if (!r->caller.tid) { /* no caller: acts for the process that opened the file */
		r->caller.tid = (uint32_t)r->handle->pid;
		r->caller.uid = r->handle->uid;
		r->caller.gid = r->handle->gid;
		r->caller.opener = &r->handle->opener;
	}
	return 0;
}

int request_parse(struct request *r)
{
	r->cost = (struct cost){.cls = r->op->cls, .ops = r->op->throttling != THROTTLE_EXEMPT};
	r->transfer = r->nonblock = r->in_blocks = r->no_interrupt = false;
	r->refusable = true;
	r->granted = r->again = false;
	r->error = 0;
	r->bytes_moved = 0;
	r->reserved = NULL;
	r->too_many_open = r->no_space = false;
	if (!r->args)
		return -EINVAL;
	int res = find_handle(r);
	if (res < 0)
		return res;
	if (r->op->bytes == WRITE_SIZE &&
	    ((const struct fuse_write_in *)r->args)->size > r->payload_len)
		return -EINVAL;
	parse_bytes(r);
	r->no_interrupt |= r->transport->misses_signals;
	return 0;
}

struct device_access request_access(const struct request *r)
{
	struct device_access a = {.op = r->op->device, .file = r->in->nodeid};
	switch (r->op->device) {
	case DEVICE_READ:
		a.offset = ((const struct fuse_read_in *)r->args)->offset;
		break;
	case DEVICE_WRITE:
		a.offset = ((const struct fuse_write_in *)r->args)->offset;
		break;
	case DEVICE_COPY:
		a.offset = ((const struct fuse_copy_file_range_in *)r->args)->off_in;
		break;
	default:
		break;
	}
	return a;
}

void request_shorten(struct request *r, uint64_t bytes)
{
	if (r->op->bytes == READ_SIZE)
		((struct fuse_read_in *)r->args)->size = (uint32_t)bytes;
	else if (r->op->bytes == WRITE_SIZE)
		((struct fuse_write_in *)r->args)->size = (uint32_t)bytes;
}

/* --- carrying it out ---------------------------------------------------------------------------- */

/* Most errors are normal answers of a filesystem: no such file, permission denied.  Those in
 * `failures` mean that the source is broken or full. */
static enum gate_outcome outcome_of(int err)
{
	static const int failures[] = {
		EIO,	ENOSPC,	 EDQUOT,    ESTALE,    ENXIO,	 ENODEV,    ENOMEM,   ENFILE,
		EMFILE, EUCLEAN, EREMOTEIO, ETIMEDOUT, ENOTCONN, EHOSTDOWN, ENETDOWN, ESHUTDOWN};
	if (!err)
		return OUTCOME_OK;
	for (unsigned i = 0; i < ARRAY_SIZE(failures); i++)
		if (err == failures[i])
			return OUTCOME_FAILED;
	return OUTCOME_ERROR;
}

/* A full disk and too many open files are failures of the source; size= and max_open= are refusals. */
static enum gate_outcome outcome_of_request(const struct request *r)
{
	if (r->too_many_open)
		return OUTCOME_TOO_MANY_OPEN;
	return r->no_space ? OUTCOME_NO_SPACE : outcome_of(r->error);
}

/* allow_root: other users may only use files that they already have open. */
static bool is_refused(const struct request *r)
{
	return r->fs->cfg.owner_only && !r->op->any_user && r->in->uid != 0 &&
	       r->in->uid != geteuid();
}

static void say(const struct request *r)
{
	log_debug("%s: %" PRIu64 " %s of node %" PRIu64 " by thread %u, user %u",
		  r->mount->mountpoint, (uint64_t)r->in->unique, opcode_name(r->in->opcode),
		  (uint64_t)r->in->nodeid, r->in->pid, r->in->uid);
}

void request_run(struct request *r)
{
	request_tid = r->in->pid;
	r->no_wait = r->must_be_brief = false;
	if (r->transport->may_block && r->transport->may_block(r)) {
		r->transport->defer(r);
		return;
	}
	struct runner *self = runner_self;
	const struct grant *grant = r->granted ? &r->grant : NULL;
	bool mine = true;
	if (self)
		runner_enter(self, r->in->opcode, grant);
	if (r->fs->cfg.debug)
		say(r);
	r->buffer = r->transport->room(r);
	int res = is_refused(r) ? -EACCES : creds_begin(r);
	if (res < 0)
		reply_status(r, res);
	else
		r->op->run(r);
	if (self)
		mine = runner_leave(self, grant);
	enum gate_outcome outcome = outcome_of_request(r);
	if (r->again) { /* it would have blocked, so it has no answer yet */
		r->again = false;
		r->granted = r->granted && mine;
		r->transport->defer(r);
		return;
	}
	if (!grant || !mine)
		return;
	if (r->too_many_open || r->no_space)
		gate_refused(grant, &r->caller, outcome);
	gate_done(grant, outcome, r->bytes_moved);
}
