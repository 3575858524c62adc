/* SPDX-License-Identifier: MIT */
#include "daemon/resolver.h"
#include "base/monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/name_service.h"
#include "daemon/child.h"

#define QUERY_MAX (4U << 20)

static bool read_all(int fd, void *buf, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = read(fd, (char *)buf + at, size - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static bool write_all(int fd, const void *buf, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = send(fd, (const char *)buf + at, size - at, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

/* Waits for the child for a bounded time.  SIGCHLD is blocked. */
static void wait_for(pid_t child)
{
	sigset_t set;
	uint64_t until_ns = monotonic_ns() + RESOLVER_PATIENCE_S * NSEC_PER_SEC;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	while (waitpid(child, NULL, WNOHANG) == 0) {
		if (monotonic_ns() >= until_ns) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
			return;
		}
		struct timespec nap = {.tv_sec = 1};
		sigtimedwait(&set, NULL, &nap);
	}
}

static void look_up_all(const char *query, size_t size, int64_t *answer, size_t n)
{
	for (size_t i = 0; i < n; i++)
		answer[i] = NAME_SERVICE_FAILED;
	pid_t child = fork();
	if (child < 0)
		return;
	if (child > 0) {
		wait_for(child);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (const char *at = query; at < query + size; at += strlen(at) + 1)
		*answer++ = name_service_find(at[0], at[0] ? at + 1 : "");
	_exit(0);
}

/* False: the daemon is gone. */
static bool serve_one(int fd)
{
	uint32_t size;
	if (!read_all(fd, &size, sizeof(size)) || !size || size > QUERY_MAX)
		return false;
	char *query = malloc(size);
	size_t n = 0;
	bool ok = query && read_all(fd, query, size) && query[size - 1] == '\0';
	for (uint32_t i = 0; ok && i < size; i++)
		n += query[i] == '\0';
	size_t bytes = n * sizeof(int64_t);
	int64_t *answer =
		ok ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
		   : MAP_FAILED;
	ok = answer != MAP_FAILED;
	if (ok) {
		look_up_all(query, size, answer, n);
		ok = write_all(fd, answer, bytes);
		munmap(answer, bytes);
	}
	free(query);
	return ok;
}

/* Gives up what the daemon has and this process must not have: descriptors, the terminal,
 * capabilities. */
static int leave_behind(int fd)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if (i != null)
			dup2(null, i);
	if (fd != 3 && dup2(fd, 3) < 0)
		return -1;
	close_range(4, ~0U, 0);
	fcntl(3, F_SETFD, FD_CLOEXEC);
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return 3;
}

static _Noreturn void run(int fd)
{
	sigset_t set;
	/* This process exits when the daemon closes the socket, not by signals sent to both. */
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_SETMASK, &set, NULL);
	prctl(PR_SET_NAME, "ratefs-names");
	fd = leave_behind(fd);
	while (fd >= 0 && serve_one(fd))
		;
	_exit(0);
}

int resolver_start(void)
{
	return child_start(SOCK_STREAM, run);
}
