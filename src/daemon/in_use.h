/* SPDX-License-Identifier: MIT */
/* Whether a mount is in use, asked before it is taken away: by open files, working directories, mapped
 * files, or mounts that lie on it.
 *
 * The kernel knows, and tells a daemon that may unmount (fs/detach.h); a user's daemon has nobody but its
 * user to look for, whose processes it sees (base/mount_users.h).  Either way the answer may take a while,
 * since the way to the mountpoint may lead through a source that hangs, so a task asks:
 *
 *	in_use ─▶ USE_UNKNOWN, a task looks … registry->looked ─▶ in_use ─▶ USE_NONE or USE_SOME
 *
 * Answers are good for one decision: whoever has decided forgets them.  Main thread only. */
#ifndef DAEMON_IN_USE_H
#define DAEMON_IN_USE_H

#include <stdbool.h>

#include "proto/json_out.h"

struct registry;
struct served_mount;

enum use { USE_NONE, USE_SOME, USE_UNKNOWN };

enum use in_use(struct served_mount *m);
/* What is known of USE_SOME, with `names` as far as the daemon sees them: "2 open files; bash (process 17, user
 * 0): working directory".  To be freed; NULL: out of memory. */
char *in_use_text(const struct served_mount *m, bool names);
/* Puts the name and the device of every mount that was found in use just now, by which clients find its users:
 * the daemon may not look at all processes. */
void in_use_put(struct json_out list, const struct registry *r);

void in_use_progress(struct registry *r); /* looks that take too long count as USE_SOME */
void in_use_end(struct registry *r);	  /* forgets all answers */
void in_use_forget(struct served_mount *m);

#endif
