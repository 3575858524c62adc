/* SPDX-License-Identifier: MIT */
/* Replies to requests that libfuse parsed.  They turn -errno into libfuse's positive error and record the
 * outcome in fs_context.  (Requests that are answered without libfuse: raw.c, splice.c and wire.h.)
 * Each ends the request.  Those that hand something to the kernel (an entry, a handle) return < 0 if the
 * kernel did not take it; then the caller must undo it. */
#ifndef FS_REPLY_H
#define FS_REPLY_H

#include <fuse_lowlevel.h>
#include <sys/statvfs.h>

struct fs;

/* res: 0 or -errno. */
void reply_status(fuse_req_t req, int res);
int reply_entry(fuse_req_t req, const struct fuse_entry_param *e);
int reply_create(fuse_req_t req, const struct fuse_entry_param *e, const struct fuse_file_info *fi);
int reply_open(fuse_req_t req, const struct fuse_file_info *fi);
void reply_attr(fuse_req_t req, const struct stat *st, double timeout_s);
void reply_link(fuse_req_t req, const char *target);
void reply_written(fuse_req_t req, size_t bytes);
void reply_offset(fuse_req_t req, off_t off);
void reply_statfs(fuse_req_t req, const struct statvfs *st);
void reply_size(fuse_req_t req, size_t size);
void reply_ioctl(fuse_req_t req, const void *buf, size_t size);
/* bytes_moved is left to the caller. */
int reply_buf(fuse_req_t req, const void *buf, size_t size);

#endif
