/* SPDX-License-Identifier: MIT */
/* Which mount a path lies on, found without asking any FUSE filesystem: one that is paused, hung or
 * dead would not answer. */
#ifndef CTL_LOCATE_H
#define CTL_LOCATE_H

/* The path without "." and "..", its links resolved up to the first FUSE mount on the way; what lies
 * in that is taken as it is written.  To be freed; NULL: it cannot be resolved, or no memory. */
char *locate_path(const char *path);
/* The mountpoint that such a path lies on.  To be freed; NULL: /proc cannot be read, or no memory. */
char *locate_mountpoint(const char *path);

#endif
