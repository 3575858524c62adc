/* SPDX-License-Identifier: MIT */
/* Many names, timed: prints the seconds that it took.
 *
 *	names create|stat|unlink DIR N [CLIENTS]	DIR/f000000 …, in an order that is not that of the directory, divided
 *						among so many processes.  With CLIENTS, also prints for how many
 *						microseconds the slowest 1 % of them took, at least
 *	names tree DIR N			N files below DIR, 100 to a directory (DIR/d…/f…)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t *took_ns; /* of each name; shared by all processes */

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static int make(const char *path)
{
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : close(fd);
}

static int look(const char *path)
{
	struct stat st;
	return stat(path, &st);
}

static int make_in_tree(const char *dir, unsigned i)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/d%04u", dir, i / 100);
	if (i % 100 == 0 && mkdir(path, 0755) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/d%04u/f%06u", dir, i / 100, i);
	return make(path);
}

static int one(const char *what, const char *dir, unsigned i, unsigned n)
{
	char path[4096];
	if (strcmp(what, "tree") == 0)
		return make_in_tree(dir, i);
	/* A stride that has no common divisor with a round number visits each once. */
	snprintf(path, sizeof(path), "%s/f%06u", dir, (unsigned)((unsigned long long)i * 7919 % n));
	if (strcmp(what, "create") == 0)
		return make(path);
	if (strcmp(what, "stat") == 0)
		return look(path);
	if (strcmp(what, "unlink") == 0)
		return unlink(path);
	errno = EINVAL;
	return -1;
}

/* Every `step`-th name, from `i` on. */
static int some(char **argv, unsigned i, unsigned n, unsigned step)
{
	for (; i < n; i += step) {
		uint64_t t0 = now_ns();
		if (one(argv[1], argv[2], i, n) < 0) {
			fprintf(stderr, "names: %s in %s: %s\n", argv[1], argv[2], strerror(errno));
			return 1;
		}
		took_ns[i] = now_ns() - t0;
	}
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int clients = argc == 5 ? atoi(argv[4]) : 1;
	if (argc < 4 || argc > 5 || atoi(argv[3]) <= 0 || clients <= 0) {
		fprintf(stderr, "usage: names create|stat|unlink|tree DIR N [CLIENTS]\n");
		return 2;
	}
	unsigned n = (unsigned)atoi(argv[3]);
	if (strcmp(argv[1], "tree") == 0)
		mkdir(argv[2], 0755);
	took_ns = mmap(NULL, n * sizeof(*took_ns), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (took_ns == MAP_FAILED) {
		perror("names");
		return 1;
	}
	uint64_t t0 = now_ns();
	for (int i = 1; i < clients; i++)
		if (fork() == 0)
			_exit(some(argv, (unsigned)i, n, (unsigned)clients));
	int status, failed = some(argv, 0, n, (unsigned)clients);
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		return 1;
	printf("%.6f", (double)(now_ns() - t0) / 1e9);
	qsort(took_ns, n, sizeof(*took_ns), by_value);
	if (argc == 5)
		printf(" %.3f", (double)took_ns[(uint64_t)n * 99 / 100] / 1e3);
	putchar('\n');
	return 0;
}
