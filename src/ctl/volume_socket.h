/* SPDX-License-Identifier: MIT */
/* The socket on which the container engine calls: from the service manager, or made by the plugin itself. */
#ifndef CTL_VOLUME_SOCKET_H
#define CTL_VOLUME_SOCKET_H

#include "base/error.h"

/* A listening socket: the one that the service manager has passed, else a new one at `path`, mode 0600.  A socket there
 * that nobody listens at is replaced.  -1 with err. */
int volume_socket_open(const char *path, struct error *err);
/* Tells the service manager, if there is one, that calls are answered. */
void volume_socket_ready(void);

#endif
