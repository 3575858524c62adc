/* SPDX-License-Identifier: MIT */
/* The process that starts helpers (ratefs-pool) for a daemon whose system call filter forbids
 * starting programs.  It is forked before the filter is installed and keeps the daemon's
 * privileges, which the helper drops.  It reads nothing but the daemon's requests to start a
 * helper, and ends with the daemon. */
#ifndef DAEMON_POOL_LAUNCHER_H
#define DAEMON_POOL_LAUNCHER_H

/* Returns the socket of the launcher, or -errno. */
int pool_launcher_start(void);
/* Asks for a helper that has `fd` as its descriptor 3.  0 or -errno; the caller
 * closes its copy of fd. */
int pool_launcher_launch(int launcher, int fd);

#endif
