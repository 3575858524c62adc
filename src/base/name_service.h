/* SPDX-License-Identifier: MIT */
/* The numbers of users and groups, by name.
 *
 * A lookup may take any time and any system call, since name service modules open network sockets and ask
 * other daemons: not for a thread that others wait for, nor behind a filter on system calls. */
#ifndef BASE_NAME_SERVICE_H
#define BASE_NAME_SERVICE_H

#include <stdint.h>

#define NAME_SERVICE_NONE   (-1) /* there is no such name */
#define NAME_SERVICE_FAILED (-2) /* it could not be found out */

/* `kind` is 'u' for a user, 'g' for a group.  The number, or NAME_SERVICE_*. */
int64_t name_service_find(char kind, const char *name);

#endif
