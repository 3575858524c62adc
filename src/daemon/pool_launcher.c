/* SPDX-License-Identifier: MIT */
#include "daemon/pool_launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/child.h"
#include "pool/wire.h"

union control {
	struct cmsghdr head;
	char buf[CMSG_SPACE(sizeof(int))];
};

/* The helper is in the directory of this program, both in a build tree and when installed. */
static void find_helper(char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n < 0 ? 0 : n] = '\0';
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	if (n > 0 && (size_t)snprintf(path, size, "%s/ratefs-pool", self) < size &&
	    access(path, X_OK) == 0)
		return;
	snprintf(path, size, "%s", RATEFS_BINDIR "/ratefs-pool");
}

static _Noreturn void become_helper(const char *path, int fd)
{
	char name[] = "ratefs-pool", flag[] = "--helper";
	char *const argv[] = {name, flag, NULL}, *const env[] = {NULL};
	struct pool_report failed = {.version = POOL_WIRE_VERSION};
	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	dup2(fd, POOL_HELPER_FD);
	close_range(POOL_HELPER_FD + 1, ~0U, 0);
	execve(path, argv, env);
	snprintf(failed.error, sizeof(failed.error), "%.100s: %s", path, strerror(errno));
	send(POOL_HELPER_FD, &failed, offsetof(struct pool_report, listing), MSG_NOSIGNAL);
	_exit(1);
}

/* Waits for the next request and returns its descriptor; -1: the daemon is gone. */
static int receive_fd(int socket)
{
	union control control;
	char what;
	struct iovec iov = {&what, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t n;
	int fd = -1;
	do
		n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	const struct cmsghdr *head = n == 1 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

/* The reports of a sanitizer should be seen; but whoever started the daemon may read a pipe to its end. */
static bool keeps_stderr(void)
{
#ifdef RATEFS_SANITIZER
	struct stat st;
	return fstat(2, &st) == 0 && !S_ISFIFO(st.st_mode);
#else
	return false;
#endif
}

static _Noreturn void run(int socket)
{
	char path[PATH_MAX];
	int fd, null = open("/dev/null", O_RDWR | O_CLOEXEC);
	find_helper(path, sizeof(path));
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* helpers are not waited for; the kernel reaps them */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "ratefs-pools");
	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
		if (!keeps_stderr())
			dup2(null, 2);
	}
	dup2(socket, 4);
	fcntl(4, F_SETFD, FD_CLOEXEC);
	if (chdir("/") < 0)
		_exit(1);
	dup2(4, 3); /* closes whatever the daemon had as 3 */
	fcntl(3, F_SETFD, FD_CLOEXEC);
	close_range(5, ~0U, 0);
	while ((fd = receive_fd(4)) >= 0) {
		pid_t child = fork();
		if (child == 0)
			become_helper(path, fd);
		close(fd);
	}
	_exit(0);
}

int pool_launcher_start(void)
{
	return child_start(SOCK_SEQPACKET, run);
}

int pool_launcher_launch(int launcher, int fd)
{
	union control control = {.head = {.cmsg_len = CMSG_LEN(sizeof(fd)),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS}};
	char what = 'S';
	struct iovec iov = {&what, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	return sendmsg(launcher, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -errno;
}
