/* SPDX-License-Identifier: MIT */
#include "fs/wire.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

static int send_message(int fd, struct fuse_out_header *out, const void *data, size_t len)
{
	struct iovec iov[] = {
		{.iov_base = out, .iov_len = sizeof(*out)},
		{.iov_base = (void *)data, .iov_len = len},
	};
	out->len = sizeof(*out) + len;
	return writev(fd, iov, len ? 2 : 1) < 0 ? -errno : 0;
}

int wire_reply_err(int fd, uint64_t unique, int err)
{
	struct fuse_out_header out = {.unique = unique, .error = -err};
	return send_message(fd, &out, NULL, 0);
}

int wire_reply(int fd, uint64_t unique, const void *data, size_t len)
{
	struct fuse_out_header out = {.unique = unique};
	return send_message(fd, &out, data, len);
}

int wire_notify_poll(int fd, uint64_t kh)
{
	struct fuse_out_header out = {.error = FUSE_NOTIFY_POLL};
	struct fuse_notify_poll_wakeup_out arg = {.kh = kh};
	return send_message(fd, &out, &arg, sizeof(arg));
}

int wire_notify_attr(int fd, uint64_t ino)
{
	struct fuse_out_header out = {.error = FUSE_NOTIFY_INVAL_INODE};
	struct fuse_notify_inval_inode_out arg = {.ino = ino, .off = -1};
	return send_message(fd, &out, &arg, sizeof(arg));
}

uint64_t wire_fh(const struct fuse_in_header *in, size_t len)
{
	switch (in->opcode) {
	case FUSE_READ:
	case FUSE_READDIR:
	case FUSE_READDIRPLUS: {
		const struct fuse_read_in *arg = wire_args(in, len, struct fuse_read_in);
		return arg ? arg->fh : 0;
	}
	case FUSE_WRITE: {
		const struct fuse_write_in *arg = wire_args(in, len, struct fuse_write_in);
		return arg ? arg->fh : 0;
	}
	case FUSE_COPY_FILE_RANGE: {
		const struct fuse_copy_file_range_in *arg =
			wire_args(in, len, struct fuse_copy_file_range_in);
		return arg ? arg->fh_in : 0;
	}
	case FUSE_POLL: {
		const struct fuse_poll_in *arg = wire_args(in, len, struct fuse_poll_in);
		return arg ? arg->fh : 0;
	}
	case FUSE_FSYNC:
	case FUSE_FSYNCDIR: {
		const struct fuse_fsync_in *arg = wire_args(in, len, struct fuse_fsync_in);
		return arg ? arg->fh : 0;
	}
	case FUSE_FALLOCATE: {
		const struct fuse_fallocate_in *arg = wire_args(in, len, struct fuse_fallocate_in);
		return arg ? arg->fh : 0;
	}
	default:
		return 0;
	}
}
