/* SPDX-License-Identifier: MIT */
#include "fs/space.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/space_internal.h"
#include "fs/space_hooks.h"

#define WAIT_NS (50 * NSEC_PER_MSEC) /* between checks of *cancel */

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define INLINE_EXTENTS 4 /* how many fit into an inode of ext4 or XFS */

static _Atomic unsigned retiring; /* retired spaces that have not stored their totals yet */

struct space *space_new(const char *state_dir)
{
	struct space *sp =
		aligned_alloc(CACHE_LINE, (sizeof(*sp) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
	if (!sp)
		return NULL;
	memset(sp, 0, sizeof(*sp));
	sp->ops = &space_counted;
	sp->root_fd = sp->mount_fd = -1;
	sp->state.dir_fd = sp->state.lock_fd = -1;
	table_init(&sp->table);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&sp->lock, NULL);
	pthread_mutex_init(&sp->list_lock, NULL);
	list_init(&sp->mirrors);
	pthread_rwlock_init(&sp->names, NULL);
	pthread_cond_init(&sp->cond, &attr);
	pthread_condattr_destroy(&attr);
	sp->state_dir = state_dir ? strdup(state_dir) : NULL;
	if (state_dir && !sp->state_dir) {
		space_free(sp);
		return NULL;
	}
	return sp;
}

void space_free(struct space *sp)
{
	if (!sp)
		return;
	table_destroy(&sp->table);
	pthread_mutex_destroy(&sp->lock);
	pthread_mutex_destroy(&sp->list_lock);
	pthread_rwlock_destroy(&sp->names);
	pthread_cond_destroy(&sp->cond);
	free(sp->state_dir);
	free(sp);
}

/* --- the keeper ------------------------------------------------------------------------------ */

static void set_phase(struct space *sp, int res)
{
	pthread_mutex_lock(&sp->lock);
	sp->phase = res == 0 ? SPACE_ENFORCING : SPACE_FAILED;
	sp->failure = res;
	atomic_store_explicit(&sp->enforcing, res == 0, memory_order_release);
	pthread_cond_broadcast(&sp->cond);
	pthread_mutex_unlock(&sp->lock);
	if (res < 0 && res != -ECANCELED)
		log_error(
			"%s: cannot count what the source holds: %s; size and inodes are not enforced",
			sp->source, strerror(-res));
}

/* Sleeps for `ns`, until a rescan is requested, or (for_long) until there is a file to check again.
 * False: stop. */
static bool keeper_waits(struct space *sp, uint64_t ns, bool for_long, bool *rescan)
{
	uint64_t until_ns = add_sat_u64(monotonic_ns(), ns);
	const struct timespec until = {(time_t)(until_ns / NSEC_PER_SEC),
				       (long)(until_ns % NSEC_PER_SEC)};
	int rc = 0;
	pthread_mutex_lock(&sp->lock);
	while (!atomic_load(&sp->stop) && !sp->rescan && rc != ETIMEDOUT &&
	       (!for_long || atomic_load(&sp->keeper_sleeps)))
		rc = pthread_cond_timedwait(&sp->cond, &sp->lock, &until);
	*rescan = sp->rescan;
	/* First this, or somebody who waits for the end of the rescan could find neither of the two set. */
	atomic_store(&sp->rescanning, *rescan);
	sp->rescan = false;
	pthread_mutex_unlock(&sp->lock);
	return !atomic_load(&sp->stop);
}

void space_wake_slow(struct space *sp)
{
	if (!atomic_exchange(&sp->keeper_sleeps, false))
		return;
	pthread_mutex_lock(&sp->lock);
	pthread_cond_broadcast(&sp->cond);
	pthread_mutex_unlock(&sp->lock);
}

static int recount(struct space *sp, bool slowly)
{
	atomic_store(&sp->rescanning, true);
	int res = sp->ops->recount(sp, slowly);
	atomic_store(&sp->rescanning, false);
	/* After a failed rescan, the old count stays in use. */
	if (res == 0 || !atomic_load(&sp->enforcing))
		set_phase(sp, res);
	else if (res == -EAGAIN)
		log_info("%s: too many changes during a recount: the old count stays in use",
			 sp->source);
	else if (res != -ECANCELED)
		log_warning("%s: cannot recount what the source holds: %s", sp->source,
			    strerror(-res));
	return res;
}

/* When to count again after a count with this result: soon if it failed or may be wrong. */
static uint64_t again_after_ns(struct space *sp, int res, uint64_t usual_ns)
{
	bool doubtful = sp->verify;
	sp->verify = false;
	sp->failures = res < 0 ? sp->failures + 1 : 0;
	if (res < 0)
		return min_u64(SPACE_VERIFY_NS << min_u64(sp->failures - 1, 10), SPACE_RESCAN_NS);
	return doubtful ? SPACE_VERIFY_NS : usual_ns;
}

static void *keeper_main(void *arg)
{
	struct space *sp = arg;
	bool rescan;
	int res = sp->ops->start(sp);
	set_phase(sp, res);
	uint64_t since_ns = monotonic_ns();
	uint64_t again_ns = again_after_ns(sp, res, sp->delays ? SPACE_SETTLE_NS : SPACE_RESCAN_NS);
	for (;;) {
		uint64_t next_ns = sp->ops->tend(sp), age_ns = monotonic_ns() - since_ns;
		uint64_t due_ns = again_ns > age_ns ? again_ns - age_ns : 0;
		if (!keeper_waits(sp, min_u64(next_ns, due_ns), next_ns == NEVER, &rescan))
			return NULL;
		bool due = monotonic_ns() - since_ns >= again_ns;
		if (!rescan && !due)
			continue;
		res = recount(sp, !rescan && atomic_load(&sp->enforcing));
		since_ns = monotonic_ns();
		again_ns = again_after_ns(
			sp, res, max_u64(SPACE_RESCAN_NS, 100 * atomic_load(&sp->scan_ns)));
	}
}

/* --- begin and end --------------------------------------------------------------------------- */

static void look_at_backing(struct space *sp)
{
	struct statvfs st;
	struct statfs kind;
	struct stat root;
	sp->block = fstatvfs(sp->root_fd, &st) == 0 && st.f_frsize ? st.f_frsize : 4096;
	uint32_t type = fstatfs(sp->root_fd, &kind) == 0 ? (uint32_t)kind.f_type : 0;
	bool maps_inline = type == XFS_SUPER_MAGIC || type == EXT4_SUPER_MAGIC;
	sp->overallocates = type == XFS_SUPER_MAGIC;
	sp->delays = type != TMPFS_MAGIC;
	sp->dirs_are_free = sp->xattrs_are_free = type == TMPFS_MAGIC;
	sp->plain_max = maps_inline ? INLINE_EXTENTS * sp->block : 0;
	sp->dir_bytes = mirror_stat(sp->root_fd, &root) == 0 && root.st_blocks ? sp->block : 0;
}

/* A count that has failed is attempted again. */
static void retry_locked(struct space *sp)
{
	if (sp->phase != SPACE_FAILED)
		return;
	sp->phase = SPACE_SCANNING;
	sp->rescan = true;
	pthread_cond_broadcast(&sp->cond);
}

static void begin_locked(struct space *sp)
{
	if (!sp->n_mirrors || sp->ending)
		return;
	if (sp->keeper_runs) {
		retry_locked(sp);
		return;
	}
	sp->phase = SPACE_SCANNING;
	sp->verify = false;
	sp->failures = 0;
	atomic_store(&sp->stop, false);
	sp->keeper_runs = pthread_create(&sp->keeper, NULL, keeper_main, sp) == 0;
	if (!sp->keeper_runs) {
		sp->phase = SPACE_FAILED;
		sp->failure = -EAGAIN;
		return;
	}
}

void space_begin(struct space *sp)
{
	pthread_mutex_lock(&sp->lock);
	begin_locked(sp);
	pthread_mutex_unlock(&sp->lock);
}

/* Without the lock, which the control plane needs: the source may hang. */
static bool first_mirror(struct space *sp, const struct fs *fs)
{
	sp->root_fd = fcntl(fs->root_fd, F_DUPFD_CLOEXEC, 3);
	sp->mount_fd = fcntl(fs->mount_fd, F_DUPFD_CLOEXEC, 3);
	sp->by_handle = fs->by_handle;
	sp->source = strdup(fs->cfg.source);
	if (sp->root_fd < 0 || sp->mount_fd < 0 || !sp->source)
		return false;
	look_at_backing(sp);
	return true;
}

static void last_mirror(struct space *sp)
{
	if (sp->root_fd >= 0)
		close(sp->root_fd);
	if (sp->mount_fd >= 0)
		close(sp->mount_fd);
	sp->root_fd = sp->mount_fd = -1;
	free(sp->source);
	sp->source = NULL;
	table_reset(&sp->table);
	atomic_store(&sp->scans, 0);
	atomic_store(&sp->corrected, 0);
}

static void no_mirror_locked(struct space *sp)
{
	last_mirror(sp);
	sp->n_mirrors = 0;
	atomic_fetch_sub(&retiring, sp->retired);
	sp->retired = false;
}

static void add_mirror_locked(struct space *sp)
{
	sp->n_mirrors++;
	atomic_store(&sp->shared, sp->n_mirrors > 1);
	if (atomic_load(&sp->limit_bytes) || atomic_load(&sp->limit_inodes))
		begin_locked(sp);
}

int space_attach(struct space *sp, struct fs *fs)
{
	if (!sp)
		return 0;
	pthread_mutex_lock(&sp->list_lock);
	list_push_tail(&sp->mirrors, &fs->of_space);
	pthread_mutex_unlock(&sp->list_lock);
	pthread_mutex_lock(&sp->lock);
	/* The tree may be mounted again while its total is still being stored. */
	while (sp->ending || sp->beginning)
		pthread_cond_wait(&sp->cond, &sp->lock);
	bool ok = true;
	if (!sp->n_mirrors) {
		sp->beginning = true;
		pthread_mutex_unlock(&sp->lock);
		ok = first_mirror(sp, fs);
		pthread_mutex_lock(&sp->lock);
		sp->beginning = false;
		pthread_cond_broadcast(&sp->cond);
	}
	int res = ok ? 0 : -ENOMEM;
	if (res == 0)
		add_mirror_locked(sp);
	else
		no_mirror_locked(sp);
	pthread_mutex_unlock(&sp->lock);
	if (res < 0)
		space_hide(sp, fs);
	return res;
}

static void stop_keeper(struct space *sp)
{
	pthread_mutex_lock(&sp->lock);
	bool runs = sp->keeper_runs;
	atomic_store(&sp->stop, true);
	pthread_cond_broadcast(&sp->cond);
	pthread_mutex_unlock(&sp->lock);
	if (!runs)
		return;
	pthread_join(sp->keeper, NULL);
	sp->ops->end(sp);
	pthread_mutex_lock(&sp->lock);
	sp->keeper_runs = false;
	sp->phase = SPACE_OFF;
	sp->rescan = false;
	atomic_store(&sp->rescanning, false);
	pthread_mutex_unlock(&sp->lock);
	atomic_store(&sp->counting, false);
	atomic_store(&sp->enforcing, false);
}

void space_hide(struct space *sp, struct fs *fs)
{
	if (!sp)
		return;
	pthread_mutex_lock(&sp->list_lock);
	list_remove(&fs->of_space);
	pthread_mutex_unlock(&sp->list_lock);
}

void space_retire(struct space *sp)
{
	pthread_mutex_lock(&sp->lock);
	if ((sp->n_mirrors || sp->beginning) && !sp->retired) {
		sp->retired = true;
		atomic_fetch_add(&retiring, 1);
	}
	pthread_mutex_unlock(&sp->lock);
}

bool space_any_retiring(void)
{
	return atomic_load(&retiring) > 0;
}

void space_detach(struct space *sp)
{
	if (!sp)
		return;
	pthread_mutex_lock(&sp->lock);
	bool last = sp->n_mirrors == 1;
	sp->ending = last;
	if (!last)
		sp->n_mirrors--;
	atomic_store(&sp->shared, sp->n_mirrors > 1);
	pthread_mutex_unlock(&sp->lock);
	if (!last)
		return;
	stop_keeper(sp);
	pthread_mutex_lock(&sp->lock);
	no_mirror_locked(sp);
	sp->ending = false;
	pthread_cond_broadcast(&sp->cond);
	pthread_mutex_unlock(&sp->lock);
}

/* --- for others ------------------------------------------------------------------------------ */

void space_set(struct space *sp, const struct space_limits *l)
{
	atomic_store(&sp->limit_bytes, l->bytes);
	atomic_store(&sp->limit_inodes, l->inodes);
	if (space_limits_any(l))
		space_begin(sp);
}

int space_wait(struct space *sp, const _Atomic bool *cancel, struct error *err)
{
	int res = 0;
	pthread_mutex_lock(&sp->lock);
	while (sp->phase == SPACE_SCANNING && !atomic_load(cancel)) {
		uint64_t until_ns = monotonic_ns() + WAIT_NS;
		const struct timespec until = {(time_t)(until_ns / NSEC_PER_SEC),
					       (long)(until_ns % NSEC_PER_SEC)};
		pthread_cond_timedwait(&sp->cond, &sp->lock, &until);
	}
	if (sp->phase == SPACE_SCANNING)
		res = error_set(err, "interrupted while the source was being counted");
	else if (sp->phase == SPACE_FAILED)
		res = error_set(err, "cannot count what the source holds: %s",
				strerror(-sp->failure));
	pthread_mutex_unlock(&sp->lock);
	return res;
}

bool space_rescan(struct space *sp)
{
	pthread_mutex_lock(&sp->lock);
	bool runs = sp->keeper_runs;
	sp->rescan = runs;
	pthread_cond_broadcast(&sp->cond);
	pthread_mutex_unlock(&sp->lock);
	return runs;
}

void space_look(const struct space *sp, struct space_look *out)
{
	*out = (struct space_look){
		.phase = atomic_load(&sp->phase),
		.rescanning = atomic_load(&sp->rescan) || atomic_load(&sp->rescanning),
		.limits = {atomic_load(&sp->limit_bytes), atomic_load(&sp->limit_inodes)},
		.bytes = space_used(&sp->table.bytes),
		.inodes = space_used(&sp->table.inodes),
		.scanned = atomic_load(&sp->progress.files),
		.refused = atomic_load(&sp->refused),
		.scans = atomic_load(&sp->scans),
		.corrected = atomic_load(&sp->corrected),
		.scan_ns = atomic_load(&sp->scan_ns),
	};
}
