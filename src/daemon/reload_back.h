/* SPDX-License-Identifier: MIT */
/* The way back of a reload.  Whether a mount can be made is known only when it has been made, and what it replaces must be
 * gone by then.  So a reload first notes what runs; if one of its new mounts fails, that is loaded as if a file said it:
 *
 *	reload ─▶ new mounts come up … all are up ─▶ settled
 *	                              ├ one takes long, or somebody changes anything else ─▶ settled
 *	                              └ one fails ─▶ back: old mounts come up … ─▶ settled
 *
 * It covers settings, names, scopes, pools, pauses, and which mounts are up; not counters and levels of mounts that are made
 * again, and not pauses of classes that are made again.  Main thread only. */
#ifndef DAEMON_RELOAD_BACK_H
#define DAEMON_RELOAD_BACK_H

#include "daemon/reload_internal.h"
#include "daemon/settings.h"

struct way_back {
	uint64_t serial;	  /* of the reload */
	struct configuration c;	  /* what ran */
	struct configuration own; /* only `fs`: the scopes that belong to one mount, named like it */
	struct was {
		bool up, paused;
	} * mount;	 /* of c.mount */
	bool *fs_paused; /* of c.fs */
	int64_t until_ms;
	bool going; /* a mount failed, and what ran comes up again */
};

/* Notes what runs.  NULL: out of memory. */
struct way_back *way_back_new(struct registry *r);
void way_back_free(struct way_back *b);
/* The settings of a mount's own fs when the reload began; NULL: it had none. */
const struct settings *way_back_own_fs(const struct way_back *b, const char *mount);
const struct was *way_back_mount(const struct way_back *b, const char *name);
bool way_back_fs_paused(const struct way_back *b, const char *name);

/* Begins to watch the new mounts of a reload; takes over b. */
void reload_watch(struct registry *r, struct way_back *b);
/* What was done stays. */
void reload_settle(struct registry *r);
/* Call after a change by hand: going back would undo that as well, so the reload stays, even if a mount fails. */
void reload_keep(struct registry *r);
/* Goes back or settles, when it is time for that. */
void reload_progress(struct registry *r);

#endif
