/* SPDX-License-Identifier: MIT */
/* Who uses a mount: open files, working directories, roots and mapped files of all processes, as far as
 * we may look.
 *
 * Reads nothing but text of /proc, never a file of the mount: it answers while the mount is paused, hung
 * or dead.  Mounts are told by device number, so that bind mounts and other mount namespaces count.
 * Other users' processes can be looked at by root with CAP_SYS_PTRACE only. */
#ifndef BASE_MOUNT_USERS_H
#define BASE_MOUNT_USERS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct mount_user {
	pid_t pid;
	uid_t uid;
	char name[32]; /* what it runs, as in /proc/PID/comm; one line */
	unsigned files, mapped;
	bool cwd, root;
};

struct mount_users {
	struct mount_user *user;
	unsigned n;
	unsigned hidden; /* processes that could not be looked at */
};

/* The device of what is mounted at this very path, as in mountinfo: false when nothing is. */
bool mount_device(const char *mountpoint, dev_t *device);
/* All but the calling process.  False: no /proc, or out of memory.  mount_users_free in any case. */
bool mount_users_find(struct mount_users *u, dev_t device);
void mount_users_free(struct mount_users *u);
/* "bash (process 17, user 0): working directory, 2 open files" */
void mount_user_print(const struct mount_user *u, FILE *out);

#endif
