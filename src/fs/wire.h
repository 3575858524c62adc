/* SPDX-License-Identifier: MIT */
/* The kernel's messages as they come through /dev/fuse, for what must be known about a request
 * before it is carried out, and the few answers that are given without carrying it out.
 * The format is the kernel's stable interface; numbers newer than the system's header are here. */
#ifndef FS_WIRE_H
#define FS_WIRE_H

#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_TMPFILE = 51, WIRE_STATX = 52 };

#ifndef FUSE_INT_REQ_BIT
#define FUSE_INT_REQ_BIT (1ULL << 0)
#endif

/* The arguments behind the header, or NULL where the message is too short for them. */
static inline void *wire_args_(const void *msg, size_t len, size_t need)
{
	return len < sizeof(struct fuse_in_header) + need
		       ? NULL
		       : (char *)msg + sizeof(struct fuse_in_header);
}
#define wire_args(msg, len, T) ((T *)wire_args_(msg, len, sizeof(T)))

/* The file handle of requests that have one, else 0. */
uint64_t wire_fh(const struct fuse_in_header *in, size_t len);

/* Answers.  0 or -errno; -ENOENT means that the caller is gone already: not an error here. */
int wire_reply_err(int fd, uint64_t unique, int err);
int wire_reply(int fd, uint64_t unique, const void *data, size_t len);
int wire_notify_poll(int fd, uint64_t kh);
/* What the kernel remembers of an inode's attributes is not true any more. */
int wire_notify_attr(int fd, uint64_t ino);

#endif
