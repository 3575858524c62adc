/* SPDX-License-Identifier: MIT */
#include "fs/wire.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIECES_MAX 3

int wire_reply(int fd, uint64_t unique, int error, const struct iovec *data, unsigned n)
{
	struct fuse_out_header out = {.len = sizeof(out), .unique = unique, .error = error};
	struct iovec iov[1 + PIECES_MAX] = {{.iov_base = &out, .iov_len = sizeof(out)}};
	for (unsigned i = 0; i < n; i++) {
		iov[1 + i] = data[i];
		out.len += (uint32_t)data[i].iov_len;
	}
	return writev(fd, iov, 1 + (int)n) < 0 ? -errno : 0;
}

/* A notification is an answer to nothing, with its kind where an error would be. */
static int notify(int fd, int kind, const void *data, size_t len)
{
	const struct iovec body = {(void *)data, len};
	return wire_reply(fd, 0, kind, &body, 1);
}

int wire_notify_poll(int fd, uint64_t kh)
{
	struct fuse_notify_poll_wakeup_out arg = {.kh = kh};
	return notify(fd, FUSE_NOTIFY_POLL, &arg, sizeof(arg));
}

int wire_notify_attr(int fd, uint64_t ino)
{
	struct fuse_notify_inval_inode_out arg = {.ino = ino, .off = -1};
	return notify(fd, FUSE_NOTIFY_INVAL_INODE, &arg, sizeof(arg));
}
