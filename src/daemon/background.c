/* SPDX-License-Identifier: MIT */
#include "daemon/background.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

/* The daemon exited without calling background_ready: it has printed the reason, unless it was
 * killed. */
static int code_of(pid_t child)
{
	int status;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	if (WIFSIGNALED(status))
		log_error("the daemon was killed by signal %d before the mount was ready",
			  WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1;
}

static _Noreturn void wait_for_daemon(int fd, pid_t child)
{
	char ok;
	ssize_t n;
	do
		n = read(fd, &ok, 1);
	while (n < 0 && errno == EINTR);
	_exit(n == 1 ? 0 : code_of(child));
}

int background_start(void)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	pid_t child = fork();
	if (child < 0) {
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	if (child > 0) {
		close(fds[1]);
		wait_for_daemon(fds[0], child);
	}
	close(fds[0]);
	setsid();
	return fds[1];
}

static void detach(void)
{
	AUTO_FD null = open("/dev/null", O_RDWR | O_CLOEXEC);
	log_to_syslog("ratefs");
	if (null < 0)
		return;
	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	if (null <= 2)
		(void)take_fd(&null); /* it is one of stdin, stdout and stderr */
}

/* systemd's Type=notify, without its library: one datagram. */
static void tell_service_manager(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (!path || strlen(path) >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, strlen(path));
	if (to.sun_path[0] == '@')
		to.sun_path[0] = '\0'; /* an abstract address */
	AUTO_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + strlen(path);
	if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to, len) < 0)
		log_debug("NOTIFY_SOCKET: %s", strerror(errno));
}

void background_ready(int fd)
{
	tell_service_manager("READY=1");
	if (fd < 0)
		return;
	detach();
	if (write(fd, "", 1) < 0)
		log_warning("the process that started the daemon is gone");
	close(fd);
}

void background_close_inherited(int keep)
{
	if (keep < 3) {
		close_range(3, ~0U, 0);
		return;
	}
	if (keep > 3)
		close_range(3, keep - 1, 0);
	close_range(keep + 1, ~0U, 0);
	fcntl(keep, F_SETFD, FD_CLOEXEC);
}
