/* SPDX-License-Identifier: MIT */
/* Mounting with mount(2) alone.  libfuse would do it too, but runs /bin/mount for the sake of an
 * /etc/mtab that has been a link for many years, and a privileged daemon starts no programs
 * (daemon/seccomp.c). */
#ifndef FS_ATTACH_H
#define FS_ATTACH_H

#include "base/error.h"

/* Options as libfuse takes them: "ro,allow_other,fsname=a\,b".  Returns the descriptor of the
 * FUSE connection; -1 with err; or -2 where it is not for us: no right to mount, or an option that
 * needs fusermount3 (auto_unmount). */
int attach(const char *mountpoint, const char *options, struct error *err);

/* Gives a mount that is there the flags (ro, noexec, …) of these options, and no others, as
 * mount(8) has it; other options are ignored.  0, or -1 with err. */
int attach_again(const char *mountpoint, const char *options, struct error *err);

#endif
