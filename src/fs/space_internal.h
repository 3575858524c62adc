/* SPDX-License-Identifier: MIT */
/* Internals of struct space, for space.c (lifetime, keeper), space_keep.c (scan, checking files again), and
 * space_hooks.c and space_data.c (interface of operations). */
#ifndef FS_SPACE_INTERNAL_H
#define FS_SPACE_INTERNAL_H

#include <pthread.h>
#include <sys/statvfs.h>

#include "fs/space.h"
#include "fs/space_scan.h"
#include "fs/space_state.h"
#include "fs/space_table.h"

#define SPACE_RESCAN_NS (3600 * NSEC_PER_SEC) /* finds changes made directly in the tree */
#define SPACE_VERIFY_NS                                                                            \
	(30 * NSEC_PER_SEC) /* and those made while it was not counted; after a failure, at first */
#define SPACE_SETTLE_NS                                                                            \
	(45 * NSEC_PER_SEC) /* by then, data from before the first scan is on disk */

/* A way of counting a tree. */
struct space_ops {
	/* Determines the current use of the tree.  On the keeper's thread; returns early when sp->stop is set. */
	int (*start)(struct space *sp);
	/* Checks files that may have changed unnoticed; returns when to do so next, in ns from now. */
	uint64_t (*tend)(struct space *sp);
	/* Counts the whole tree again. */
	int (*recount)(struct space *sp, bool slowly);
	/* The last mirror was freed. */
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
	uint64_t block;	    /* unit of allocation in bytes */
	uint64_t dir_bytes; /* size of a new directory, as observed so far */
	bool overallocates; /* preallocates blocks for files that grow, and frees them later */
	_Atomic bool trims; /* we can make it free them; see space_trim.h */
	bool delays;	    /* allocates blocks when it writes the data */
	bool dirs_are_free; /* directories have no blocks, however many names are in them */
	bool xattrs_are_free;
	uint64_t plain_max; /* files up to this size without holes have only data blocks */

	char *state_dir, *source;
	struct space_state state;
	int root_fd, mount_fd; /* of the first mirror; -1: none */
	bool by_handle;

	/* Locked by operations while several mirrors show the tree: exclusively while names are created or removed, shared while
	 * the first stat of a file tells how much of the total belongs to it.  For one mirror, the kernel's locks of directories
	 * and inodes have the same effect: nobody else sees a file that its creator has not counted yet, and the links of a
	 * file do not change between the stat and the removal of a name. */
	pthread_rwlock_t names;
	_Atomic bool shared; /* there are several mirrors */

	pthread_mutex_t
		list_lock; /* held while the source is asked about open files; before the locks of mirrors */
	struct list mirrors;	   /* list_lock: struct fs, by of_space */
	_Atomic unsigned waiting;  /* requests that wait until the kernel has forgotten files */
	_Atomic unsigned trimming; /* requests that wait until XFS has freed blocks */

	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned n_mirrors;		/* lock */
	bool beginning;			/* lock: the first mirror is being added */
	bool ending;			/* lock: the last mirror is being freed */
	bool retired;			/* lock: see space_retire */
	bool keeper_runs;		/* lock */
	_Atomic bool rescan;		/* written with lock: asked for */
	_Atomic enum space_phase phase; /* written with lock */
	int failure;			/* lock: -errno of a scan that failed */
	bool verify; /* keeper: the count may be wrong, for example because of changes while the tree was not counted */
	unsigned failures; /* keeper: counts that failed, since the last one that did not */
	_Atomic bool stop;
	_Atomic bool rescanning;
	_Atomic bool keeper_sleeps; /* until woken: there is no file to check */
	pthread_t keeper;

	struct scan_progress progress;
	_Atomic uint64_t scans, scan_ns;
	_Atomic int64_t corrected;
};

/* A mirror was created or is freed: called by fs_new and fs_free. */
int space_attach(struct space *sp, struct fs *fs); /* 0 or -ENOMEM */
/* Before its handles are freed: the keeper does not look at them any more. */
void space_hide(struct space *sp, struct fs *fs);
void space_detach(struct space *sp);
/* True: a retired space of this process may still hold the lock of its total. */
bool space_any_retiring(void);
/* True: locked. */
static inline bool space_lock_names(struct space *sp, bool exclusively)
{
	if (!atomic_load_explicit(&sp->shared, memory_order_acquire))
		return false;
	if (exclusively)
		pthread_rwlock_wrlock(&sp->names);
	else
		pthread_rwlock_rdlock(&sp->names);
	return true;
}
static inline void space_unlock_names(struct space *sp, bool locked)
{
	if (locked)
		pthread_rwlock_unlock(&sp->names);
}
void space_wake_slow(struct space *sp);
/* After an operation: wakes the keeper if there is a file to check again.  Most operations leave none, and waking a thread
 * costs as much as the rest of an unlink. */
static inline void space_wake(struct space *sp)
{
	if (atomic_load(&sp->keeper_sleeps) && table_has_work(&sp->table))
		space_wake_slow(sp);
}
/* Starts counting, unless that was done before. */
void space_begin(struct space *sp);

#endif
