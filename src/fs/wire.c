/* SPDX-License-Identifier: MIT */
#include "fs/wire.h"

/* A notification has the format of an answer to request 0, with its kind in place of the error. */
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

#define NOTIFY_UNIQUE (1ULL << 62) /* requests have smaller numbers; all are even */

int wire_notify_retrieve(int fd, uint64_t ino)
{
	/* With io_uring, the number also says which answer is committed. */
	static _Atomic uint64_t n;
	struct fuse_notify_retrieve_out arg = {.notify_unique = NOTIFY_UNIQUE + 2 * n++,
					       .nodeid = ino};
	return notify(fd, FUSE_NOTIFY_RETRIEVE, &arg, sizeof(arg));
}

int wire_notify_attr(int fd, uint64_t ino)
{
	struct fuse_notify_inval_inode_out arg = {.ino = ino, .off = -1};
	return notify(fd, FUSE_NOTIFY_INVAL_INODE, &arg, sizeof(arg));
}
