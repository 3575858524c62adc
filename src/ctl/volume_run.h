/* SPDX-License-Identifier: MIT */
/* Runs a program and captures its output. */
#ifndef CTL_VOLUME_RUN_H
#define CTL_VOLUME_RUN_H

#include "base/error.h"

/* Runs argv[0] (a path, or looked up in PATH) with nothing on its standard input, until it ends.  Returns its exit status, and
 * what it wrote to standard output and error (malloc'd, to be freed even after an error).  -1 with err: it could not be
 * started, or was killed. */
int volume_run(const char *const *argv, char **output, struct error *err);

#endif
