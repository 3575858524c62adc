/* SPDX-License-Identifier: MIT */
/* What a client of a mount may try.  See usage(); each verb prints what it found out, and exits 0 when it did what it
 * says (not when the mount gave way: the test script decides about that). */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void die(const char *what)
{
	fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
	exit(1);
}

double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* --- handles, processes, depth ------------------------------------------------------------------ */

/* handles FILE N: opens it N times, from as many processes as that takes; prints how many were had. */
static int handles(char **arg)
{
	long want = atol(arg[1]), per_process = 4000, had = 0;
	struct rlimit files = {(rlim_t)per_process + 100, (rlim_t)per_process + 100};
	setrlimit(RLIMIT_NOFILE, &files);
	int said[2], go[2];
	if (pipe(said) < 0 || pipe(go) < 0)
		die("pipe");
	long children = (want + per_process - 1) / per_process;
	for (long c = 0; c < children; c++) {
		if (fork() != 0)
			continue;
		long n = 0;
		char byte;
		close(go[1]);
		while (n < per_process && open(arg[0], O_RDONLY) >= 0)
			n++;
		if (write(said[1], &n, sizeof(n)) != sizeof(n) || read(go[0], &byte, 1) < 0)
			_exit(1);
		_exit(0); /* all closed at once */
	}
	for (long c = 0; c < children; c++) {
		long n;
		if (read(said[0], &n, sizeof(n)) == sizeof(n))
			had += n;
	}
	printf("%ld\n", had);
	fflush(stdout);
	const char *hold = getenv("HOSTILE_HOLD");
	if (hold)
		sleep((unsigned)atoi(hold));
	close(go[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}

/* forks FILE N AT_ONCE: N short-lived processes that read it once each. */
static int forks(char **arg)
{
	long n = atol(arg[1]), at_once = atol(arg[2]), running = 0, failed = 0;
	int status;
	for (long i = 0; i < n; i++) {
		if (running == at_once && wait(&status) > 0) {
			running--;
			failed += status != 0;
		}
		pid_t pid = fork();
		if (pid == 0) {
			char buf[512];
			int fd = open(arg[0], O_RDONLY);
			_exit(fd < 0 || read(fd, buf, sizeof(buf)) < 0);
		}
		running += pid > 0;
	}
	while (wait(&status) > 0)
		failed += status != 0;
	printf("%ld\n", failed);
	return 0;
}

/* deep DIR N: a chain of N directories; prints how deep it got, and removes it. */
static int deep(char **arg)
{
	long want = atol(arg[1]), n = 0;
	if (chdir(arg[0]) < 0)
		die(arg[0]);
	while (n < want && mkdir("d", 0755) == 0 && chdir("d") == 0)
		n++;
	printf("%ld\n", n);
	for (long i = 0; i < n; i++)
		if (chdir("..") < 0 || rmdir("d") < 0)
			die("going back");
	return 0;
}

/* --- names ---------------------------------------------------------------------------------- */

/* swap DIR SECRET SECONDS: DIR/real and a link DIR/link → SECRET change places under the name DIR/name, while names
 * below it are read, written and created; prints how often something of SECRET was reached. */
static int swap(char **arg)
{
	char path[4096], buf[64];
	unsigned long reached = 0, tries = 0;
	double end = now_s() + atof(arg[2]);
	if (chdir(arg[0]) < 0)
		die(arg[0]);
	if (mkdir("real", 0755) < 0 || symlink(arg[1], "link") < 0 || mkdir("name", 0755) < 0)
		die("set-up");
	close(open("real/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	pid_t pid = fork();
	if (pid == 0) {
		for (;;)
			renameat2(AT_FDCWD, tries++ & 1 ? "real" : "link", AT_FDCWD, "name",
				  RENAME_EXCHANGE);
	}
	for (; now_s() < end; tries++) {
		/* O_NOFOLLOW at every step is what a careful daemon does; a path walk is what the kernel does.
		 * With the kernel the link leads to SECRET as the caller: its permissions decide.  What must not
		 * be is that the daemon walks there with its own. */
		int fd = open("name/file", O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			reached += read(fd, buf, sizeof(buf)) > 0;
			close(fd);
		}
		snprintf(path, sizeof(path), "name/new%lu", tries);
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
		if (fd >= 0) {
			close(fd);
			unlink(path);
		}
		reached += link("name/file", "stolen") == 0 && open("stolen", O_RDONLY) >= 0 &&
			   read(open("stolen", O_RDONLY), buf, sizeof(buf)) > 0;
		unlink("stolen");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("%lu\n", reached);
	return 0;
}

/* --- main ----------------------------------------------------------------------------------- */

static const struct verb {
	const char *name;
	int args;
	int (*run)(char **arg);
	const char *usage;
} verbs[] = {
	{"handles", 2, handles, "FILE N"},
	{"forks", 3, forks, "FILE N AT_ONCE"},
	{"deep", 2, deep, "DIR N"},
	{"swap", 3, swap, "DIR SECRET SECONDS"},
	{"mmap-copy", 2, mmap_copy, "FROM TO"},
	{"mmap-read", 1, mmap_read, "FILE"},
	{"mmap-write", 2, mmap_write, "FILE BYTES"},
	{"copy-range", 2, copy_range, "FROM TO"},
	{"clone", 2, clone_file, "FROM TO"},
	{"splice-read", 1, splice_read, "FILE"},
	{"sendfile", 2, send_file, "FROM TO"},
	{"aio-read", 2, aio_read_file, "FILE DEPTH"},
	{"uring-read", 2, uring_read, "FILE DEPTH"},
	{"storm", 2, storm, "FILE SECONDS"},
	{"shared-write", 2, shared_write, "FILE BYTES"},
};

int main(int argc, char **argv)
{
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (argc == verbs[i].args + 2 && strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argv + 2);
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		fprintf(stderr, "hostile %s %s\n", verbs[i].name, verbs[i].usage);
	return 2;
}
