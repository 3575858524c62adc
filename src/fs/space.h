/* SPDX-License-Identifier: MIT */
/* How much a backing tree may hold (size=, inodes=), and how much it does.
 *
 * One struct space belongs to one tree and is shared by all mirrors of it.  Nothing is counted, and nothing costs more than a
 * test of a flag, until somebody sets a limit; from then on it is, until the last mirror goes.
 *
 *	limits set ─▶ counting: every change is entered in space_table.h
 *	                 └─▶ saved total, or scan ─▶ enforcing: what does not fit is refused
 *	                                                └─▶ last mirror gone: total saved, all is forgotten
 *
 * The keeper, a thread, does all of this that takes time: the scan; looks again at files whose blocks may have changed by
 * themselves; scans again when asked, and every hour at a walking pace, for what others do in the tree.
 *
 * Who counts is behind struct space_ops: today the daemon (space_counted).  A filesystem that can do it for a
 * directory (project quotas) would be another table.
 *
 * Threads  any; space_set, space_new and space_free by the owner. */
#ifndef FS_SPACE_H
#define FS_SPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct fs;
struct space;

/* 0: none. */
struct space_limits {
	uint64_t bytes, inodes;
};
static inline bool space_limits_any(const struct space_limits *l)
{
	return l->bytes || l->inodes;
}

/* Of one mount. */
struct space_policy {
	struct space_limits limits;
	bool edquot; /* on_quota=edquot */
};

/* state_dir: where totals are kept; NULL: nowhere.  NULL: out of memory. */
struct space *space_new(const char *state_dir);
void space_free(struct space *sp); /* no mirror uses it any more; NULL will do */

/* The limits of the tree; those of a mount come on top (fs_set_space).  Begins to count if need be. */
void space_set(struct space *sp, const struct space_limits *l);
/* Waits until limits are enforced.  -1 with err: *cancel was set, or the tree cannot be scanned. */
int space_wait(struct space *sp, const _Atomic bool *cancel, struct error *err);
/* False: nothing is being counted. */
bool space_rescan(struct space *sp);

enum space_phase { SPACE_OFF, SPACE_SCANNING, SPACE_FAILED, SPACE_ENFORCING };
struct space_look {
	enum space_phase phase;
	bool rescanning;
	struct space_limits limits; /* of the tree */
	uint64_t bytes, inodes;	    /* used */
	uint64_t scanned;	    /* files, by the scan under way */
	uint64_t refused;	    /* requests, for lack of space or inodes */
	uint64_t scans;		    /* that were completed */
	int64_t corrected; /* bytes that the last of them found more than had been counted */
	uint64_t scan_ns;  /* how long that took */
};
void space_look(const struct space *sp, struct space_look *out);

#endif
