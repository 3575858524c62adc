/* SPDX-License-Identifier: MIT */
/* Many callers that wait and have caught a signal, and how long a killed one takes beside them.
 *
 *	flood hold FILE N	N threads read FILE for ever.  On a line of standard input each gets a
 *				signal that it handles; then prints "signalled" and goes on.
 *	flood fstat FILE N	the same, but they ask for its attributes.
 *	flood try FILE N	the same, but threads that get an error end, and "N errors" is printed for them all
 *				on that line of standard input.
 *	flood kill FILE N	N times: a child reads FILE and waits in it, handles a signal, and is killed
 *				100 ms later.  Takes the time until it is gone, less the time that a child took
 *				which only slept and was killed just before it.  Prints in ms what four of five
 *				were within, the longest, and the longest of those that only slept.
 *
 * FILE must be on a mount where a read waits for seconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void nap_ms(long ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	nanosleep(&ts, NULL);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void handle_signal(void)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &sa, NULL);
}

static int file, errors_are_counted, asks_attributes;
static _Atomic int errors;

static void *read_for_ever(void *arg)
{
	char c;
	struct stat st;
	while (asks_attributes ? fstat(file, &st) == 0 : pread(file, &c, 1, 0) >= 0)
		;
	if (errors_are_counted) {
		errors++;
		return arg;
	}
	perror("flood: read");
	_exit(1);
	return arg;
}

static int hold(int n)
{
	pthread_t *t = calloc((size_t)n, sizeof(*t));
	pthread_attr_t small;
	char line[16];
	handle_signal();
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (int i = 0; i < n; i++)
		if (pthread_create(&t[i], &small, read_for_ever, NULL) != 0) {
			fprintf(stderr, "flood: only %d threads could be started\n", i);
			return 1;
		}
	puts("started");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (errors_are_counted) {
		printf("%d errors\n", errors);
		return 0;
	}
	for (int i = 0; i < n; i++)
		pthread_kill(t[i], SIGUSR1);
	puts("signalled");
	fflush(stdout);
	for (;;)
		pause();
}

static double kill_and_wait(pid_t pid)
{
	double t0 = now_ms();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return now_ms() - t0;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int measure(int n)
{
	double *took = calloc((size_t)n, sizeof(*took)), noise = 0;
	if (!took)
		return 1;
	for (int i = 0; i < n; i++) {
		pid_t sleeper = fork();
		if (sleeper == 0)
			for (;;)
				pause();
		pid_t reader = fork();
		if (reader == 0) {
			handle_signal();
			read_for_ever(NULL);
		}
		nap_ms(200);
		kill(reader, SIGUSR1);
		nap_ms(100);
		double plain = kill_and_wait(sleeper);
		took[i] = kill_and_wait(reader) - plain;
		noise = plain > noise ? plain : noise;
	}
	qsort(took, (size_t)n, sizeof(*took), by_size);
	printf("%.1f %.1f %.1f\n", took[(n * 4 - 1) / 5], took[n - 1], noise);
	free(took);
	return 0;
}

int main(int argc, char **argv)
{
	int n = argc == 4 ? atoi(argv[3]) : 0;
	file = n > 0 ? open(argv[2], O_RDONLY) : -1;
	if (file < 0) {
		fprintf(stderr, "usage: flood hold|fstat|try|kill FILE N\n");
		return 2;
	}
	errors_are_counted = strcmp(argv[1], "try") == 0;
	asks_attributes = strcmp(argv[1], "fstat") == 0;
	return strcmp(argv[1], "kill") == 0 ? measure(n) : hold(n);
}
