/* SPDX-License-Identifier: MIT */
/* Paths of sources and mountpoints. */
#ifndef DAEMON_PATH_H
#define DAEMON_PATH_H

#include <stdbool.h>

#include "base/error.h"

/* An absolute name for `path`, with symbolic links resolved as far as the path exists.  Uses only
 * lstat on the last component, so that a dead mount there does no harm.  NULL: out of memory. */
char *path_absolute(const char *path);

/* True: `path` is `dir` or below it, by its name.  Both are absolute; `dir` may be NULL. */
bool path_is_in(const char *path, const char *dir);

/* Checks that `path` is a directory that can be read.  0, or -1 with err. */
int path_check_source(const char *path, struct error *err);
/* One of /, /dev, /proc, /sys, by its absolute name. */
bool path_is_system(const char *real);
/* Checks that `path` is a directory where this user may mount.  Unmounts a dead FUSE mount there, with a warning in the log.
 * Unless `force`, refuses directories that the system needs, and those where ratefs is already
 * mounted: a second mount would hide the first, and requests would be throttled twice. */
int path_check_mountpoint(const char *path, bool force, struct error *err);
/* "/dev/fd/N": mount(8) has opened and mounted /dev/fuse for us.  The number, or -1. */
int path_passed_fd(const char *mountpoint);

#endif
