/* SPDX-License-Identifier: MIT */
/* Every limit that a request meets on its way, of all scopes, as JSON. */
#ifndef DAEMON_LIMITS_OUT_H
#define DAEMON_LIMITS_OUT_H

#include "daemon/target.h"
#include "proto/json_out.h"

/* "limits_met": those of the target's own scope and of the wider ones, for a mount also those of its classes.  The
 * one that makes requests wait most has "bottleneck" true. */
void put_limits_met(struct json_out o, const struct target *t);

#endif
