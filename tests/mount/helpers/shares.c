/* SPDX-License-Identifier: MIT */
/* Callers that compete for a share, each for some seconds; prints what it got.
 *
 *	shares fill DIR N			makes N files with long names
 *	shares list DIR SIZE THREADS SECONDS	getdents with a buffer of SIZE, again and again: "bytes"
 *	shares read FILE SIZE SECONDS		reads: "bytes worst-ms"
 *	shares times FILE SIZE STOP THREADS	reads until a file called STOP exists; one line for each read: when it ended
 *						(seconds since 1970), bytes.  First lines are printed immediately.
 *	shares close FILE SECONDS		dup and close: "closes"
 *	shares pause FILE SECONDS		asks for attributes, pauses 20 ms: "operations mean-ms worst-ms"
 *	shares spin FILE SIZE SECONDS		O_NONBLOCK reads without a pause: "bytes"
 *	shares poll FILE SIZE SECONDS		O_NONBLOCK reads, poll when there is nothing: "bytes"
 *	shares getxattr FILE NAME SECONDS	"bytes"
 *	shares setxattr FILE NAME SIZE SECONDS	"bytes" */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static double end_ms;
static _Atomic long long moved;
static const char *path;
static size_t size;

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int more(void)
{
	return now_ms() < end_ms;
}

static void need(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(2);
}

static int open_path(int flags)
{
	int fd = open(path, flags);
	need(fd >= 0, path);
	return fd;
}

static void fill(unsigned n)
{
	char name[250];
	int dir = open_path(O_RDONLY | O_DIRECTORY);
	memset(name, 'x', sizeof(name));
	for (unsigned i = 0; i < n; i++) {
		snprintf(name + 200, sizeof(name) - 200, "%u", i);
		int fd = openat(dir, name, O_CREAT | O_WRONLY, 0644);
		need(fd >= 0, name);
		close(fd);
	}
	close(dir);
}

static void *list(void *arg)
{
	char *buf = malloc(size);
	int fd = open_path(O_RDONLY | O_DIRECTORY);
	need(buf != NULL, "malloc");
	while (more()) {
		long n = syscall(SYS_getdents64, fd, buf, size);
		need(n >= 0, "getdents64");
		if (n == 0)
			lseek(fd, 0, SEEK_SET);
		moved += n;
	}
	close(fd);
	free(buf);
	return arg;
}

static void list_all(unsigned threads)
{
	pthread_t t[1024];
	need(threads <= 1024, "threads");
	for (unsigned i = 0; i < threads; i++)
		need(pthread_create(&t[i], NULL, list, NULL) == 0, "pthread_create");
	/* those that wait for their turn need not end */
	while (more())
		usleep(1000);
	printf("%lld\n", (long long)moved);
	fflush(stdout);
	_exit(0);
}

static void read_all(void)
{
	char *buf = malloc(size);
	int fd = open_path(O_RDONLY);
	double worst = 0;
	need(buf != NULL, "malloc");
	while (more()) {
		double t0 = now_ms();
		ssize_t n = pread(fd, buf, size, 0);
		need(n >= 0, "pread");
		moved += n;
		if (now_ms() - t0 > worst)
			worst = now_ms() - t0;
	}
	printf("%lld %.0f\n", (long long)moved, worst);
}

static double epoch_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void *read_times(void *arg)
{
	char *buf = malloc(size);
	ssize_t n;
	need(buf != NULL, "malloc");
	for (int first = 1; (n = pread(*(int *)arg, buf, size, 0)) >= 0; first = 0) {
		printf("%.4f %zd\n", epoch_s(), n);
		if (first)
			fflush(stdout);
	}
	need(0, "pread");
	return arg;
}

static void read_until(const char *stop, unsigned threads)
{
	pthread_t t;
	int fd = open_path(O_RDONLY);
	while (threads--)
		need(pthread_create(&t, NULL, read_times, &fd) == 0, "pthread_create");
	while (access(stop, F_OK) < 0)
		usleep(10000);
	fflush(stdout);
	_exit(0); /* those that wait for their turn need not end */
}

static void close_all(void)
{
	int fd = open_path(O_WRONLY); /* the kernel tells us of no other closes */
	while (more()) {
		close(dup(fd));
		moved++;
	}
	printf("%lld\n", (long long)moved);
}

static void pause_all(void)
{
	int fd = open_path(O_RDONLY), n = 0;
	double worst = 0, sum = 0;
	while (more()) {
		struct statx st;
		double t0 = now_ms();
		need(statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &st) == 0,
		     "statx");
		double took = now_ms() - t0;
		sum += took;
		worst = took > worst ? took : worst;
		n++;
		usleep(20000);
	}
	printf("%d %.1f %.1f\n", n, sum / n, worst);
}

static void nonblocking(int polls)
{
	char *buf = malloc(size);
	int fd = open_path(O_RDONLY | O_NONBLOCK);
	need(buf != NULL, "malloc");
	while (more()) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n = pread(fd, buf, size, 0);
		need(n >= 0 || errno == EAGAIN, "pread");
		moved += n > 0 ? n : 0;
		if (n < 0 && polls)
			poll(&p, 1, 1000);
	}
	printf("%lld\n", (long long)moved);
}

static void getxattr_all(const char *name)
{
	char *buf = malloc(65536);
	need(buf != NULL, "malloc");
	while (more()) {
		ssize_t n = getxattr(path, name, buf, 65536);
		need(n >= 0, "getxattr");
		moved += n;
	}
	printf("%lld\n", (long long)moved);
}

static void setxattr_all(const char *name)
{
	char *buf = calloc(1, size);
	need(buf != NULL, "malloc");
	while (more()) {
		need(setxattr(path, name, buf, size, 0) == 0, "setxattr");
		moved += (long long)size;
	}
	printf("%lld\n", (long long)moved);
}

int main(int argc, char **argv)
{
	need(argc >= 4, "usage");
	const char *what = argv[1];
	path = argv[2];
	end_ms = now_ms() + atof(argv[argc - 1]) * 1e3;
	size = (size_t)atol(argv[argc > 5 && !strcmp(what, "setxattr") ? 4 : 3]);
	if (!strcmp(what, "fill"))
		fill((unsigned)atoi(argv[3]));
	else if (!strcmp(what, "list") && argc == 6)
		list_all((unsigned)atoi(argv[4]));
	else if (!strcmp(what, "read"))
		read_all();
	else if (!strcmp(what, "times") && argc == 6)
		read_until(argv[4], (unsigned)atoi(argv[5]));
	else if (!strcmp(what, "close"))
		close_all();
	else if (!strcmp(what, "pause"))
		pause_all();
	else if (!strcmp(what, "spin") || !strcmp(what, "poll"))
		nonblocking(*what == 'p');
	else if (!strcmp(what, "getxattr"))
		getxattr_all(argv[3]);
	else if (!strcmp(what, "setxattr") && argc == 6)
		setxattr_all(argv[3]);
	else
		return 2;
	return 0;
}
