/* SPDX-License-Identifier: MIT */
/* INIT, the kernel's first message.  libfuse composes the answer, but does not know io_uring: if that may be used, write_init
 * adds its flag before the answer is sent to the kernel. */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>

#include "fs/mount_internal.h"

static _Thread_local struct fs_mount *initialized;

static ssize_t write_init(int fd, struct iovec *iov, int count, void *userdata)
{
	struct fs_mount *m = initialized;
	struct fuse_init_out *out = count == 2 ? iov[1].iov_base : NULL;
	bool go = false;
	if (m && out && iov[1].iov_len >= sizeof(*out) && (out->flags & FUSE_INIT_EXT)) {
		go = rings_at_init(m, m->init_offers_uring);
		if (go)
			out->flags2 |= INIT_OVER_IO_URING;
	}
	ssize_t n = writev(fd, iov, count);
	if (m)
		rings_go(m, go && n >= 0);
	return n;
}

static ssize_t read_nothing(int fd, void *buf, size_t len, void *userdata)
{
	errno = EINVAL; /* our receivers read */
	return -1;
}

int mount_watch_init(struct fs_mount *m, struct error *err)
{
	if (m->wanted == TRANSPORT_DEV)
		return 0;
	const struct fuse_custom_io io = {.read = read_nothing, .writev = write_init};
	int rc = fuse_session_custom_io(m->se, &io, sizeof(io), fuse_session_fd(m->se));
	if (rc != 0)
		return error_set(err, "cannot mount: %s", strerror(-rc));
	return 0;
}

void mount_init(struct fs_mount *m, void *message, size_t len)
{
	struct fuse_buf buf = {.mem = message, .size = len};
	const struct fuse_init_in *in = (const void *)((const struct fuse_in_header *)message + 1);
	bool extended =
		len >= sizeof(struct fuse_in_header) + sizeof(*in) && (in->flags & FUSE_INIT_EXT);
	m->init_offers_uring = extended && (in->flags2 & INIT_OVER_IO_URING);
	/* Whether the rings can be used is known when all threads of the mount have been started. */
	pthread_mutex_lock(&m->init_lock);
	initialized = m;
	fuse_session_process_buf(m->se, &buf);
	initialized = NULL;
	pthread_mutex_unlock(&m->init_lock);
}
