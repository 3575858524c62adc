/* SPDX-License-Identifier: MIT */
#include "fs/reply.h"

#include <string.h>

#include "fs/wire.h"

static uint64_t whole_s(double seconds)
{
	const double most = (double)UINT32_MAX;
	return seconds <= 0 ? 0 : (uint64_t)(seconds < most ? seconds : most);
}

static uint32_t rest_ns(double seconds)
{
	double rest = seconds - (double)whole_s(seconds);
	return rest <= 0 ? 0 : rest >= 1 ? 999999999 : (uint32_t)(rest * 1e9);
}

static struct fuse_attr attr_of(const struct stat *st)
{
	return (struct fuse_attr){
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.blocks = (uint64_t)st->st_blocks,
		.atime = (uint64_t)st->st_atim.tv_sec,
		.mtime = (uint64_t)st->st_mtim.tv_sec,
		.ctime = (uint64_t)st->st_ctim.tv_sec,
		.atimensec = (uint32_t)st->st_atim.tv_nsec,
		.mtimensec = (uint32_t)st->st_mtim.tv_nsec,
		.ctimensec = (uint32_t)st->st_ctim.tv_nsec,
		.mode = st->st_mode,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.rdev = (uint32_t)st->st_rdev,
		.blksize = (uint32_t)st->st_blksize,
	};
}

static struct fuse_entry_out entry_of(const struct fuse_entry_param *e)
{
	return (struct fuse_entry_out){
		.nodeid = e->ino,
		.generation = e->generation,
		.entry_valid = whole_s(e->entry_timeout),
		.entry_valid_nsec = rest_ns(e->entry_timeout),
		.attr_valid = whole_s(e->attr_timeout),
		.attr_valid_nsec = rest_ns(e->attr_timeout),
		.attr = attr_of(&e->attr),
	};
}

static struct wire_open_out open_of(const struct fuse_file_info *fi)
{
	struct wire_open_out out = {.fh = fi->fh};
	if (fi->backing_id > 0) {
		out.backing_id = fi->backing_id;
		out.open_flags |= WIRE_FOPEN_PASSTHROUGH;
	}
	if (fi->direct_io)
		out.open_flags |= FOPEN_DIRECT_IO;
	if (fi->keep_cache)
		out.open_flags |= FOPEN_KEEP_CACHE;
	if (fi->noflush)
		out.open_flags |= FOPEN_NOFLUSH;
	if (fi->parallel_direct_writes)
		out.open_flags |= FOPEN_PARALLEL_DIRECT_WRITES;
	return out;
}

int reply_entry(struct request *req, const struct fuse_entry_param *e)
{
	struct fuse_entry_out out = entry_of(e);
	return reply_buf(req, &out, sizeof(out));
}

int reply_create(struct request *req, const struct fuse_entry_param *e,
		 const struct fuse_file_info *fi)
{
	struct {
		struct fuse_entry_out entry;
		struct wire_open_out open;
	} out = {entry_of(e), open_of(fi)};
	return reply_buf(req, &out, sizeof(out));
}

int reply_open(struct request *req, const struct fuse_file_info *fi)
{
	struct wire_open_out out = open_of(fi);
	return reply_buf(req, &out, sizeof(out));
}

void reply_attr(struct request *req, const struct stat *st, double timeout_s)
{
	struct fuse_attr_out out = {
		.attr_valid = whole_s(timeout_s),
		.attr_valid_nsec = rest_ns(timeout_s),
		.attr = attr_of(st),
	};
	reply_buf(req, &out, sizeof(out));
}

void reply_link(struct request *req, const char *target)
{
	reply_buf(req, target, strlen(target));
}

void reply_offset(struct request *req, off_t off)
{
	struct fuse_lseek_out out = {.offset = (uint64_t)off};
	reply_buf(req, &out, sizeof(out));
}

void reply_statfs(struct request *req, const struct statvfs *st)
{
	struct fuse_statfs_out out = {.st = {
					      .blocks = st->f_blocks,
					      .bfree = st->f_bfree,
					      .bavail = st->f_bavail,
					      .files = st->f_files,
					      .ffree = st->f_ffree,
					      .bsize = (uint32_t)st->f_bsize,
					      .namelen = (uint32_t)st->f_namemax,
					      .frsize = (uint32_t)st->f_frsize,
				      }};
	reply_buf(req, &out, sizeof(out));
}

void reply_size(struct request *req, size_t size)
{
	struct fuse_getxattr_out out = {.size = (uint32_t)size};
	reply_buf(req, &out, sizeof(out));
}

void reply_ioctl(struct request *req, const void *buf, size_t size)
{
	const struct fuse_ioctl_out out = {0};
	const struct iovec data[] = {{(void *)&out, sizeof(out)}, {(void *)buf, size}};
	req->error = 0;
	req->transport->reply(req, 0, data, size ? 2 : 1);
}
