/* SPDX-License-Identifier: MIT */
/* Decides for every request whether it may proceed now.  See request.h for the whole path of a
 * request. */
#include <errno.h>

#include "fs/mirror.h"
#include "fs/mount_internal.h"
#include "fs/reply.h"

#define BLOCK 4096U /* the largest block size that O_DIRECT requires */

static void run_granted(struct request *r)
{
	r->granted = true;
	request_run(r);
}

/* Grants a part if the budget does not cover everything, but only whole blocks if the file requires
 * them.  *bytes says how much was granted. */
static enum gate_verdict try_nonblocking(struct request *r, uint64_t *bytes)
{
	struct gate_mount *gate = r->mount->gate_mount;
	struct cost block = r->cost;
	block.bytes = min_u64(block.bytes, BLOCK);
	block.ops = 1;
	bool tiny =
		r->in_blocks && gate_piece_bytes(gate, r->cost.cls, &r->caller, 1) < block.bytes;
	enum gate_verdict v =
		gate_try_nonblocking(gate, tiny ? &block : &r->cost, &r->caller,
				     tiny ? block.bytes : GATE_PARTIAL_BYTES, &r->grant);
	if (v != GATE_GO)
		return v;
	uint64_t granted = r->grant.cost.bytes; /* bytes that are not moved are refunded */
	if (r->in_blocks && granted < r->cost.bytes && granted > BLOCK)
		granted -= granted % BLOCK;
	*bytes = granted;
	return v;
}

static void run_nonblocking(struct request *r)
{
	struct gate_mount *gate = r->mount->gate_mount;
	uint64_t bytes;
	if (gate_model(gate))
		r->cost.ops = gate_ops(gate, &r->cost);
	switch (try_nonblocking(r, &bytes)) {
	case GATE_GO:
		if (bytes < r->cost.bytes)
			poll_fell_short(r);
		request_shorten(r, bytes);
		if (gate_model(gate) == GATE_MODEL_TIME)
			park_granted(r);
		else
			run_granted(r);
		break;
	case GATE_MISCONFIGURED:
		reply_status(r, -EINVAL);
		break;
	default:
		poll_fell_short(r);
		reply_status(r, -EAGAIN);
		break;
	}
}

/* A copy may have any length; a limited one is shortened to a piece that the budget can cover. */
static void limit_copy(struct request *r)
{
	struct fuse_copy_file_range_in *arg = r->args;
	uint64_t piece = gate_piece_bytes(r->mount->gate_mount, COST_COPY, &r->caller, 64U << 10);
	if (arg->len > piece)
		arg->len = r->cost.bytes = piece;
}

/* A listing is charged for the expected size of its reply, which must not be larger: the kernel
 * asks again for the rest.  So nothing has to be charged afterwards, and unused bytes are
 * refunded. */
static void limit_listing(struct request *r)
{
	struct fuse_read_in *arg = r->args;
	if (gate_unlimited(r->mount->gate_mount, COST_READDIR))
		return;
	uint64_t piece =
		gate_piece_bytes(r->mount->gate_mount, COST_READDIR, &r->caller, LISTING_LEAST);
	size_t expected = listing_expect(&r->fs->listings, r->in->nodeid, arg->size);
	arg->size = (uint32_t)min_u64(expected, piece);
	r->cost.bytes = arg->size;
}

/* Runs a request that must not wait: it is charged now, or its key pays later. */
static void run_charged(struct request *r)
{
	gate_take(r->mount->gate_mount, &r->cost, &r->caller, &r->grant);
	run_granted(r);
}

/* An error would cause SIGBUS for a page fault and lose the data of a write-back: these requests
 * proceed, and their key is in debt. */
void refuse(struct request *r, int err)
{
	if (r->refusable)
		reply_status(r, -err);
	else
		run_charged(r);
}

/* While the mount is ending, new requests are refused, except write-back: no program would learn of
 * the error, and the data would be lost.  Write-back bypasses the limits (and leaves debt), up to
 * the amount of dirty data that the kernel allows a FUSE mount.  Page faults, and write-back beyond
 * that amount, are subject to the limits as always.  False: not answered yet. */
static bool answer_draining(struct request *r)
{
	struct fs_mount *m = r->mount;
	if (r->refusable) {
		reply_status(r, -ENDING_ERRNO);
		return true;
	}
	if (r->cost.cls != COST_WRITE ||
	    atomic_fetch_add(&m->waived_bytes, r->cost.bytes) + r->cost.bytes > m->waived_max)
		return false;
	run_charged(r);
	return true;
}

static void run_limited(struct request *r)
{
	struct fs_mount *m = r->mount;
	enum gate_model model = gate_model(m->gate_mount);
	if (atomic_load_explicit(&m->draining, memory_order_acquire) && answer_draining(r))
		return;
	if (r->nonblock && !atomic_load_explicit(&m->nonblock_waits, memory_order_relaxed)) {
		run_nonblocking(r);
		return;
	}
	if (r->cost.cls == COST_COPY)
		limit_copy(r);
	else if (r->cost.cls == COST_READDIR)
		limit_listing(r);
	if (model)
		r->cost.ops = gate_ops(m->gate_mount, &r->cost);
	if (model == GATE_MODEL_TIME) {
		park(r); /* takes tokens, and spends time in the device */
		return;
	}
	switch (gate_try(m->gate_mount, &r->cost, &r->caller, &r->grant)) {
	case GATE_GO:
		run_granted(r);
		break;
	case GATE_MISCONFIGURED:
		refuse(r, EINVAL);
		break;
	case GATE_FULL:
		if (r->refusable) {
			refuse(r, EAGAIN);
			break;
		} /* fall through */
	default:
		park(r);
		break;
	}
}

void admit(struct request *r)
{
	int res = request_parse(r);
	if (res < 0) {
		if (!r->op->no_reply)
			reply_status(r, res);
		return;
	}
	switch (r->op->throttling) {
	case THROTTLE_EXEMPT:
		request_run(r);
		break;
	case THROTTLE_CHARGE:
		run_charged(r);
		break;
	case THROTTLE_WAIT:
		run_limited(r);
		break;
	}
}
