/* SPDX-License-Identifier: MIT */
/* Finds the mount that a path is on without accessing any FUSE filesystem: one that is paused,
 * hung or dead would not respond. */
#ifndef CTL_LOCATE_H
#define CTL_LOCATE_H

/* The path without "." and "..", with links resolved up to the first FUSE mount on the way; what
 * is inside that is left as written.  To be freed; NULL: it cannot be resolved, or out of memory. */
char *locate_path(const char *path);
/* The mountpoint that such a path is on.  To be freed; NULL: /proc cannot be read, or out of
 * memory. */
char *locate_mountpoint(const char *path);

#endif
