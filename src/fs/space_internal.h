/* SPDX-License-Identifier: MIT */
/* The inside of struct space: space.c (life, keeper), space_keep.c (scan, and looking again), space_hooks.c (what operations
 * ask of it). */
#ifndef FS_SPACE_INTERNAL_H
#define FS_SPACE_INTERNAL_H

#include <pthread.h>
#include <sys/statvfs.h>

#include "fs/space.h"
#include "fs/space_scan.h"
#include "fs/space_state.h"
#include "fs/space_table.h"

#define SPACE_MIRRORS	64
#define SPACE_RESCAN_NS (3600 * NSEC_PER_SEC) /* what others do in the tree is noticed after that */
#define SPACE_VERIFY_NS (30 * NSEC_PER_SEC)   /* so is what they did while it was not mounted */

/* Who counts, for one tree. */
struct space_ops {
	/* Makes the use of the tree known.  On the keeper's thread; returns early when sp->stop is set. */
	int (*start)(struct space *sp);
	/* Another look at what may have changed unnoticed; returns when to look next, in ns from now. */
	uint64_t (*tend)(struct space *sp);
	/* Counts the whole tree again. */
	int (*recount)(struct space *sp, bool slowly);
	/* The last mirror has gone. */
	void (*end)(struct space *sp);
};
extern const struct space_ops space_counted;

struct space {
	const struct space_ops *ops;
	struct space_table table;
	_Atomic uint64_t limit_bytes, limit_inodes;
	_Atomic bool counting, enforcing;
	_Atomic uint64_t refused;

	/* of the backing; set before counting begins */
	uint64_t block;	    /* bytes that it allocates at a time */
	uint64_t dir_bytes; /* what a new directory takes, as far as is known */
	bool overallocates; /* gives open files more blocks than they ask for, and takes them back */

	char *state_dir, *source;
	struct space_state state;
	int root_fd, mount_fd; /* of the first mirror; -1: none */
	bool by_handle;

	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned mirrors;		  /* lock */
	struct fs *mirror[SPACE_MIRRORS]; /* lock: those that are there, as far as there is room */
	bool keeper_runs;		  /* lock */
	bool rescan;			  /* lock: asked for */
	enum space_phase phase;		  /* lock */
	int failure;			  /* lock: -errno of a scan that failed */
	_Atomic bool stop;
	_Atomic bool rescanning;
	_Atomic bool keeper_sleeps; /* for long: nothing is to be looked at */
	pthread_t keeper;

	struct scan_progress progress;
	_Atomic uint64_t scans, scan_ns;
	_Atomic int64_t corrected;
};

/* A mirror comes and goes: fs_new and fs_free. */
int space_attach(struct space *sp, struct fs *fs); /* 0 or -ENOMEM */
void space_detach(struct space *sp, struct fs *fs);
void space_wake_slow(struct space *sp);
/* There may be something to look at again. */
static inline void space_wake(struct space *sp)
{
	if (atomic_load(&sp->keeper_sleeps))
		space_wake_slow(sp);
}
/* Begins to count, if nobody has before. */
void space_begin(struct space *sp);

#endif
