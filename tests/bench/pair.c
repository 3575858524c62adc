/* SPDX-License-Identifier: MIT */
/* Two mounts of the same directory, compared in turns that are too short for anything else on the machine to
 * slow down only one of them.
 *
 *	pair read|write|fstat|stat|open SECONDS A B		A and B: the same file on each mount
 *
 * Runs blocks of four turns (A B B A, then B A A B, …) and prints a line for each block: ns per operation on A, and on B.
 * The first operations of a turn are not timed: they find the caches full of the other mount. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SIZE	  4096U
#define PLACES	  4096U /* of the file that are used: 16 MiB */
#define WARM	  64U
#define TURN_NS	  5000000U
#define TURNS_MIN 256U

enum op { OP_READ, OP_WRITE, OP_FSTAT, OP_STAT, OP_OPEN, OPS };
static const char *const names[OPS] = {"read", "write", "fstat", "stat", "open"};

struct side {
	const char *path;
	int fd;
	uint64_t ns;
};

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static int run(enum op op, const struct side *s, unsigned i)
{
	static char buf[SIZE] __attribute__((aligned(4096)));
	off_t at = (off_t)(i * 2654435761U % PLACES) * SIZE;
	struct stat st;
	int fd;
	switch (op) {
	case OP_READ:
		return pread(s->fd, buf, SIZE, at) == SIZE ? 0 : -1;
	case OP_WRITE:
		return pwrite(s->fd, buf, SIZE, at) == SIZE ? 0 : -1;
	case OP_FSTAT:
		return fstat(s->fd, &st);
	case OP_STAT:
		return stat(s->path, &st);
	default:
		fd = open(s->path, O_RDONLY | O_CLOEXEC);
		return fd < 0 ? -1 : close(fd);
	}
}

static void turn(enum op op, struct side *s, unsigned n)
{
	uint64_t start = 0;
	for (unsigned i = 0; i < WARM + n; i++) {
		if (i == WARM)
			start = now_ns();
		if (run(op, s, i) < 0) {
			perror(s->path);
			exit(1);
		}
	}
	s->ns += now_ns() - start;
}

/* How many operations make a turn. */
static unsigned measure(enum op op, struct side *s)
{
	turn(op, s, TURNS_MIN);
	s->ns = 0;
	turn(op, s, TURNS_MIN);
	uint64_t n = (uint64_t)TURN_NS * TURNS_MIN / (s->ns + 1);
	return n < TURNS_MIN ? TURNS_MIN : (unsigned)n;
}

int main(int argc, char **argv)
{
	enum op op = 0;
	while (argc == 5 && op < OPS && strcmp(argv[1], names[op]) != 0)
		op++;
	if (argc != 5 || op == OPS) {
		fprintf(stderr, "usage: pair read|write|fstat|stat|open SECONDS A B\n");
		return 2;
	}
	struct side side[2] = {{.path = argv[3]}, {.path = argv[4]}};
	for (unsigned i = 0; i < 2; i++) {
		side[i].fd = open(side[i].path, O_RDWR | O_CLOEXEC);
		if (side[i].fd < 0) {
			perror(side[i].path);
			return 1;
		}
		measure(op, &side[i]);
	}
	unsigned n = measure(op, &side[0]);
	uint64_t end_ns = now_ns() + (uint64_t)(atof(argv[2]) * 1e9);
	for (unsigned first = 0; now_ns() < end_ns; first ^= 1) {
		side[0].ns = side[1].ns = 0;
		turn(op, &side[first], n);
		turn(op, &side[!first], n);
		turn(op, &side[!first], n);
		turn(op, &side[first], n);
		printf("%.1f %.1f\n", (double)side[0].ns / (2 * n), (double)side[1].ns / (2 * n));
	}
	return 0;
}
