/* SPDX-License-Identifier: MIT */
/* Reading the configuration file again: adds, removes and changes mounts and limits. */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "daemon/commands.h"
#include "daemon/problems.h"
#include "daemon/registry.h"

/* In steps, none of which waits:
 *
 *	file read ─▶ names and uses known? ─ no ─▶ RELOAD_LATER … ─▶ once more
 *	                └ yes ─▶ compared with what runs, everything allocated ─ no memory ─▶ RELOAD_FAILED
 *	                            └ all limits change at the same moment, mounts begin to come up and go down
 *	                              ─▶ RELOAD_DONE
 *
 * What did not change is not touched.
 * RELOAD_REFUSED: with the problems of the file, or a mount that would go is in use (not with `force`).
 * RELOAD_FAILED: there was not enough memory.  Nothing has changed after either of them; problems say why.
 * RELOAD_LATER: nothing has changed yet, since names in the file are being looked up, or who uses a mount that
 * would go; call again when names_receive or registry->looked says so.
 * RELOAD_DONE, but for mounts that come up or go down, which takes a while: they are in reply->await.  What was
 * done, and which mounts failed, is said in the log and, by notes, in the reply (NULL: nobody reads one). */
enum reload_result { RELOAD_FAILED = -2, RELOAD_REFUSED, RELOAD_DONE, RELOAD_LATER };
enum reload_result reload(struct registry *r, bool force, struct problems *p,
			  struct command_reply *reply);

/* Mounts what the file calls `name`, as the file has it now, unless it is mounted: a mount can be added without touching
 * the others, and without undoing what `set` has changed there.  Mounts that are down and no longer in the file
 * are forgotten.  Results as above; RELOAD_DONE also where the reply has an error. */
enum reload_result reload_mount(struct registry *r, const char *name, struct problems *p,
				struct command_reply *reply);

#endif
