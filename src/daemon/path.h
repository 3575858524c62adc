/* SPDX-License-Identifier: MIT */
/* Paths of sources and mountpoints. */
#ifndef DAEMON_PATH_H
#define DAEMON_PATH_H

#include <stdbool.h>

#include "base/error.h"

/* An absolute name for `path`, links resolved as far as it exists; never asks the last component
 * more than lstat does, and copes with a dead mount there.  NULL: out of memory. */
char *path_absolute(const char *path);

/* Is it a directory that can be read?  0 or -1 with err. */
int path_check_source(const char *path, struct error *err);
/* One of /, /dev, /proc, /sys, by its absolute name. */
bool path_is_system(const char *real);
/* Is it a directory?  A dead FUSE mount there is taken away first, with a warning in the log.
 * Unless `force`, a directory that the system cannot do without is refused, and one where ratefs is
 * mounted already: a second mount would hide the first and throttle what it shows once more. */
int path_check_mountpoint(const char *path, bool force, struct error *err);
/* "/dev/fd/N": mount(8) has opened and mounted /dev/fuse for us.  The number, or -1. */
int path_passed_fd(const char *mountpoint);

#endif
