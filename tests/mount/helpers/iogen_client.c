/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "iogen.h"

struct client {
	const struct plan *p;
	unsigned id;
	int fd;
	char path[4096], scratch[4200];
	char *buf;
	uint64_t offset, size, file_size, rng;
};

/* How an operation is done: bytes moved (0 for metadata) or -1 with errno. */
struct op {
	const char *name;
	bool moves_bytes, writes;
	ssize_t (*run)(struct client *c);
};

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sleep_until_ns(uint64_t t)
{
	struct timespec ts = {(time_t)(t / 1000000000u), (long)(t % 1000000000u)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static uint64_t draw(struct client *c)
{
	c->rng ^= c->rng << 13;
	c->rng ^= c->rng >> 7;
	c->rng ^= c->rng << 17;
	return c->rng;
}

static uint64_t next_offset(struct client *c)
{
	uint64_t blocks = c->file_size / c->size;
	if (blocks == 0)
		return 0;
	if (c->p->random)
		return draw(c) % blocks * c->size;
	uint64_t at = c->offset + c->size <= c->file_size ? c->offset : 0;
	c->offset = at + c->size;
	return at;
}

static ssize_t op_read(struct client *c)
{
	return pread(c->fd, c->buf, c->size, (off_t)next_offset(c));
}

static ssize_t op_write(struct client *c)
{
	if (c->p->append)
		return write(c->fd, c->buf, c->size);
	return pwrite(c->fd, c->buf, c->size, (off_t)next_offset(c));
}

static ssize_t op_stat(struct client *c)
{
	struct stat st;
	return stat(c->path, &st);
}

static ssize_t op_fstat(struct client *c)
{
	struct stat st;
	return fstat(c->fd, &st);
}

static ssize_t op_open(struct client *c)
{
	int fd = open(c->path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : close(fd);
}

static const char *scratch_name(struct client *c, const char *what)
{
	snprintf(c->scratch, sizeof(c->scratch), "%s.%s.%u", c->path, what, c->id);
	return c->scratch;
}

static ssize_t op_mkdir(struct client *c)
{
	const char *name = scratch_name(c, "dir");
	return mkdir(name, 0755) < 0 ? -1 : rmdir(name);
}

static ssize_t op_create(struct client *c)
{
	const char *name = scratch_name(c, "new");
	int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	close(fd);
	return unlink(name);
}

static ssize_t op_rename(struct client *c)
{
	char other[4300];
	const char *name = scratch_name(c, "ren");
	snprintf(other, sizeof(other), "%s.2", name);
	int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	return fd < 0 || rename(name, other) < 0 ? -1 : unlink(other);
}

static ssize_t op_readdir(struct client *c)
{
	DIR *d = opendir(c->path);
	if (!d)
		return -1;
	errno = 0;
	while (readdir(d))
		;
	int saved = errno;
	closedir(d);
	errno = saved;
	return saved ? -1 : 0;
}

static ssize_t op_getxattr(struct client *c)
{
	char value[256];
	ssize_t n = getxattr(c->path, "user.iogen", value, sizeof(value));
	return n < 0 && errno != ENODATA ? -1 : 0;
}

static ssize_t op_fsync(struct client *c)
{
	return fsync(c->fd);
}

static ssize_t op_statfs(struct client *c)
{
	struct statfs s;
	return statfs(c->path, &s);
}

static const struct op ops[] = {
	{"read", true, false, op_read},		 {"write", true, true, op_write},
	{"stat", false, false, op_stat},	 {"open", false, false, op_open},
	{"mkdir", false, false, op_mkdir},	 {"create", false, false, op_create},
	{"rename", false, false, op_rename},	 {"readdir", false, false, op_readdir},
	{"getxattr", false, false, op_getxattr}, {"fsync", false, true, op_fsync},
	{"statfs", false, false, op_statfs},	 {"fstat", false, true, op_fstat},
};

const struct op *op_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strcmp(ops[i].name, name) == 0)
			return &ops[i];
	return NULL;
}

static void become(const struct plan *p, unsigned id)
{
	if (!p->n_uids)
		return;
	uid_t uid = (uid_t)p->uids[id % p->n_uids];
	/* Raw calls: with --threads each client is a thread of its own user. */
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, uid, uid, uid) < 0 ||
	    syscall(SYS_setresuid, uid, uid, uid) < 0) {
		perror("iogen: setuid");
		_exit(2);
	}
}

static int client_open(struct client *c)
{
	const struct plan *p = c->p;
	bool own = p->op->writes && !p->shared && p->clients > 1;
	snprintf(c->path, sizeof(c->path), own ? "%s.%u" : "%s", p->path, c->id);
	if (!p->op->moves_bytes && !p->op->writes)
		return 0;
	int flags = (p->op->writes ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC;
	flags |= (p->nonblock ? O_NONBLOCK : 0) | (p->direct ? O_DIRECT : 0) |
		 (p->append ? O_APPEND : 0) | (p->sync ? O_SYNC : 0);
	c->fd = open(c->path, flags, 0666);
	if (c->fd < 0)
		return -1;
	struct stat st;
	c->file_size = p->file_size;
	if (!p->op->writes && fstat(c->fd, &st) == 0)
		c->file_size = (uint64_t)st.st_size;
	return 0;
}

static bool client_init(struct client *c, const struct plan *p, unsigned id)
{
	*c = (struct client){.p = p, .id = id, .fd = -1};
	c->rng = (p->seed + id) * 0x9E3779B97F4A7C15u | 1;
	uint64_t largest = 4096;
	for (unsigned i = 0; i < p->n_sizes; i++)
		largest = p->sizes[i] > largest ? p->sizes[i] : largest;
	if (posix_memalign((void **)&c->buf, 4096, largest))
		return false;
	memset(c->buf, 'a' + (int)(id % 26), largest);
	c->size = is_light(p, id) ? 4096 : p->sizes[id % p->n_sizes];
	c->offset = p->shared ? 0 : (uint64_t)id * c->size;
	become(p, id);
	return client_open(c) == 0;
}

/* Tries until it moves: EAGAIN belongs to the latency of a non-blocking operation. */
static ssize_t until_admitted(struct client *c, struct result *r)
{
	for (;;) {
		if (c->p->poll && c->fd >= 0) {
			struct pollfd pfd = {c->fd, c->p->op->writes ? POLLOUT : POLLIN, 0};
			poll(&pfd, 1, -1);
		}
		ssize_t n = c->p->op->run(c);
		if (n >= 0 || errno != EAGAIN)
			return n;
		r->eagain++;
		if (!c->p->nonblock)
			return n;
		if (!c->p->poll)
			usleep(1000);
	}
}

static void count(struct result *r, struct client *c, ssize_t n, uint64_t t0, uint64_t t1)
{
	if (n < 0) {
		r->errors++;
		r->last_errno = errno;
		return;
	}
	r->ops++;
	r->bytes += (uint64_t)n;
	r->shorts += c->p->op->moves_bytes && (uint64_t)n < c->size;
	if (!r->first_ns)
		r->first_ns = t1;
	r->last_ns = t1;
	hist_add(&r->lat, t1 - t0);
}

static bool goes_on(const struct plan *p, uint64_t done, uint64_t bytes, uint64_t end_ns)
{
	if (p->forever)
		return true;
	if (p->count && done >= p->count)
		return false;
	if (p->bytes && bytes >= p->bytes)
		return false;
	return p->time_s <= 0 || now_ns() < end_ns;
}

void client_run(const struct plan *p, struct shared *sh, unsigned id)
{
	struct client c;
	struct result *r = &sh->results[id];
	if (!client_init(&c, p, id)) {
		r->errors++;
		r->last_errno = errno;
		fprintf(stderr, "iogen: %s: %s\n", c.path, strerror(errno));
		atomic_fetch_add(&sh->opened, 1);
		atomic_fetch_add(&sh->entered, 1);
		return;
	}
	atomic_fetch_add(&sh->opened, 1);
	while (!atomic_load(
		&sh->go)) /* asleep: a thousand that poll would be a load of their own */
		syscall(SYS_futex, &sh->go, FUTEX_WAIT, 0, NULL, NULL, 0);
	uint64_t start = atomic_load(&sh->start_ns), ops_done = 0, bytes_done = 0;
	uint64_t from = start + (uint64_t)(p->skip_s * 1e9);
	uint64_t to = p->time_s > 0 ? from + (uint64_t)(p->time_s * 1e9) : UINT64_MAX;
	uint64_t gap = !p->light || is_light(p, id) ? (uint64_t)(p->interval_s * 1e9) : 0;
	sleep_until_ns(start + (gap ? gap * id / p->clients : 0));
	atomic_fetch_add(&sh->entered, 1);
	for (uint64_t next = now_ns(); goes_on(p, ops_done, bytes_done, to); next += gap) {
		if (gap)
			sleep_until_ns(next);
		if (p->mix && !is_light(p, id))
			c.size = p->sizes[draw(&c) % p->n_sizes];
		uint64_t t0 = now_ns();
		ssize_t n = until_admitted(&c, r);
		uint64_t t1 = now_ns();
		ops_done++;
		bytes_done += n > 0 ? (uint64_t)n : 0;
		if (t1 >= from && t1 < to)
			count(r, &c, n, t0, t1);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			break;
		if (gap && next + gap < t1)
			next = t1 - gap; /* late: go on from here, no burst to catch up */
	}
	if (c.fd >= 0)
		close(c.fd);
	free(c.buf);
}

void shared_go(const struct plan *p, struct shared *sh)
{
	while (atomic_load(&sh->opened) < p->clients)
		usleep(500);
	atomic_store(&sh->start_ns, now_ns() + 2000000);
	atomic_store(&sh->go, 1);
	syscall(SYS_futex, &sh->go, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	if (!p->ready)
		return;
	while (atomic_load(&sh->entered) < p->clients)
		usleep(500);
	int fd = open(p->ready, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
}
