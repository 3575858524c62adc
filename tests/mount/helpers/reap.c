/* SPDX-License-Identifier: MIT */
/* How long a killed process takes to be gone while it waits in an operation.
 *
 *	reap OP PATH [N]	OP: read aio mmap write open stat mkdir readdir fsync rename getxattr
 *
 * Starts N (default 10) children that do OP on PATH again and again, waits until each is inside
 * one (no progress for a while), kills it with SIGKILL and prints the longest time in ms until
 * waitpid had it.  Exit 1: a child was never held up, so that nothing was measured. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void pause_ms(long ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	nanosleep(&ts, NULL);
}

/* The kernel does not let go of a process before its asynchronous reads are answered. */
static void aio_read(int fd, char *buf)
{
	static aio_context_t context;
	struct iocb cb = {.aio_lio_opcode = IOCB_CMD_PREAD,
			  .aio_fildes = (uint32_t)fd,
			  .aio_buf = (uintptr_t)buf,
			  .aio_nbytes = 65536};
	struct iocb *list[] = {&cb};
	struct io_event done;
	if ((!context && syscall(SYS_io_setup, 1, &context) < 0) ||
	    syscall(SYS_io_submit, context, 1, list) != 1 ||
	    syscall(SYS_io_getevents, context, 1, 1, &done, NULL) != 1)
		_exit(1);
}

static void do_once(const char *op, const char *path, const char *other, int fd, char *buf,
		    char *map, unsigned i)
{
	struct stat st;
	if (!strcmp(op, "read"))
		(void)!pread(fd, buf, 65536, 0);
	else if (!strcmp(op, "aio"))
		aio_read(fd, buf);
	else if (!strcmp(op, "mmap"))
		buf[0] = ((volatile char *)map)[(size_t)i * 131072 % (16 << 20)];
	else if (!strcmp(op, "write"))
		(void)!pwrite(fd, buf, 65536, 0);
	else if (!strcmp(op, "open"))
		close(open(path, O_RDONLY));
	else if (!strcmp(op, "stat"))
		stat(other, &st);
	else if (!strcmp(op, "mkdir")) {
		mkdir(other, 0755);
		rmdir(other);
	} else if (!strcmp(op, "readdir")) {
		DIR *d = opendir(path);
		while (d && readdir(d))
			;
		if (d)
			closedir(d);
	} else if (!strcmp(op, "fsync"))
		fsync(fd);
	else if (!strcmp(op, "rename")) {
		rename(path, other);
		rename(other, path);
	} else if (!strcmp(op, "getxattr"))
		getxattr(path, "user.x", buf, 100);
	else {
		fprintf(stderr, "reap: unknown operation '%s'\n", op);
		exit(2);
	}
}

static void child(const char *op, const char *path, unsigned n, _Atomic unsigned *count)
{
	char other[4096];
	snprintf(other, sizeof(other), "%s.other%u", path, n);
	int fd = open(path, O_RDWR | (strcmp(op, "aio") ? 0 : O_DIRECT));
	if (fd < 0)
		fd = open(path, O_RDONLY);
	char *buf = aligned_alloc(4096, 65536), *map = NULL;
	if (!strcmp(op, "mmap"))
		map = mmap(NULL, 16 << 20, PROT_READ, MAP_PRIVATE, fd, 0);
	for (unsigned i = 0;; i++) {
		do_once(op, path, other, fd, buf, map, i);
		atomic_fetch_add(count, 1);
	}
}

/* Waits until the child makes no progress for 150 ms; false: it always did. */
static int held_up(_Atomic unsigned *count)
{
	for (int i = 0; i < 100; i++) {
		unsigned before = atomic_load(count);
		pause_ms(150);
		if (before && atomic_load(count) == before)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	unsigned n = argc > 3 ? (unsigned)atoi(argv[3]) : 10;
	double worst = 0;
	for (unsigned i = 0; i < n; i++) {
		_Atomic unsigned *count =
			mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		pid_t pid = fork();
		if (pid == 0)
			child(argv[1], argv[2], i, count);
		if (!held_up(count)) {
			fprintf(stderr, "reap: %s was never held up (%u done)\n", argv[1], *count);
			kill(pid, SIGKILL);
			return 1;
		}
		double t0 = now_ms();
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		double took = now_ms() - t0;
		if (took > worst)
			worst = took;
		munmap((void *)count, 4096);
	}
	printf("%.1f\n", worst);
	return 0;
}
