/* SPDX-License-Identifier: MIT */
#include "ctl/volume_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DEPTH_MAX 200 /* directories open at the same time; deeper ones are first moved up */

struct deletion {
	int root;
	dev_t device;
	unsigned long tried, moved; /* up into the root */
	int rc;
};

static void delete_entries(struct deletion *d, int fd, unsigned depth);

static void note(struct deletion *d)
{
	if (!d->rc && errno != ENOENT)
		d->rc = -errno;
}

/* Moves a directory that is too deep up into the root, where the loop of volume_tree_delete finds it. */
static void move_up(struct deletion *d, int parent, const char *name)
{
	char target[40];
	snprintf(target, sizeof(target), ".ratefs-deep-%lu", d->tried++);
	if (renameat(parent, name, d->root, target) == 0)
		d->moved++;
	else
		note(d);
}

/* -1 with EXDEV: something is mounted there, perhaps another directory of the same filesystem. */
static int open_directory(int parent, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
			       .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(SYS_openat2, parent, name, &how, sizeof(how));
	return fd < 0 && errno == ENOSYS ? openat(parent, name, (int)how.flags) : fd;
}

static void delete_directory(struct deletion *d, int parent, const char *name, unsigned depth)
{
	struct stat st;
	AUTO_FD fd = open_directory(parent, name);
	if (fd < 0 || fstat(fd, &st) < 0) {
		note(d);
		return;
	}
	if (st.st_dev == d->device)
		delete_entries(d, fd, depth);
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0)
		note(d);
}

static void delete_entry(struct deletion *d, int fd, const char *name, unsigned depth)
{
	if (unlinkat(fd, name, 0) == 0)
		return;
	if (errno != EISDIR && errno != EPERM) {
		note(d);
		return;
	}
	if (depth < DEPTH_MAX)
		delete_directory(d, fd, name, depth + 1);
	else
		move_up(d, fd, name);
}

static void delete_entries(struct deletion *d, int fd, unsigned depth)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* its own offset, 0 */
	AUTO_DIR dir = again < 0 ? NULL : fdopendir(again);
	if (!dir) {
		note(d);
		if (again >= 0)
			close(again);
		return;
	}
	for (const struct dirent *e; (e = readdir(dir));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			delete_entry(d, fd, e->d_name, depth);
}

int volume_tree_delete(int dir_fd, const char *name)
{
	struct stat st;
	AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	struct deletion d = {.root = fd, .device = st.st_dev};
	unsigned long before;
	do {
		before = d.moved;
		d.rc = 0;
		delete_entries(&d, fd, 0);
	} while (d.moved > before); /* once more for what was moved up */
	if (!d.rc && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		d.rc = -errno;
	return d.rc;
}
