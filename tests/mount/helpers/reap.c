/* SPDX-License-Identifier: MIT */
/* How long a killed process takes to be gone while it waits in an operation.
 *
 *	reap OP PATH MOUNTPOINT	killed in each of the requests that OP makes, one after the other
 *	reap OP PATH		killed 10 ms after OP began, five times
 *
 * With a MOUNTPOINT, where iops=1 and window=1ms, its iops_once is set so that it admits none of the
 * requests that OP on PATH makes, then one, then two …, until OP gets through.
 * Each time the process is killed with SIGKILL once it waits.  At the same moment others are killed that
 * sleep in the kernel for no reason of ours: what they take is the noise of this machine.
 * Prints the longest and the shortest time in ms until waitpid had the one, the longest until it had one
 * of the others, and the number of kills: "1.2 0.4 0.8 5".
 * Exit 1: nothing could be measured. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define REQUESTS_MAX 12
#define ROUNDS	     5
#define HELD_MS	     100 /* no progress for so long: it waits */
#define SLEEPERS     3
#define TOKEN_MS     1000 /* a token comes every second, when is not known */
#define PLENTY	     1000000
#define REPEATS_MAX  20

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void pause_ms(long ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	nanosleep(&ts, NULL);
}

static void die(const char *what, const char *name)
{
	fprintf(stderr, "reap: %s %s: %s\n", what, name, strerror(errno));
	exit(1);
}

/* --- the operations --- */

struct victim {
	const char *path;
	char other[4096]; /* a name that is not there, or (made before) one that is */
	int fd;
	char *buf, *map;
	aio_context_t aio;
	int ring;
	char *rings; /* both queues: kernels since 5.4 map them in one piece */
	struct io_uring_params ring_at;
	struct io_uring_sqe *sqe;
	unsigned number; /* of this one: names and pages that the others have not seen */
};

static void prepare(struct victim *v)
{
	v->fd = open(v->path, O_RDWR);
	if (v->fd < 0 && errno == EISDIR)
		v->fd = open(v->path, O_RDONLY);
	if (v->fd < 0)
		die("cannot open", v->path);
	v->buf = aligned_alloc(4096, 65536);
	memset(v->buf, 0, 65536);
}

static void prepare_aio(struct victim *v)
{
	v->fd = open(v->path, O_RDWR | O_DIRECT);
	v->buf = aligned_alloc(4096, 65536);
	if (v->fd < 0 || syscall(SYS_io_setup, 1, &v->aio) < 0)
		die("cannot prepare", "aio");
}

/* Without O_DIRECT.  If the daemon wants direct I/O, the kernel does it asynchronously nevertheless. */
static void prepare_plain_aio(struct victim *v)
{
	prepare(v);
	if (syscall(SYS_io_setup, 1, &v->aio) < 0)
		die("cannot prepare", "aio");
}

static void prepare_ring(struct victim *v)
{
	memset(&v->ring_at, 0, sizeof(v->ring_at));
	v->ring = (int)syscall(SYS_io_uring_setup, 1, &v->ring_at);
	if (v->ring < 0)
		die("cannot prepare", "io_uring");
	v->rings = mmap(NULL, v->ring_at.cq_off.cqes + 4096, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_POPULATE, v->ring, IORING_OFF_SQ_RING);
	v->sqe = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, v->ring,
		      IORING_OFF_SQES);
	if (v->rings == MAP_FAILED || v->sqe == MAP_FAILED)
		die("cannot map", "io_uring");
}

static void prepare_uring(struct victim *v)
{
	prepare(v);
	prepare_ring(v);
}

static void prepare_direct(struct victim *v)
{
	v->fd = open(v->path, O_RDWR | O_DIRECT);
	v->buf = aligned_alloc(4096, 65536);
	if (v->fd < 0)
		die("cannot open", v->path);
	memset(v->buf, 0, 65536);
}

static void prepare_uring_direct(struct victim *v)
{
	prepare_direct(v);
	prepare_ring(v);
}

static void prepare_mmap(struct victim *v)
{
	prepare(v);
	v->map = mmap(NULL, 16 << 20, PROT_READ, MAP_PRIVATE, v->fd, 0);
	if (v->map == MAP_FAILED)
		die("cannot map", v->path);
}

static void prepare_file(struct victim *v)
{
	prepare(v);
	close(open(v->other, O_CREAT | O_WRONLY, 0644));
}

static void prepare_dir(struct victim *v)
{
	prepare(v);
	mkdir(v->other, 0755);
}

static void prepare_link(struct victim *v)
{
	prepare(v);
	if (symlink("target", v->other) < 0 && errno != EEXIST)
		die("cannot make", v->other);
}

static void op_read(struct victim *v)
{
	if (pread(v->fd, v->buf, 65536, 0) < 0)
		die("cannot read", v->path);
}

/* The kernel does not let go of a process before its asynchronous transfers are answered. */
static void submit(struct victim *v, uint16_t opcode)
{
	struct iocb cb = {.aio_lio_opcode = opcode,
			  .aio_fildes = (uint32_t)v->fd,
			  .aio_buf = (uintptr_t)v->buf,
			  .aio_nbytes = 65536};
	struct iocb *list[] = {&cb};
	struct io_event done;
	if (syscall(SYS_io_submit, v->aio, 1, list) != 1 ||
	    syscall(SYS_io_getevents, v->aio, 1, 1, &done, NULL) != 1)
		_exit(1);
}

static void op_aio(struct victim *v)
{
	submit(v, IOCB_CMD_PREAD);
}

static void op_aio_write(struct victim *v)
{
	submit(v, IOCB_CMD_PWRITE);
}

static void ring_read(struct victim *v, uint8_t flags)
{
	_Atomic uint32_t *tail = (_Atomic uint32_t *)(v->rings + v->ring_at.sq_off.tail);
	*v->sqe = (struct io_uring_sqe){.opcode = IORING_OP_READ,
					.flags = flags,
					.fd = v->fd,
					.addr = (uintptr_t)v->buf,
					.len = 65536};
	((uint32_t *)(v->rings + v->ring_at.sq_off.array))[0] = 0;
	atomic_fetch_add(tail, 1);
	if (syscall(SYS_io_uring_enter, v->ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		_exit(1);
}

static void op_uring(struct victim *v)
{
	ring_read(v, 0);
}

/* On a thread of the kernel's. */
static void op_uring_async(struct victim *v)
{
	ring_read(v, IOSQE_ASYNC);
}

/* Far from what an earlier victim read: a page that is in the cache is not asked for. */
static void op_mmap(struct victim *v)
{
	v->buf[0] = ((volatile char *)v->map)[(size_t)(v->number % 16) << 20];
}

static void op_write(struct victim *v)
{
	if (pwrite(v->fd, v->buf, 65536, 0) < 0)
		die("cannot write", v->path);
}

static void op_open(struct victim *v)
{
	close(open(v->path, O_RDONLY));
}

static void op_create(struct victim *v)
{
	close(open(v->other, O_CREAT | O_EXCL | O_WRONLY, 0644));
}

static void op_stat(struct victim *v)
{
	struct stat st;
	stat(v->path, &st);
}

static void op_fstat(struct victim *v)
{
	struct stat st;
	fstat(v->fd, &st);
}

static void op_statfs(struct victim *v)
{
	struct statfs st;
	fstatfs(v->fd, &st);
}

static void op_mkdir(struct victim *v)
{
	mkdir(v->other, 0755);
}

static void op_rmdir(struct victim *v)
{
	rmdir(v->other);
}

static void op_unlink(struct victim *v)
{
	unlink(v->other);
}

static void op_rename(struct victim *v)
{
	char to[sizeof(v->other) + 8];
	snprintf(to, sizeof(to), "%s.to", v->other);
	rename(v->other, to);
}

static void op_link(struct victim *v)
{
	(void)!link(v->path, v->other);
}

static void op_symlink(struct victim *v)
{
	(void)!symlink("target", v->other);
}

static void op_readlink(struct victim *v)
{
	(void)!readlink(v->other, v->buf, 100);
}

static void op_readdir(struct victim *v)
{
	DIR *d = opendir(v->path);
	while (d && readdir(d))
		;
	if (d)
		closedir(d);
}

static void op_chmod(struct victim *v)
{
	fchmod(v->fd, 0644);
}

static void op_truncate(struct victim *v)
{
	(void)!ftruncate(v->fd, 16 << 20);
}

static void op_fallocate(struct victim *v)
{
	fallocate(v->fd, 0, 0, 16 << 20);
}

static void op_fsync(struct victim *v)
{
	fsync(v->fd);
}

static void op_getxattr(struct victim *v)
{
	fgetxattr(v->fd, "user.x", v->buf, 100);
}

static void op_setxattr(struct victim *v)
{
	fsetxattr(v->fd, "user.x", "y", 1, 0);
}

static const struct op {
	const char *name;
	void (*prepare)(struct victim *v); /* with no limit */
	void (*run)(struct victim *v);
} ops[] = {
	{"read", prepare, op_read},
	{"direct-read", prepare_direct, op_read},
	{"direct-write", prepare_direct, op_write},
	{"aio", prepare_aio, op_aio},
	{"aio-plain", prepare_plain_aio, op_aio},
	{"aio-plain-write", prepare_plain_aio, op_aio_write},
	{"mmap", prepare_mmap, op_mmap},
	{"write", prepare, op_write},
	{"open", prepare, op_open},
	{"create", prepare, op_create},
	{"stat", prepare, op_stat},
	{"fstat", prepare, op_fstat},
	{"statfs", prepare, op_statfs},
	{"mkdir", prepare, op_mkdir},
	{"rmdir", prepare_dir, op_rmdir},
	{"unlink", prepare_file, op_unlink},
	{"rename", prepare_file, op_rename},
	{"link", prepare, op_link},
	{"symlink", prepare, op_symlink},
	{"readlink", prepare_link, op_readlink},
	{"readdir", prepare, op_readdir},
	{"chmod", prepare, op_chmod},
	{"truncate", prepare, op_truncate},
	{"fallocate", prepare, op_fallocate},
	{"fsync", prepare, op_fsync},
	{"getxattr", prepare, op_getxattr},
	{"setxattr", prepare, op_setxattr},
	{"uring", prepare_uring, op_uring},
	{"uring-async", prepare_uring, op_uring_async},
	{"uring-direct", prepare_uring_direct, op_uring},
	{"uring-direct-async", prepare_uring_direct, op_uring_async},
};

static const struct op *op_find(const char *name)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strcmp(ops[i].name, name) == 0)
			return &ops[i];
	fprintf(stderr, "reap: unknown operation '%s'\n", name);
	exit(2);
}

/* --- killing --- */

enum stage { STARTED, PREPARED, MAY_RUN, RUNNING, DONE };

static _Atomic int *stage; /* of the victim, shared with it */
static double worst_ms, best_ms = 1e9, worst_noise_ms;
static unsigned kills;

static void set_once(const char *mountpoint, unsigned tokens)
{
	char command[4600];
	snprintf(command, sizeof(command), "ratefsctl set '%s' iops_once=%u >/dev/null", mountpoint,
		 tokens);
	if (system(command) != 0)
		die("cannot run", command);
}

/* Of the next requests of anybody so many go, and one more when the next token comes. */
static void admit_only(const char *mountpoint, int fd, unsigned requests)
{
	struct statfs st;
	if (fstatfs(fd, &st) < 0) /* takes the token of the last second, if it is still there */
		die("cannot look at", mountpoint);
	set_once(mountpoint, requests);
}

static int reaches(int wanted, unsigned ms)
{
	double end = now_ms() + ms;
	while (atomic_load(stage) < wanted) {
		if (now_ms() > end)
			return 0;
		pause_ms(1);
	}
	return 1;
}

static pid_t start_victim(const struct op *op, const char *path)
{
	static unsigned victims;
	struct victim v = {.path = path, .number = victims++};
	snprintf(v.other, sizeof(v.other), "%s.%s.%u", path, op->name, v.number);
	atomic_store(stage, STARTED);
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	op->prepare(&v);
	atomic_store(stage, PREPARED);
	while (atomic_load(stage) < MAY_RUN)
		pause_ms(1);
	atomic_store(stage, RUNNING);
	op->run(&v);
	atomic_store(stage, DONE);
	_exit(0);
}

static pid_t start_sleeper(void)
{
	pid_t pid = fork();
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (pid == 0)
		pause();
	return pid;
}

/* All at the same moment; each is taken when it is gone, whichever comes first. */
static void kill_all(pid_t victim, const pid_t sleeper[SLEEPERS], int counts)
{
	double began = now_ms();
	kill(victim, SIGKILL);
	for (int i = 0; i < SLEEPERS; i++)
		kill(sleeper[i], SIGKILL);
	for (int left = 1 + SLEEPERS; left; left--) {
		pid_t pid = waitpid(-1, NULL, 0);
		double took = now_ms() - began;
		double *worst = pid == victim ? &worst_ms : &worst_noise_ms;
		if (counts && took > *worst)
			*worst = took;
		if (counts && pid == victim && took < best_ms)
			best_ms = took;
	}
	kills += counts;
}

enum result { KILLED, THROUGH };

static enum result one_kill(const struct op *op, const char *path, const char *mountpoint,
			    unsigned round)
{
	int fd = mountpoint ? open(mountpoint, O_RDONLY | O_DIRECTORY) : -1;
	pid_t sleeper[SLEEPERS];
	for (int i = 0; i < SLEEPERS; i++)
		sleeper[i] = start_sleeper();
	pid_t victim = start_victim(op, path);
	if (!reaches(PREPARED, 10000))
		die("could not prepare", op->name);
	if (mountpoint)
		admit_only(mountpoint, fd, round);
	atomic_store(stage, MAY_RUN);
	reaches(RUNNING, 10000);
	enum result result = reaches(DONE, mountpoint ? HELD_MS : 10) ? THROUGH : KILLED;
	kill_all(victim, sleeper, result == KILLED);
	if (mountpoint)
		set_once(mountpoint, PLENTY);
	close(fd);
	return result;
}

/* A token may have come just then and let the operation through: but not two within a second. */
static enum result surely(const struct op *op, const char *path, const char *mountpoint,
			  unsigned round)
{
	double before = 0;
	for (int i = 0; i < REPEATS_MAX; i++) {
		double began = now_ms();
		if (one_kill(op, path, mountpoint, round) == KILLED)
			return KILLED;
		if (now_ms() - before < TOKEN_MS)
			return THROUGH;
		before = began;
	}
	die("this machine is too slow for", op->name);
	return THROUGH;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const struct op *op = op_find(argv[1]);
	const char *mountpoint = argv[3];
	unsigned rounds = mountpoint ? REQUESTS_MAX : ROUNDS;
	stage = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int through = 0;
	for (unsigned round = 0; round < rounds && !through; round++)
		through =
			(mountpoint ? surely : one_kill)(op, argv[2], mountpoint, round) == THROUGH;
	if (kills == 0 || through != (mountpoint != NULL)) {
		fprintf(stderr, "reap: %s: %u kills, and it %s\n", op->name, kills,
			through ? "was not held up" : "never got through");
		return 1;
	}
	printf("%.1f %.1f %.1f %u\n", worst_ms, best_ms, worst_noise_ms, kills);
	return 0;
}
