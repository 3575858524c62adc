/* SPDX-License-Identifier: MIT */
/* Reads from FILE once, after a line of standard input, and handles SIGUSR1 without SA_RESTART.
 *
 *	oneread FILE [direct] [other]	prints "open", and after the read "read" or "error ERRNO"
 *
 *	direct	with O_DIRECT
 *	other	another thread takes the signal from the thread that reads, although it was sent to wake that one */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_signal(int sig)
{
	(void)sig;
}

/* The kernel wakes a thread that does not block the signal, but whoever asks first gets it. */
static void *take_signals(void *set)
{
	const struct timespec often = {.tv_nsec = 1000000};
	for (;;)
		if (sigtimedwait(set, NULL, &often) > 0)
			puts("taken");
	return NULL;
}

static void start_other(void)
{
	static sigset_t set;
	pthread_t t;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* which the thread inherits */
	if (pthread_create(&t, NULL, take_signals, &set) != 0)
		exit(2);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
	static char data[1 << 16] __attribute__((aligned(4096)));
	const struct sigaction sa = {.sa_handler = on_signal};
	char line[16];
	int flags = O_RDONLY, other = 0;
	for (int i = 2; i < argc; i++) {
		flags |= strcmp(argv[i], "direct") == 0 ? O_DIRECT : 0;
		other |= strcmp(argv[i], "other") == 0;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGUSR1, &sa, NULL);
	int fd = argc > 1 ? open(argv[1], flags) : -1;
	if (fd < 0) {
		perror("oneread");
		return 2;
	}
	if (other)
		start_other();
	puts("open");
	if (!fgets(line, sizeof(line), stdin))
		return 2;
	if (read(fd, data, sizeof(data)) >= 0)
		puts("read");
	else
		printf("error %d\n", errno);
	return 0;
}
