/* SPDX-License-Identifier: MIT */
/* File times: set by hand, and moved by what is done. */
#define _GNU_SOURCE
#include "conform.h"

#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>

static void show_times(const char *path)
{
	struct stat st;
	if (lstat(path, &st) < 0) {
		trace("%s: %s", path, errno_name(errno));
		return;
	}
	trace("%s: atime %lld.%09ld mtime %lld.%09ld", path, (long long)st.st_atim.tv_sec,
	      st.st_atim.tv_nsec, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static void g_utimens(void)
{
	static const struct timespec pairs[][2] = {
		{{1000000000, 1}, {1000000001, 999999999}},
		{{0, 0}, {0, 0}},
		{{1, 500000000}, {2147483647, 123456789}},
		{{2147483648, 5}, {4294967296, 6}},
		{{-1, 0}, {-1000000000, 7}},
		{{8589934592, 0}, {15032385535, 8}},
		{{-2147483648, 0}, {-2147483648, 0}},
		{{253402300799, 0}, {99999999999, 0}},
	};
	make_file("f", 0644);
	MUST(symlink("f", "l"));
	MUST(mkdir("d", 0755));
	MUST(mkfifo("p", 0644));
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		MUST(utimensat(AT_FDCWD, "f", pairs[i], 0));
		show_times("f");
		MUST(utimensat(AT_FDCWD, "l", pairs[i], AT_SYMLINK_NOFOLLOW));
		show_times("l");
		MUST(utimensat(AT_FDCWD, "d", pairs[i], 0));
		show_times("d");
		MUST(utimensat(AT_FDCWD, "p", pairs[i], 0));
		show_times("p");
	}
	struct timespec t[2] = {{1000, 1000}, {0, UTIME_OMIT}};
	CHANGES("ac", "f", utimensat(AT_FDCWD, "f", t, 0));
	show_times("f");
	struct timespec u[2] = {{0, UTIME_OMIT}, {2000, 2000}};
	CHANGES("cm", "f", utimensat(AT_FDCWD, "f", u, 0));
	show_times("f");
	struct timespec both[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
	CHANGES("", "f", utimensat(AT_FDCWD, "f", both, 0));
	struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
	CHANGES("ac", "f", utimensat(AT_FDCWD, "f", now, 0));
	CHANGES("acm", "f", utimensat(AT_FDCWD, "f", NULL, 0));
	CHANGES("acm", "d", utimensat(AT_FDCWD, "d", NULL, 0));
	struct timespec bad[2] = {{1, 1000000000}, {1, -1}};
	DENIED(EINVAL, utimensat(AT_FDCWD, "f", bad, 0));
	int fd = MUST_FD(open("f", O_RDONLY | O_CLOEXEC));
	MUST(futimens(fd, pairs[0]));
	show_times("f");
	close(fd);
	struct timeval tv[2] = {{5, 6}, {7, 8}};
	MUST(utimes("f", tv));
	show_times("f");
}

static void g_utimens_rights(void)
{
	static const uid_t users[] = {ROOT, ALICE, BOB};
	struct timespec set[2] = {{1000, 0}, {2000, 0}};
	struct timespec half[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
	struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
	struct timespec none[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
	for (int u = 0; u < 3; u++) {
		for (mode_t m = 0444; m <= 0666; m += 0222) {
			make_owned("f", S_IFREG | m, ALICE, ALICE);
			as(users[u]);
			trace("by %u on %04o", users[u], m);
			bool mine = users[u] != BOB, may_write = mine || m == 0666;
			traced("set", utimensat(AT_FDCWD, "f", set, 0), mine ? 0 : EPERM);
			traced("half", utimensat(AT_FDCWD, "f", half, 0), mine ? 0 : EPERM);
			traced("now", utimensat(AT_FDCWD, "f", now, 0), may_write ? 0 : EACCES);
			traced("null", utimensat(AT_FDCWD, "f", NULL, 0), may_write ? 0 : EACCES);
			traced("none", utimensat(AT_FDCWD, "f", none, 0), 0);
			as(ROOT);
			unlink("f");
		}
	}
}

static int write_to(int fd)
{
	return write(fd, "x", 1) == 1 ? 0 : -1;
}

static int make_and_close(const char *path)
{
	return close(open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
}

static int store(char *map)
{
	map[0]++;
	return msync(map, 4096, MS_SYNC);
}

static void g_times_of_data(void)
{
	int fd = MUST_FD(open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
	CHANGES("cm", "f", write_to(fd));
	CHANGES("cm", "f", pwrite(fd, "abc", 3, 0));
	CHANGES("", "f", pwrite(fd, "abc", 0, 0));
	CHANGES("cm", "f", ftruncate(fd, 100));
	CHANGES("cm", "f", ftruncate(fd, 100));
	CHANGES("cm", "f", ftruncate(fd, 10));
	CHANGES("cm", "f", truncate("f", 20));
	CHANGES("cm", "f", truncate("f", 20));
	CHANGES("cm", "f", truncate("f", 0));
	CHANGES("cm", "f", fallocate(fd, 0, 0, 5000));
	CHANGES("", "f", fsync(fd));
	CHANGES("", "f", access("f", R_OK));
	char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		MUST(-1);
	/* Another store may not: there is nothing to write back on tmpfs. */
	CHANGES("cm", "f", store(map));
	munmap(map, 4096);
	char c;
	struct times t = times_before("f");
	MUST(pread(fd, &c, 1, 0));
	times_after("read", "", "f", &t);
	/* relatime: the first read after a change moves the access time. */
	MUST(pwrite(fd, "abc", 3, 0));
	struct stat st;
	MUST(fstat(fd, &st));
	int copy = MUST_FD(open("g", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
	CHANGES("cm", "g", copy_file_range(fd, &(loff_t){0}, copy, &(loff_t){0}, 100, 0));
	close(copy);
	close(fd);
}

static void g_times_of_attributes(void)
{
	make_file("f", 0644);
	CHANGES("c", "f", chmod("f", 0600));
	CHANGES("c", "f", chmod("f", 0600));
	CHANGES("c", "f", chown("f", 1, 1));
	CHANGES("c", "f", link("f", "g"));
	CHANGES("c", "f", unlink("g"));
	CHANGES("c", "f", rename("f", "h") ?: rename("h", "f"));
	CHANGES("c", "f", setxattr("f", "user.a", "b", 1, 0));
	CHANGES("c", "f", removexattr("f", "user.a"));
	MUST(mkdir("d", 0755));
	CHANGES("c", "d", chmod("d", 0700));
	CHANGES("c", "d", chown("d", 1, 1));
	CHANGES("c", "d", setxattr("d", "user.a", "b", 1, 0));
	MUST(symlink("f", "l"));
	CHANGES("c", "l", lchown("l", 1, 1));
	/* What fails leaves the times alone. */
	MUST(chown("f", ALICE, ALICE));
	struct times t = times_before("f");
	as(BOB);
	DENIED(EPERM, chmod("f", 0777));
	DENIED(EPERM, chown("f", BOB, BOB));
	DENIED(EACCES, truncate("f", 3));
	as(ROOT);
	times_after("failures", "", "f", &t);
}

static void g_times_of_directories(void)
{
	MUST(mkdir("d", 0755));
	MUST(mkdir("e", 0755));
	CHANGES("cm", "d", make_and_close("d/f"));
	CHANGES("cm", "d", mkdir("d/s", 0755));
	CHANGES("cm", "d", rmdir("d/s"));
	CHANGES("cm", "d", mknod("d/p", S_IFIFO | 0644, 0));
	CHANGES("cm", "d", mknod("d/c", S_IFCHR | 0644, makedev(1, 3)));
	CHANGES("cm", "d", symlink("f", "d/l"));
	CHANGES("cm", "d", link("d/f", "d/g"));
	CHANGES("cm", "d", unlink("d/g"));
	CHANGES("cm", "d", rename("d/f", "d/h"));
	CHANGES("cm", "d", rename("d/h", "e/h"));
	CHANGES("cm", "d", rename("e/h", "d/h"));
	CHANGES("cm", "e", rename("d/h", "e/h"));
	CHANGES("", "d", mkdir("e/only", 0755));
	CHANGES("", "d", chmod("e/h", 0600));
	struct times t = times_before("d");
	DENIED(EEXIST, mkdir("d/l", 0755));
	DENIED(ENOENT, unlink("d/none"));
	times_after("failures", "", "d", &t);
	t = times_before("d");
	int fd = open("d", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	close(fd);
	times_after("tmpfile", "", "d", &t);
	/* New things have the present as all their times. */
	struct stat a, b;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	make_file("n", 0644);
	MUST(stat("n", &a));
	MUST(stat(".", &b));
	trace("new: a = m %d, now %d, parent the same %d", a.st_atim.tv_sec == a.st_mtim.tv_sec,
	      a.st_ctim.tv_sec - now.tv_sec >= -1 && a.st_ctim.tv_sec - now.tv_sec <= 1,
	      b.st_mtim.tv_sec >= a.st_mtim.tv_sec - 1);
}

static void g_birth_time(void)
{
	struct statx x, y;
	int fd = MUST_FD(open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
	MUST(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS | STATX_BTIME, &x));
	trace("mask %x, born with its change %d", x.stx_mask & (STATX_BASIC_STATS | STATX_BTIME),
	      x.stx_btime.tv_sec == x.stx_ctime.tv_sec);
	usleep(11000);
	write_all(fd, "x");
	MUST(chmod("f", 0600));
	MUST(rename("f", "g"));
	MUST(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &y));
	trace("birth kept %d", x.stx_btime.tv_sec == y.stx_btime.tv_sec &&
				       x.stx_btime.tv_nsec == y.stx_btime.tv_nsec);
	trace("blocksize %u size %llu links %u", y.stx_blksize, (unsigned long long)y.stx_size,
	      y.stx_nlink);
	close(fd);
	MUST(statx(AT_FDCWD, ".", AT_NO_AUTOMOUNT, STATX_BTIME, &x));
	trace("directory has one %d", !!(x.stx_mask & STATX_BTIME));
	MUST(statx(AT_FDCWD, "g", AT_STATX_FORCE_SYNC, STATX_ALL, &x));
	MUST(statx(AT_FDCWD, "g", AT_STATX_DONT_SYNC, STATX_SIZE, &x));
	DENIED(ENOENT, statx(AT_FDCWD, "none", 0, STATX_BTIME, &x));
}

const struct topic topics_times[] = {
	{"utimens", g_utimens, false},
	{"utimens_rights", g_utimens_rights, false},
	{"times_of_data", g_times_of_data, false},
	{"times_of_attributes", g_times_of_attributes, false},
	{"times_of_directories", g_times_of_directories, false},
	{"birth_time", g_birth_time, false},
	{0},
};
