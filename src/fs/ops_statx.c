/* SPDX-License-Identifier: MIT */
/* statx, which also returns what GETATTR cannot: the time of birth. */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/ops.h"
#include "fs/reply.h"
#include "fs/wire.h"

struct statx_out {
	uint64_t attr_valid_s;
	uint32_t attr_valid_ns;
	uint32_t flags;
	uint64_t spare[2];
	struct statx stat; /* bit by bit the same as the kernel's struct fuse_statx */
};

static int do_statx(struct request *req, struct statx_out *out)
{
	const struct wire_statx_in *in = req->args;
	struct fs *fs = req->fs;
	struct inode_ref ref = INODE_REF_INIT;
	const struct inode *inode;
	int fd;
	if (req->handle) {
		fd = req->handle->fd;
		inode = req->handle->inode;
	} else {
		int res = inode_get(fs, req->in->nodeid, &ref);
		if (res < 0)
			return res;
		fd = ref.fd;
		inode = ref.inode;
	}
	struct statx *st = &out->stat;
	int res =
		statx(fd, "", AT_EMPTY_PATH | (int)in->sx_flags, in->sx_mask, st) < 0 ? -errno : 0;
	mirror_show_owner(fs, &st->stx_uid, &st->stx_gid);
	double timeout_s = res == 0 ? mirror_attr_timeout_s(fs, inode, st->stx_mode) : 0;
	out->attr_valid_s = (uint64_t)timeout_s;
	out->attr_valid_ns = (uint32_t)((timeout_s - (double)out->attr_valid_s) * 1e9);
	inode_put(fs, &ref);
	return res;
}

void op_statx(struct request *req)
{
	struct statx_out out = {0};
	int res = do_statx(req, &out);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	dev_t dev = makedev(out.stat.stx_dev_major, out.stat.stx_dev_minor);
	out.stat.stx_ino = mirror_shown_ino(req->fs, dev, out.stat.stx_ino);
	reply_buf(req, &out, sizeof(out));
}
