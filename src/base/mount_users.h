/* SPDX-License-Identifier: MIT */
/* Finds the processes that use a mount, by their open files, working and root directories and
 * mapped files, among all processes that we may inspect.
 *
 * Reads only /proc, never a file of the mount, so it works while the mount is paused, hung or dead.
 * Mounts are identified by device number, so bind mounts and other mount namespaces are included.
 * Looking at other users' processes needs CAP_SYS_PTRACE. */
#ifndef BASE_MOUNT_USERS_H
#define BASE_MOUNT_USERS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct mount_user {
	pid_t pid;
	uid_t uid;
	char name[32]; /* the program's name, from /proc/PID/comm; one line */
	unsigned files, mapped;
	bool cwd, root;
};

struct mount_users {
	struct mount_user *user;
	unsigned n;
	unsigned hidden; /* number of processes that we may not inspect */
};

/* The device of what is mounted at exactly this path; false: nothing is. */
bool mount_device(const char *mountpoint, dev_t *device);
/* Finds all users except the calling process.  False: no /proc, or out of memory.  Call
 * mount_users_free in either case. */
bool mount_users_find(struct mount_users *u, dev_t device);
void mount_users_free(struct mount_users *u);
/* "bash (process 17, user 0): working directory, 2 open files" */
void mount_user_print(const struct mount_user *u, FILE *out);

#endif
