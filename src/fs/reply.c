/* SPDX-License-Identifier: MIT */
#include "fs/reply.h"

#include "fs/context.h"

void reply_status(fuse_req_t req, int res)
{
	fs_context.error = -res;
	fuse_reply_err(req, -res);
}

int reply_entry(fuse_req_t req, const struct fuse_entry_param *e)
{
	fs_context.error = 0;
	return fuse_reply_entry(req, e);
}

int reply_create(fuse_req_t req, const struct fuse_entry_param *e, const struct fuse_file_info *fi)
{
	fs_context.error = 0;
	return fuse_reply_create(req, e, fi);
}

int reply_open(fuse_req_t req, const struct fuse_file_info *fi)
{
	fs_context.error = 0;
	return fuse_reply_open(req, fi);
}

void reply_attr(fuse_req_t req, const struct stat *st, double timeout_s)
{
	fs_context.error = 0;
	fuse_reply_attr(req, st, timeout_s);
}

void reply_link(fuse_req_t req, const char *target)
{
	fs_context.error = 0;
	fuse_reply_readlink(req, target);
}

void reply_written(fuse_req_t req, size_t bytes)
{
	fs_context.error = 0;
	fs_context.bytes_moved = bytes;
	fuse_reply_write(req, bytes);
}

void reply_offset(fuse_req_t req, off_t off)
{
	fs_context.error = 0;
	fuse_reply_lseek(req, off);
}

void reply_statfs(fuse_req_t req, const struct statvfs *st)
{
	fs_context.error = 0;
	fuse_reply_statfs(req, st);
}

void reply_size(fuse_req_t req, size_t size)
{
	fs_context.error = 0;
	fuse_reply_xattr(req, size);
}

void reply_ioctl(fuse_req_t req, const void *buf, size_t size)
{
	fs_context.error = 0;
	fuse_reply_ioctl(req, 0, buf, size);
}

int reply_buf(fuse_req_t req, const void *buf, size_t size)
{
	fs_context.error = 0;
	return fuse_reply_buf(req, buf, size);
}
