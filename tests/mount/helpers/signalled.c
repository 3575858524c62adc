/* SPDX-License-Identifier: MIT */
/* A program with a timer signal, as git has one: does stat, open, read, mkdir, rename on DIR for a
 * while with a handler for SIGALRM every 5 ms and no SA_RESTART.
 *
 *	signalled DIR ROUNDS	prints "N signals, N interrupted, N failed" */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t signals;
static int interrupted, failed;

static void on_alarm(int sig)
{
	(void)sig;
	signals++;
}

static void check(int rc)
{
	if (rc >= 0)
		return;
	if (errno == EINTR)
		interrupted++;
	else
		failed++;
}

int main(int argc, char **argv)
{
	if (argc < 3 || chdir(argv[1]) < 0)
		return 2;
	struct sigaction sa = {.sa_handler = on_alarm};
	struct itimerval every = {{0, 5000}, {0, 5000}};
	struct stat st;
	char buf[4096];
	check(open("timer-file", O_CREAT | O_WRONLY, 0644));
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; i < atoi(argv[2]); i++) {
		check(stat(".", &st));
		int fd = open("timer-file", O_RDONLY);
		check(fd);
		if (fd >= 0) {
			check((int)read(fd, buf, sizeof(buf)));
			check(close(fd));
		}
		check(mkdir("timer-dir", 0755));
		check(rename("timer-dir", "timer-dir2"));
		check(rmdir("timer-dir2"));
	}
	printf("%d signals, %d interrupted, %d failed\n", (int)signals, interrupted, failed);
	return 0;
}
