/* SPDX-License-Identifier: MIT */
/* Replies.  They note the outcome in the request and send the answer by its transport.  Each is
 * the last use of what the kernel sent (header, arguments, payload); only the outcome may be read afterwards.
 * Those that hand something to the kernel (an entry, a handle) return < 0 if the kernel did not take it; then the
 * caller must undo it. */
#ifndef FS_REPLY_H
#define FS_REPLY_H

#include <fuse_lowlevel.h>
#include <sys/statvfs.h>

#include "fs/request.h"

/* res: 0 or -errno, also one of space_refuse. */
static inline void reply_status(struct request *req, int res)
{
	req->no_space = res < -SPACE_REFUSAL;
	if (req->no_space)
		res += SPACE_REFUSAL;
	req->error = -res;
	req->transport->reply(req, res, NULL, 0);
}

/* bytes_moved is left to the caller. */
static inline int reply_buf(struct request *req, const void *buf, size_t size)
{
	const struct iovec data = {(void *)buf, size};
	req->error = 0;
	return req->transport->reply(req, 0, &data, 1);
}

static inline void reply_written(struct request *req, size_t bytes)
{
	const struct fuse_write_out out = {.size = (uint32_t)bytes};
	req->bytes_moved = bytes;
	reply_buf(req, &out, sizeof(out));
}

int reply_entry(struct request *req, const struct fuse_entry_param *e);
int reply_create(struct request *req, const struct fuse_entry_param *e,
		 const struct fuse_file_info *fi);
int reply_open(struct request *req, const struct fuse_file_info *fi);
void reply_attr(struct request *req, const struct stat *st, double timeout_s);
void reply_link(struct request *req, const char *target);
void reply_offset(struct request *req, off_t off);
void reply_statfs(struct request *req, const struct statvfs *st);
void reply_size(struct request *req, size_t size);
void reply_ioctl(struct request *req, const void *buf, size_t size);

#endif
