/* SPDX-License-Identifier: MIT */
/* Prints who uses what is mounted at a path, a line each, as base/mount_users.h finds it:
 *	PID cwd=0 root=0 files=1 mapped=0 NAME */
#include <stdio.h>

#include "base/mount_users.h"

int main(int argc, char **argv)
{
	struct mount_users users;
	dev_t device;
	if (argc != 2 || !mount_device(argv[1], &device)) {
		fprintf(stderr, "mountusers: nothing is mounted there\n");
		return 1;
	}
	bool found = mount_users_find(&users, device);
	for (unsigned i = 0; i < users.n; i++) {
		const struct mount_user *u = &users.user[i];
		printf("%d cwd=%d root=%d files=%u mapped=%u %s\n", (int)u->pid, u->cwd, u->root,
		       u->files, u->mapped, u->name);
	}
	mount_users_free(&users);
	return !found;
}
