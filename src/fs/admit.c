/* SPDX-License-Identifier: MIT */
/* The one place that every request passes:
 *
 *	kernel ─▶ receive.c     the message, as the kernel wrote it
 *	            ▼
 *	          classify.c    class, ops, bytes
 *	            ▼
 *	          gate_try      may it go now?
 *	            │ no ─▶ parked.c: copied, waits in fair order and in the device where one is modelled;
 *	            │                 a worker comes back with it
 *	            ▼ yes
 *	          run_message   libfuse parses it, fs_ops carry it out and reply
 *	            ▼
 *	          gate_done     bytes not moved are given back, permits returned, outcome counted
 */
#include <errno.h>
#include <fuse_lowlevel.h>

#include "fs/context.h"
#include "fs/creds.h"
#include "fs/caller.h"
#include "fs/mirror.h"
#include "fs/mount_internal.h"

/* Most errors are what a healthy filesystem answers: there is no such file, or the caller may not.
 * These say that it is not healthy, or full. */
static enum gate_outcome outcome_of(int err)
{
	static const int failures[] = {
		EIO,	ENOSPC,	 EDQUOT,    ESTALE,    ENXIO,	 ENODEV,    ENOMEM,   ENFILE,
		EMFILE, EUCLEAN, EREMOTEIO, ETIMEDOUT, ENOTCONN, EHOSTDOWN, ENETDOWN, ESHUTDOWN};
	for (unsigned i = 0; i < ARRAY_SIZE(failures); i++)
		if (err == failures[i])
			return OUTCOME_FAILED;
	return err ? OUTCOME_ERROR : OUTCOME_OK;
}

void run_message(struct fs_mount *m, void *msg, size_t len, const struct grant *grant)
{
	struct runner *self = runner_self;
	bool mine = true;
	fs_context.bytes_moved = 0;
	fs_context.error = 0;
	if (self)
		runner_enter(self, ((const struct fuse_in_header *)msg)->opcode, grant);
	if (creds_begin(m->fs, msg, len) < 0) {
		fs_context.error = EIO;
		wire_reply_err(m->fd, ((const struct fuse_in_header *)msg)->unique, EIO);
	} else if (!fs_process_raw(m->fs, m->se, msg, len)) {
		struct fuse_buf buf = {.mem = msg, .size = len};
		fuse_session_process_buf(m->se, &buf);
	}
	if (self)
		mine = runner_leave(self, grant);
	if (grant && mine)
		gate_done(grant, outcome_of(fs_context.error), fs_context.bytes_moved);
}

static void run_free(struct fs_mount *m, struct fuse_in_header *in, size_t len)
{
	switch (in->opcode) {
	case FUSE_INTERRUPT: {
		const struct fuse_interrupt_in *arg = wire_args(in, len, struct fuse_interrupt_in);
		if (arg)
			parked_interrupt(m, arg->unique);
		return;
	}
	case FUSE_POLL:
		poll_request(m, in, len);
		return;
	case FUSE_RELEASE: {
		const struct fuse_release_in *arg = wire_args(in, len, struct fuse_release_in);
		if (arg)
			poll_forget(m, arg->fh);
		break;
	}
	default:
		break;
	}
	run_message(m, in, len, NULL);
}

/* A short read or write is asked of the backing tree by asking for less. */
static size_t shorten(struct fuse_in_header *in, size_t len, uint64_t bytes)
{
	if (in->opcode == FUSE_READ) {
		wire_args(in, len, struct fuse_read_in)->size = (uint32_t)bytes;
	} else if (in->opcode == FUSE_WRITE) {
		struct fuse_write_in *arg = wire_args(in, len, struct fuse_write_in);
		len -= arg->size - bytes;
		arg->size = (uint32_t)bytes;
		in->len = (uint32_t)len;
	}
	return len;
}

#define BLOCK 4096U /* what O_DIRECT goes by, at the most */

/* In part where the budget does not cover it all, but only whole blocks where it must be so:
 * *bytes says how much. */
static enum gate_verdict try_nonblocking(struct fs_mount *m, const struct classified *c,
					 const struct caller *caller, struct grant *grant,
					 uint64_t *bytes)
{
	struct cost block = c->cost;
	block.bytes = min_u64(block.bytes, BLOCK);
	block.ops = 1;
	bool tiny = c->in_blocks && gate_piece_bytes(m->gate, c->cost.cls, caller, 1) < block.bytes;
	enum gate_verdict v = gate_try_nonblocking(m->gate, tiny ? &block : &c->cost, caller,
						   tiny ? block.bytes : GATE_PARTIAL_BYTES, grant);
	if (v != GATE_GO)
		return v;
	*bytes = grant->cost.bytes; /* what is not moved of it is given back */
	if (c->in_blocks && *bytes<c->cost.bytes && * bytes> BLOCK)
		*bytes -= *bytes % BLOCK;
	return v;
}

static void run_nonblocking(struct fs_mount *m, struct fuse_in_header *in, size_t len,
			    struct classified *c)
{
	struct caller caller = caller_of(in, len);
	struct grant grant;
	uint64_t bytes;
	if (gate_model(m->gate))
		c->cost.ops = gate_ops(m->gate, &c->cost);
	switch (try_nonblocking(m, c, &caller, &grant, &bytes)) {
	case GATE_GO:
		if (bytes < c->cost.bytes)
			poll_fell_short(m, in, len, c->cost.cls);
		len = shorten(in, len, bytes);
		if (gate_model(m->gate) == GATE_MODEL_TIME)
			park_granted(m, in, len, c, &grant);
		else
			run_message(m, in, len, &grant);
		break;
	case GATE_MISCONFIGURED:
		wire_reply_err(m->fd, in->unique, EINVAL);
		break;
	default:
		poll_fell_short(m, in, len, c->cost.cls);
		wire_reply_err(m->fd, in->unique, EAGAIN);
		break;
	}
}

/* A copy may be of any length; one that is limited goes in pieces that the budget can carry. */
static void limit_copy(struct fs_mount *m, struct fuse_in_header *in, size_t len,
		       const struct caller *caller, struct cost *cost)
{
	struct fuse_copy_file_range_in *arg = wire_args(in, len, struct fuse_copy_file_range_in);
	uint64_t piece = gate_piece_bytes(m->gate, COST_COPY, caller, 64U << 10);
	if (arg && arg->len > piece)
		arg->len = cost->bytes = piece;
}

/* A listing is admitted for what its reply is expected to need, and may not fill more: the kernel
 * asks again for the rest.  So nothing has to be charged afterwards, and what was not filled is given
 * back. */
static void limit_listing(struct fs_mount *m, struct fuse_in_header *in, size_t len,
			  const struct caller *caller, struct cost *cost)
{
	struct fuse_read_in *arg = wire_args(in, len, struct fuse_read_in);
	if (!arg || gate_unlimited(m->gate, COST_READDIR))
		return;
	uint64_t piece = gate_piece_bytes(m->gate, COST_READDIR, caller, LISTING_LEAST);
	size_t expected = listing_expect(&m->fs->listings, in->nodeid, arg->size);
	arg->size = (uint32_t)min_u64(expected, piece);
	cost->bytes = arg->size;
}

/* Lets a request go that may not wait: it is charged now, or its key pays later. */
static void run_charged(struct fs_mount *m, void *msg, size_t len, const struct cost *cost)
{
	struct caller caller = caller_of(msg, len);
	struct grant grant;
	gate_take(m->gate, cost, &caller, &grant);
	run_message(m, msg, len, &grant);
}

/* An error to a page fault would be SIGBUS, to write-back lost data: those go, and their key
 * is in debt. */
void refuse(struct fs_mount *m, void *msg, size_t len, const struct classified *c, int err)
{
	const struct fuse_in_header *in = msg;
	if (c->refusable)
		wire_reply_err(m->fd, in->unique, err);
	else
		run_charged(m, msg, len, &c->cost);
}

/* The mount is ending: what arrives now is refused.  Write-back is not, since nobody would hear of
 * the error and the data would be lost: it passes the limits (and leaves debt), up to the amount that
 * the kernel lets a FUSE mount have dirty.  Page faults, and write-back beyond that, meet the limits
 * as always.  False: not answered yet. */
static bool answer_draining(struct fs_mount *m, struct fuse_in_header *in, size_t len,
			    const struct classified *c)
{
	if (c->refusable) {
		wire_reply_err(m->fd, in->unique, ENDING_ERRNO);
		return true;
	}
	if (c->cost.cls != COST_WRITE ||
	    atomic_fetch_add(&m->waived_bytes, c->cost.bytes) + c->cost.bytes > m->waived_max)
		return false;
	run_charged(m, in, len, &c->cost);
	return true;
}

static void run_limited(struct fs_mount *m, struct fuse_in_header *in, size_t len,
			struct classified *c)
{
	struct grant grant;
	enum gate_model model = gate_model(m->gate);
	if (atomic_load_explicit(&m->draining, memory_order_acquire) &&
	    answer_draining(m, in, len, c))
		return;
	if (c->nonblock && !atomic_load_explicit(&m->nonblock_waits, memory_order_relaxed)) {
		run_nonblocking(m, in, len, c);
		return;
	}
	struct caller caller = caller_of(in, len);
	if (c->cost.cls == COST_COPY)
		limit_copy(m, in, len, &caller, &c->cost);
	else if (c->cost.cls == COST_READDIR)
		limit_listing(m, in, len, &caller, &c->cost);
	if (model)
		c->cost.ops = gate_ops(m->gate, &c->cost);
	if (model == GATE_MODEL_TIME) {
		park(m, in, len, c); /* takes its tokens there, and time in the device */
		return;
	}
	switch (gate_try(m->gate, &c->cost, &caller, &grant)) {
	case GATE_GO:
		run_message(m, in, len, &grant);
		break;
	case GATE_MISCONFIGURED:
		refuse(m, in, len, c, EINVAL);
		break;
	case GATE_FULL:
		if (c->refusable) {
			refuse(m, in, len, c, EAGAIN);
			break;
		} /* fall through */
	default:
		park(m, in, len, c);
		break;
	}
}

void admit(struct fs_mount *m, void *msg, size_t len)
{
	struct fuse_in_header *in = msg;
	struct classified c = classify(in, len);
	switch (c.throttling) {
	case THROTTLE_EXEMPT:
		run_free(m, in, len);
		break;
	case THROTTLE_CHARGE:
		run_charged(m, in, len, &c.cost);
		break;
	case THROTTLE_WAIT:
		run_limited(m, in, len, &c);
		break;
	}
}
