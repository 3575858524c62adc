/* SPDX-License-Identifier: MIT */
/* A clock that can be set, for a server under test: LD_PRELOAD this, and gettimeofday (from which Redis and Valkey take
 * TIME) is off by the number of seconds in the file $CLOCKSHIFT.  The monotonic clock goes on as it is, as on a machine
 * whose administrator sets the clock.  libfaketime cannot be used: it calls malloc before that of the server is ready. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double shift_seconds(void)
{
	const char *path = getenv("CLOCKSHIFT");
	char text[32] = "";
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 ? strtod(text, NULL) : 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec t;
	(void)zone;
	if (syscall(SYS_clock_gettime, CLOCK_REALTIME, &t) < 0)
		return -1;
	long long us = t.tv_sec * 1000000LL + t.tv_nsec / 1000 + (long long)(shift_seconds() * 1e6);
	now->tv_sec = us / 1000000;
	now->tv_usec = us % 1000000;
	return 0;
}
