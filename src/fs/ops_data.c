/* SPDX-License-Identifier: MIT */
/* Operations on the data of open files: read, write, fallocate, lseek, copy_file_range. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fs/creds.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/ops.h"
#include "fs/reply.h"
#include "fs/space_hooks.h"

#define DIRECT_ALIGN 4096

/* O_DIRECT can be switched while the file is open; each request carries the current flags. */
static bool direct_now(struct handle *h, int flags_now)
{
	int was = atomic_load_explicit(&h->flags, memory_order_relaxed);
	if ((was ^ flags_now) & O_DIRECT) {
		int fl = fcntl(h->fd, F_GETFL);
		int want = (fl & ~O_DIRECT) | (flags_now & O_DIRECT);
		if (fl >= 0 && fcntl(h->fd, F_SETFL, want) == 0)
			atomic_store_explicit(&h->flags, (was & ~O_DIRECT) | (flags_now & O_DIRECT),
					      memory_order_relaxed);
	}
	return flags_now & O_DIRECT;
}

/* A signal to this thread must not end a transfer: reads and writes of a disk file never return
 * EINTR. */
static ssize_t read_some(int fd, char *buf, size_t size, off_t off)
{
	ssize_t n;
	do
		n = pread(fd, buf, size, off);
	while (n < 0 && errno == EINTR);
	return n;
}

static ssize_t write_some(int fd, const char *buf, size_t size, off_t off)
{
	ssize_t n;
	do
		n = pwrite(fd, buf, size, off);
	while (n < 0 && errno == EINTR);
	return n;
}

ssize_t data_read_all(int fd, char *buf, size_t size, off_t off)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n = read_some(fd, buf + done, size - done, off + (off_t)done);
		if (n < 0 && done == 0)
			return -1;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Writes everything: if a part of a page's data were left out, the kernel would not send it
 * again. */
static ssize_t write_all(int fd, const char *buf, size_t size, off_t off)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n = write_some(fd, buf + done, size - done, off + (off_t)done);
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* The kernel splits a transfer that is longer than a request at page boundaries of the caller's
 * memory.  If that memory does not begin on a page, the pieces are not whole blocks, although the
 * transfer is. */
static bool is_piece(size_t size, off_t off)
{
	size_t end = ((size_t)off + size) % DIRECT_ALIGN;
	if (off % DIRECT_ALIGN == 0)
		return end && size > FS_MAX_TRANSFER - DIRECT_ALIGN && size < FS_MAX_TRANSFER;
	return size == FS_MAX_TRANSFER || end == 0;
}

/* Opens the file without O_DIRECT, for a piece that was refused with it.  < 0: the refusal is
 * final, and errno is still its error. */
static int open_for_piece(struct fs *fs, const struct handle *h, int access, size_t size, off_t off)
{
	int flags = atomic_load_explicit(&h->flags, memory_order_relaxed);
	if (errno != EINVAL || !(flags & O_DIRECT) || !is_piece(size, off))
		return -1;
	int fd = mirror_reopen(fs, h->fd, access | (flags & O_SYNC));
	errno = EINVAL;
	return fd;
}

/* Sends large reads from the file to the kernel without a copy, if the transport can.  True:
 * answered. */
static bool read_from_file(struct request *req, const struct fuse_read_in *in)
{
	const struct handle *h = req->handle;
	int flags = atomic_load_explicit(&h->flags, memory_order_relaxed) | (int)in->flags;
	if (!req->transport->reply_from_file || (flags & O_DIRECT))
		return false;
	ssize_t n = req->transport->reply_from_file(req, h->fd, in->size, (off_t)in->offset);
	if (n < 0)
		return false;
	req->bytes_moved = (uint64_t)n;
	return true;
}

/* Reads from the page cache of the source.  False: the read would block, or returned only a
 * part. */
static bool read_cached(struct request *req, size_t size, off_t off, ssize_t *n)
{
	struct handle *h = req->handle;
	const struct iovec iov = {req->buffer, size};
	struct stat st;
	/* With O_DIRECT the call would not return before the disk has answered. */
	if (req->in_blocks || atomic_load_explicit(&h->cannot_tell, memory_order_relaxed))
		return false;
	*n = preadv2(h->fd, &iov, 1, off, RWF_NOWAIT);
	if (*n == (ssize_t)size)
		return true;
	if (*n >= 0)
		return mirror_stat(h->fd, &st) == 0 && off + *n >= st.st_size;
	if (errno == EOPNOTSUPP)
		atomic_store_explicit(&h->cannot_tell, true, memory_order_relaxed);
	return false;
}

void op_read(struct request *req)
{
	const struct fuse_read_in *in = req->args;
	struct handle *h = req->handle;
	off_t off = (off_t)in->offset;
	size_t size = min_u64(in->size, FS_BUFFER_SIZE);
	/* Only reads that bypass the page cache carry a lock owner; all others fill pages. */
	if (!(in->read_flags & FUSE_READ_LOCKOWNER))
		overwrite_pages_filled(&h->inode->open->overwrites, in->offset, in->size);
	if (read_from_file(req, in))
		return;
	direct_now(h, (int)in->flags);
	ssize_t n;
	if (!req->no_wait) {
		/* A read(2) may be answered short, a page fault may not. */
		n = req->transfer ? read_some(h->fd, req->buffer, size, off)
				  : data_read_all(h->fd, req->buffer, size, off);
	} else if (!read_cached(req, size, off, &n)) {
		req->again = true;
		return;
	}
	AUTO_FD plain = n < 0 ? open_for_piece(req->fs, h, O_RDONLY, size, off) : -1;
	if (plain >= 0)
		n = data_read_all(plain, req->buffer, size, off);
	if (n < 0) {
		reply_status(req, -errno);
		return;
	}
	req->bytes_moved = (uint64_t)n;
	reply_buf(req, req->buffer, (size_t)n);
}

static int write_flags(const struct handle *h, int flags)
{
	int rwf = 0;
	if (flags & O_APPEND)
		rwf |= RWF_APPEND;
	/* RWF_SYNC and RWF_DSYNC of a single call; a file opened with O_SYNC or O_DSYNC needs no
	 * flag. */
	if ((flags & O_SYNC & ~O_DSYNC) && !(h->flags & O_SYNC & ~O_DSYNC))
		rwf |= RWF_SYNC;
	else if ((flags & O_DSYNC) && !(h->flags & O_DSYNC))
		rwf |= RWF_DSYNC;
	return rwf;
}

static ssize_t write_flagged(int fd, const char *buf, size_t size, off_t off, int rwf)
{
	struct iovec iov = {(void *)buf, size};
	ssize_t n;
	if (!rwf)
		return write_some(fd, buf, size, off);
	do
		n = pwritev2(fd, &iov, 1, off, rwf);
	while (n < 0 && errno == EINTR);
	return n;
}

static void answer_write(struct request *req, struct handle *h, ssize_t n)
{
	if (n < 0) {
		reply_status(req, -errno);
		return;
	}
	if (!atomic_load_explicit(&h->written, memory_order_relaxed))
		atomic_store_explicit(&h->written, true, memory_order_relaxed);
	reply_written(req, (size_t)n);
}

/* Writes those of these bytes that no direct write has changed since the kernel read them. */
static ssize_t write_unless_overwritten(struct overwrites *o, int fd, const char *buf, size_t size,
					off_t off)
{
	struct range_io io;
	struct byte_range part = {(uint64_t)off, (uint64_t)off};
	ssize_t res = (ssize_t)size;
	write_back_begin(o, &io, (uint64_t)off, size);
	while (res >= 0 && write_back_next(o, &io, &part))
		if (write_all(fd, buf + (part.from - (uint64_t)off), part.to - part.from,
			      (off_t)part.from) < 0)
			res = -1;
	int err = errno;
	write_back_end(o, &io);
	errno = err;
	return res;
}

/* Mapped pages come without a caller, through any handle of the file, and end where the file ends.
 * They are not written through an O_DIRECT descriptor, which would refuse a length that is not
 * whole blocks. */
static void write_back(struct request *req, struct handle *h, const char *buf, size_t size,
		       off_t off)
{
	if (h->append_only) {
		reply_status(req, -EPERM); /* it would be appended instead of written in place */
		return;
	}
	int res = creds_be_mapper(req->fs, h->uid, h->gid);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	AUTO_FD plain = -1;
	if (atomic_load_explicit(&h->flags, memory_order_relaxed) & O_DIRECT)
		plain = mirror_reopen(req->fs, h->fd, O_WRONLY);
	struct space_op space;
	size_t fits = size;
	res = space_write_begin(&space, req->fs, h, off, &fits, false);
	ssize_t n = -1;
	if (res == 0)
		n = write_unless_overwritten(&h->inode->open->overwrites,
					     plain >= 0 ? plain : h->fd, buf, fits, off);
	int err = res < 0 ? -res : errno;
	space_write_end(&space, h->fd, n);
	if (n >= 0 && fits < size) { /* the kernel does not retry the rest: report an error */
		n = -1;
		err = -space_refuse(req->fs);
	}
	errno = err;
	answer_write(req, h, n);
}

static ssize_t write_or_piece(struct request *req, struct handle *h, const char *buf, size_t size,
			      off_t off, int flags)
{
	int rwf = write_flags(h, flags);
	struct space_op space;
	int res = space_write_begin(&space, req->fs, h, off, &size, rwf & RWF_APPEND);
	if (res < 0) {
		errno = -res;
		return -1;
	}
	ssize_t n = write_flagged(h->fd, buf, size, off, rwf);
	AUTO_FD plain = n < 0 ? open_for_piece(req->fs, h, O_WRONLY, size, off) : -1;
	if (plain >= 0)
		n = write_flagged(plain, buf, size, off, rwf);
	int err = errno;
	space_write_end(&space, h->fd, n);
	errno = err;
	return n;
}

void op_write(struct request *req)
{
	const struct fuse_write_in *in = req->args;
	const char *buf = req->payload;
	size_t size = in->size;
	off_t off = (off_t)in->offset;
	int flags = (int)in->flags;
	struct handle *h = req->handle;
	if (in->write_flags & FUSE_WRITE_CACHE) {
		write_back(req, h, buf, size, off);
		return;
	}
	int res = creds_be_writer(req->fs, req, h->membership_matters);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	if (direct_now(h, flags) && (uintptr_t)buf % DIRECT_ALIGN && size <= FS_BUFFER_SIZE)
		buf = memcpy(req->buffer, buf, size);
	struct overwrites *o = &h->inode->open->overwrites;
	struct range_io io;
	if (!h->direct_io) { /* the kernel's pages have the data already */
		overwrite_pages_filled(o, (uint64_t)off, size);
		answer_write(req, h, write_or_piece(req, h, buf, size, off, flags));
		return;
	}
	overwrite_begin(o, &io, (uint64_t)off, size);
	ssize_t n = write_or_piece(req, h, buf, size, off, flags);
	int err = errno;
	overwrite_end(o, &io, n);
	errno = err;
	answer_write(req, h, n);
}

void op_fallocate(struct request *req)
{
	const struct fuse_fallocate_in *in = req->args;
	struct handle *h = req->handle;
	int mode = (int)in->mode;
	off_t offset = (off_t)in->offset, length = (off_t)in->length;
	int res = creds_be_writer(req->fs, req, h->membership_matters);
	struct space_op space = {0};
	if (res == 0)
		res = space_allocate_begin(&space, req->fs, h, mode, offset, length);
	if (res == 0)
		res = fallocate(h->fd, mode, offset, length) < 0 ? -errno : 0;
	space_end(&space, h->fd);
	atomic_store_explicit(&h->written, true, memory_order_relaxed);
	reply_status(req, res);
}

void op_lseek(struct request *req)
{
	const struct fuse_lseek_in *in = req->args;
	off_t res = lseek(req->handle->fd, (off_t)in->offset, (int)in->whence);
	if (res < 0)
		reply_status(req, -errno);
	else
		reply_offset(req, res);
}

void op_copy_file_range(struct request *req)
{
	const struct fuse_copy_file_range_in *in = req->args;
	struct handle *from = req->handle;
	struct handle *to = handle_find(&req->fs->handle_table, in->fh_out);
	off_t off_in = (off_t)in->off_in, off_out = (off_t)in->off_out;
	if (!to || to->dir) {
		reply_status(req, -EBADF);
		return;
	}
	int res = creds_be_writer(req->fs, req, to->membership_matters);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	struct space_op space;
	size_t len = in->len;
	res = space_copy_begin(&space, req->fs, from, off_in, to, off_out, &len);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	struct overwrites *o = &to->inode->open->overwrites;
	struct range_io io;
	overwrite_begin(o, &io, in->off_out, len);
	ssize_t n = copy_file_range(from->fd, &off_in, to->fd, &off_out, len, (unsigned)in->flags);
	int err = errno;
	overwrite_end(o, &io, n);
	space_end(&space, to->fd);
	if (n < 0) {
		reply_status(req, -err);
		return;
	}
	atomic_store_explicit(&to->written, true, memory_order_relaxed);
	reply_written(req, (size_t)n);
}
