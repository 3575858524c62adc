/* SPDX-License-Identifier: MIT */
/* Operations on the data of open files: read, write, fallocate, lseek, copy_file_range. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/context.h"
#include "fs/creds.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/reply.h"
#include "fs/space_hooks.h"

#define DIRECT_ALIGN 4096

/* O_DIRECT can be switched while the file is open, and each request says what it is now. */
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

/* A signal for this thread ends no transfer: a disk file never returns EINTR. */
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

/* Nor is a part of what comes from pages written again. */
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

/* The kernel cuts a transfer that is longer than a request at the pages of the caller's memory.  Where
 * that does not begin on a page, the pieces are no whole blocks though the transfer is. */
static bool is_piece(size_t size, off_t off)
{
	size_t end = ((size_t)off + size) % DIRECT_ALIGN;
	if (off % DIRECT_ALIGN == 0)
		return end && size > FS_MAX_TRANSFER - DIRECT_ALIGN && size < FS_MAX_TRANSFER;
	return size == FS_MAX_TRANSFER || end == 0;
}

/* The file without O_DIRECT, for a piece that was refused with it; < 0: the refusal stands, and errno
 * with it. */
static int open_for_piece(struct fs *fs, const struct handle *h, int access, size_t size, off_t off)
{
	int flags = atomic_load_explicit(&h->flags, memory_order_relaxed);
	if (errno != EINVAL || !(flags & O_DIRECT) || !is_piece(size, off))
		return -1;
	int fd = mirror_reopen(fs, h->fd, access | (flags & O_SYNC));
	errno = EINVAL;
	return fd;
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct handle *h = handle_from_fh(fi->fh);
	direct_now(h, fi->flags);
	if (size > FS_BUFFER_SIZE)
		size = FS_BUFFER_SIZE;
	/* Direct I/O tells read(2), which may be answered short, from a page fault by the lock owner. */
	ssize_t n = h->direct_io && fi->lock_owner
			    ? read_some(h->fd, fs_context.buffer, size, off)
			    : data_read_all(h->fd, fs_context.buffer, size, off);
	AUTO_FD plain = n < 0 ? open_for_piece(fs_of(req), h, O_RDONLY, size, off) : -1;
	if (plain >= 0)
		n = data_read_all(plain, fs_context.buffer, size, off);
	if (n < 0) {
		reply_status(req, -errno);
		return;
	}
	fs_context.bytes_moved = (uint64_t)n;
	reply_buf(req, fs_context.buffer, (size_t)n);
}

static int write_flags(const struct handle *h, const struct fuse_file_info *fi)
{
	int rwf = 0;
	if (fi->flags & O_APPEND)
		rwf |= RWF_APPEND;
	/* RWF_SYNC and RWF_DSYNC of a single call; a file opened so has it anyway. */
	if ((fi->flags & O_SYNC & ~O_DSYNC) && !(h->flags & O_SYNC & ~O_DSYNC))
		rwf |= RWF_SYNC;
	else if ((fi->flags & O_DSYNC) && !(h->flags & O_DSYNC))
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

static void answer_write(fuse_req_t req, struct handle *h, ssize_t n)
{
	if (n < 0) {
		reply_status(req, -errno);
		return;
	}
	if (!atomic_load_explicit(&h->written, memory_order_relaxed))
		atomic_store_explicit(&h->written, true, memory_order_relaxed);
	reply_written(req, (size_t)n);
}

/* What of these bytes no direct write has changed since the kernel read them. */
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

/* Mapped pages come without a caller, by any handle of the file, and end where the file ends: not
 * through an O_DIRECT file, which would refuse the odd length. */
static void write_back(fuse_req_t req, struct handle *h, const char *buf, size_t size, off_t off)
{
	if (h->append_only) {
		reply_status(req, -EPERM); /* at its end is not where it was stored */
		return;
	}
	int res = creds_be_mapper(fs_of(req), h->uid, h->gid);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	AUTO_FD plain = -1;
	if (atomic_load_explicit(&h->flags, memory_order_relaxed) & O_DIRECT)
		plain = mirror_reopen(fs_of(req), h->fd, O_WRONLY);
	struct space_op space;
	size_t fits = size;
	res = space_write_begin(&space, fs_of(req), h, off, &fits, false);
	ssize_t n = -1;
	if (res == 0)
		n = write_unless_overwritten(&h->inode->open->overwrites,
					     plain >= 0 ? plain : h->fd, buf, fits, off);
	int err = res < 0 ? -res : errno;
	space_write_end(&space, h->fd, n);
	if (n >= 0 && fits < size) { /* nobody tries the rest again: the program hears of it */
		n = -1;
		err = space_errno(fs_of(req));
	}
	errno = err;
	answer_write(req, h, n);
}

static ssize_t write_or_piece(fuse_req_t req, struct handle *h, const char *buf, size_t size,
			      off_t off, const struct fuse_file_info *fi)
{
	int rwf = write_flags(h, fi);
	struct space_op space;
	int res = space_write_begin(&space, fs_of(req), h, off, &size, rwf & RWF_APPEND);
	if (res < 0) {
		errno = -res;
		return -1;
	}
	ssize_t n = write_flagged(h->fd, buf, size, off, rwf);
	AUTO_FD plain = n < 0 ? open_for_piece(fs_of(req), h, O_WRONLY, size, off) : -1;
	if (plain >= 0)
		n = write_flagged(plain, buf, size, off, rwf);
	int err = errno;
	space_write_end(&space, h->fd, n);
	errno = err;
	return n;
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	      struct fuse_file_info *fi)
{
	struct handle *h = handle_from_fh(fi->fh);
	if (fi->writepage) {
		write_back(req, h, buf, size, off);
		return;
	}
	int res = creds_be_writer(fs_of(req), req, h->membership_matters);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	if (direct_now(h, fi->flags) && (uintptr_t)buf % DIRECT_ALIGN && size <= FS_BUFFER_SIZE)
		buf = memcpy(fs_context.buffer, buf, size);
	struct overwrites *o = &h->inode->open->overwrites;
	struct range_io io;
	if (!h->direct_io) { /* the kernel's pages have the data already */
		overwrite_pages_filled(o, (uint64_t)off, size);
		answer_write(req, h, write_or_piece(req, h, buf, size, off, fi));
		return;
	}
	overwrite_begin(o, &io, (uint64_t)off, size);
	ssize_t n = write_or_piece(req, h, buf, size, off, fi);
	int err = errno;
	overwrite_end(o, &io, n);
	errno = err;
	answer_write(req, h, n);
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		  struct fuse_file_info *fi)
{
	struct handle *h = handle_from_fh(fi->fh);
	int res = creds_be_writer(fs_of(req), req, h->membership_matters);
	struct space_op space = {0};
	if (res == 0)
		res = space_allocate_begin(&space, fs_of(req), h, mode, offset, length);
	if (res == 0)
		res = fallocate(h->fd, mode, offset, length) < 0 ? -errno : 0;
	space_end(&space, h->fd);
	atomic_store_explicit(&h->written, true, memory_order_relaxed);
	reply_status(req, res);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	off_t res = lseek(handle_from_fh(fi->fh)->fd, off, whence);
	if (res < 0)
		reply_status(req, -errno);
	else
		reply_offset(req, res);
}

void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
			struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t off_out,
			struct fuse_file_info *fi_out, size_t len, int flags)
{
	struct handle *from = handle_from_fh(fi_in->fh), *to = handle_from_fh(fi_out->fh);
	int res = creds_be_writer(fs_of(req), req, to->membership_matters);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	struct space_op space;
	res = space_copy_begin(&space, fs_of(req), from, off_in, to, off_out, &len);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	struct overwrites *o = &to->inode->open->overwrites;
	struct range_io io;
	overwrite_begin(o, &io, (uint64_t)off_out, len);
	ssize_t n = copy_file_range(from->fd, &off_in, to->fd, &off_out, len, (unsigned)flags);
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
