/* SPDX-License-Identifier: MIT */
/* Writes that are acknowledged must be there.
 *
 *	acked write PATH N	N threads, each writes 4 KiB into PATH.0, PATH.1, … and waits for the answer;
 *				prints the number of each file whose write was acknowledged
 *	acked check PATH	reads these numbers; exit 1 unless each file has all that was written */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4096

static const char *path;

static int open_one(unsigned i, int flags)
{
	char name[4200];
	snprintf(name, sizeof(name), "%s.%u", path, i);
	return open(name, flags | O_CLOEXEC, 0644);
}

static void fill(char *block, unsigned i)
{
	for (unsigned at = 0; at < SIZE; at += sizeof(i))
		memcpy(block + at, &i, sizeof(i));
}

struct writer {
	pthread_t thread;
	unsigned number;
	int fd, done;
};

static void *write_one(void *arg)
{
	struct writer *w = arg;
	char block[SIZE];
	fill(block, w->number);
	w->done = write(w->fd, block, SIZE) == SIZE;
	return NULL;
}

static int write_all(unsigned n)
{
	struct writer *all = calloc(n, sizeof(*all));
	/* All files first: once the mount is gone, PATH names a file in the directory below it. */
	for (unsigned i = 0; i < n; i++) {
		all[i].number = i;
		all[i].fd = open_one(i, O_CREAT | O_WRONLY);
		if (all[i].fd < 0) {
			perror("acked");
			return 2;
		}
	}
	for (unsigned i = 0; i < n; i++) {
		if (pthread_create(&all[i].thread, NULL, write_one, &all[i])) {
			perror("acked");
			return 2;
		}
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(all[i].thread, NULL);
		if (all[i].done)
			printf("%u\n", i);
	}
	free(all);
	return 0;
}

static int check_all(void)
{
	unsigned i, lost = 0, all = 0;
	for (; scanf("%u", &i) == 1; all++) {
		char wanted[SIZE], there[SIZE] = {0};
		int fd = open_one(i, O_RDONLY);
		fill(wanted, i);
		if (fd < 0 || read(fd, there, SIZE) != SIZE || memcmp(wanted, there, SIZE) != 0)
			lost++;
		close(fd);
	}
	if (lost)
		fprintf(stderr, "acked: %u of %u writes were acknowledged but not written\n", lost,
			all);
	return lost != 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	path = argv[2];
	if (strcmp(argv[1], "write") == 0 && argc > 3)
		return write_all((unsigned)atoi(argv[3]));
	return strcmp(argv[1], "check") == 0 ? check_all() : 2;
}
