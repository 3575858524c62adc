/* SPDX-License-Identifier: MIT */
/* Processes that the daemon starts before it has threads and a system call filter.  Later they do
 * for it what the filter forbids: look up names, start helpers.  They end when the daemon closes
 * its end of the socket. */
#ifndef DAEMON_CHILD_H
#define DAEMON_CHILD_H

/* Does not return. */
typedef void child_run(int socket);

/* Forks; the child calls run with its end of a socket pair of that type.  Returns the daemon's end, or -errno. */
int child_start(int socket_type, child_run *run);

#endif
