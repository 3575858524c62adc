/* SPDX-License-Identifier: MIT */
/* The option auto_unmount: a small process for each such mount unmounts it when the daemon has
 * died, for whatever reason.  (fusermount3 offers the same, but the version in Debian 12 never
 * unmounts.)
 *
 * The process keeps nothing of the mount open, so that umount(8) works as usual, and identifies the
 * mount by its ID (fs/detach.h), so that it never unmounts another mount at the same place. */
#ifndef DAEMON_AUTO_UNMOUNT_H
#define DAEMON_AUTO_UNMOUNT_H

#include <sys/types.h>

#include "base/error.h"

struct auto_unmount {
	pid_t pid; /* 0: none */
	int fd;	   /* the daemon's end of a pipe; the process waits for it to be closed */
};

/* Starts the process for what is mounted at the absolute path `mountpoint`
 * now.  0, or -1 with err. */
int auto_unmount_start(struct auto_unmount *a, const char *mountpoint, struct error *err);
/* Ends the process without unmounting.  Harmless if there is none. */
void auto_unmount_stop(struct auto_unmount *a);

#endif
