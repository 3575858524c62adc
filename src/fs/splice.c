/* SPDX-License-Identifier: MIT */
#include "fs/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <unistd.h>

#include "fs/fs.h"
#include "fs/mirror.h"

#define PIPE_SIZE (1U << 20)

static _Thread_local struct {
	bool open, unusable;
	int fd[2]; /* read end, write end */
} line;

void splice_thread_stop(void)
{
	if (line.open) {
		close(line.fd[0]);
		close(line.fd[1]);
	}
	line.open = false;
}

static bool have_pipe(void)
{
	if (line.open || line.unusable)
		return line.open;
	if (pipe2(line.fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	line.open = true;
	/* The limit on pipe memory may forbid it; do not try again for each request. */
	if (fcntl(line.fd[0], F_SETPIPE_SZ, PIPE_SIZE) < (int)PIPE_SIZE) {
		splice_thread_stop();
		line.unusable = true;
	}
	return line.open;
}

void splice_thread_start(void)
{
	if (geteuid() == 0)
		have_pipe();
}

/* The pipe got fewer bytes than the header promised: the file ended, or the pipe is full of small
 * pieces.  Takes them out of the pipe again, reads what may follow, and sends everything with a
 * correct header. */
static ssize_t send_short(int dev_fd, uint64_t unique, size_t got, int fd, size_t size, off_t off)
{
	char *buffer = fs_thread_buffer();
	struct fuse_out_header *out = (struct fuse_out_header *)buffer;
	for (size_t at = 0; at < sizeof(*out) + got;) {
		ssize_t n = read(line.fd[0], buffer + at, sizeof(*out) + got - at);
		if (n <= 0) {
			splice_thread_stop();
			return -1;
		}
		at += (size_t)n;
	}
	ssize_t more = data_read_all(fd, buffer + sizeof(*out) + got, size - got, off + (off_t)got);
	if (more > 0)
		got += (size_t)more;
	*out = (struct fuse_out_header){.len = (uint32_t)(sizeof(*out) + got), .unique = unique};
	ssize_t n = write(dev_fd, buffer, sizeof(*out) + got);
	(void)n; /* ENOENT: the caller is gone */
	return (ssize_t)got;
}

/* Returns the number of bytes now in the pipe behind the header.  Never uses SPLICE_F_MOVE: it
 * would let the kernel take clean pages away from the page cache of the source's file. */
static size_t fill_pipe(int fd, size_t size, off_t off)
{
	size_t got = 0;
	while (got < size) {
		ssize_t n = splice(fd, &off, line.fd[1], NULL, size - got, 0);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	return got;
}

ssize_t splice_read(int dev_fd, uint64_t unique, int fd, uint32_t size, off_t off)
{
	if (size < SPLICE_MIN || size > SPLICE_MAX || !have_pipe())
		return -1;
	struct fuse_out_header out = {.len = (uint32_t)(sizeof(out) + size), .unique = unique};
	if (write(line.fd[1], &out, sizeof(out)) != (ssize_t)sizeof(out)) {
		splice_thread_stop();
		return -1;
	}
	size_t got = fill_pipe(fd, size, off);
	if (got == 0) {
		/* The end of the file, an error, or a file that cannot be spliced: pread finds
		 * out. */
		char rest[sizeof(out)];
		if (read(line.fd[0], rest, sizeof(rest)) != (ssize_t)sizeof(rest))
			splice_thread_stop();
		return -1;
	}
	if (got < size)
		return send_short(dev_fd, unique, got, fd, size, off);
	ssize_t n = splice(line.fd[0], NULL, dev_fd, NULL, sizeof(out) + size, 0);
	if (n == (ssize_t)(sizeof(out) + size))
		return size;
	/* What the kernel did not take is still in the pipe. */
	int err = n < 0 ? errno : EIO;
	splice_thread_stop();
	return err == ENOENT ? (ssize_t)size : -1; /* the caller is gone */
}
