/* SPDX-License-Identifier: MIT */
/* The configuration file: [global], [fs:NAME], [mount:NAME], [class:NAME], [weights]. */
#ifndef DAEMON_CONFIG_FILE_H
#define DAEMON_CONFIG_FILE_H

#include <stddef.h>

#include "daemon/problems.h"
#include "daemon/settings.h"

#define CONFIG_SIZE_MAX (1U << 20)

/* Reads and checks a file.  0, or -1 with every problem in p (file set by the caller's path) and
 * `c` empty.  Looks at no source and no mountpoint: that is for mounting. */
int config_load(struct configuration *c, const char *path, struct problems *p);
/* The same for text that is already here; it is written to. */
int config_parse(struct configuration *c, char *text, size_t size, struct problems *p);

#endif
