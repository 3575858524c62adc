/* SPDX-License-Identifier: MIT */
#include "fs/space_state.h"

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

#define FORMAT "ratefs-space 1\n"

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

static int take_lock(struct space_state *s)
{
	char name[48];
	snprintf(name, sizeof(name), "%s.lock", s->name);
	s->lock_fd = openat(s->dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		return -errno;
	return flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
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
	return res;
}
