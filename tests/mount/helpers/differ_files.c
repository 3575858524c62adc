/* SPDX-License-Identifier: MIT */
/* Steps on open files. */
#define _GNU_SOURCE
#include "differ.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUF_SIZE (200 << 10)
static char buf[BUF_SIZE];

/* An open file, or nothing to do. */
#define FD(s, side) ((s)->slot < 0 ? -1 : w.fd[(s)->slot][side])
#define NEEDS_FD(s)                                                                                \
	do {                                                                                       \
		if ((s)->slot < 0)                                                                 \
			return 0;                                                                  \
	} while (0)

static void draw_open(struct step *s)
{
	s->slot = free_slot();
	if (one_in(2)) {
		draw_new_path(s->path);
		remember(s->path);
	}
}

static int open_flags(const struct step *s)
{
	static const int access_modes[] = {O_RDWR, O_RDWR, O_RDWR, O_RDONLY, O_WRONLY};
	uint32_t f = s->flags;
	int flags = access_modes[s->seed % 5] | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	flags |= (f & 1 ? O_CREAT : 0) | (f & 2 && f & 4 ? O_EXCL : 0) |
		 (f & 8 && f & 16 ? O_TRUNC : 0);
	flags |= (f & 32 && f & 64 ? O_APPEND : 0) | (f & 128 && f & 256 ? O_NOFOLLOW : 0);
	flags |= (f & 512 && f & 1024 ? O_SYNC : 0);
	return flags;
}

/* Special files are opened by the kernel alone and would only tie the two sides together. */
static bool is_special(int dir, const char *path)
{
	struct stat st;
	return fstatat(dir, path, &st, 0) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static long keep(const struct step *s, int side, int fd)
{
	if (fd < 0 || s->slot < 0) {
		int saved = errno;
		if (fd >= 0)
			close(fd);
		errno = saved;
		return fd < 0 ? -1 : 0;
	}
	w.fd[s->slot][side] = fd;
	return 0;
}

static long run_open(const struct step *s, int side)
{
	if (is_special(w.root[side], s->path))
		return 0;
	return keep(s, side, openat(w.root[side], s->path, open_flags(s), s->mode & 07777));
}

static long run_tmpfile(const struct step *s, int side)
{
	int flags = O_TMPFILE | O_RDWR | O_CLOEXEC | (s->flags % 8 == 0 ? O_EXCL : 0);
	return keep(s, side,
		    openat(w.root[side], w.only_data ? "." : s->path, flags, s->mode & 0777));
}

static long run_close(const struct step *s, int side)
{
	NEEDS_FD(s);
	int fd = FD(s, side);
	w.fd[s->slot][side] = -1;
	return close(fd);
}

static long run_write(const struct step *s, int side)
{
	NEEDS_FD(s);
	fill(buf, (size_t)s->len, s->seed);
	return s->flags & 1 ? pwrite(FD(s, side), buf, (size_t)s->len, s->at)
			    : write(FD(s, side), buf, (size_t)s->len);
}

static long run_read(const struct step *s, int side)
{
	NEEDS_FD(s);
	ssize_t n = s->flags & 1 ? pread(FD(s, side), buf, (size_t)s->len, s->at)
				 : read(FD(s, side), buf, (size_t)s->len);
	if (n > 0)
		note(buf, (size_t)n);
	return n;
}

static bool is_directory(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static long run_seek(const struct step *s, int side)
{
	static const int how[] = {SEEK_SET, SEEK_CUR, SEEK_END};
	NEEDS_FD(s);
	/* Positions in directories are the filesystem's own.  Holes are too, where pages of a cache
	 * are written: see holes of conform. */
	return is_directory(FD(s, side)) ? 0 : lseek(FD(s, side), s->at, how[s->seed % 3]);
}

static long run_ftruncate(const struct step *s, int side)
{
	NEEDS_FD(s);
	return ftruncate(FD(s, side), s->at);
}

static long run_truncate(const struct step *s, int side)
{
	char path[64 + PATH_LEN];
	if (is_special(w.root[side], s->path))
		return 0;
	if (fchdir(w.root[side]) < 0)
		return -1;
	strcpy(path, s->path);
	long r = truncate(path, s->at);
	int saved = errno;
	if (chdir("/") < 0)
		abort();
	errno = saved;
	return r;
}

static long run_fallocate(const struct step *s, int side)
{
	static const int modes[] = {
		0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
	NEEDS_FD(s);
	/* What tmpfs does not know it refuses before it clears set-id bits, the kernel's FUSE after. */
	return fallocate(FD(s, side), modes[s->seed % (w.on_tmpfs ? 3 : 5)], s->at, s->len + 1);
}

static long run_sync(const struct step *s, int side)
{
	NEEDS_FD(s);
	return s->flags & 1 ? fsync(FD(s, side)) : fdatasync(FD(s, side));
}

static long run_copy(const struct step *s, int side)
{
	NEEDS_FD(s);
	loff_t in = s->at, out = s->at / 2;
	ssize_t n =
		copy_file_range(FD(s, side), &in, w.fd[s->slot2][side], &out, (size_t)s->len, 0);
	note_u64((uint64_t)in);
	note_u64((uint64_t)out);
	return n;
}

static sigjmp_buf cut_off;

static void on_bus_error(int sig)
{
	siglongjmp(cut_off, sig);
}

static long use_map(const struct step *s, int fd, char *p, size_t len, bool writes)
{
	note(p, len);
	if (!writes)
		return 0;
	size_t at = (size_t)s->at % len, n = (size_t)s->len < len - at ? (size_t)s->len : len - at;
	fill(p + at, n, s->seed);
	/* At once: later write-back would move the time of a file whose time was set since.  And once
	 * more by hand: tmpfs does not move it for a mapping. */
	return msync(p, len, MS_SYNC) || pwrite(fd, p + at, 1, (off_t)at) != 1 ? -1 : 0;
}

/* Only inside the file: past its end a mapping is SIGBUS. */
static long run_mmap(const struct step *s, int side)
{
	struct stat st;
	NEEDS_FD(s);
	int fd = FD(s, side), flags = fcntl(fd, F_GETFL);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
		return 0;
	bool writes = (flags & O_ACCMODE) == O_RDWR && !(flags & O_APPEND) && s->flags & 1;
	int prot = PROT_READ | (writes ? PROT_WRITE : 0);
	size_t len = st.st_size < BUF_SIZE ? (size_t)st.st_size : BUF_SIZE;
	char *p = mmap(NULL, len, prot, s->flags & 2 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return -1;
	/* In a storm somebody else may cut the file in between. */
	volatile long r = -1;
	if (sigsetjmp(cut_off, 1) == 0) {
		signal(SIGBUS, on_bus_error);
		r = use_map(s, fd, p, len, writes);
	} else {
		errno = EFAULT;
	}
	signal(SIGBUS, SIG_DFL);
	munmap(p, len);
	return r;
}

static long run_fstat(const struct step *s, int side)
{
	struct stat st;
	NEEDS_FD(s);
	long r = fstat(FD(s, side), &st);
	if (r == 0)
		note_stat(&st);
	return r;
}

static long run_flags(const struct step *s, int side)
{
	NEEDS_FD(s);
	int fl = fcntl(FD(s, side), F_GETFL);
	note_u64((uint64_t)fl & (O_ACCMODE | O_APPEND | O_SYNC | O_NOATIME));
	/* Only towards appending: see append_cleared of conform. */
	return s->flags % 8 == 0 ? fcntl(FD(s, side), F_SETFL, fl | O_APPEND) : 0;
}

const struct kind kinds_files[] = {
	{"open", 16, draw_open, run_open},
	{"tmpfile", 2, draw_open, run_tmpfile},
	{"close", 8, NULL, run_close},
	{"write", 16, NULL, run_write},
	{"read", 14, NULL, run_read},
	{"seek", 6, NULL, run_seek},
	{"ftruncate", 5, NULL, run_ftruncate},
	{"truncate", 4, NULL, run_truncate},
	{"fallocate", 5, NULL, run_fallocate},
	{"sync", 2, NULL, run_sync},
	{"copy", 4, NULL, run_copy},
	{"mmap", 6, NULL, run_mmap},
	{"fstat", 6, NULL, run_fstat},
	{"flags", 2, NULL, run_flags},
	{0},
};
