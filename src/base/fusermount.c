/* SPDX-License-Identifier: MIT */
#include "base/fusermount.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

static char search[PATH_MAX] = DEFAULT_PATH;

void fusermount_init(void)
{
	const char *path = getenv("PATH");
	if (path && strlen(path) < sizeof(search))
		snprintf(search, sizeof(search), "%s", path);
}

/* Like posix_spawnp, with the PATH remembered.  Directories that are not absolute are skipped. */
static int spawn(pid_t *pid, const char *const *argv)
{
	static char *const no_environment[] = {NULL};
	char file[PATH_MAX + 16];
	int rc = ENOENT;
	for (const char *dir = search; *dir; dir += strspn(dir, ":")) {
		int n = (int)strcspn(dir, ":");
		if (dir[0] == '/') {
			snprintf(file, sizeof(file), "%.*s/%s", n, dir, argv[0]);
			rc = posix_spawn(pid, file, NULL, NULL, (char *const *)argv,
					 no_environment);
			if (rc != ENOENT && rc != ENOTDIR && rc != EACCES)
				return rc;
		}
		dir += n;
	}
	return rc;
}

int fusermount_detach(const char *path)
{
	const char *const argv[] = {"fusermount3", "-u", "-q", "-z", "--", path, NULL};
	pid_t pid;
	int status = 0;
	int rc = spawn(&pid, argv);
	if (rc)
		return -rc;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}
