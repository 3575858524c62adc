/* SPDX-License-Identifier: MIT */
/* The process that looks names up for a daemon that serves: it has no system call filter, so any NSS
 * module works in it; no capability and no descriptor of the daemon; and nobody waits for it.  Each
 * query is answered by a child of its own, so neither a module that hangs (RESOLVER_PATIENCE_S) nor
 * one that crashes spoils the next.
 *
 * A query is its length (uint32_t) and for each name 'u' or 'g', the name, NUL.  The answer is an
 * int64_t for each, as of name_service_find (base/name_service.h). */
#ifndef DAEMON_RESOLVER_H
#define DAEMON_RESOLVER_H

#define RESOLVER_PATIENCE_S 5

/* The socket, or -errno.  The process ends when the socket is closed. */
int resolver_start(void);

#endif
