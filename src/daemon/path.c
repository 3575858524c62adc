/* SPDX-License-Identifier: MIT */
#include "daemon/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fusermount.h"
#include "base/log.h"
#include "base/util.h"
#include "base/mountinfo.h"

static char *join(const char *dir, const char *name)
{
	char *out;
	const char *slash = dir[0] && dir[strlen(dir) - 1] == '/' ? "" : "/";
	return asprintf(&out, "%s%s%s", dir, slash, name) < 0 ? NULL : out;
}

char *path_absolute(const char *path)
{
	char *real = realpath(path, NULL);
	if (real)
		return real;
	AUTO_FREE char *copy = strdup(path);
	if (!copy)
		return NULL;
	for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = '\0';
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy;
	if (slash)
		*slash = '\0';
	AUTO_FREE char *dir = realpath(!slash ? "." : *copy ? copy : "/", NULL);
	if (dir)
		return join(dir, name);
	if (path[0] == '/')
		return strdup(path);
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	return cwd ? join(cwd, path) : NULL;
}

bool path_is_in(const char *path, const char *dir)
{
	size_t n = dir ? strlen(dir) : 0;
	return n && strncmp(path, dir, n) == 0 &&
	       (path[n] == '\0' || path[n] == '/' || dir[n - 1] == '/');
}

int path_passed_fd(const char *mountpoint)
{
	unsigned fd;
	int end = 0;
	if (sscanf(mountpoint, "/dev/fd/%u%n", &fd, &end) == 1 && !mountpoint[end] && fd < INT_MAX)
		return fd;
	return -1;
}

int path_check_source(const char *path, struct error *err)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return error_set(err, "source '%s': %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return error_set(err, "source '%s': not a directory", path);
	if (access(path, R_OK | X_OK) < 0)
		return error_set(err, "source '%s': %s", path, strerror(errno));
	return 0;
}

/* Uses umount2 for root, fusermount3 for others.  0 or -errno. */
static int unmount_lazy(const char *mountpoint)
{
	if (umount2(mountpoint, MNT_DETACH) == 0)
		return 0;
	return errno == EPERM ? fusermount_detach(mountpoint) : -errno;
}

/* Asks the filesystem rather than the kernel's cache, which is valid for another second after a
 * mount died. */
static int ask(const char *path, struct statx *st)
{
	return statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC, STATX_TYPE | STATX_MNT_ID, st);
}

/* --- what a mount would hide ---------------------------------------------------------------- */

bool path_is_system(const char *real)
{
	static const char *const needed[] = {"/", "/dev", "/proc", "/sys"};
	for (unsigned i = 0; i < ARRAY_SIZE(needed); i++)
		if (strcmp(real, needed[i]) == 0)
			return true;
	return false;
}

static int check_system(const char *path, struct error *err)
{
	AUTO_FREE char *real = path_absolute(path);
	if (!real || !path_is_system(real))
		return 0;
	return error_set(err,
			 "mountpoint '%s': the system needs what is there; "
			 "use --force to hide it nevertheless",
			 path);
}

static int check_ratefs(const char *path, const struct statx *st, struct error *err)
{
	struct mountinfo mounts;
	bool has_id = (st->stx_attributes & STATX_ATTR_MOUNT_ROOT) && (st->stx_mask & STATX_MNT_ID);
	if (!has_id || !mountinfo_read(&mounts, "/proc/self/mountinfo"))
		return 0;
	const struct mount_line *l = mountinfo_by_id(&mounts, st->stx_mnt_id);
	bool ratefs = l && strcmp(l->type, "fuse.ratefs") == 0;
	mountinfo_free(&mounts);
	if (!ratefs)
		return 0;
	return error_set(
		err,
		"mountpoint '%s': ratefs is mounted there already; unmount it first, or use "
		"--force to mount over it",
		path);
}

/* ENOTCONN: the FUSE connection has ended.  ECONNABORTED: it ended while we asked, since a killed
 * daemon that used io_uring takes a moment to go away. */
static bool is_dead(int error)
{
	return error == ENOTCONN || error == ECONNABORTED;
}

int path_check_mountpoint(const char *path, bool force, struct error *err)
{
	struct statx st;
	int rc = ask(path, &st);
	/* Several dead mounts may be on top of each other. */
	for (int layers = 0; rc < 0 && is_dead(errno) && layers < 16; layers++) {
		int gone = unmount_lazy(path);
		if (gone < 0)
			return error_set(
				err,
				"mountpoint '%s': a dead mount is there and cannot be removed: %s",
				path, strerror(-gone));
		log_warning("mountpoint '%s': removed the dead mount of a daemon that is gone",
			    path);
		rc = ask(path, &st);
	}
	if (rc < 0)
		return error_set(err, "mountpoint '%s': %s", path, strerror(errno));
	if (!S_ISDIR(st.stx_mode))
		return error_set(err, "mountpoint '%s': not a directory", path);
	if (geteuid() != 0 && access(path, W_OK) < 0) /* fusermount3 demands it */
		return error_set(err, "mountpoint '%s': %s", path, strerror(errno));
	if (!force && (check_system(path, err) < 0 || check_ratefs(path, &st, err) < 0))
		return -1;
	return 0;
}
