/* SPDX-License-Identifier: MIT */
/* Restricts the daemon to what it needs for serving.  See SECURITY.
 *
 *	main ─▶ privileges_enter      no core dumps, private umask
 *	        options, configuration, fork into the background
 *	        privileges_drop       capabilities, no_new_privs, system call filter
 *	        threads, mounts       inherit all of it
 *
 * A daemon without CAP_SYS_ADMIN keeps what it has: it needs the set-user-ID program fusermount3 to
 * mount and unmount, which no_new_privs (and thus a filter) would prevent, and it can do no more than
 * the user who started it. */
#ifndef DAEMON_PRIVILEGES_H
#define DAEMON_PRIVILEGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Call at startup: makes sure that descriptors 0 to 2 are open, disables core dumps and ptrace by
 * the same user (both would expose file data), and sets the umask to 077. */
void privileges_enter(void);

/* True: there is something for privileges_drop to drop; we are root, or have similar capabilities. */
bool privileges_privileged(void);

/* Our capabilities, one bit each. */
uint64_t privileges_permitted(void);
/* Drops all capabilities that are not in this set, also for programs that we execute. */
void privileges_restrict(uint64_t capabilities);

/* Affects the calling thread and all threads that it starts: call it before the first one.  Does
 * nothing if there is nothing to drop.  `uring` keeps the system calls of io_uring.  0, or -1 with
 * err: do not continue. */
int privileges_drop(bool uring, struct error *err);

/* Installs only the system call filter (seccomp.c). */
int seccomp_install(bool uring, struct error *err);

#endif
