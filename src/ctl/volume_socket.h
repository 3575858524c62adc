/* SPDX-License-Identifier: MIT */
/* The socket that container engines connect to: passed by the service manager, or created by the plugin. */
#ifndef CTL_VOLUME_SOCKET_H
#define CTL_VOLUME_SOCKET_H

#include "base/error.h"

/* A listening socket: the one that the service manager has passed, else a new one at `path`, mode 0600.  A stale
 * socket at that path is replaced.  -1 with err. */
int volume_socket_open(const char *path, struct error *err);
/* Tells the service manager, if there is one, that calls are answered. */
void volume_socket_ready(void);

#endif
