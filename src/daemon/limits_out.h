/* SPDX-License-Identifier: MIT */
/* Every limit that a request meets on its way, of all scopes, as records (daemon/proto.h). */
#ifndef DAEMON_LIMITS_OUT_H
#define DAEMON_LIMITS_OUT_H

#include <stdio.h>

#include "daemon/target.h"

/* Those of the target's own scope and of the wider ones, for a mount also those of its classes, as
 * PATH.0.scope, PATH.0.name and so on.  The one that makes requests wait most has "bottleneck" true.
 * False: out of memory, a value is missing. */
bool limits_records(const struct target *t, const char *path, FILE *out);

#endif
