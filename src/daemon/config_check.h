/* SPDX-License-Identifier: MIT */
/* Checks a configuration as a whole, beyond its single values. */
#ifndef DAEMON_CONFIG_CHECK_H
#define DAEMON_CONFIG_CHECK_H

#include "daemon/problems.h"
#include "daemon/settings.h"

/* Adds every problem to p; normalises paths ("//", trailing "/"), and copies classes to their
 * mounts. */
void config_check(struct configuration *c, struct problems *p);

#endif
