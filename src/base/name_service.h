/* SPDX-License-Identifier: MIT */
/* The numbers of users and groups, by name.
 *
 * A lookup may take any time and make any system call, since name service modules open network
 * sockets and ask other daemons.  Don't call it from an event loop, or in a process with a system
 * call filter. */
#ifndef BASE_NAME_SERVICE_H
#define BASE_NAME_SERVICE_H

#include <stdint.h>

#define NAME_SERVICE_NONE   (-1) /* there is no such name */
#define NAME_SERVICE_FAILED (-2) /* the lookup failed, so it is not known */

/* `kind` is 'u' for a user, 'g' for a group.  The number, or NAME_SERVICE_*. */
int64_t name_service_find(char kind, const char *name);

#endif
