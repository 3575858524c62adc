/* SPDX-License-Identifier: MIT */
/* Messages about the connection itself: its start and end, forgotten inodes, interrupted callers;
 * and operations that ratefs does not support. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "fs/inode.h"
#include "fs/mount_internal.h"
#include "fs/ops.h"
#include "fs/reply.h"

/* libfuse handles INIT: it knows the capabilities of the kernel, calls fs_ops.init, and replies
 * itself. */
void op_init(struct request *req)
{
	mount_init(req->mount, req->in, sizeof(*req->in) + req->payload_len);
}

void op_destroy(struct request *req)
{
	reply_status(req, 0);
}

/* These two allocate nothing: references must be dropped even if memory is exhausted. */
void op_forget(struct request *req)
{
	const struct fuse_forget_in *in = req->args;
	inode_forget(req->fs, req->in->nodeid, in->nlookup);
}

void op_batch_forget(struct request *req)
{
	const struct fuse_batch_forget_in *in = req->args;
	size_t most = req->payload_len / sizeof(struct fuse_forget_one);
	for (size_t i = 0; i < most && i < in->count; i++) {
		struct fuse_forget_one one;
		memcpy(&one, req->payload + i * sizeof(one), sizeof(one));
		inode_forget(req->fs, one.nodeid, one.nlookup);
	}
}

void op_interrupt(struct request *req)
{
	const struct fuse_interrupt_in *in = req->args;
	parked_interrupt(req->mount, in->unique);
}

void op_ignore(struct request *req)
{
}

void op_unknown(struct request *req)
{
	reply_status(req, -ENOSYS);
}
