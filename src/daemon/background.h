/* SPDX-License-Identifier: MIT */
/* Moves to the background: the parent waits until the daemon serves its mounts or fails. */
#ifndef DAEMON_BACKGROUND_H
#define DAEMON_BACKGROUND_H

/* Forks; no threads may exist yet.  In the child, returns the fd for background_ready; the parent
 * does not return but exits with the daemon's exit code.  -1: could not fork (errno). */
int background_start(void);
/* The mounts work: lets the parent exit with 0, detaches from the terminal, and logs to syslog.
 * -1 for `fd` means the foreground: only the service manager is notified. */
void background_ready(int fd);
/* Closes inherited descriptors, except stdio and `keep` (-1: none). */
void background_close_inherited(int keep);

#endif
