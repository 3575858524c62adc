/* SPDX-License-Identifier: MIT */
/* Creates the control socket and listens on it. */
#ifndef DAEMON_CONTROL_SOCKET_H
#define DAEMON_CONTROL_SOCKET_H

#include "base/error.h"

#define CONTROL_PATH_MAX 108

/* Creates the socket at `asked` or, if that is NULL, in the runtime directory, named after `name`
 * and the process ID.  Replaces the socket of a dead daemon, but never one that somebody listens
 * on.  Returns the descriptor and fills in `path`, or returns -1 with err.  Changes the umask for a
 * moment, so call it before there are threads. */
int control_socket_make(const char *asked, const char *name, char path[CONTROL_PATH_MAX],
			struct error *err);

#endif
