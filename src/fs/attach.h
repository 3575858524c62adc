/* SPDX-License-Identifier: MIT */
/* Mounts with mount(2) alone.  libfuse would also run /bin/mount, to update an /etc/mtab that has been a
 * link for many years; but a privileged daemon may not start programs (daemon/seccomp.c). */
#ifndef FS_ATTACH_H
#define FS_ATTACH_H

#include "base/error.h"

/* Takes options as libfuse does: "ro,allow_other,fsname=a\,b".  Returns the descriptor of the FUSE
 * connection; -1 with err; or -2 if this process may not mount. */
int attach(const char *mountpoint, const char *options, struct error *err);

/* Remounts: replaces the flags (ro, noexec, …) of an existing mount by those of these options, as mount(8)
 * does.  Other options are ignored.  0, or -1 with err. */
int attach_remount(const char *mountpoint, const char *options, struct error *err);

#endif
