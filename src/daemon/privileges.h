/* SPDX-License-Identifier: MIT */
/* What the daemon may do once it runs: as little as serving needs.  See SECURITY.
 *
 *	main ─▶ privileges_enter      no core dumps, private umask
 *	        options, configuration, fork into the background
 *	        privileges_drop       capabilities, no_new_privs, system call filter
 *	        threads, mounts       inherit all of it
 *
 * A daemon without CAP_SYS_ADMIN keeps what it has: it needs the set-user-ID fusermount3 to mount
 * and to unmount, which no_new_privs (and so a filter) would disarm, and it can do no more than
 * the user who started it. */
#ifndef DAEMON_PRIVILEGES_H
#define DAEMON_PRIVILEGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* At the start: gives descriptors 0 to 2 something to be, ends core dumps and ptrace by the same
 * user (both would show file data), sets the umask to 077. */
void privileges_enter(void);

/* True where privileges_drop has something to drop: we are (a kind of) root. */
bool privileges_privileged(void);

/* The capabilities that we have, a bit each. */
uint64_t privileges_permitted(void);
/* Gives up all capabilities that are not in this set, also for programs that we become. */
void privileges_restrict(uint64_t capabilities);

/* For the thread that calls it and all that it starts: call before the first one is started.
 * Does nothing where there is nothing to drop.  -1 with err: do not go on. */
int privileges_drop(struct error *err);

/* The filter alone (seccomp.c). */
int seccomp_install(struct error *err);

#endif
