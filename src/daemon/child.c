/* SPDX-License-Identifier: MIT */
#include "daemon/child.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int child_start(int socket_type, child_run *run)
{
	int fds[2];
	if (socketpair(AF_UNIX, socket_type | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	pid_t child = fork();
	if (child == 0)
		run(fds[1]);
	int error = errno;
	close(fds[1]);
	if (child > 0)
		return fds[0];
	close(fds[0]);
	return -error;
}
