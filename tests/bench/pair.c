/* SPDX-License-Identifier: MIT */
/* Two mounts of the same directory, compared in turns that are too short for anything else on the machine to
 * slow down only one of them.
 *
 *	pair read|write|fstat|stat|open|create SECONDS A B [CLIENTS]	A and B: the same file on each mount
 *
 * `create` creates, closes and removes another file beside it.
 *
 * Runs blocks of four turns (A B B A, then B A A B, …) and prints a line for each block: ns per operation on A, and on B.
 * The first operations of a turn are not timed: they find the caches full of the other mount.  With several clients,
 * each is a thread that makes the same number of operations, and a turn ends with the last of them. */
#include <fcntl.h>
#include <pthread.h>
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

enum op { OP_READ, OP_WRITE, OP_FSTAT, OP_STAT, OP_OPEN, OP_CREATE, OPS };
static const char *const names[OPS] = {"read", "write", "fstat", "stat", "open", "create"};

struct side {
	const char *path;
	int fd; /* of operations on an open file; others must find it closed, because that saves round trips */
	uint64_t ns;
};

/* The turn that all clients are in; written between turns only. */
static struct {
	enum op op;
	const struct side *side;
	unsigned n;
	pthread_barrier_t begin, warm, end;
} now;

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* Creates and removes a file; each client has a name of its own, one that floor.c knows. */
static int create(const char *beside)
{
	static _Atomic unsigned clients;
	static _Thread_local unsigned self;
	char path[4096];
	self = self ? self : ++clients;
	snprintf(path, sizeof(path), "%.*sf%06u", (int)(strrchr(beside, '/') + 1 - beside), beside,
		 self);
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	return fd < 0 || close(fd) < 0 ? -1 : unlink(path);
}

static int run(enum op op, const struct side *s, unsigned i)
{
	static _Thread_local char buf[SIZE] __attribute__((aligned(4096)));
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
	case OP_CREATE:
		return create(s->path);
	default:
		fd = open(s->path, O_RDONLY | O_CLOEXEC);
		return fd < 0 ? -1 : close(fd);
	}
}

static void operate(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		if (run(now.op, now.side, i) < 0) {
			perror(now.side->path);
			exit(1);
		}
	}
}

static void *client(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_barrier_wait(&now.begin);
		operate(0, WARM);
		pthread_barrier_wait(&now.warm);
		operate(WARM, WARM + now.n);
		pthread_barrier_wait(&now.end);
	}
	return NULL;
}

/* The first client is the caller; the others wait in client(). */
static void turn(enum op op, struct side *s, unsigned n)
{
	now.op = op;
	now.side = s;
	now.n = n;
	pthread_barrier_wait(&now.begin);
	operate(0, WARM);
	pthread_barrier_wait(&now.warm);
	uint64_t start = now_ns();
	operate(WARM, WARM + n);
	pthread_barrier_wait(&now.end);
	s->ns += now_ns() - start;
}

static void start_clients(unsigned clients)
{
	pthread_barrier_init(&now.begin, NULL, clients);
	pthread_barrier_init(&now.warm, NULL, clients);
	pthread_barrier_init(&now.end, NULL, clients);
	for (unsigned i = 1; i < clients; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, client, NULL) != 0) {
			fprintf(stderr, "pair: cannot start %u threads\n", clients);
			exit(1);
		}
		pthread_detach(thread);
	}
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
	unsigned clients = argc == 6 ? (unsigned)strtoul(argv[5], NULL, 10) : 1;
	while ((argc == 5 || argc == 6) && op < OPS && strcmp(argv[1], names[op]) != 0)
		op++;
	if ((argc != 5 && argc != 6) || op == OPS || clients == 0) {
		fprintf(stderr,
			"usage: pair read|write|fstat|stat|open|create SECONDS A B [CLIENTS]\n");
		return 2;
	}
	start_clients(clients);
	struct side side[2] = {{.path = argv[3]}, {.path = argv[4]}};
	for (unsigned i = 0; i < 2; i++) {
		side[i].fd = op < OP_STAT ? open(side[i].path, O_RDWR | O_CLOEXEC) : -1;
		if (op < OP_STAT && side[i].fd < 0) {
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
