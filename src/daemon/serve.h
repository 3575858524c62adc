/* SPDX-License-Identifier: MIT */
/* The daemon's life: start what the configuration says, serve until told to stop or until nothing
 * is mounted any more, end in order. */
#ifndef DAEMON_SERVE_H
#define DAEMON_SERVE_H

#include <stdbool.h>

#include "daemon/settings.h"

enum { EXIT_CODE_OK = 0, EXIT_CODE_FAILED = 1, EXIT_CODE_USAGE = 2 };

/* Returns the exit code.  ready_fd: of background_start, or -1 in the foreground.  Messages go to
 * the log. */
int serve(const struct configuration *c, bool debug, int ready_fd);

#endif
