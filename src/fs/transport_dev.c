/* SPDX-License-Identifier: MIT */
/* Requests that arrive through /dev/fuse: a receive thread reads a message, admits it, and in the
 * common case carries it out and replies itself, so that a request costs one wake-up. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "fs/mount_internal.h"
#include "fs/splice.h"
#include "fs/wire.h"

/* Aligns the data of a write to a page: copying is faster, and O_DIRECT needs no copy. */
#define BUFFER_SKIP (4096 - sizeof(struct fuse_in_header) - sizeof(struct fuse_write_in))
#define BUFFER_SIZE (4096 + MESSAGE_MAX)

static int dev_reply(struct request *r, int error, const struct iovec *data, unsigned n)
{
	return wire_reply(r->mount->fd, r->in->unique, error, data, n);
}

static ssize_t dev_reply_from_file(struct request *r, int fd, uint32_t size, off_t off)
{
	return splice_read(r->mount->fd, r->in->unique, fd, size, off);
}

static char *dev_room(struct request *r)
{
	return fs_thread_buffer();
}

/* A copy, because the thread reads its next message into the same buffer. */
static struct request *dev_keep(struct request *r, bool payload)
{
	size_t len = sizeof(*r->in) + (payload ? r->op->args + r->payload_len : 0);
	struct request *kept = malloc(sizeof(*kept) + len);
	if (!kept)
		return NULL;
	*kept = *r;
	request_split(kept, memcpy(kept + 1, r->in, len), len);
	return kept;
}

static void dev_drop(struct request *r)
{
	free(r);
}

static const struct transport transport_dev = {
	.name = "dev",
	.reply = dev_reply,
	.reply_from_file = dev_reply_from_file,
	.room = dev_room,
	.keep = dev_keep,
	.drop = dev_drop,
};

/* Reads the next message.  Returns its size, or -errno. */
static ssize_t read_message(const struct fs_mount *m, char *buf)
{
	ssize_t n = read(m->fd, buf, MESSAGE_MAX);
	return n < 0 ? -errno : n;
}

static void serve(struct receiver *r, char *buf)
{
	struct fs_mount *m = r->mount;
	struct request req = {.transport = &transport_dev, .mount = m, .fs = m->fs};
	while (!atomic_load_explicit(&m->stopping, memory_order_relaxed) &&
	       !receiver_is_surplus(r)) {
		if (atomic_load_explicit(&m->stranded, memory_order_relaxed))
			receiver_stand_in(r);
		ssize_t n = read_message(m, buf);
		/* ENOENT: the request was interrupted before it was read. */
		if (n == -EINTR || n == -EAGAIN || n == -ENOENT)
			continue;
		if (n < 0) {
			/* ENODEV: unmounted; ECONNABORTED: umount -f, or aborted through fusectl. */
			if (n != -ENODEV && n != -ECONNABORTED && !atomic_load(&m->stopping))
				log_error("%s: cannot read requests: %s", m->mountpoint,
					  strerror((int)-n));
			connection_ended(m);
			return;
		}
		if ((size_t)n < sizeof(struct fuse_in_header)) {
			log_error("%s: short message from the kernel", m->mountpoint);
			continue;
		}
		request_split(&req, buf, (size_t)n);
		if (receiver_begins(r, req.in->unique))
			watchdog_wake(m);
		receiver_let_kick_come(r);
		admit(&req);
		receiver_ends(r);
	}
}

void dev_serve(struct receiver *r)
{
	char *buf =
		mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED)
		return;
	serve(r, buf + BUFFER_SKIP);
	munmap(buf, BUFFER_SIZE);
}
