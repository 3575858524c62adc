/* SPDX-License-Identifier: MIT */
/* The configuration file: [global], [fs:NAME], [mount:NAME], [class:NAME],
 * [pool:NAME], [weights]. */
#ifndef DAEMON_CONFIG_FILE_H
#define DAEMON_CONFIG_FILE_H

#include <stddef.h>

#include "daemon/problems.h"
#include "daemon/settings.h"

/* Reads and checks a file.  0, or -1 with all problems in p and `c` empty.  Does not access
 * sources and mountpoints. */
int config_load(struct configuration *c, const char *path, struct problems *p);
/* The same for text in memory, which is modified. */
int config_parse(struct configuration *c, char *text, size_t size, struct problems *p);

#endif
