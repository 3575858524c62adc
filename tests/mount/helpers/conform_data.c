/* SPDX-License-Identifier: MIT */
/* Reading, writing, mapping, copying. */
#define _GNU_SOURCE
#include "conform.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static char *volatile nowhere = (char *)8; /* volatile: the compiler would see through it */

static int new_file(const char *name, int flags)
{
	int fd = open(name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC | flags, 0644);
	if (fd < 0)
		trace("cannot make %s: %s", name, errno_name(errno));
	return fd;
}

static void g_read_write(void)
{
	static char buf[300000], back[300000];
	static const size_t sizes[] = {1, 511, 4096, 4097, 65536, 131072, 131073, 262144, 299999};
	int fd = new_file("f", 0);
	fill(buf, sizeof(buf), 1);
	for (size_t i = 0; i < 9; i++) {
		off_t at = (off_t)(i * 77777);
		MUST(pwrite(fd, buf, sizes[i], at));
		MUST(pread(fd, back, sizes[i], at));
		trace("the same %d", memcmp(buf, back, sizes[i]) == 0);
	}
	show_data(fd);
	show("f");
	MUST(lseek(fd, -10, SEEK_END));
	MUST(read(fd, back, 100));
	MUST(read(fd, back, 100));
	MUST(pread(fd, back, 100, 1 << 30));
	DENIED(EINVAL, lseek(fd, -1, SEEK_SET));
	DENIED(EINVAL, pread(fd, back, 1, -1));
	DENIED(EINVAL, pwrite(fd, back, 1, -1));
	DENIED(EFAULT, write(fd, nowhere, 10));
	DENIED(EFAULT, pread(fd, nowhere, 10, 0));
	MUST(pread(fd, back, 0, 0));
	struct iovec v[3] = {{buf, 10}, {buf + 50, 5000}, {buf + 9, 0}};
	MUST(pwritev(fd, v, 3, 100));
	v[0].iov_base = back, v[1].iov_base = back + 10;
	MUST(preadv(fd, v, 2, 100));
	trace("the same %d", memcmp(back, buf, 10) == 0 && memcmp(back + 10, buf + 50, 5000) == 0);
	MUST(fsync(fd));
	MUST(fdatasync(fd));
	MUST(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	MUST(readahead(fd, 0, 65536));
	show_data(fd);
	close(fd);
	int d = MUST_FD(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	DENIED(EISDIR, read(d, back, 10));
	MUST(fsync(d));
	MUST(fdatasync(d));
	close(d);
}

static void g_large_io(void)
{
	size_t len = 5 << 20;
	char *buf = malloc(len), *back = malloc(len);
	int fd = new_file("f", 0);
	fill(buf, len, 3);
	MUST(pwrite(fd, buf + 1, len - 1, 0));
	MUST(pread(fd, back + 3, len - 3, 2));
	trace("the same %d", memcmp(buf + 3, back + 3, len - 3) == 0);
	MUST(pwrite(fd, buf, 3 << 20, 12345));
	show_data(fd);
	close(fd);
	free(buf), free(back);
}

static void g_append(void)
{
	int a = new_file("f", O_APPEND), b = MUST_FD(open("f", O_RDWR | O_APPEND | O_CLOEXEC));
	for (int i = 0; i < 50; i++) {
		write_all(a, "from a ");
		write_all(b, "from b, longer ");
	}
	trace("at %ld", (long)lseek(a, 0, SEEK_CUR));
	show_data(a);
	MUST(ftruncate(a, 10));
	write_all(b, "end");
	show_data(b);
	MUST(lseek(a, 0, SEEK_SET));
	write_all(a, "!");
	show_data(a);
	int plain = MUST_FD(open("f", O_RDWR | O_CLOEXEC));
	MUST(pwritev2(plain, &(struct iovec){(char *)"rwf", 3}, 1, -1, RWF_APPEND));
	MUST(pwritev2(plain, &(struct iovec){(char *)"dsync", 5}, 1, 2, RWF_DSYNC));
	MUST(pwritev2(plain, &(struct iovec){(char *)"sync", 4}, 1, 7, RWF_SYNC));
	char back[8];
	MUST(preadv2(plain, &(struct iovec){back, 8}, 1, 0, RWF_HIPRI));
	DENIED(EOPNOTSUPP, preadv2(plain, &(struct iovec){back, 8}, 1, 0, 1 << 20));
	show_data(plain);
	close(a), close(b), close(plain);
}

static void g_truncate(void)
{
	static const off_t sizes[] = {0,  1,	   4095,  4096, 4097,	  100000,
				      50, 1 << 20, 12345, 0,	1LL << 33};
	int fd = new_file("f", 0);
	char *buf = malloc(200000);
	fill(buf, 200000, 5);
	for (size_t i = 0; i < 11; i++) {
		MUST(pwrite(fd, buf, 70000, 0));
		MUST(ftruncate(fd, sizes[i]));
		show("f");
		MUST(truncate("f", sizes[i] / 2 + 3));
		if (sizes[i] < 1 << 21)
			show_data(fd);
	}
	DENIED(EINVAL, ftruncate(fd, -1));
	DENIED(EINVAL, truncate("f", -1));
	DENIED(EISDIR, truncate(".", 0));
	DENIED(ENOENT, truncate("none", 0));
	MUST(mkfifo("p", 0644));
	DENIED(EINVAL, truncate("p", 0));
	/* What lies beyond a cut must not come back. */
	MUST(ftruncate(fd, 0));
	MUST(pwrite(fd, buf, 10000, 0));
	MUST(ftruncate(fd, 5000));
	MUST(ftruncate(fd, 10000));
	show_data(fd);
	TRY(ftruncate(fd, (off_t)1 << 50));
	TRY(ftruncate(fd, INT64_MAX));
	TRY(pwrite(fd, "x", 1, INT64_MAX - 1));
	close(fd);
	free(buf);
	make_owned("g", S_IFREG | 0644, ALICE, ALICE);
	as(BOB);
	DENIED(EACCES, truncate("g", 1));
	as(ALICE);
	MUST(truncate("g", 1));
}

static void g_size_limit(void)
{
	struct rlimit old, small = {10000, RLIM_INFINITY};
	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	int fd = new_file("f", 0);
	char buf[8192] = "x";
	setrlimit(RLIMIT_FSIZE, &small);
	MUST(pwrite(fd, buf, 8192, 0));
	MUST(pwrite(fd, buf, 8192, 8192));
	DENIED(EFBIG, pwrite(fd, buf, 8192, 10000));
	DENIED(EFBIG, ftruncate(fd, 10001));
	MUST(ftruncate(fd, 10000));
	DENIED(EFBIG, truncate("f", 20000));
	TRY(fallocate(fd, 0, 0, 20000));
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_DFL);
	show("f");
	close(fd);
}

static void g_mmap(void)
{
	int fd = new_file("f", 0);
	char *buf = malloc(65536);
	fill(buf, 65536, 9);
	MUST(pwrite(fd, buf, 40000, 0));
	char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(p == MAP_FAILED ? -1 : 0);
	trace("the same %d", memcmp(p, buf, 40000) == 0);
	p[5] = 'M', p[39999] = 'N';
	char c[2];
	MUST(pread(fd, c, 1, 5));
	MUST(pread(fd, c + 1, 1, 39999));
	trace("read back %c%c", c[0], c[1]);
	MUST(pwrite(fd, "written", 7, 100));
	trace("seen in the map %.7s", p + 100);
	MUST(msync(p, 65536, MS_SYNC));
	MUST(ftruncate(fd, 65536));
	p[60000] = 'Z';
	MUST(munmap(p, 65536));
	show_data(fd);
	char *q = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	MUST(q == MAP_FAILED ? -1 : 0);
	q[5] = 'P';
	show_data(fd);
	MUST(munmap(q, 65536));
	/* A map outlives its descriptor and its name. */
	p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	p[7] = 'Q';
	int again = MUST_FD(open("f", O_RDWR | O_CLOEXEC));
	MUST(pread(again, c, 1, 7));
	trace("through the map %c", c[0]);
	MUST(unlink("f"));
	p[8] = 'R';
	MUST(pread(again, c, 1, 8));
	trace("without a name %c", c[0]);
	MUST(munmap(p, 65536));
	close(again);
	int ro = MUST_FD(open("g", O_CREAT | O_RDONLY | O_CLOEXEC, 0644));
	DENIED(EACCES,
	       mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0) == MAP_FAILED ? -1 : 0);
	close(ro);
	free(buf);
}

static void g_direct(void)
{
	char *buf;
	if (posix_memalign((void **)&buf, 4096, 1 << 20))
		return;
	int fd = new_file("f", O_DIRECT);
	fill(buf, 1 << 20, 11);
	MUST(pwrite(fd, buf, 1 << 20, 0));
	MUST(pwrite(fd, buf + 4096, 8192, 4096 * 3));
	MUST(pread(fd, buf, 65536, 4096));
	MUST(pread(fd, buf, 65536, (1 << 20) - 4096));
	int cached = MUST_FD(open("f", O_RDWR | O_CLOEXEC));
	show_data(cached);
	MUST(pwrite(cached, "mixed", 5, 10));
	MUST(pread(fd, buf, 4096, 0));
	trace("direct sees %.5s", buf + 10);
	MUST(fcntl(cached, F_SETFL, O_DIRECT));
	MUST(pread(cached, buf, 4096, 4096));
	close(fd), close(cached);
	free(buf);
}

static void g_copy(void)
{
	char *buf = malloc(300000);
	int in = new_file("in", 0), out = new_file("out", 0);
	fill(buf, 300000, 13);
	MUST(pwrite(in, buf, 300000, 0));
	MUST(copy_file_range(in, NULL, out, NULL, 0, 0));
	loff_t a = 1000, b = 5;
	MUST(copy_file_range(in, &a, out, &b, 100000, 0));
	trace("offsets %lld %lld", (long long)a, (long long)b);
	show_data(out);
	a = 299990;
	MUST(copy_file_range(in, &a, out, &b, 100, 0));
	MUST(copy_file_range(in, &a, out, &b, 100, 0));
	a = 0, b = 1000;
	DENIED(EINVAL, copy_file_range(in, &a, in, &b, 2000, 0));
	b = 200000;
	MUST(copy_file_range(in, &a, in, &b, 2000, 0));
	DENIED(EINVAL, copy_file_range(in, &a, out, &b, 10, 1));
	int ro = MUST_FD(open("out", O_RDONLY | O_CLOEXEC));
	DENIED(EBADF, copy_file_range(in, NULL, ro, NULL, 10, 0));
	close(ro);
	off_t at = 500;
	MUST(lseek(out, 0, SEEK_SET));
	MUST(sendfile(out, in, &at, 12345));
	show_data(out);
	show_data(in);
	int app = MUST_FD(open("out", O_WRONLY | O_APPEND | O_CLOEXEC));
	DENIED(EBADF, copy_file_range(in, NULL, app, NULL, 10, 0));
	close(app), close(in), close(out);
	free(buf);
}

static void g_tmpfile(void)
{
	struct stat st;
	char proc[64];
	int fd = MUST_FD(open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0640));
	write_all(fd, "nameless");
	MUST(fstat(fd, &st));
	trace("mode %o links %lu size %lld", st.st_mode, (unsigned long)st.st_nlink,
	      (long long)st.st_size);
	MUST(linkat(fd, "", AT_FDCWD, "named", AT_EMPTY_PATH));
	show("named");
	MUST(linkat(fd, "", AT_FDCWD, "twice", AT_EMPTY_PATH));
	show("twice");
	write_all(fd, " and more");
	close(fd);
	fd = MUST_FD(open("named", O_RDONLY | O_CLOEXEC));
	show_data(fd);
	close(fd);
	fd = MUST_FD(open(".", O_TMPFILE | O_WRONLY | O_EXCL | O_CLOEXEC, 0600));
	DENIED(ENOENT, linkat(fd, "", AT_FDCWD, "never", AT_EMPTY_PATH));
	close(fd);
	make_owned("d", S_IFDIR | 0777, ROOT, ROOT);
	as(ALICE);
	fd = MUST_FD(open("d", O_TMPFILE | O_RDWR | O_CLOEXEC, 0604));
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	trace("linked by alice %d", linkat(AT_FDCWD, proc, AT_FDCWD, "d/hers", AT_SYMLINK_FOLLOW));
	show("d/hers");
	close(fd);
	fd = MUST_FD(open("d", O_TMPFILE | O_RDWR | O_CLOEXEC, 0));
	MUST(ftruncate(fd, 100));
	close(fd);
	as(ROOT);
	DENIED(EINVAL, open(".", O_TMPFILE | O_RDONLY, 0600));
}

static void g_splice(void)
{
	int p[2], in = new_file("in", 0), out = new_file("out", 0);
	char buf[30000];
	fill(buf, sizeof(buf), 23);
	MUST(pwrite(in, buf, sizeof(buf), 0));
	MUST(pipe2(p, O_CLOEXEC));
	for (int i = 0; i < 4; i++) {
		loff_t from = i * 7000, to = i * 9000;
		ssize_t n = splice(in, &from, p[1], NULL, 7000, 0);
		traced("in", n < 0 ? -1 : 0, 0);
		/* A splice may be short; what matters is what arrives. */
		for (ssize_t done = 0, m; done<n; done += m> 0 ? m : n)
			m = splice(p[0], NULL, out, &to, (size_t)(n - done), 0);
	}
	show_data(out);
	loff_t past = 1 << 20;
	MUST(splice(in, &past, p[1], NULL, 100, SPLICE_F_NONBLOCK));
	close(p[0]), close(p[1]), close(in), close(out);
}

static void g_madvise(void)
{
	int fd = new_file("f", 0);
	char buf[65536];
	fill(buf, sizeof(buf), 29);
	MUST(pwrite(fd, buf, sizeof(buf), 0));
	char *m = mmap(NULL, sizeof(buf), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(m == MAP_FAILED ? -1 : 0);
	MUST(madvise(m, sizeof(buf), MADV_WILLNEED));
	MUST(madvise(m, sizeof(buf), MADV_DONTNEED));
	trace("still there %d", memcmp(m, buf, sizeof(buf)) == 0);
	MUST(madvise(m + 8192, 8192, MADV_REMOVE));
	trace("punched %d", m[8192] == 0 && m[16383] == 0 && m[16384] == buf[16384]);
	m[100] = 'x';
	MUST(msync(m, sizeof(buf), MS_ASYNC));
	MUST(msync(m, sizeof(buf), MS_SYNC | MS_INVALIDATE));
	MUST(munmap(m, sizeof(buf)));
	show_data(fd);
	close(fd);
}

static void g_poll(void)
{
	int fd = new_file("f", 0);
	struct pollfd p = {fd, POLLIN | POLLOUT, 0};
	MUST(poll(&p, 1, 0));
	trace("ready %x", (unsigned)p.revents);
	close(fd);
}

const struct topic topics_data[] = {
	{"read_write", g_read_write, false},
	{"large_io", g_large_io, false},
	{"append", g_append, false},
	{"truncate", g_truncate, false},
	{"size_limit", g_size_limit, false},
	{"mmap", g_mmap, false},
	{"direct", g_direct, false},
	{"copy", g_copy, false},
	{"tmpfile", g_tmpfile, false},
	{"splice", g_splice, false},
	{"madvise", g_madvise, false},
	{"poll", g_poll, false},
	{0},
};
