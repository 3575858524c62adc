/* SPDX-License-Identifier: MIT */
/* What ThreadSanitizer cannot see: the kernel orders things.  A handle that a reply has told the
 * kernel of comes back only in a request that is read after that reply was written, and a request
 * that is read later, by another thread, follows from the replies before it.  So for `make
 * check-tsan` the linker puts these functions (--wrap) between the daemon with its libfuse and the
 * C library: a reply releases, reading a request acquires.
 *
 * Only that: reads that cannot be of requests (they ask for less than the kernel demands of a
 * FUSE buffer) order nothing, so that races between threads stay visible. */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FUSE_BUFFER_MIN 8192

void __tsan_acquire(void *addr);
void __tsan_release(void *addr);

ssize_t __real_read(int fd, void *buf, size_t n);
ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __real_writev(int fd, const struct iovec *iov, int n);
ssize_t __real_splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t n, unsigned flags);
ssize_t __wrap_read(int fd, void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);
ssize_t __wrap_writev(int fd, const struct iovec *iov, int n);
ssize_t __wrap_splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t n, unsigned flags);

/* Both submit answers; the first also waits for requests. */
struct uring;
struct io_uring_sqe;
int __real_uring_enter(struct uring *u, bool wait);
int __wrap_uring_enter(struct uring *u, bool wait);
struct io_uring_sqe *__real_uring_get(struct uring *u);
struct io_uring_sqe *__wrap_uring_get(struct uring *u);

static char kernel;

ssize_t __wrap_read(int fd, void *buf, size_t n)
{
	ssize_t got = __real_read(fd, buf, n);
	if (n >= FUSE_BUFFER_MIN && got > 0)
		__tsan_acquire(&kernel);
	return got;
}

ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
	__tsan_release(&kernel);
	return __real_write(fd, buf, n);
}

ssize_t __wrap_writev(int fd, const struct iovec *iov, int n)
{
	__tsan_release(&kernel);
	return __real_writev(fd, iov, n);
}

ssize_t __wrap_splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t n, unsigned flags)
{
	__tsan_release(&kernel);
	return __real_splice(in, in_at, out, out_at, n, flags);
}

int __wrap_uring_enter(struct uring *u, bool wait)
{
	__tsan_release(&kernel);
	int res = __real_uring_enter(u, wait);
	__tsan_acquire(&kernel);
	return res;
}

struct io_uring_sqe *__wrap_uring_get(struct uring *u)
{
	__tsan_release(&kernel);
	return __real_uring_get(u);
}
