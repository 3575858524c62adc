/* SPDX-License-Identifier: MIT */
/* What can be wrong with a configuration beyond its single values. */
#ifndef DAEMON_CONFIG_CHECK_H
#define DAEMON_CONFIG_CHECK_H

#include "daemon/problems.h"
#include "daemon/settings.h"

/* Adds every problem to p; normalises paths ("//", trailing "/"), gives every mount its classes. */
void config_check(struct configuration *c, struct problems *p);

#endif
