/* SPDX-License-Identifier: MIT */
/* A process that looks up names for a running daemon.  It has no system call filter, so that any
 * NSS module works in it, and no capabilities or descriptors of the daemon; nobody waits for it.
 * Each query is answered by a child process, so that a module that hangs (RESOLVER_PATIENCE_S) or
 * crashes does not affect later queries.
 *
 * A query is its length (uint32_t) and, for each name, 'u' or 'g', the name, NUL.  The answer has an
 * int64_t for each, as returned by name_service_find (base/name_service.h). */
#ifndef DAEMON_RESOLVER_H
#define DAEMON_RESOLVER_H

#define RESOLVER_PATIENCE_S 5

/* Returns the socket, or -errno.  The process exits when the socket is closed. */
int resolver_start(void);

#endif
