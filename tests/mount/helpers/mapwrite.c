// SPDX-License-Identifier: MIT
/* write(2) and stores into a shared mapping of the same pages, concurrently: neither may be lost.
 *
 *	mapwrite late FILE OFFSET LENGTH STORE_AT
 *		A process writes LENGTH bytes at OFFSET, which is expected to wait; 0.3 s later another stores a
 *		byte at STORE_AT through its mapping.
 *	mapwrite slots FILE PAGES THREADS [processes]
 *		Each thread (or process) puts its number into its own slot of every page, from the first page to
 *		the last: the even ones by store, the odd ones by pwrite.
 *
 * Exit 0 when everything is in the file, seen by pread and by a new mapping. */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL

static void sleep_ms(long ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&ts, NULL);
}

static void *map(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		err(2, "mmap");
	return p;
}

static void must_write(int fd, const void *buf, size_t len, off_t off)
{
	ssize_t n = pwrite(fd, buf, len, off);
	if (n != (ssize_t)len)
		err(2, "pwrite: %zd", n);
}

static int wait_for(pid_t pid)
{
	int status;
	if (waitpid(pid, &status, 0) != pid)
		err(2, "waitpid");
	return status;
}

/* -- late -- */

static int late(const char *path, off_t off, size_t len, off_t store_at)
{
	int fd = open(path, O_RDWR);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		err(2, "%s", path);
	char *data = malloc(len), *seen = malloc(len);
	if (!data || !seen)
		err(2, "malloc");
	memset(data, 'W', len);
	volatile char *page = map(fd, (size_t)st.st_size);
	pid_t writer = fork();
	if (writer == 0) {
		must_write(fd, data, len, off);
		_exit(0);
	}
	sleep_ms(300);
	page[store_at] = 'S';
	int lost = wait_for(writer) != 0;
	if (msync((void *)page, (size_t)st.st_size, MS_SYNC) < 0)
		err(2, "msync");
	int second = open(path, O_RDONLY);
	char byte;
	if (pread(second, seen, len, off) != (ssize_t)len || pread(second, &byte, 1, store_at) != 1)
		err(2, "pread");
	/* Where both went to the same byte either may be the later one. */
	if (store_at >= off && store_at < off + (off_t)len)
		data[store_at - off] = seen[store_at - off];
	else if (byte != 'S')
		lost |= 2;
	if (memcmp(seen, data, len))
		lost |= 1;
	for (size_t i = 0; i < len; i++)
		if (page[off + (off_t)i] != seen[i])
			lost |= 4;
	if (lost)
		printf("lost:%s%s%s\n", lost & 1 ? " write" : "", lost & 2 ? " store" : "",
		       lost & 4 ? " sight" : "");
	return lost != 0;
}

/* -- slots -- */

struct job {
	int fd;
	unsigned char *map;
	size_t pages;
	unsigned number;
	pthread_barrier_t *start;
};

static void *work(void *arg)
{
	const struct job *j = arg;
	uint64_t value = 0x1111111100000000ULL + j->number + 1;
	for (size_t p = 0; p < j->pages; p++) {
		pthread_barrier_wait(j->start); /* all of them at the same page */
		size_t at = p * PAGE + j->number * sizeof(value);
		if (j->number % 2)
			must_write(j->fd, &value, sizeof(value), (off_t)at);
		else
			*(volatile uint64_t *)(j->map + at) = value;
	}
	return NULL;
}

static unsigned long missing(const unsigned char *p, size_t pages, unsigned n, const char *how)
{
	unsigned long lost[2] = {0, 0};
	for (size_t i = 0; i < pages; i++)
		for (unsigned t = 0; t < n; t++) {
			uint64_t v;
			memcpy(&v, p + i * PAGE + t * sizeof(v), sizeof(v));
			lost[t % 2] += v != 0x1111111100000000ULL + t + 1;
		}
	if (lost[0] + lost[1])
		printf("%s: %lu stores and %lu writes of %zu are lost\n", how, lost[0], lost[1],
		       pages * n);
	return lost[0] + lost[1];
}

static void check_slots(const char *path, size_t pages, unsigned n, const unsigned char *mapped)
{
	size_t size = pages * PAGE;
	unsigned char *all = malloc(size);
	int fd = open(path, O_RDONLY);
	if (!all || fd < 0)
		err(2, "%s", path);
	for (size_t done = 0; done < size;) {
		ssize_t got = pread(fd, all + done, size - done, (off_t)done);
		if (got <= 0)
			err(2, "pread");
		done += (size_t)got;
	}
	unsigned long lost = missing(mapped, pages, n, "old mapping");
	lost += missing(all, pages, n, "pread");
	if (lost)
		exit(1);
}

static int slots(const char *path, size_t pages, unsigned n, int processes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)(pages * PAGE)) < 0)
		err(2, "%s", path);
	struct shared {
		pthread_barrier_t start;
	} *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		err(2, "mmap");
	pthread_barrierattr_t attr;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->start, &attr, n);
	unsigned char *m = map(fd, pages * PAGE);
	struct job *job = calloc(n, sizeof(*job));
	pthread_t *thread = calloc(n, sizeof(*thread));
	pid_t *child = calloc(n, sizeof(*child));
	if (!job || !thread || !child)
		err(2, "calloc");
	for (unsigned i = 0; i < n; i++) {
		job[i] = (struct job){fd, m, pages, i, &shared->start};
		if (!processes) {
			if (pthread_create(&thread[i], NULL, work, &job[i]))
				errx(2, "pthread_create");
		} else if ((child[i] = fork()) == 0) {
			work(&job[i]);
			_exit(0);
		}
	}
	int bad = 0;
	for (unsigned i = 0; i < n; i++)
		bad |= processes ? wait_for(child[i]) : pthread_join(thread[i], NULL);
	check_slots(path, pages, n, m);
	return bad != 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "late"))
		return late(argv[2], atol(argv[3]), (size_t)atol(argv[4]), atol(argv[5]));
	if (argc >= 5 && !strcmp(argv[1], "slots"))
		return slots(argv[2], (size_t)atol(argv[3]), (unsigned)atoi(argv[4]), argc > 5);
	errx(2, "see the comment at the top of mapwrite.c");
}
