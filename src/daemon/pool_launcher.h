/* SPDX-License-Identifier: MIT */
/* The process that starts helpers (ratefs-pool) for a daemon whose system call filter lets it start no
 * programs.  It is forked before the filter, keeps the daemon's rights for the helper to drop, reads nothing
 * but the daemon's word to start one, and ends with the daemon. */
#ifndef DAEMON_POOL_LAUNCHER_H
#define DAEMON_POOL_LAUNCHER_H

/* The socket, or -errno. */
int pool_launcher_start(void);
/* Has a helper started with `fd` as its descriptor 3.  0 or -errno; the caller closes its copy of fd. */
int pool_launcher_launch(int launcher, int fd);

#endif
