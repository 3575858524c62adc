/* SPDX-License-Identifier: MIT */
/* Space: allocation, holes, a full filesystem, the number of links. */
#define _GNU_SOURCE
#include "conform.h"

#include <linux/falloc.h>
#include <sys/statvfs.h>
#include <sys/uio.h>

static int new_file(const char *name)
{
	return open(name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
}

static void show_blocks(int fd)
{
	struct stat st;
	fsync(fd);
	fstat(fd, &st);
	trace("size %lld blocks %lld", (long long)st.st_size, (long long)st.st_blocks);
}

/* Collapse, insert and unshare are refused by the kernel for any FUSE filesystem. */
static void g_fallocate(void)
{
	static const struct {
		const char *name;
		int mode;
		off_t at, len;
	} steps[] = {
		{"allocate", 0, 0, 100000},
		{"inside", 0, 4096, 4096},
		{"extend", 0, 90000, 50000},
		{"keep size", FALLOC_FL_KEEP_SIZE, 200000, 65536},
		{"punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 16384},
		{"punch odd", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 30001, 9999},
		{"punch past end", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20, 4096},
		{"zero", FALLOC_FL_ZERO_RANGE, 1000, 20000},
		{"zero past end", FALLOC_FL_ZERO_RANGE, 130000, 30000},
		{"zero keep", FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 150000, 100000},
		{"punch without keep", FALLOC_FL_PUNCH_HOLE, 0, 4096},
		{"nothing", 0, 0, 0},
		{"negative", 0, -1, 10},
		{"huge", 0, 0, INT64_MAX},
		{"unknown", 1 << 12, 0, 10},
	};
	int fd = new_file("f");
	char *buf = malloc(120000);
	fill(buf, 120000, 17);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		MUST(pwrite(fd, buf, 120000, 0));
		trace("%s: %s", steps[i].name,
		      fallocate(fd, steps[i].mode, steps[i].at, steps[i].len) ? errno_name(errno)
									      : "ok");
		show("f");
		show_data(fd);
	}
	close(fd);
	fd = open("f", O_RDONLY | O_CLOEXEC);
	DENIED(EBADF, fallocate(fd, 0, 0, 10));
	close(fd);
	fd = open(".", O_RDONLY | O_CLOEXEC);
	DENIED(EBADF, fallocate(fd, 0, 0, 10));
	close(fd);
	free(buf);
}

static void show_holes(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END), at = 0;
	while (at < end) {
		off_t data = lseek(fd, at, SEEK_DATA);
		if (data < 0) {
			trace("from %lld: %s", (long long)at, errno_name(errno));
			return;
		}
		off_t hole = lseek(fd, data, SEEK_HOLE);
		trace("data %lld to %lld", (long long)data, (long long)hole);
		at = hole;
	}
}

static void g_holes(void)
{
	int fd = new_file("f");
	MUST(ftruncate(fd, 1 << 20));
	show_holes(fd);
	MUST(pwrite(fd, "data", 4, 300000));
	MUST(pwrite(fd, "data", 4, 700000));
	MUST(fsync(fd));
	show_holes(fd);
	show_blocks(fd);
	DENIED(ENXIO, lseek(fd, 1 << 20, SEEK_DATA));
	DENIED(ENXIO, lseek(fd, 1 << 20, SEEK_HOLE));
	DENIED(ENXIO, lseek(fd, -5, SEEK_DATA));
	MUST(lseek(fd, 10, SEEK_HOLE));
	trace("position %ld", (long)lseek(fd, 0, SEEK_CUR));
	MUST(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 262144, 131072));
	MUST(fsync(fd));
	show_holes(fd);
	show_blocks(fd);
	MUST(ftruncate(fd, 0));
	DENIED(ENXIO, lseek(fd, 0, SEEK_DATA));
	DENIED(ENXIO, lseek(fd, 0, SEEK_HOLE));
	/* Far out. */
	MUST(pwrite(fd, "far", 3, 1LL << 35));
	MUST(fsync(fd));
	show("f");
	show_holes(fd);
	show_blocks(fd);
	char c[3];
	MUST(pread(fd, c, 3, 1LL << 35));
	MUST(pread(fd, c, 3, 1LL << 34));
	close(fd);
	MUST(unlink("f"));
}

static void g_statfs(void)
{
	struct statvfs v;
	MUST(statvfs(".", &v));
	trace("block %lu fragment %lu name %lu blocks %llu files %llu", v.f_bsize, v.f_frsize,
	      v.f_namemax, (unsigned long long)v.f_blocks, (unsigned long long)v.f_files);
	trace("free space %d, free files %d", v.f_bfree > 0 && v.f_bavail <= v.f_bfree,
	      v.f_ffree > 0);
	trace("limits: name %ld path %ld links %d", pathconf(".", _PC_NAME_MAX),
	      pathconf(".", _PC_PATH_MAX), pathconf(".", _PC_LINK_MAX) > 1);
}

/* On a filesystem of a few megabytes. */
static void g_full(void)
{
	char buf[65536];
	struct statvfs v;
	MUST(statvfs(".", &v));
	if ((uint64_t)v.f_bavail * v.f_frsize > 256 << 20) {
		trace("too large to fill");
		DENIED(ENOSPC, 0);
		return;
	}
	fill(buf, sizeof(buf), 19);
	int fd = new_file("big");
	ssize_t n = 0;
	while ((n = write(fd, buf, sizeof(buf))) > 0)
		;
	traced("write when full", n, ENOSPC);
	while ((n = write(fd, buf, 4096)) > 0) /* the last blocks too */
		;
	traced("small write when full", n, ENOSPC);
	traced("fsync when full", fsync(fd), -1);
	MUST(pwrite(fd, "over", 4, 0));
	DENIED(ENOSPC, fallocate(fd, 0, 0, 1LL << 30));
	int d = new_file("small");
	traced("write to another", write(d, buf, sizeof(buf)) < 0 ? -1 : 0, ENOSPC);
	show("small");
	close(d);
	MUST(ftruncate(fd, 4096));
	MUST(pwrite(fd, buf, sizeof(buf), 4096));
	show_data(fd);
	close(fd);
	MUST(unlink("small"));
	MUST(unlink("big"));
}

/* As many links as the filesystem can have. */
static void g_many_links(void)
{
	char name[32];
	make_file("f", 0644);
	int i = 0;
	for (; i < 70000; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		if (link("f", name) < 0)
			break;
	}
	traced("link once more", i < 70000 ? -1 : 0, -1);
	trace("%d links", i);
	show("f");
	int gone = 0;
	while (i-- > 0) {
		snprintf(name, sizeof(name), "l%d", i);
		gone += unlink(name) == 0;
	}
	trace("%d gone", gone);
	show("f");
	MUST(unlink("f"));
}

const struct topic topics_space[] = {
	{"fallocate", g_fallocate, false},  {"holes", g_holes, false},
	{"statfs", g_statfs, false},	    {"full", g_full, true},
	{"many_links", g_many_links, true}, {0},
};
