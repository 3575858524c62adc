/* SPDX-License-Identifier: MIT */
#include "fs/space_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "base/util.h"

#define THREADS_MIN  4 /* several threads are faster if inodes must be read from disk */
#define THREADS_MAX  16
#define PATH_LONG    2048 /* a directory with a longer path becomes an anchor */
#define STATX_WANTED (STATX_TYPE | STATX_INO | STATX_NLINK | STATX_BLOCKS | STATX_SIZE)
#define ADD_EVERY    256 /* names, before the sum is added to the progress */
#define REST_MAX_NS  (200 * NSEC_PER_MSEC)

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

/* An open directory that paths are relative to: the root, or one far below it. */
struct anchor {
	int fd;
	_Atomic unsigned refs;
};

struct todo {
	struct todo *next;
	struct anchor *anchor;
	char path[];
};

struct scan {
	const struct scan_config *cfg;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct todo *todo; /* lock: a stack, which stays shorter than a queue */
	unsigned busy;	   /* lock: threads that may add to it */
	int res;	   /* lock */
	_Atomic bool over;
};

static void anchor_put(struct anchor *a)
{
	if (atomic_fetch_sub(&a->refs, 1) == 1) {
		close(a->fd);
		free(a);
	}
}

static struct anchor *anchor_new(int *fd)
{
	struct anchor *a = malloc(sizeof(*a));
	if (!a)
		return NULL;
	a->fd = take_fd(fd);
	atomic_init(&a->refs, 1);
	return a;
}

static void todo_free(struct todo *d)
{
	anchor_put(d->anchor);
	free(d);
}

/* Takes a reference of the anchor. */
static int push(struct scan *s, struct anchor *a, const char *dir, const char *name)
{
	size_t n_dir = strlen(dir), n_name = strlen(name);
	struct todo *d = malloc(sizeof(*d) + n_dir + n_name + 2);
	if (!d)
		return -ENOMEM;
	atomic_fetch_add(&a->refs, 1);
	d->anchor = a;
	char *at = d->path;
	if (n_dir) {
		memcpy(at, dir, n_dir);
		at += n_dir;
		*at++ = '/';
	}
	memcpy(at, name, n_name + 1);
	pthread_mutex_lock(&s->lock);
	d->next = s->todo;
	s->todo = d;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static int open_dir(const struct todo *d)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	const char *path = d->path[0] ? d->path : ".";
	int fd = (int)syscall(SYS_openat2, d->anchor->fd, path, &how, sizeof(how));
	if (fd < 0 && errno == EPERM) { /* O_NOATIME is only for the owner */
		how.flags &= ~(uint64_t)O_NOATIME;
		fd = (int)syscall(SYS_openat2, d->anchor->fd, path, &how, sizeof(how));
	}
	return fd < 0 ? -errno : fd;
}

static void add_sum(const struct scan *s, struct scan_sum *sum)
{
	struct scan_progress *p = s->cfg->progress;
	atomic_fetch_add_explicit(&p->files, sum->files, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->bytes, sum->bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->inodes, sum->inodes, memory_order_relaxed);
	*sum = (struct scan_sum){0};
	if (s->cfg->tell)
		s->cfg->tell(s->cfg->ctx);
}

/* ESTALE: it was deleted on a server.  ENOTDIR: something else has its name. */
static bool is_gone(int err)
{
	return err == ENOENT || err == ESTALE || err == ENOTDIR;
}

static int see(struct scan *s, struct scan_sum *sum, int dir_fd, const char *name, struct statx *st)
{
	const struct scan_config *cfg = s->cfg;
	int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (name[0] ? 0 : AT_EMPTY_PATH);
	if (statx(dir_fd, name, flags, STATX_WANTED, st) < 0)
		return is_gone(errno) || errno == EACCES ? -ENOENT : -errno;
	if (name[0] && (st->stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return -ENOENT;
	sum->files++;
	return cfg->visit(cfg->ctx, sum, dir_fd, name, st);
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static bool is_over(const struct scan *s)
{
	return atomic_load_explicit(&s->over, memory_order_relaxed) ||
	       atomic_load_explicit(s->cfg->stop, memory_order_relaxed);
}

/* NULL: there are no more, or *res is -errno. */
static const struct dirent *next_entry(DIR *dir, int *res)
{
	errno = 0;
	const struct dirent *e = readdir(dir);
	if (!e && errno && !is_gone(errno))
		*res = -errno;
	return e;
}

static int read_entries(struct scan *s, DIR *dir, struct anchor *a, const char *path)
{
	const struct dirent *e;
	struct scan_sum sum = {0};
	int res = 0;
	while (res == 0 && (e = next_entry(dir, &res))) {
		struct statx st;
		if (is_over(s))
			res = -ECANCELED;
		if (res < 0 || is_dots(e->d_name))
			continue;
		res = see(s, &sum, dirfd(dir), e->d_name, &st);
		if (res == 0 && S_ISDIR(st.stx_mode))
			res = push(s, a, path, e->d_name);
		if (res == -ENOENT)
			res = 0;
		if (sum.files >= ADD_EVERY)
			add_sum(s, &sum);
	}
	add_sum(s, &sum);
	return res;
}

static int read_dir(struct scan *s, const struct todo *d)
{
	AUTO_FD fd = open_dir(d);
	if (fd == -EACCES || fd == -EPERM)
		atomic_fetch_add(&s->cfg->progress->unreadable, 1);
	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -EIO ? fd : 0;
	struct anchor *a = d->anchor;
	const char *path = d->path;
	struct anchor *own = NULL;
	if (strlen(path) > PATH_LONG) {
		AUTO_FD again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		own = again < 0 ? NULL : anchor_new(&again);
		if (!own)
			return -ENOMEM;
		a = own;
		path = "";
	}
	AUTO_DIR dir = fdopendir(fd);
	if (dir)
		(void)take_fd(&fd);
	int res = dir ? read_entries(s, dir, a, path) : -errno;
	if (own)
		anchor_put(own);
	return res;
}

static struct todo *next(struct scan *s)
{
	pthread_mutex_lock(&s->lock);
	s->busy--;
	while (!s->todo && s->busy && !is_over(s))
		pthread_cond_wait(&s->more, &s->lock);
	struct todo *d = is_over(s) ? NULL : s->todo;
	if (d) {
		s->todo = d->next;
		s->busy++;
	} else {
		pthread_cond_broadcast(&s->more);
	}
	pthread_mutex_unlock(&s->lock);
	return d;
}

static void rest(const struct scan *s, uint64_t worked_ns)
{
	uint64_t ns = min_u64(10 * worked_ns, REST_MAX_NS);
	const struct timespec nap = {.tv_nsec = (long)ns};
	if (s->cfg->slowly)
		nanosleep(&nap, NULL);
}

static void *work(void *arg)
{
	struct scan *s = arg;
	struct todo *d;
	while ((d = next(s))) {
		uint64_t since_ns = monotonic_ns();
		int res = read_dir(s, d);
		todo_free(d);
		if (res < 0) {
			pthread_mutex_lock(&s->lock);
			s->res = s->res ? s->res : res;
			atomic_store(&s->over, true);
			pthread_cond_broadcast(&s->more);
			pthread_mutex_unlock(&s->lock);
		}
		rest(s, monotonic_ns() - since_ns);
	}
	return NULL;
}

static unsigned threads_wanted(const struct scan_config *cfg)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t n = max_u64(THREADS_MIN, cpus > 0 ? (uint64_t)cpus : 1);
	return cfg->slowly ? 1 : (unsigned)min_u64(n, THREADS_MAX);
}

static void run(struct scan *s)
{
	pthread_t thread[THREADS_MAX];
	unsigned n = 0, wanted = threads_wanted(s->cfg) - 1;
	s->busy = 1; /* this thread */
	for (; n < wanted; n++) {
		pthread_mutex_lock(&s->lock);
		s->busy++;
		pthread_mutex_unlock(&s->lock);
		if (pthread_create(&thread[n], NULL, work, s) != 0) {
			pthread_mutex_lock(&s->lock);
			s->busy--;
			pthread_mutex_unlock(&s->lock);
			break;
		}
	}
	work(s);
	while (n)
		pthread_join(thread[--n], NULL);
}

int space_scan(const struct scan_config *cfg)
{
	struct scan s = {.cfg = cfg};
	struct scan_sum sum = {0};
	struct statx st;
	AUTO_FD fd = openat(cfg->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int res = see(&s, &sum, fd, "", &st);
	add_sum(&s, &sum);
	struct anchor *root = res == 0 ? anchor_new(&fd) : NULL;
	if (!root)
		return res ? res : -ENOMEM;
	pthread_mutex_init(&s.lock, NULL);
	pthread_cond_init(&s.more, NULL);
	s.res = push(&s, root, "", "");
	if (s.res == 0)
		run(&s);
	for (struct todo *d = s.todo, *after; d; d = after) {
		after = d->next;
		todo_free(d);
	}
	anchor_put(root);
	pthread_cond_destroy(&s.more);
	pthread_mutex_destroy(&s.lock);
	return s.res ? s.res : atomic_load(cfg->stop) ? -ECANCELED : 0;
}
