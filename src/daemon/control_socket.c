/* SPDX-License-Identifier: MIT */
#include "daemon/control_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proto/runtime_dir.h"

static int address_of(const char *path, struct sockaddr_un *a, struct error *err)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(a->sun_path))
		return error_set(err, "control socket '%s': the path is longer than 107 bytes",
				 path);
	memcpy(a->sun_path, path, strlen(path));
	return 0;
}

/* -1 with err: the path is in use.  runtime_connect has removed the socket of a dead daemon. */
static int check_free(const char *path, struct error *err)
{
	struct stat st;
	AUTO_FD fd = runtime_connect(path);
	if (fd >= 0)
		return error_set(err, "control socket '%s': another daemon listens there", path);
	if (lstat(path, &st) == 0)
		return error_set(err, "control socket '%s': the file exists already", path);
	return 0;
}

/* Binds to a temporary name and renames it once we listen.  So a socket under the final name that
 * refuses connections always belongs to a dead daemon. */
static int listen_at(const char *path, struct error *err)
{
	AUTO_FREE char *temporary = NULL;
	struct sockaddr_un a;
	if (asprintf(&temporary, "%s~", path) < 0)
		return error_set(err, "out of memory");
	if (address_of(temporary, &a, err) < 0)
		return -1;
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(temporary);
	mode_t old = umask(0177); /* no other thread runs yet */
	int rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&a, sizeof(a));
	umask(old);
	if (rc < 0 || listen(fd, 128) < 0 || rename(temporary, path) < 0) {
		error_set(err, "control socket '%s': %s", path, strerror(errno));
		unlink(temporary);
		return -1;
	}
	return take_fd(&fd);
}

static bool remove_stale(const char *path, void *ctx)
{
	int fd = runtime_connect(path);
	if (fd >= 0)
		close(fd);
	return true;
}

/* DIR/NAME-PID.sock; characters that a file name cannot have are replaced. */
static int default_path(char *buf, size_t size, const char *name, struct error *err)
{
	char dir[RUNTIME_DIR_MAX];
	if (runtime_dir(dir, sizeof(dir), err) < 0 || runtime_dir_make(dir, err) < 0)
		return -1;
	runtime_each_socket(dir, remove_stale, NULL);
	int n = snprintf(buf, size, "%s/%.20s-%d.sock", dir, name, (int)getpid());
	for (char *p = buf + strlen(dir) + 1; *p; p++)
		if (*p == '/' || *p <= ' ' || *p > '~' || (*p == '.' && p[-1] == '/'))
			*p = '_';
	return n < (int)size ? 0 : error_set(err, "%s: too long for a socket", dir);
}

int control_socket_make(const char *asked, const char *name, char path[CONTROL_PATH_MAX],
			struct error *err)
{
	if (asked && strlen(asked) + 2 > CONTROL_PATH_MAX)
		return error_set(err, "control socket '%s': the path is longer than 106 bytes",
				 asked);
	if (asked)
		snprintf(path, CONTROL_PATH_MAX, "%s", asked);
	else if (default_path(path, CONTROL_PATH_MAX - 1, name, err) < 0)
		return -1;
	return check_free(path, err) < 0 ? -1 : listen_at(path, err);
}
