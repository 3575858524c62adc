/* SPDX-License-Identifier: MIT */
#include "ctl/volume_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define OUTPUT_MAX (1 << 20)

extern char **environ;

/* Reads until the program and its children have closed the pipe; output beyond OUTPUT_MAX is dropped. */
static char *read_all(int fd)
{
	char *text = NULL, part[4096];
	size_t size, kept = 0;
	FILE *out = open_memstream(&text, &size);
	ssize_t n;
	while ((n = read(fd, part, sizeof(part))) > 0 || (n < 0 && errno == EINTR)) {
		if (out && n > 0 && kept < OUTPUT_MAX)
			kept += fwrite(part, 1, n, out);
	}
	if (out && fclose(out) == 0)
		return text;
	return NULL;
}

/* The program starts with no signal blocked or ignored, since it may become a daemon. */
static int set_signals(posix_spawnattr_t *attr)
{
	sigset_t none, pipe;
	sigemptyset(&none);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	int rc = posix_spawnattr_setsigmask(attr, &none);
	rc = rc ? rc : posix_spawnattr_setsigdefault(attr, &pipe);
	return rc ? rc
		  : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int start(const char *const *argv, int out, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int rc = posix_spawn_file_actions_init(&files);
	if (rc)
		return rc;
	rc = posix_spawnattr_init(&attr);
	if (rc == 0) {
		rc = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
		rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, out, 1);
		rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, out, 2);
		rc = rc ? rc : set_signals(&attr);
		rc = rc ? rc
			: posix_spawnp(pid, argv[0], &files, &attr, (char *const *)argv, environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&files);
	return rc;
}

static int wait_for(pid_t pid, const char *name, struct error *err)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set(err, "%s: %s", name, strerror(errno));
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return error_set(err, "%s: was killed by signal %d", name, WTERMSIG(status));
}

int volume_run(const char *const *argv, char **output, struct error *err)
{
	int fds[2];
	pid_t pid;
	*output = NULL;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, "%s: %s", argv[0], strerror(errno));
	AUTO_FD in = fds[0];
	int rc = start(argv, fds[1], &pid);
	close(fds[1]);
	if (rc)
		return error_set(err, "%s: %s", argv[0], strerror(rc));
	*output = read_all(in);
	rc = wait_for(pid, argv[0], err);
	return *output || rc < 0 ? rc : error_set(err, "out of memory");
}
