/* SPDX-License-Identifier: MIT */
/* Preloaded into the daemon: backing calls fail, stop short, dawdle or hang as the table in the file $FAULTS says.
 * Most are calls that the mirror makes on its tree.  Messages on /dev/fuse are never touched; "wake" and "io_uring_enter"
 * are calls of the threads that take requests from io_uring. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
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

/* One less of so many; false: none was left. */
static int use_up(_Atomic int32_t *n)
{
	int32_t left = atomic_load(n);
	while (left > 0 && left != FAULT_FOREVER &&
	       !atomic_compare_exchange_weak(n, &left, left - 1))
		;
	return left > 0;
}

static struct fault *rule_for(const char *call, uint32_t after)
{
	for (unsigned i = 0; table && i < FAULT_RULES; i++) {
		struct fault *f = &table->rule[i];
		if (!atomic_load(&f->armed) || f->after != after || strcmp(f->call, call) != 0)
			continue;
		if (!use_up(&f->spared) && use_up(&f->left))
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

static void delay(struct fault *f)
{
	atomic_fetch_add(&f->hits, 1);
	atomic_fetch_add(&f->waiting, 1);
	nap(f->delay_ms);
	while (atomic_load(&f->hang))
		nap(5);
	atomic_fetch_sub(&f->waiting, 1);
}

/* The call has been made.  errno stays as it is. */
static void strikes_after(const char *call)
{
	struct fault *f = rule_for(call, 1);
	int error = errno;
	if (f)
		delay(f);
	errno = error;
}

/* True: the call fails, errno is set.  Cuts *bytes short where the rule says so. */
static int strikes(const char *call, size_t *bytes)
{
	struct fault *f = rule_for(call, 0);
	if (!f)
		return 0;
	delay(f);
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
		type rc = REAL(name) args;                                                         \
		strikes_after(rule);                                                               \
		return rc;                                                                         \
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

static int is_armed(const char *call)
{
	for (unsigned i = 0; table && i < FAULT_RULES; i++)
		if (atomic_load(&table->rule[i].armed) && strcmp(table->rule[i].call, call) == 0)
			return 1;
	return 0;
}

/* Without waiting: whatever is to happen to reads, this one would have to wait for. */
static void *static_slot_preadv64v2;
ssize_t preadv64v2(int fd, const struct iovec *v, int n, off64_t off, int flags)
{
	if ((flags & RWF_NOWAIT) && is_armed("pread")) {
		errno = EAGAIN;
		return -1;
	}
	return REAL(preadv64v2)(fd, v, n, off, flags);
}

/* A tree that hangs is not one in memory, though the tests have it there. */
static void *static_slot_fstatfs64;
int fstatfs64(int fd, struct statfs64 *st)
{
	int rc = REAL(fstatfs64)(fd, st);
	if (rc == 0 && table && st->f_type == TMPFS_MAGIC)
		st->f_type = EXT4_SUPER_MAGIC;
	return rc;
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
WRAP(int, fstatvfs64, "fstatvfs", NULL, (int fd, struct statvfs64 *st), (fd, st))
WRAP(int, open_by_handle_at, "open_by_handle_at", NULL, (int fd, struct file_handle *h, int flags),
     (fd, h, flags))
WRAP(int, __openat64_2, "openat", NULL, (int fd, const char *name, int flags), (fd, name, flags))

WRAP(int, statx, "statx", NULL,
     (int fd, const char *name, int flags, unsigned mask, struct statx *st),
     (fd, name, flags, mask, st))

static void *static_slot_readdir64;
struct dirent64 *readdir64(DIR *dir)
{
	return strikes("readdir", NULL) ? NULL : REAL(readdir64)(dir);
}

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

/* Looking at a caller. */
static void *static_slot_open64;
int open64(const char *name, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = va_arg(ap, mode_t);
	va_end(ap);
	if (strncmp(name, "/proc/", 6) == 0 && strikes("proc", NULL))
		return -1;
	return REAL(open64)(name, flags, mode);
}

/* The buffers of threads, and (mmap16M) only the much larger ones of entries of io_uring; allocators take what they need without
 * this name. */
static void *static_slot_mmap64;
void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t off)
{
	if (fd < 0 && n >= 1 << 20 && strikes("mmap", NULL))
		return MAP_FAILED;
	if (fd < 0 && n >= 1 << 24 && strikes("mmap16M", NULL))
		return MAP_FAILED;
	return REAL(mmap64)(at, n, prot, flags, fd, off);
}

/* Another thread is woken by adding to a counter of 8 bytes, an eventfd. */
static void *static_slot_write;
ssize_t write(int fd, const void *buf, size_t n)
{
	if (n == sizeof(uint64_t) && is_armed("wake"))
		strikes("wake", NULL);
	return REAL(write)(fd, buf, n);
}

/* Of an inode that the mirror remembers, not of the many files that are opened and closed in passing. */
static void *static_slot_close;
int close(int fd)
{
	if (table && (fcntl(fd, F_GETFL) & O_PATH))
		strikes("close", NULL);
	return REAL(close)(fd);
}

/* Raw calls, most of them to become somebody else.  setfsuid and setfsgid have no way to fail: they return who the thread
 * was, and leave it so. */
static const struct {
	long number;
	const char *name;
	int tells;
} raw_calls[] = {
	{SYS_setfsuid, "setfsuid", 0},
	{SYS_setfsgid, "setfsgid", 0},
	{SYS_setgroups, "setgroups", 1},
	{SYS_capset, "capset", 1},
	{SYS_io_uring_enter, "io_uring_enter", 1},
};

static void *static_slot_syscall;
long syscall(long number, ...)
{
	long a[6];
	va_list ap;
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	for (unsigned i = 0; i < sizeof(raw_calls) / sizeof(raw_calls[0]); i++) {
		if (raw_calls[i].number != number ||
		    (!raw_calls[i].tells && (uint32_t)a[0] == UINT32_MAX) ||
		    !strikes(raw_calls[i].name, NULL))
			continue;
		return raw_calls[i].tells ? -1 : REAL(syscall)(number, -1L);
	}
	return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#ifndef RATEFS_SANITIZER /* whose runtimes have an allocator and threads of their own */
static void *static_slot_pthread_create;
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	if (strikes("pthread_create", NULL))
		return errno;
	return REAL(pthread_create)(thread, attr, start, arg);
}

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
	return strikes("malloc", NULL) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return strikes("malloc", NULL) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return strikes("malloc", NULL) ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
	return strikes("malloc", NULL) ? NULL : __libc_memalign(align, n);
}
#endif
