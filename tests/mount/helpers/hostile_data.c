/* SPDX-License-Identifier: MIT */
/* Ways to move data past a limit, if there were any: each moves it all and prints "BYTES SECONDS". */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static double began;

static int report(long long bytes)
{
	printf("%lld %.3f\n", bytes, now_s() - began);
	return 0;
}

static int open_it(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);
	if (fd < 0)
		die(path);
	return fd;
}

static long long size_of(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		die("fstat");
	return st.st_size;
}

static char *map(int fd, long long size, int prot)
{
	void *at = mmap(NULL, (size_t)size, prot, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("mmap");
	return at;
}

int mmap_copy(char **arg)
{
	int in = open_it(arg[0], O_RDONLY), out = open_it(arg[1], O_RDWR | O_CREAT);
	long long size = size_of(in);
	began = now_s();
	if (ftruncate(out, size) < 0)
		die("ftruncate");
	char *to = map(out, size, PROT_READ | PROT_WRITE);
	memcpy(to, map(in, size, PROT_READ), (size_t)size);
	if (msync(to, (size_t)size, MS_SYNC) < 0 || fsync(out) < 0)
		die("msync");
	return report(size);
}

int mmap_read(char **arg)
{
	int fd = open_it(arg[0], O_RDONLY);
	long long size = size_of(fd);
	volatile char sum = 0;
	began = now_s();
	const char *at = map(fd, size, PROT_READ);
	for (long long i = 0; i < size; i += 4096)
		sum = (char)(sum + at[i]);
	return report(size);
}

int mmap_write(char **arg)
{
	int fd = open_it(arg[0], O_RDWR | O_CREAT);
	long long size = atoll(arg[1]);
	began = now_s();
	if (ftruncate(fd, size) < 0)
		die("ftruncate");
	char *at = map(fd, size, PROT_READ | PROT_WRITE);
	memset(at, 'x', (size_t)size);
	if (msync(at, (size_t)size, MS_SYNC) < 0)
		die("msync");
	return report(size);
}

/* Several processes share one description: the limit is the mount's, not the handle's. */
int shared_write(char **arg)
{
	int fd = open_it(arg[0], O_RDWR | O_CREAT | O_APPEND);
	long long size = atoll(arg[1]);
	static char block[65536];
	began = now_s();
	for (int i = 0; i < 8; i++) {
		if (fork() != 0)
			continue;
		for (long long n = 0; n < size / 8; n += (long long)sizeof(block))
			if (write(fd, block, sizeof(block)) < 0)
				_exit(1);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	return report(size_of(fd));
}

int copy_range(char **arg)
{
	int in = open_it(arg[0], O_RDONLY), out = open_it(arg[1], O_WRONLY | O_CREAT | O_TRUNC);
	long long total = 0;
	ssize_t n;
	began = now_s();
	while ((n = copy_file_range(in, NULL, out, NULL, 1 << 30, 0)) > 0)
		total += n;
	if (n < 0)
		die("copy_file_range");
	return report(total);
}

int clone_file(char **arg)
{
	int in = open_it(arg[0], O_RDONLY), out = open_it(arg[1], O_WRONLY | O_CREAT | O_TRUNC);
	began = now_s();
	if (ioctl(out, FICLONE, in) < 0) {
		printf("refused: %s\n", strerror(errno));
		return 0;
	}
	return report(size_of(in));
}

int splice_read(char **arg)
{
	int fd = open_it(arg[0], O_RDONLY), null = open_it("/dev/null", O_WRONLY), p[2];
	long long total = 0;
	ssize_t n;
	if (pipe(p) < 0)
		die("pipe");
	began = now_s();
	while ((n = splice(fd, NULL, p[1], NULL, 65536, 0)) > 0) {
		total += n;
		if (splice(p[0], NULL, null, NULL, (size_t)n, 0) < 0)
			die("splice");
	}
	if (n < 0)
		die("splice");
	return report(total);
}

int send_file(char **arg)
{
	int in = open_it(arg[0], O_RDONLY), out = open_it(arg[1], O_WRONLY | O_CREAT | O_TRUNC);
	long long total = 0;
	ssize_t n;
	began = now_s();
	while ((n = sendfile(out, in, NULL, 1 << 20)) > 0)
		total += n;
	if (n < 0)
		die("sendfile");
	return report(total);
}

/* --- asynchronous --------------------------------------------------------------------------- */

#define BLOCK 65536

int aio_read_file(char **arg)
{
	int fd = open_it(arg[0], O_RDONLY | O_DIRECT);
	long long size = size_of(fd), asked = 0, total = 0;
	unsigned depth = (unsigned)atoi(arg[1]), busy = 0;
	aio_context_t ctx = 0;
	struct iocb *cb = calloc(depth, sizeof(*cb)), *one;
	char *buf = aligned_alloc(4096, (size_t)depth * BLOCK);
	if (!cb || !buf || syscall(SYS_io_setup, depth, &ctx) < 0)
		die("io_setup");
	began = now_s();
	for (unsigned i = 0; asked < size || busy;) {
		if (asked < size && busy < depth) {
			one = &cb[i];
			*one = (struct iocb){.aio_fildes = (uint32_t)fd,
					     .aio_lio_opcode = IOCB_CMD_PREAD,
					     .aio_buf = (uintptr_t)(buf + (size_t)i * BLOCK),
					     .aio_nbytes = BLOCK,
					     .aio_offset = asked,
					     .aio_data = i};
			if (syscall(SYS_io_submit, ctx, 1, &one) != 1)
				die("io_submit");
			asked += BLOCK;
			i = ++busy < depth ? busy : i;
			continue;
		}
		struct io_event ev;
		if (syscall(SYS_io_getevents, ctx, 1, 1, &ev, NULL) != 1)
			die("io_getevents");
		if (ev.res < 0) {
			errno = (int)-ev.res;
			die("aio read");
		}
		total += ev.res;
		i = (unsigned)ev.data;
		busy--;
		if (asked < size) { /* this slot again */
			one = &cb[i];
			one->aio_offset = asked;
			if (syscall(SYS_io_submit, ctx, 1, &one) != 1)
				die("io_submit");
			asked += BLOCK;
			busy++;
		}
	}
	return report(total);
}

/* The ring by hand: one submission at a time is enough to get past system calls. */
struct ring {
	int fd;
	uint32_t *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
};

static void ring_open(struct ring *r, unsigned depth)
{
	struct io_uring_params p;
	memset(&p, 0, sizeof(p));
	r->fd = (int)syscall(SYS_io_uring_setup, depth, &p);
	if (r->fd < 0)
		exit(77);
	size_t sq = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
	size_t cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	size_t both = sq > cq ? sq : cq;
	char *at = mmap(NULL, both, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
	r->sqe = mmap(NULL, p.sq_entries * sizeof(*r->sqe), PROT_READ | PROT_WRITE, MAP_SHARED,
		      r->fd, IORING_OFF_SQES);
	if (at == MAP_FAILED || (void *)r->sqe == MAP_FAILED)
		die("ring");
	r->sq_tail = (uint32_t *)(at + p.sq_off.tail);
	r->sq_mask = (uint32_t *)(at + p.sq_off.ring_mask);
	r->sq_array = (uint32_t *)(at + p.sq_off.array);
	r->cq_head = (uint32_t *)(at + p.cq_off.head);
	r->cq_tail = (uint32_t *)(at + p.cq_off.tail);
	r->cq_mask = (uint32_t *)(at + p.cq_off.ring_mask);
	r->cqe = (struct io_uring_cqe *)(at + p.cq_off.cqes);
}

static void ring_read(struct ring *r, int fd, char *buf, long long off)
{
	uint32_t tail = *r->sq_tail, i = tail & *r->sq_mask;
	memset(&r->sqe[i], 0, sizeof(r->sqe[i]));
	r->sqe[i].opcode = IORING_OP_READ;
	r->sqe[i].fd = fd;
	r->sqe[i].addr = (uintptr_t)buf;
	r->sqe[i].len = BLOCK;
	r->sqe[i].off = (uint64_t)off;
	r->sq_array[i] = i;
	__atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, r->fd, 1, 0, 0, NULL, 0) < 0)
		die("io_uring_enter");
}

int uring_read(char **arg)
{
	struct ring r;
	int fd = open_it(arg[0], O_RDONLY);
	unsigned depth = (unsigned)atoi(arg[1]), busy = 0;
	long long size = size_of(fd), asked = 0, total = 0;
	char *buf = aligned_alloc(4096, BLOCK); /* nobody looks at the data */
	ring_open(&r, depth);
	began = now_s();
	while (asked < size || busy) {
		if (asked < size && busy < depth) {
			ring_read(&r, fd, buf, asked);
			asked += BLOCK;
			busy++;
			continue;
		}
		if (syscall(SYS_io_uring_enter, r.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0 &&
		    errno != EINTR)
			die("io_uring_enter");
		while (*r.cq_head != __atomic_load_n(r.cq_tail, __ATOMIC_ACQUIRE)) {
			int res = r.cqe[*r.cq_head & *r.cq_mask].res;
			if (res < 0) {
				errno = -res;
				die("uring read");
			}
			total += res;
			busy--;
			__atomic_store_n(r.cq_head, *r.cq_head + 1, __ATOMIC_RELEASE);
		}
	}
	return report(total);
}

/* --- signals -------------------------------------------------------------------------------- */

static void on_signal(int sig)
{
}

int storm(char **arg)
{
	struct sigaction sa = {.sa_handler = on_signal};
	double end = now_s() + atof(arg[1]);
	char buf[4096];
	unsigned long failed = 0;
	sigaction(SIGUSR1, &sa, NULL);
	pid_t victim = getpid(), pid = fork();
	if (pid == 0) {
		while (kill(victim, SIGUSR1) == 0)
			usleep(200);
		_exit(0);
	}
	int fd = open_it(arg[0], O_RDONLY);
	while (now_s() < end)
		failed += pread(fd, buf, sizeof(buf), 0) < 0;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("%lu\n", failed);
	return 0;
}
