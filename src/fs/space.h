/* SPDX-License-Identifier: MIT */
/* Limits on what a source tree may hold (size=, inodes=), and the count of what it holds.
 *
 * One struct space belongs to one tree and is shared by all mirrors of it.  Until a limit is set, nothing is counted, and an
 * operation pays only for the test of a flag.  From then on changes are counted until the last mirror is freed.
 *
 *	limits set ─▶ counting: every change is recorded (space_table.h)
 *	                 └─▶ saved total, or scan ─▶ enforcing: requests that do not fit are refused
 *	                                                └─▶ last mirror freed: total saved, tables freed
 *
 * A thread, the keeper, does the slow parts: it scans the tree; it checks files again whose blocks may have changed without
 * a request (delayed allocation); and it rescans on request, and slowly about every hour, to notice changes made directly in
 * the tree.
 *
 * The way of counting is behind struct space_ops: currently the daemon counts (space_counted).  A filesystem that can count
 * a directory itself (project quotas) would be another table.
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

/* 0: no limit. */
struct space_limits {
	uint64_t bytes, inodes;
};
static inline bool space_limits_any(const struct space_limits *l)
{
	return l->bytes || l->inodes;
}

/* The limits of one mount. */
struct space_policy {
	struct space_limits limits;
	bool edquot; /* on_quota=edquot */
};

/* state_dir: where totals are kept; NULL: nowhere.  NULL: out of memory. */
struct space *space_new(const char *state_dir);
void space_free(struct space *sp); /* no mirror may use it any more; NULL is allowed */
/* No further mirror will use it.  Until its last one is freed, another space of the same tree waits for the total. */
void space_retire(struct space *sp);

/* The limits of the tree; those of a mount apply as well (fs_set_space).  Starts counting if necessary. */
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
	uint64_t scanned;	    /* files, by the current scan */
	uint64_t refused;	    /* requests, for lack of space or inodes */
	uint64_t scans;		    /* completed ones */
	int64_t corrected;	    /* bytes by which the last scan corrected the count */
	uint64_t scan_ns;	    /* duration of the last scan */
};
void space_look(const struct space *sp, struct space_look *out);

#endif
