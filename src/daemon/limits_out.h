/* SPDX-License-Identifier: MIT */
/* Every limit that applies to a request, of all scopes, as JSON. */
#ifndef DAEMON_LIMITS_OUT_H
#define DAEMON_LIMITS_OUT_H

#include "daemon/target.h"
#include "proto/json_out.h"

/* "limits_met": the limits of the target's own scope and of the wider ones; for a mount also those
 * of its classes.  The limit that the target's requests waited for longest has "bottleneck" true. */
void put_limits_met(struct json_out o, const struct target *t);

/* True: a limit applies to reads or writes of the mount, or to its space; open files may bypass that. */
bool limits_data(const struct served_mount *m);

#endif
