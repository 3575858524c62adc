/* SPDX-License-Identifier: MIT */
/* The one place that every request passes:
 *
 *	kernel ─▶ receive.c     the message, as the kernel wrote it
 *	            ▼
 *	          classify.c    class, ops, bytes
 *	            ▼
 *	          gate_try      may it go now?
 *	            │ no ─▶ parked.c: copied, waits in fair order, a worker comes back with it
 *	            ▼ yes
 *	          run_message   libfuse parses it, fs_ops carry it out and reply
 *	            ▼
 *	          gate_done     bytes not moved are given back, permits returned, outcome counted
 */
#include <errno.h>
#include <fuse_lowlevel.h>

#include "fs/context.h"
#include "fs/mount_internal.h"

void run_message(struct fs_mount *m, void *msg, size_t len, const struct grant *grant)
{
	fs_context.bytes_moved = 0;
	fs_context.error = 0;
	if (!fs_process_raw(m->fs, m->se, msg, len)) {
		struct fuse_buf buf = {.mem = msg, .size = len};
		fuse_session_process_buf(m->se, &buf);
	}
	if (grant)
		gate_done(m->gate, grant, fs_context.error ? OUTCOME_FAILED : OUTCOME_OK,
			  fs_context.bytes_moved);
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
					 struct grant *grant, uint64_t *bytes)
{
	struct cost block = c->cost;
	block.bytes = min_u64(block.bytes, BLOCK);
	bool tiny = c->in_blocks && gate_piece_bytes(m->gate, c->cost.cls, 1) < block.bytes;
	enum gate_verdict v = tiny ? gate_try(m->gate, &block, grant)
				   : gate_try_partial(m->gate, &c->cost, grant);
	if (v != GATE_GO)
		return v;
	*bytes = grant->cost.bytes; /* what is not moved of it is given back */
	if (c->in_blocks && *bytes<c->cost.bytes && * bytes> BLOCK)
		*bytes -= *bytes % BLOCK;
	return v;
}

static void run_nonblocking(struct fs_mount *m, struct fuse_in_header *in, size_t len,
			    const struct classified *c)
{
	struct grant grant;
	uint64_t bytes;
	switch (try_nonblocking(m, c, &grant, &bytes)) {
	case GATE_GO:
		if (bytes < c->cost.bytes)
			poll_fell_short(m, in, len, c->cost.cls);
		len = shorten(in, len, bytes);
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
static void limit_copy(struct fs_mount *m, struct fuse_in_header *in, size_t len, struct cost *cost)
{
	struct fuse_copy_file_range_in *arg = wire_args(in, len, struct fuse_copy_file_range_in);
	uint64_t piece = gate_piece_bytes(m->gate, COST_COPY, 64U << 10);
	if (arg && arg->len > piece)
		arg->len = cost->bytes = piece;
}

/* An error to a page fault would be SIGBUS, to write-back lost data: those go, and the limit is in
 * debt. */
void refuse(struct fs_mount *m, void *msg, size_t len, const struct classified *c, int err)
{
	const struct fuse_in_header *in = msg;
	struct grant grant;
	if (c->refusable) {
		wire_reply_err(m->fd, in->unique, err);
		return;
	}
	gate_take(m->gate, &c->cost, &grant);
	run_message(m, msg, len, &grant);
}

static void run_limited(struct fs_mount *m, struct fuse_in_header *in, size_t len,
			struct classified *c)
{
	struct grant grant;
	if (c->nonblock && !atomic_load_explicit(&m->nonblock_waits, memory_order_relaxed)) {
		run_nonblocking(m, in, len, c);
		return;
	}
	if (c->cost.cls == COST_COPY)
		limit_copy(m, in, len, &c->cost);
	switch (gate_try(m->gate, &c->cost, &grant)) {
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
	struct grant grant;
	switch (c.passage) {
	case PASS_FREE:
		run_free(m, in, len);
		break;
	case PASS_CHARGED:
		gate_take(m->gate, &c.cost, &grant);
		run_message(m, in, len, &grant);
		break;
	case PASS_LIMITED:
		run_limited(m, in, len, &c);
		break;
	}
}
