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
