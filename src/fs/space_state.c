/* SPDX-License-Identifier: MIT */
#include "fs/space_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/siphash.h"

#define FORMAT	       "ratefs-space 1\n"
#define STATE_NAME_LEN 16

/* Identifies the directory.  Device numbers change from boot to boot, so this uses the filesystem's own ID if there is one. */
static int identify(struct space_state *s, int root_fd)
{
	struct statx st;
	struct statfs fs;
	if (statx(root_fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0 ||
	    fstatfs(root_fd, &fs) < 0)
		return -errno;
	unsigned id[2];
	memcpy(id, &fs.f_fsid, sizeof(id));
	snprintf(s->identity, sizeof(s->identity),
		 "type %lx id %x:%x inode %" PRIu64 " born %" PRId64 ".%u",
		 (unsigned long)fs.f_type, id[0], id[1], (uint64_t)st.stx_ino,
		 (int64_t)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
	return 0;
}

static int make_dirs(const char *dir)
{
	AUTO_FREE char *path = strdup(dir);
	if (!path)
		return -ENOMEM;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
			return -errno;
		*slash = '/';
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

static int open_dir(struct space_state *s, const char *dir)
{
	struct stat st;
	int res = make_dirs(dir);
	if (res < 0)
		return res;
	s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->dir_fd < 0 || fstat(s->dir_fd, &st) < 0)
		return -errno;
	/* A user who can write to it could forge totals. */
	return st.st_uid != geteuid() || (st.st_mode & 022) ? -EPERM : 0;
}

/* Returns the fd of the locked file NAME.lock, or -errno. */
static int lock_total(int dir_fd, const char *total)
{
	char name[48];
	struct stat ours, now;
	snprintf(name, sizeof(name), "%s.lock", total);
	for (;;) {
		AUTO_FD fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &ours) < 0)
			return -errno;
		/* Another daemon may have removed it between open and flock. */
		if (fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
		    now.st_ino == ours.st_ino)
			return take_fd(&fd);
	}
}

static int take_lock(struct space_state *s)
{
	s->lock_fd = lock_total(s->dir_fd, s->name);
	return s->lock_fd < 0 ? s->lock_fd : 0;
}

/* --- totals that nobody uses any more ------------------------------------------------------- */

struct old_total {
	char name[STATE_NAME_LEN + 1];
	struct timespec saved;
};

static int by_age(const void *a, const void *b)
{
	const struct timespec *x = &((const struct old_total *)a)->saved,
			      *y = &((const struct old_total *)b)->saved;
	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static bool is_total(const char *name)
{
	return strlen(name) == STATE_NAME_LEN && strspn(name, "0123456789abcdef") == STATE_NAME_LEN;
}

static void remove_total(int dir_fd, const char *name)
{
	char lock[48];
	AUTO_FD fd = lock_total(dir_fd, name);
	if (fd < 0)
		return; /* in use */
	snprintf(lock, sizeof(lock), "%s.lock", name);
	unlinkat(dir_fd, name, 0);
	unlinkat(dir_fd, lock, 0);
}

/* Sources come and go, those of containers in particular: keeps the newest STATE_TOTALS_MAX totals. */
static void remove_oldest(const struct space_state *s)
{
	struct old_total *old = NULL;
	size_t n = 0, room = 0;
	int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd >= 0)
		close(fd);
	for (const struct dirent *e; dir && (e = readdir(dir));) {
		struct stat st;
		if (!is_total(e->d_name) ||
		    fstatat(s->dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (n == room) {
			room = room ? 2 * room : 64;
			struct old_total *more = realloc(old, room * sizeof(*more));
			if (!more)
				break;
			old = more;
		}
		old[n].saved = st.st_mtim;
		memcpy(old[n++].name, e->d_name, STATE_NAME_LEN + 1);
	}
	if (n > STATE_TOTALS_MAX)
		qsort(old, n, sizeof(*old), by_age);
	for (size_t i = 0; i + STATE_TOTALS_MAX < n; i++)
		remove_total(s->dir_fd, old[i].name);
	free(old);
}

int state_open(struct space_state *s, const char *dir, const char *source, int root_fd)
{
	static const uint64_t key[2] = {0x7261746566732031, 0x7370616365206f66}; /* arbitrary */
	*s = (struct space_state){.dir_fd = -1, .lock_fd = -1};
	if (!dir)
		return 0;
	AUTO_FREE char *real = realpath(source, NULL);
	const char *path = real ? real : source;
	snprintf(s->name, sizeof(s->name), "%016" PRIx64, siphash(key, path, strlen(path)));
	int res = identify(s, root_fd);
	if (res == 0)
		res = open_dir(s, dir);
	if (res == 0)
		res = take_lock(s);
	s->path = res == 0 ? strdup(path) : NULL;
	if (res == 0 && !s->path)
		res = -ENOMEM;
	if (res < 0)
		state_close(s);
	else
		remove_oldest(s);
	return res;
}

void state_close(struct space_state *s)
{
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	free(s->path);
	*s = (struct space_state){.dir_fd = -1, .lock_fd = -1};
}

bool state_load(const struct space_state *s, struct space_total *out)
{
	char text[512 + 1], identity[160], state[16];
	if (!s->path)
		return false;
	AUTO_FD fd = openat(s->dir_fd, s->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	if (strncmp(text, FORMAT, strlen(FORMAT)) != 0)
		return false;
	if (sscanf(text + strlen(FORMAT),
		   "state %15s\nbytes %" SCNd64 "\ninodes %" SCNd64 "\n%159[^\n]\n", state,
		   &out->bytes, &out->inodes, identity) != 4)
		return false;
	return strcmp(state, "clean") == 0 && strcmp(identity, s->identity) == 0 &&
	       out->bytes >= 0 && out->inodes >= 0;
}

static int write_file(const struct space_state *s, const char *name,
		      const struct space_total *total, bool clean)
{
	char text[512];
	AUTO_FD fd = openat(s->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	if (fd < 0)
		return -errno;
	int n = snprintf(text, sizeof(text),
			 FORMAT "state %s\nbytes %" PRId64 "\ninodes %" PRId64 "\n%s\n",
			 clean ? "clean" : "dirty", total->bytes, total->inodes, s->identity);
	ssize_t written = write(fd, text, (size_t)n);
	if (written != n)
		return written < 0 ? -errno : -ENOSPC;
	return fsync(fd) < 0 ? -errno : 0;
}

int state_save(const struct space_state *s, const struct space_total *total, bool clean)
{
	char name[48];
	if (!s->path)
		return 0;
	snprintf(name, sizeof(name), "%s.new", s->name);
	int res = write_file(s, name, total, clean);
	if (res == 0 && renameat(s->dir_fd, name, s->dir_fd, s->name) < 0)
		res = -errno;
	if (res == 0 && fsync(s->dir_fd) < 0)
		res = -errno;
	if (res < 0)
		unlinkat(s->dir_fd, name, 0);
	/* Or the next mount would believe an old total, even after a crash. */
	if (res < 0 && !clean)
		unlinkat(s->dir_fd, s->name, 0);
	return res;
}
