/* SPDX-License-Identifier: MIT */
/* What is written to /dev/fuse: answers and notifications.
 * The format is the kernel's stable interface; numbers newer than the system's header are here. */
#ifndef FS_WIRE_H
#define FS_WIRE_H

#include <errno.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { WIRE_TMPFILE = 51, WIRE_STATX = 52 };

#ifndef FUSE_INT_REQ_BIT
#define FUSE_INT_REQ_BIT (1ULL << 0)
#endif

/* Newer than the system's header, or with fields that it does not have. */
struct wire_statx_in {
	uint32_t getattr_flags;
	uint32_t reserved;
	uint64_t fh;
	uint32_t sx_flags;
	uint32_t sx_mask;
};
struct wire_open_out {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id;
};
#define WIRE_FOPEN_PASSTHROUGH (1U << 7)

#define WIRE_PIECES 3 /* of an answer, at most */

/* Sends an answer.  0 or -errno; -ENOENT means that the caller no longer waits, which is not an
 * error here. */
static inline int wire_reply(int fd, uint64_t unique, int error, const struct iovec *data,
			     unsigned n)
{
	struct fuse_out_header out = {.len = sizeof(out), .unique = unique, .error = error};
	struct iovec iov[1 + WIRE_PIECES] = {{.iov_base = &out, .iov_len = sizeof(out)}};
	for (unsigned i = 0; i < n; i++) {
		iov[1 + i] = data[i];
		out.len += (uint32_t)data[i].iov_len;
	}
	return writev(fd, iov, 1 + (int)n) < 0 ? -errno : 0;
}

int wire_notify_poll(int fd, uint64_t kh);
/* Asks the kernel for zero bytes of a file's cached data; it answers with a message,
 * NOTIFY_REPLY. */
int wire_notify_retrieve(int fd, uint64_t ino);
/* Invalidates the attributes of an inode in the kernel's cache. */
int wire_notify_attr(int fd, uint64_t ino);

#endif
