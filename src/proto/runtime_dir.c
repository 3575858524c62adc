/* SPDX-License-Identifier: MIT */
#include "proto/runtime_dir.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool is_dir(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int runtime_dir(char *buf, size_t size, struct error *err)
{
	const char *own = getenv("RATEFS_RUNTIME_DIR"), *xdg = getenv("XDG_RUNTIME_DIR");
	char run_user[40];
	unsigned uid = geteuid();
	int n;
	snprintf(run_user, sizeof(run_user), "/run/user/%u", uid);
	if (own && own[0] == '/')
		n = snprintf(buf, size, "%s", own);
	else if (uid == 0)
		n = snprintf(buf, size, "/run/ratefs");
	else if (xdg && xdg[0] == '/')
		n = snprintf(buf, size, "%s/ratefs", xdg);
	else if (is_dir(run_user))
		n = snprintf(buf, size, "%s/ratefs", run_user);
	else
		n = snprintf(buf, size, "/tmp/ratefs-%u", uid);
	if (n < 0 || (size_t)n >= size)
		return error_set(err, "the name of the runtime directory is longer than %zu bytes",
				 size - 1);
	return 0;
}

int runtime_dir_make(const char *dir, struct error *err)
{
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return error_set(err, "%s: %s", dir, strerror(errno));
	return runtime_dir_check(dir, err);
}

int runtime_dir_check(const char *dir, struct error *err)
{
	struct stat st;
	if (lstat(dir, &st) < 0)
		return error_set(err, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0))
		return error_set(err, "%s: belongs to another user", dir);
	if (st.st_mode & 022)
		return error_set(err, "%s: other users can write to it", dir);
	return 0;
}

int runtime_connect(const char *path)
{
	const struct timeval patience = {.tv_sec = RUNTIME_PATIENCE_S};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	memcpy(to.sun_path, path, strlen(path));
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return take_fd(&fd);
	int rc = -errno;
	struct stat st;
	/* Daemons name a socket only after they listen on it, so this one is stale.  Other files
	 * refuse connections, too: leave them alone. */
	if (rc == -ECONNREFUSED && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path);
	return rc;
}

void runtime_each_socket(const char *dir, bool (*each)(const char *path, void *ctx), void *ctx)
{
	AUTO_DIR d = opendir(dir);
	struct dirent *e;
	while (d && (e = readdir(d))) {
		char path[PATH_MAX];
		size_t n = strlen(e->d_name);
		if (n < 6 || e->d_name[0] == '.' || strcmp(e->d_name + n - 5, ".sock") != 0)
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= (int)sizeof(path))
			continue;
		if (!each(path, ctx))
			return;
	}
}
