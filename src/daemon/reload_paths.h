/* SPDX-License-Identifier: MIT */
/* Checks the sources and mountpoints of the mounts that a reload would make, before it changes anything: a working mount
 * must not be removed in favour of one that cannot be made.
 *
 * Looking at a path may hang, so tasks do it:
 *
 *	reload_paths ─▶ not known, tasks start … registry->looked ─▶ reload_paths ─▶ problems, or none
 *
 * If a path does not respond for a while, its mount is refused if it would replace a working one; otherwise nothing is lost
 * by trying.  An answer is valid for one reload and must then be forgotten.  Main thread only. */
#ifndef DAEMON_RELOAD_PATHS_H
#define DAEMON_RELOAD_PATHS_H

#include <stdbool.h>

#include "daemon/problems.h"

struct changes;
struct registry;

/* Adds a problem, with its line in the file, for every new mount that cannot be made.  True: that is not known yet; ask
 * again when registry->looked is set. */
bool reload_paths(const struct changes *j, struct problems *p);

void reload_paths_progress(struct registry *r); /* notices tasks that take too long */
void reload_paths_end(struct registry *r);	/* forgets the answer */

#endif
