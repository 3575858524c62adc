/* SPDX-License-Identifier: MIT */
/* Random changes of a tree by several processes at a time, of every kind that takes or frees space.
 *
 *	spacestorm DIRECTORY SEED OPERATIONS [WRITERS [still]]
 *
 * still: directories keep their names.
 * All of them work on the same few names.  Full disks, and names that another one has just taken or removed, are part of
 * the game; anything that says that the filesystem is broken (EIO and the like) is not, and ends it with exit 1. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NAMES	       12
#define DIRS	       4
#define SUBDIRS	       3
#define SIZE_MAX_BYTES (1U << 20)

static uint64_t state;
static bool still;
static char buf[256 << 10];

static uint32_t rnd(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16) % n;
}

static void broken(const char *what)
{
	static const int fatal[] = {EIO, EBADF, EFAULT, ENOTCONN, ECONNABORTED, ENOSYS, ENOMEM};
	for (unsigned i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		if (errno == fatal[i]) {
			fprintf(stderr, "spacestorm: %s: %s\n", what, strerror(errno));
			exit(1);
		}
}

static char *text(void)
{
	static char texts[4][32];
	static unsigned turn;
	return texts[turn++ % 4];
}

static const char *name(void)
{
	char *t = text();
	unsigned where = rnd(6), f = rnd(NAMES);
	if (where > 1)
		snprintf(t, 32, "f%u", f);
	else if (where)
		snprintf(t, 32, "d%u/f%u", rnd(DIRS), f);
	else
		snprintf(t, 32, "d%u/sub%u/f%u", rnd(DIRS), rnd(SUBDIRS), f);
	return t;
}

/* A directory that may be missing, or (always) one that is not. */
static const char *dir_name(bool always)
{
	char *t = text();
	if (always)
		snprintf(t, 32, "d%u", rnd(DIRS));
	else
		snprintf(t, 32, "d%u/sub%u", rnd(DIRS), rnd(SUBDIRS));
	return t;
}

static int open_some(int flags)
{
	int fd = open(name(), flags | O_CLOEXEC, 0644);
	if (fd < 0)
		broken("open");
	return fd;
}

static void write_at(int fd)
{
	off_t off = rnd(4) ? rnd(SIZE_MAX_BYTES) : rnd(64) * 4096;
	size_t n = rnd(3) ? 1 + rnd(20000) : 1 + rnd(sizeof(buf));
	if (pwrite(fd, buf, n, off) < 0)
		broken("pwrite");
}

static void op_write(void)
{
	int fd = open_some(O_RDWR | O_CREAT | (rnd(4) ? 0 : O_TRUNC) | (rnd(8) ? 0 : O_DIRECT));
	if (fd < 0)
		return;
	for (unsigned i = rnd(6); i; i--)
		write_at(fd);
	close(fd);
}

static void op_append(void)
{
	int fd = open_some(O_WRONLY | O_CREAT | O_APPEND);
	if (fd < 0)
		return;
	for (unsigned i = rnd(8); i; i--)
		if (write(fd, buf, 1 + rnd(9000)) < 0)
			broken("append");
	close(fd);
}

static void op_truncate(void)
{
	if (truncate(name(), rnd(2) ? rnd(SIZE_MAX_BYTES) : rnd(32) * 4096) < 0)
		broken("truncate");
	int fd = rnd(2) ? open_some(O_RDWR) : -1;
	if (fd < 0)
		return;
	if (ftruncate(fd, rnd(SIZE_MAX_BYTES)) < 0)
		broken("ftruncate");
	write_at(fd);
	close(fd);
}

static void op_fallocate(void)
{
	static const int modes[] = {0,
				    FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_ZERO_RANGE,
				    FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_COLLAPSE_RANGE,
				    FALLOC_FL_INSERT_RANGE};
	int fd = open_some(O_RDWR | O_CREAT);
	if (fd < 0)
		return;
	for (unsigned i = 1 + rnd(3); i; i--) {
		int mode = modes[rnd(sizeof(modes) / sizeof(modes[0]))];
		if (fallocate(fd, mode, rnd(128) * 4096, (1 + rnd(64)) * 4096) < 0)
			broken("fallocate");
	}
	close(fd);
}

static void op_unlink(void)
{
	if (unlink(name()) < 0)
		broken("unlink");
}

static void op_rename(void)
{
	if (rename(name(), name()) < 0)
		broken("rename");
}

static void op_exchange(void)
{
	if (renameat2(AT_FDCWD, name(), AT_FDCWD, name(), RENAME_EXCHANGE) < 0)
		broken("exchange");
}

static void op_link(void)
{
	if (link(name(), name()) < 0)
		broken("link");
}

static void op_symlink(void)
{
	char target[400];
	unsigned n = rnd(2) ? 20 : 300;
	memset(target, 'x', n);
	target[n] = '\0';
	if (symlink(target, name()) < 0)
		broken("symlink");
}

static void op_dir(void)
{
	const char *path = dir_name(false);
	if ((rnd(3) ? mkdir(path, 0755) : rmdir(path)) < 0)
		broken("mkdir or rmdir");
}

/* With everything in them. */
static void op_rename_dir(void)
{
	if (still)
		return;
	bool always = !rnd(3);
	unsigned flags = always || !rnd(4) ? RENAME_EXCHANGE : 0;
	if (renameat2(AT_FDCWD, dir_name(always), AT_FDCWD, dir_name(always), flags) < 0)
		broken("rename of a directory");
}

static void op_whiteout(void)
{
	if (renameat2(AT_FDCWD, name(), AT_FDCWD, name(), RENAME_WHITEOUT) < 0)
		broken("whiteout");
}

/* No FIFO: opening one would wait. */
static void op_mknod(void)
{
	static const mode_t types[] = {S_IFREG, S_IFSOCK, S_IFCHR};
	if (mknod(name(), types[rnd(3)] | 0644, makedev(0, 0)) < 0)
		broken("mknod");
}

/* Many names make a directory grow. */
static void op_crowd(void)
{
	char path[300];
	unsigned d = rnd(DIRS), base = rnd(1000);
	bool make = rnd(2);
	for (unsigned i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "d%u/%0200u", d, base + i);
		int fd = make ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : unlink(path);
		if (fd < 0)
			broken("crowd");
		if (make && fd >= 0)
			close(fd);
	}
}

/* An ACL with so many entries that it does not fit into an inode, or a short one.  New files inherit that of a directory. */
static void op_acl(void)
{
	static const struct {
		uint16_t tag, perm;
	} plain[] = {{0x01, 6}, {0x04, 4}, {0x10, 7}, {0x20, 4}};
	unsigned users = rnd(2) ? 2 : 100, n = 0;
	uint32_t value[1 + 2 * (4 + 100)] = {2};
	for (unsigned i = 0; i < 4; i++) {
		value[1 + 2 * n] = plain[i].tag | (uint32_t)plain[i].perm << 16;
		value[2 + 2 * n++] = UINT32_MAX;
		for (unsigned u = 0; i == 0 && u < users; u++) {
			value[1 + 2 * n] = 0x02 | 4U << 16;
			value[2 + 2 * n++] = 5000 + u;
		}
	}
	const char *where = rnd(3) ? dir_name(true) : name();
	const char *which = rnd(2) ? "system.posix_acl_default" : "system.posix_acl_access";
	if (rnd(2) ? setxattr(where, which, value, 4 + 8 * n, 0) < 0
		   : removexattr(where, which) < 0)
		broken("ACL");
}

static void op_xattr(void)
{
	const char *n = rnd(4) ? name() : dir_name(rnd(2));
	if (rnd(3) ? setxattr(n, "user.a", buf, rnd(2) ? 20 : 3000, 0) < 0
		   : removexattr(n, "user.a") < 0)
		broken("xattr");
}

static void op_tmpfile(void)
{
	char path[40];
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {
		broken("O_TMPFILE");
		return;
	}
	write_at(fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (rnd(2) && linkat(AT_FDCWD, path, AT_FDCWD, name(), AT_SYMLINK_FOLLOW) < 0)
		broken("linkat");
	write_at(fd);
	close(fd);
}

static void op_deleted(void)
{
	const char *n = name();
	int fd = open(n, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0) {
		broken("open");
		return;
	}
	if (unlink(n) < 0)
		broken("unlink");
	write_at(fd);
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 65536) < 0)
		broken("fallocate");
	close(fd);
}

/* Without an open file: an fd of O_PATH keeps it. */
static void op_held(void)
{
	static int held[8];
	static unsigned turn;
	const char *n = name();
	int *fd = &held[turn++ % 8];
	if (*fd)
		close(*fd);
	*fd = open(n, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0)
		*fd = 0;
	else if (unlink(n) < 0)
		broken("unlink");
}

static void op_copy(void)
{
	int from = open_some(O_RDONLY), to = open_some(O_WRONLY | O_CREAT);
	off_t in = rnd(100) * 4096, out = rnd(100) * 4096;
	if (from >= 0 && to >= 0 && copy_file_range(from, &in, to, &out, rnd(400000), 0) < 0)
		broken("copy_file_range");
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
}

/* Into a file of its own: another one could cut it, and we would get SIGBUS. */
static void op_map(void)
{
	char path[40];
	snprintf(path, sizeof(path), "map.%d", (int)getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 1 << 20) < 0) {
		broken("map");
	} else {
		char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			for (unsigned i = rnd(20); i; i--)
				p[rnd(1 << 20)] = 'm';
			munmap(p, 1 << 20);
		}
	}
	if (fd >= 0)
		close(fd);
	if (!rnd(4))
		unlink(path);
}

static void storm(unsigned n)
{
	static void (*const ops[])(void) = {
		op_write,     op_write,	   op_write,  op_append,     op_append,	  op_truncate,
		op_fallocate, op_unlink,   op_unlink, op_rename,     op_link,	  op_symlink,
		op_dir,	      op_crowd,	   op_xattr,  op_tmpfile,    op_deleted,  op_copy,
		op_map,	      op_exchange, op_dir,    op_rename_dir, op_whiteout, op_mknod,
		op_acl,	      op_held};
	while (n--)
		ops[rnd(sizeof(ops) / sizeof(ops[0]))]();
}

int main(int argc, char **argv)
{
	if (argc < 4 || chdir(argv[1]) < 0) {
		fprintf(stderr, "usage: spacestorm DIRECTORY SEED OPERATIONS [WRITERS [still]]\n");
		return 2;
	}
	unsigned writers = argc > 4 ? (unsigned)atoi(argv[4]) : 4;
	int rc = 0, status;
	still = argc > 5;
	memset(buf, 'x', sizeof(buf));
	for (unsigned d = 0; d < DIRS; d++) {
		char path[16];
		snprintf(path, sizeof(path), "d%u", d);
		mkdir(path, 0755);
	}
	for (unsigned i = 0; i < writers; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			state = (strtoull(argv[2], NULL, 10) + 1) * 0x9E3779B97F4A7C15ULL +
				i * 77777;
			storm((unsigned)atoi(argv[3]));
			return 0;
		}
		rc |= pid < 0;
	}
	while (wait(&status) > 0)
		rc |= status != 0;
	return rc;
}
