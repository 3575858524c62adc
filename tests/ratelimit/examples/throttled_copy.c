/* SPDX-License-Identifier: MIT */
/* Copies a file at no more than a given rate, in an epoll loop that never sleeps in the limiter.
 *
 *	cc throttled_copy.c $(pkg-config --cflags --libs libratelimit) -o throttled_copy
 *	./throttled_copy FROM TO BYTES_PER_SECOND
 */
#include <errno.h>
#include <fcntl.h>
#include <ratelimit/ratelimit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PIECE 65536

/* Copies pieces until the limiter refuses.  1: refused, try again at the event; 0: end of file. */
static int copy_some(struct ratelimit_io *io, int from, int to)
{
	static char piece[PIECE];
	while (ratelimit_io_consume(io, 1, PIECE, ratelimit_now_ns(), NULL) == 0) {
		ssize_t n = read(from, piece, PIECE);
		if (n < 0 || write(to, piece, (size_t)n) != n) {
			perror("throttled_copy");
			exit(1);
		}
		ratelimit_io_refund_bytes(io, PIECE - (uint64_t)n); /* consumed, but not moved */
		if (n == 0)
			return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	char *rest = NULL;
	uint64_t rate = argc == 4 ? strtoull(argv[3], &rest, 10) : 0;
	if (!rate || *rest || *argv[3] == '-') {
		fprintf(stderr, "usage: throttled_copy FROM TO BYTES_PER_SECOND\n");
		return 2;
	}
	int from = open(argv[1], O_RDONLY | O_CLOEXEC);
	int to = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (from < 0 || to < 0) {
		perror("throttled_copy");
		return 1;
	}
	struct ratelimit_io_config config = {
		.bytes = {.size = PIECE, .refill_per_sec = rate},
	};
	struct ratelimit_io *io;
	int rc = ratelimit_io_new(&io, &config, ratelimit_now_ns());
	if (rc < 0) {
		fprintf(stderr, "throttled_copy: %s\n", strerror(-rc));
		return 1;
	}
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN};
	epoll_ctl(epoll, EPOLL_CTL_ADD, ratelimit_io_fd(io), &event);
	unsigned waits = 0;
	while (copy_some(io, from, to)) {
		/* Other descriptors of the program would be in the same epoll. */
		do
			waits += epoll_wait(epoll, &event, 1, -1) == 1;
		while (ratelimit_io_event(io) == -EAGAIN);
	}
	printf("waited %u times\n", waits);
	close(epoll);
	ratelimit_io_free(io);
	return close(to) < 0;
}
