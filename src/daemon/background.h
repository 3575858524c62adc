/* SPDX-License-Identifier: MIT */
/* Going to the background: the parent stays until the daemon says that it serves, or why not. */
#ifndef DAEMON_BACKGROUND_H
#define DAEMON_BACKGROUND_H

/* Forks; no threads may run yet.  In the child returns the fd to hand to background_ready; the
 * parent does not return: it exits with the daemon's code.  -1: could not fork (errno). */
int background_start(void);
/* The mounts answer: lets the parent exit 0, detaches from the terminal, log to syslog.
 * -1 for `fd` means the foreground: nothing is done but telling the service manager. */
void background_ready(int fd);
/* Closes what was inherited, except stdio and `keep` (-1: nothing). */
void background_close_inherited(int keep);

#endif
