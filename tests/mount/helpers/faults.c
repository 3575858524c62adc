/* SPDX-License-Identifier: MIT */
/* Preloaded into the daemon: backing calls fail, stop short, dawdle or hang as the table in the file $FAULTS says.
 * Only calls that the mirror makes on its tree are named here, so requests and replies are never touched. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

static struct fault_table *table;

__attribute__((constructor)) static void attach_table(void)
{
	const char *path = getenv("FAULTS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *at = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		table = at;
}

static struct fault *rule_for(const char *call)
{
	for (unsigned i = 0; table && i < FAULT_RULES; i++) {
		struct fault *f = &table->rule[i];
		if (!atomic_load(&f->armed) || strcmp(f->call, call) != 0)
			continue;
		int32_t left = atomic_load(&f->left);
		while (left > 0 && left != FAULT_FOREVER &&
		       !atomic_compare_exchange_weak(&f->left, &left, left - 1))
			;
		if (left > 0)
			return f;
	}
	return NULL;
}

static void nap(unsigned ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

/* True: the call fails, errno is set.  Cuts *bytes short where the rule says so. */
static int strikes(const char *call, size_t *bytes)
{
	struct fault *f = rule_for(call);
	if (!f)
		return 0;
	atomic_fetch_add(&f->hits, 1);
	atomic_fetch_add(&f->waiting, 1);
	nap(f->delay_ms);
	while (atomic_load(&f->hang))
		nap(5);
	atomic_fetch_sub(&f->waiting, 1);
	if (bytes && f->at_most && *bytes > f->at_most)
		*bytes = f->at_most;
	if (!f->error)
		return 0;
	errno = f->error;
	return 1;
}

#define REAL(name) ((__typeof__(&name))real(#name, &(static_slot_##name)))
static void *real(const char *name, void **slot)
{
	if (!*slot)
		*slot = dlsym(RTLD_NEXT, name);
	return *slot;
}

/* One wrapper: its name, the name of the rule, parameters, arguments, and the count that may be cut short. */
#define WRAP(type, name, rule, bytes, params, args)                                                \
	static void *static_slot_##name;                                                           \
	type name params;                                                                          \
	type name params                                                                           \
	{                                                                                          \
		if (strikes(rule, bytes))                                                          \
			return -1;                                                                 \
		return REAL(name) args;                                                            \
	}

WRAP(ssize_t, pread64, "pread", &n, (int fd, void *buf, size_t n, off64_t off), (fd, buf, n, off))

/* Out of a file this is a read too; out of a pipe it is a reply. */
static void *static_slot_splice;
ssize_t splice(int in, off64_t *off_in, int out, off64_t *off_out, size_t n, unsigned flags)
{
	if (off_in && strikes("pread", &n))
		return -1;
	return REAL(splice)(in, off_in, out, off_out, n, flags);
}

WRAP(ssize_t, pwrite64, "pwrite", &n, (int fd, const void *buf, size_t n, off64_t off),
     (fd, buf, n, off))
WRAP(ssize_t, __pread64_chk, "pread", &n, (int fd, void *buf, size_t n, off64_t off, size_t room),
     (fd, buf, n, off, room))
WRAP(ssize_t, pwritev64v2, "pwrite", NULL,
     (int fd, const struct iovec *v, int n, off64_t off, int flags), (fd, v, n, off, flags))
WRAP(ssize_t, copy_file_range, "copy_file_range", &n,
     (int in, off64_t *off_in, int out, off64_t *off_out, size_t n, unsigned flags),
     (in, off_in, out, off_out, n, flags))
WRAP(int, fsync, "fsync", NULL, (int fd), (fd))
WRAP(int, fdatasync, "fsync", NULL, (int fd), (fd))
WRAP(int, fallocate64, "fallocate", NULL, (int fd, int mode, off64_t at, off64_t n),
     (fd, mode, at, n))
WRAP(int, ftruncate64, "ftruncate", NULL, (int fd, off64_t n), (fd, n))
WRAP(int, mkdirat, "mkdirat", NULL, (int fd, const char *name, mode_t mode), (fd, name, mode))
WRAP(int, unlinkat, "unlinkat", NULL, (int fd, const char *name, int flags), (fd, name, flags))
WRAP(int, linkat, "linkat", NULL, (int from, const char *a, int to, const char *b, int flags),
     (from, a, to, b, flags))
WRAP(int, symlinkat, "symlinkat", NULL, (const char *target, int fd, const char *name),
     (target, fd, name))
WRAP(int, fstatat64, "fstatat", NULL, (int fd, const char *name, struct stat64 *st, int flags),
     (fd, name, st, flags))
WRAP(int, open_by_handle_at, "open_by_handle_at", NULL, (int fd, struct file_handle *h, int flags),
     (fd, h, flags))
WRAP(int, __openat64_2, "openat", NULL, (int fd, const char *name, int flags), (fd, name, flags))

static void *static_slot_openat64;
int openat64(int fd, const char *name, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = va_arg(ap, mode_t);
	va_end(ap);
	if (strikes("openat", NULL))
		return -1;
	return REAL(openat64)(fd, name, flags, mode);
}

#ifndef RATEFS_SANITIZER /* whose runtimes have an allocator of their own */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);

void *malloc(size_t n)
{
	return strikes("malloc", NULL) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return strikes("malloc", NULL) ? NULL : __libc_calloc(n, size);
}
#endif
