/* SPDX-License-Identifier: MIT */
/* Reading the configuration file again: adds, removes and changes mounts and limits. */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include <stdio.h>

#include "daemon/problems.h"
#include "daemon/registry.h"

/* -1 with the problems of the file, and nothing has changed.  0: done; what was done and what
 * could not be is said in the log and (unless NULL) as records notes.N to `out`. */
int reload(struct registry *r, struct problems *p, FILE *out);

#endif
