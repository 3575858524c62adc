/* SPDX-License-Identifier: MIT */
/* Finds out whether a mount is in use before it is unmounted: by open files, working directories,
 * mapped files, or mounts on it.
 *
 * A daemon with the right to unmount asks the kernel (fs/detach.h).  Any other searches the
 * processes that it can see (base/mount_users.h), normally the only ones that can use its mount.
 * Both may take a while, since the path to the mountpoint may lead through a source that hangs, so
 * a task does it:
 *
 *	in_use ─▶ USE_UNKNOWN, a task starts … registry->looked ─▶ in_use ─▶ USE_NONE or USE_SOME
 *
 * An answer is valid for one decision and must then be forgotten.  Main thread only. */
#ifndef DAEMON_IN_USE_H
#define DAEMON_IN_USE_H

#include <stdbool.h>

#include "proto/json_out.h"

struct registry;
struct served_mount;

enum use { USE_NONE, USE_SOME, USE_UNKNOWN };

enum use in_use(struct served_mount *m);
/* Describes USE_SOME; with `names`, including the processes that the daemon can see: "2 open
 * files; bash (process 17, user 0): working directory".  To be freed; NULL: out of memory. */
char *in_use_text(const struct served_mount *m, bool names);
/* Puts the name and the device number of every mount that was just found in use.  Clients use the
 * device to find the processes, because the daemon may not be allowed to see all of them. */
void in_use_put(struct json_out list, const struct registry *r);

void in_use_progress(struct registry *r); /* searches that take too long become USE_SOME */
void in_use_end(struct registry *r);	  /* forgets all answers */
void in_use_forget(struct served_mount *m);

#endif
