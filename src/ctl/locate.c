/* SPDX-License-Identifier: MIT */
#include "ctl/locate.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mountinfo.h"

#define LINKS_MAX 40 /* the kernel's limit */

/* --- paths ---------------------------------------------------------------------------------- */

static bool push(char *done, const char *name, size_t n)
{
	size_t len = strlen(done);
	if (len + n + 2 > PATH_MAX)
		return false;
	done[len] = '/';
	memcpy(done + len + 1, name, n);
	done[len + 1 + n] = '\0';
	return true;
}

static void pop(char *done)
{
	char *slash = strrchr(done, '/');
	if (slash)
		*slash = '\0';
}

/* `done` is a link: removes its last component and puts the link's target before the rest. */
static bool follow(char *done, const char *target, char *rest)
{
	char joined[PATH_MAX];
	if (snprintf(joined, sizeof(joined), "%s/%s", target, rest) >= (int)sizeof(joined))
		return false;
	if (target[0] == '/')
		done[0] = '\0';
	else
		pop(done);
	memcpy(rest, joined, strlen(joined) + 1);
	return true;
}

static bool is_on_fuse(const struct mountinfo *mounts, const char *path)
{
	const struct mount_line *l = mountinfo_of(mounts, path);
	return l && strncmp(l->type, "fuse", 4) == 0;
}

/* Moves components from `rest` to `done`. */
static bool walk(const struct mountinfo *mounts, char *done, char *rest)
{
	int links = 0;
	while (*rest) {
		char target[PATH_MAX];
		size_t skip = strspn(rest, "/"), n = strcspn(rest + skip, "/");
		char name[NAME_MAX + 1];
		if (n > NAME_MAX)
			return false;
		memcpy(name, rest + skip, n);
		name[n] = '\0';
		memmove(rest, rest + skip + n, strlen(rest + skip + n) + 1);
		if (n == 0 || strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") == 0) {
			pop(done);
			continue;
		}
		if (!push(done, name, n))
			return false;
		ssize_t len =
			is_on_fuse(mounts, done) ? -1 : readlink(done, target, sizeof(target) - 1);
		if (len < 0)
			continue; /* not a link, does not exist, or must not be accessed */
		target[len] = '\0';
		if (++links > LINKS_MAX || !follow(done, target, rest))
			return false;
	}
	return true;
}

char *locate_path(const char *path)
{
	char done[PATH_MAX + 1] = "", rest[PATH_MAX];
	struct mountinfo mounts;
	AUTO_FREE char *cwd = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
	bool ok = cwd && snprintf(rest, sizeof(rest), "%s/%s", cwd, path) < (int)sizeof(rest) &&
		  mountinfo_read(&mounts, "/proc/self/mountinfo");
	if (!ok)
		return NULL;
	ok = walk(&mounts, done, rest);
	mountinfo_free(&mounts);
	return ok ? strdup(done[0] ? done : "/") : NULL;
}

char *locate_mountpoint(const char *path)
{
	struct mountinfo mounts;
	const struct mount_line *l = mountinfo_read(&mounts, "/proc/self/mountinfo")
					     ? mountinfo_of(&mounts, path)
					     : NULL;
	char *where = l ? strdup(l->where) : NULL;
	mountinfo_free(&mounts);
	return where;
}
