/* SPDX-License-Identifier: MIT */
/* Where the control socket is: makes it, and listens. */
#ifndef DAEMON_CONTROL_SOCKET_H
#define DAEMON_CONTROL_SOCKET_H

#include "base/error.h"

#define CONTROL_PATH_MAX 108

/* A socket at `asked`, or (NULL) in the runtime directory, named after `name` and the process; nobody else's is
 * replaced, but what a dead daemon has left is removed.  Returns the descriptor with its path, or -1 with err.
 * Call before there are threads: it sets the umask for a moment. */
int control_socket_make(const char *asked, const char *name, char path[CONTROL_PATH_MAX],
			struct error *err);

#endif
