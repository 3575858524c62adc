/* SPDX-License-Identifier: MIT */
/* How long does a killed process stay when it waits in a read?
 *
 *	parkkill FILE N		N times: fork, read 4 KiB of FILE, SIGKILL once it sleeps, wait for it
 *
 * FILE must be on a mount whose read budget is spent, so that the read does wait.  Prints
 * {"n","p50_ms","p99_ms","max_ms"}; exit 1 when a read was answered instead. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void reader(int fd)
{
	char buf[4096];
	_exit(pread(fd, buf, sizeof(buf), 0) == sizeof(buf) ? 0 : 1);
}

/* In the read and asleep: state S or D in /proc. */
static void wait_asleep(pid_t pid)
{
	char path[64], state;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (;;) {
		FILE *f = fopen(path, "r");
		int got = f ? fscanf(f, "%*d %*s %c", &state) : 0;
		if (f)
			fclose(f);
		if (got != 1 || strchr("SDZ", state))
			break;
		usleep(200);
	}
	usleep(5000); /* past the receive thread and into the queue */
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int n = argc == 3 ? atoi(argv[2]) : 0;
	int fd = n > 0 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	double *took = calloc(n > 0 ? (size_t)n : 1, sizeof(*took));
	if (fd < 0 || !took) {
		fprintf(stderr, "usage: parkkill FILE N\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		int status;
		pid_t pid = fork();
		if (pid < 0)
			return 2;
		if (pid == 0)
			reader(fd);
		wait_asleep(pid);
		double t0 = now_ms();
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		took[i] = now_ms() - t0;
		if (!WIFSIGNALED(status)) {
			fprintf(stderr, "parkkill: the read did not wait\n");
			return 1;
		}
	}
	qsort(took, (size_t)n, sizeof(*took), by_size);
	printf("{\"n\":%d,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f}\n", n, took[n / 2],
	       took[n * 99 / 100], took[n - 1]);
	return 0;
}
