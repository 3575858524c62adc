/* SPDX-License-Identifier: MIT */
/* Reading the configuration file again: adds, removes and changes mounts and limits. */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "daemon/commands.h"
#include "daemon/problems.h"
#include "daemon/registry.h"

/* In steps, none of which waits:
 *
 *	file, names, paths and uses known? ─ no ─▶ RELOAD_LATER … ─▶ once more
 *	                └ yes ─▶ compared with what runs, everything allocated ─ no memory ─▶ RELOAD_FAILED
 *	                            └ all limits change at the same moment, mounts begin to come up and go down
 *	                              ─▶ RELOAD_DONE
 *
 * What did not change is not touched.
 * RELOAD_REFUSED  the file has problems, a source or mountpoint of a new mount cannot be used (daemon/reload_paths.h),
 *                 or (without `force`) a mount that would be removed is in use.  Nothing has changed; `p` says why.
 * RELOAD_FAILED   out of memory.  Nothing has changed; `p` says why.
 * RELOAD_LATER    nothing has changed yet: the file or a profile is being read, or names in it, the paths of new mounts, or the users of a mount that
 *                 would be removed, are being looked up.  Call again when names_receive returns true or
 *                 registry->looked is set.
 * RELOAD_DONE     the new limits are in force.  Mounts that still come up or go down are in
 *                 reply->await.  The log and the notes of the reply say what was done.  If a new mount
 *                 cannot be made, everything is undone (daemon/reload_back.h), which is logged, and is
 *                 an error of the reply; so is an old mount that fails once more.
 * `reply` may be NULL. */
enum reload_result { RELOAD_FAILED = -2, RELOAD_REFUSED, RELOAD_DONE, RELOAD_LATER };
struct reload_how {
	bool force;
	bool again; /* it was RELOAD_LATER */
};
enum reload_result reload(struct registry *r, struct reload_how how, struct problems *p,
			  struct command_reply *reply);

/* Call when `reload` has returned anything but RELOAD_LATER. */
void reload_forget_looks(struct registry *r);

/* Reads the file again and mounts [mount:NAME], unless it is already mounted.  This adds a mount
 * without touching the others, and without undoing what `set` has changed in them.  Mounts that are
 * down and no longer in the file are forgotten.  Results as above; RELOAD_DONE also if the reply
 * has an error. */
enum reload_result reload_mount(struct registry *r, const char *name, bool again,
				struct problems *p, struct command_reply *reply);

#endif
