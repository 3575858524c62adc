/* SPDX-License-Identifier: MIT */
/* O_NONBLOCK as a program sees it; each case is a subcommand that prints what happened in a word or
 * number for the shell to compare.
 *
 *	nonblock read FILE SIZE [N]	N reads (default 1): "bytes" or the errno's name, one a line
 *	nonblock write FILE SIZE [N]
 *	nonblock toggle FILE SIZE	flag set by fcntl: EAGAIN; cleared: waits and gets the bytes
 *	nonblock wait METHOD FILE SIZE	METHOD poll|select|epoll|epollet: drains the budget, waits with
 *					METHOD, then reads: prints ms waited and bytes read
 *	nonblock edge FILE SIZE N	N times: epoll_wait(EPOLLET), then reads until EAGAIN: prints
 *					how often it was woken
 *	nonblock direct FILE SIZE N	with O_DIRECT, N reads and writes each that move something, poll
 *					between them: prints how many it were
 *	nonblock mmap FILE		touches pages through an O_NONBLOCK handle: no SIGBUS
 *	nonblock dir DIR		opendir(O_NONBLOCK) and list: number of names */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void fatal(const char *what)
{
	perror(what);
	exit(2);
}

static void report(ssize_t n)
{
	if (n < 0)
		printf("%s\n", errno == EAGAIN ? "EAGAIN" : strerror(errno));
	else
		printf("%zd\n", n);
}

static int transfers(int writing, const char *path, size_t size, int n)
{
	int fd = open(path, (writing ? O_WRONLY : O_RDONLY) | O_NONBLOCK);
	if (fd < 0)
		fatal(path);
	char *buf = calloc(1, size);
	for (int i = 0; i < n; i++)
		report(writing ? pwrite(fd, buf, size, 0) : pread(fd, buf, size, 0));
	return 0;
}

static int drain(int fd, char *buf, size_t size)
{
	for (int i = 0; i < 1000000; i++)
		if (pread(fd, buf, size, 0) < 0)
			return errno == EAGAIN;
	return 0;
}

static int toggle(const char *path, size_t size)
{
	int fd = open(path, O_RDONLY);
	char *buf = malloc(size);
	if (fd < 0 || !buf)
		fatal(path);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	printf("%s\n", drain(fd, buf, size) ? "EAGAIN" : "never EAGAIN");
	fcntl(fd, F_SETFL, 0);
	report(pread(fd, buf, size, 0));
	return 0;
}

static int wait_ready(const char *how, int fd)
{
	if (!strcmp(how, "poll")) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		return poll(&p, 1, 10000);
	}
	if (!strcmp(how, "select")) {
		fd_set set;
		FD_ZERO(&set);
		FD_SET(fd, &set);
		struct timeval tv = {.tv_sec = 10};
		return select(fd + 1, &set, NULL, NULL, &tv);
	}
	struct epoll_event ev = {.events = EPOLLIN |
					   (strcmp(how, "epollet") ? 0 : (unsigned)EPOLLET)};
	int ep = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		fatal("epoll_ctl");
	return epoll_wait(ep, &ev, 1, 10000);
}

static int waits(const char *how, const char *path, size_t size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	char *buf = malloc(size);
	if (fd < 0 || !buf)
		fatal(path);
	if (!drain(fd, buf, size))
		return 1;
	double t0 = now_ms();
	int rc = wait_ready(how, fd);
	double took = now_ms() - t0;
	ssize_t n = pread(fd, buf, size, 0);
	printf("%d %.0f ", rc, took);
	report(n);
	return 0;
}

static int edges(const char *path, size_t size, int n)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK), ep = epoll_create1(EPOLL_CLOEXEC), woken = 0;
	char *buf = malloc(size);
	struct epoll_event ev = {.events = EPOLLIN | (unsigned)EPOLLET};
	if (fd < 0 || ep < 0 || !buf || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		fatal(path);
	while (woken < n && epoll_wait(ep, &ev, 1, 5000) == 1 && drain(fd, buf, size))
		woken++;
	printf("%d\n", woken);
	return 0;
}

static int direct_once(int fd, char *buf, size_t size, int writing)
{
	struct pollfd p = {.fd = fd, .events = writing ? POLLOUT : POLLIN};
	ssize_t n;
	while ((n = writing ? pwrite(fd, buf, size, 0) : pread(fd, buf, size, 0)) < 0) {
		if (errno != EAGAIN || poll(&p, 1, 10000) != 1) {
			perror(writing ? "pwrite" : "pread");
			return 0;
		}
	}
	return n > 0;
}

static int direct(const char *path, size_t size, int n)
{
	int fd = open(path, O_RDWR | O_DIRECT | O_NONBLOCK), done = 0;
	char *buf = aligned_alloc(4096, size);
	if (fd < 0 || !buf)
		fatal(path);
	memset(buf, 0, size);
	while (done < n && direct_once(fd, buf, size, 0) && direct_once(fd, buf, size, 1))
		done++;
	printf("%d\n", done);
	return 0;
}

static int faults(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		fatal(path);
	volatile char *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		fatal("mmap");
	unsigned sum = 0;
	for (off_t i = 0; i < st.st_size; i += 4096)
		sum += (unsigned char)map[i];
	printf("read by mmap\n");
	return sum == 0xffffffff;
}

static int names(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK), n = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		fatal(path);
	errno = 0;
	while (readdir(d))
		n++;
	if (errno)
		fatal("readdir");
	printf("%d\n", n);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *cmd = argv[1];
	if (!strcmp(cmd, "read") || !strcmp(cmd, "write"))
		return transfers(cmd[0] == 'w', argv[2], strtoul(argv[3], NULL, 0),
				 argc > 4 ? atoi(argv[4]) : 1);
	if (!strcmp(cmd, "toggle"))
		return toggle(argv[2], strtoul(argv[3], NULL, 0));
	if (!strcmp(cmd, "wait"))
		return waits(argv[2], argv[3], strtoul(argv[4], NULL, 0));
	if (!strcmp(cmd, "edge"))
		return edges(argv[2], strtoul(argv[3], NULL, 0), atoi(argv[4]));
	if (!strcmp(cmd, "direct"))
		return direct(argv[2], strtoul(argv[3], NULL, 0), atoi(argv[4]));
	if (!strcmp(cmd, "mmap"))
		return faults(argv[2]);
	if (!strcmp(cmd, "dir"))
		return names(argv[2]);
	return 2;
}
