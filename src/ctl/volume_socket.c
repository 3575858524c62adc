/* SPDX-License-Identifier: MIT */
#include "ctl/volume_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define PASSED_FD 3 /* the first descriptor that the service manager passes */

static int set_address(struct sockaddr_un *a, const char *path, struct error *err)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(a->sun_path))
		return error_set(err, "%s: is longer than %zu bytes", path,
				 sizeof(a->sun_path) - 1);
	memcpy(a->sun_path, path, strlen(path));
	return 0;
}

/* The address for READY=1.  It is removed from the environment, so that the daemon that the plugin
 * starts does not send READY=1 as well. */
static char *notify;

/* Reads the variables of the service manager and removes them from the environment. */
static bool is_passed(void)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	bool passed = pid && n && strtol(pid, NULL, 10) == getpid() && strcmp(n, "1") == 0;
	const char *where = getenv("NOTIFY_SOCKET");
	notify = where ? strdup(where) : NULL;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("NOTIFY_SOCKET");
	return passed;
}

static bool is_answered(const struct sockaddr_un *a)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0;
}

/* /run/docker/plugins exists only if Docker has been started. */
static void make_directories_of(const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	for (char *p = copy ? strchr(copy + 1, '/') : NULL; p; p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(copy, 0755);
		*p = '/';
	}
}

static int listen_at(const char *path, struct error *err)
{
	struct sockaddr_un a;
	struct stat st;
	if (set_address(&a, path, err) < 0)
		return -1;
	make_directories_of(path);
	if (is_answered(&a))
		return error_set(err, "%s: another plugin listens there", path);
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path);
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	mode_t old = umask(0177); /* no other thread runs yet */
	int rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&a, sizeof(a));
	umask(old);
	if (rc < 0 || listen(fd, SOMAXCONN) < 0)
		return error_set(err, "%s: %s", path, strerror(errno));
	return take_fd(&fd);
}

int volume_socket_open(const char *path, struct error *err)
{
	if (!is_passed())
		return listen_at(path, err);
	int listens = 0;
	socklen_t size = sizeof(listens);
	if (fcntl(PASSED_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    getsockopt(PASSED_FD, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0)
		return error_set(err, "the socket of the service manager: %s", strerror(errno));
	return listens ? PASSED_FD
		       : error_set(err, "the socket of the service manager does not listen");
}

void volume_socket_ready(void)
{
	AUTO_FREE char *path = take_ptr(&notify);
	struct sockaddr_un a;
	struct error ignored;
	if (!path || set_address(&a, path, &ignored) < 0)
		return;
	if (a.sun_path[0] == '@')
		a.sun_path[0] = '\0'; /* an abstract address */
	AUTO_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + strlen(path);
	if (fd < 0 || sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&a, len) < 0)
		log_debug("NOTIFY_SOCKET: %s", strerror(errno));
}
