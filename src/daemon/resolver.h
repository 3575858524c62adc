/* SPDX-License-Identifier: MIT */
/* A process that looks up names for a running daemon.  It has no system call filter, so that any
 * NSS module works in it, and no capabilities or descriptors of the daemon; nobody waits for it.
 * Each query is answered by a child process, so that a module that hangs (RESOLVER_PATIENCE_S) or
 * crashes does not affect later queries.
 *
 * A query is its length (uint32_t) and, for each name, 'u' or 'g', the name, NUL.  The answer has an
 * int64_t for each: the number, RESOLVER_NONE or RESOLVER_FAILED. */
#ifndef DAEMON_RESOLVER_H
#define DAEMON_RESOLVER_H

#include <stdint.h>

#define RESOLVER_NONE	    (-1)
#define RESOLVER_FAILED	    (-2)
#define RESOLVER_PATIENCE_S 5

/* Returns the socket, or -errno.  The process exits when the socket is closed. */
int resolver_start(void);

/* Looks up one name in this process. */
int64_t resolver_look_up(char kind, const char *name);

#endif
