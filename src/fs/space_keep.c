/* SPDX-License-Identifier: MIT */
/* Counting by the daemon: what the keeper thread does. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/space_hooks.h"
#include "fs/space_internal.h"
#include "fs/space_trim.h"

#define ATTEMPTS    3
#define SLOTS_MAX   (1U << 20) /* files changed during a scan; with more, it is repeated later */
#define IDLE_KEEP   (1U << 15) /* files changed recently that are kept to be checked again */
#define DUE	    256	       /* how many of these to check per round */
#define ROUNDS	    32
#define TEND_NS	    NSEC_PER_SEC
#define SAY_NS	    (5 * NSEC_PER_SEC)
#define RETIRE_NAPS 1000 /* of 10 ms */

/* --- the scan -------------------------------------------------------------------------------- */

struct tally {
	struct space *sp;
	_Atomic uint64_t said_ns;
};

static void say_progress(void *ctx)
{
	struct tally *y = ctx;
	uint64_t now_ns = monotonic_ns(), said_ns = atomic_load(&y->said_ns);
	if (now_ns - said_ns >= SAY_NS &&
	    atomic_compare_exchange_strong(&y->said_ns, &said_ns, now_ns))
		log_info("%s: counting what it holds: %" PRIu64 " files so far", y->sp->source,
			 atomic_load(&y->sp->progress.files));
}

/* A file that is being changed is counted by its slot, after a fresh stat. */
static int visit_slot(struct space *sp, int dir_fd, const char *name, const struct statx *seen)
{
	struct stat st;
	dev_t dev = makedev(seen->stx_dev_major, seen->stx_dev_minor);
	struct space_slot *s = table_find(&sp->table, dev, seen->stx_ino);
	if (!s)
		return 0;
	uint64_t ticket = slot_ticket(s);
	int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (name[0] ? 0 : AT_EMPTY_PATH);
	if (fstatat(dir_fd, name, &st, flags) == 0 && st.st_ino == s->ino && st.st_dev == s->dev)
		space_enter(sp, s, ticket, &st, false);
	table_put(&sp->table, s, monotonic_ns());
	return 0;
}

static int visit(void *ctx, struct scan_sum *sum, int dir_fd, const char *name,
		 const struct statx *st)
{
	struct tally *y = ctx;
	if (atomic_load_explicit(&y->sp->table.slots, memory_order_relaxed) > SLOTS_MAX)
		return -EBUSY;
	switch (table_visit(&y->sp->table, makedev(st->stx_dev_major, st->stx_dev_minor),
			    st->stx_ino, st->stx_nlink > 1 && !S_ISDIR(st->stx_mode))) {
	case VISIT_COUNT:
		sum->bytes += (int64_t)st->stx_blocks * 512;
		sum->inodes++;
		return 0;
	case VISIT_SLOT:
		return visit_slot(y->sp, dir_fd, name, st);
	case VISIT_NO_MEMORY:
		return -ENOMEM;
	case VISIT_KNOWN:
		break;
	}
	return 0;
}

/* Gives up after a second: one of them may hang in the source. */
static void wait_for_names(struct space *sp)
{
	const struct timespec nap = {.tv_nsec = NSEC_PER_MSEC};
	for (int i = 0; i < 1000 && !table_names_settled(&sp->table); i++)
		nanosleep(&nap, NULL);
}

/* 1: the tree was changed in a way that invalidates the scan.  moves_matter: the renaming of a directory does, too, because the
 * scan may have missed what is in it, or have counted it twice. */
static int scan_once(struct space *sp, bool slowly, bool alone, bool moves_matter)
{
	struct tally y = {.sp = sp, .said_ns = monotonic_ns()};
	struct space_table *t = &sp->table;
	uint64_t moves = atomic_load(&t->moves), since_ns = monotonic_ns();
	atomic_store(&sp->progress.files, 0);
	atomic_store(&sp->progress.bytes, 0);
	atomic_store(&sp->progress.inodes, 0);
	atomic_store(&sp->progress.unreadable, 0);
	table_scan_begin(t, alone);
	wait_for_names(sp);
	int res = space_scan(&(struct scan_config){sp->root_fd, slowly, &sp->stop, &sp->progress,
						   visit, say_progress, &y});
	if (res == 0) {
		table_scan_visited(t);
		wait_for_names(sp);
	}
	bool moved = atomic_load(&t->moves) != moves;
	if (res == 0 && ((moved && moves_matter) || atomic_load(&t->missed) ||
			 (alone && atomic_load(&t->disturbed))))
		res = 1;
	if (res) {
		table_scan_abort(t);
		return res;
	}
	int64_t before = atomic_load(&t->bytes.used);
	table_scan_end(t, sp->progress.bytes, sp->progress.inodes);
	atomic_store(&sp->corrected, atomic_load(&t->bytes.used) - before);
	atomic_store(&sp->scan_ns, monotonic_ns() - since_ns);
	if (moved)
		log_info("%s: directories were renamed during the count: it will be repeated soon",
			 sp->source);
	sp->verify |= moved;
	return 0;
}

/* If there is a count already, it is better than the result of a scan during which directories were renamed: whoever renames
 * them all the time could otherwise choose the result. */
static int counted_recount(struct space *sp, bool slowly)
{
	bool counted = atomic_load(&sp->enforcing);
	/* When the tree is counted for the first time, usually nothing is changing it yet. */
	int res = atomic_load(&sp->scans) ? 1 : scan_once(sp, slowly, true, true);
	for (int i = 1; i <= ATTEMPTS && res == 1; i++)
		res = scan_once(sp, slowly, false, counted || i < ATTEMPTS);
	if (res == 1)
		res = -EAGAIN;
	uint64_t unreadable = atomic_load(&sp->progress.unreadable);
	if (res == 0 && unreadable && !atomic_load(&sp->scans))
		log_warning("%s: %" PRIu64
			    " directories cannot be read: their contents are not counted",
			    sp->source, unreadable);
	if (res == 0)
		atomic_fetch_add(&sp->scans, 1);
	return res;
}

/* --- begin and end --------------------------------------------------------------------------- */

static struct space_total total_of(const struct space *sp)
{
	return (struct space_total){atomic_load(&sp->table.bytes.used),
				    atomic_load(&sp->table.inodes.used)};
}

static void say_not_kept(const struct space *sp, int res)
{
	if (res == -EWOULDBLOCK)
		log_warning(
			"%s: another mount counts this source separately: together they can store the "
			"sum of their limits; name one [fs:NAME] section in both to share the count",
			sp->source);
	else
		log_warning(
			"%s: the total cannot be kept in %s: %s; each mount will count the source again",
			sp->source, sp->state_dir, strerror(-res));
}

/* Requests in progress that began before counting did are not counted.  If there can be such requests, the tree is
 * verified soon. */
static void adopt_open_files(struct space *sp)
{
	bool served = false;
	pthread_mutex_lock(&sp->list_lock);
	list_for_each (it, &sp->mirrors) {
		struct fs *fs = list_entry(it, struct fs, of_space);
		handles_adopt(fs);
		inodes_adopt(fs);
		served |= atomic_load(&fs->inodes.n) > 1; /* more than the root */
	}
	pthread_mutex_unlock(&sp->list_lock);
	sp->verify |= served;
}

/* See space_trim.h. */
static bool with_root(const struct space *sp, bool (*call)(int fd))
{
	AUTO_FD fd = openat(sp->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && call(fd);
}

/* Frees preallocated blocks.  This may change st_blocks of any file. */
static void trim(struct space *sp)
{
	atomic_store(&sp->trims, with_root(sp, trim_filesystem));
	table_check_all(&sp->table);
}

/* If the tree was unmounted a moment ago, its total may not be stored yet. */
static int open_state(struct space *sp)
{
	const struct timespec nap = {.tv_nsec = 10 * NSEC_PER_MSEC};
	int res;
	for (int i = 0; i < RETIRE_NAPS; i++) {
		res = state_open(&sp->state, sp->state_dir, sp->source, sp->root_fd);
		if (res != -EWOULDBLOCK || !space_any_retiring() || atomic_load(&sp->stop))
			break;
		nanosleep(&nap, NULL);
	}
	return res;
}

static int counted_start(struct space *sp)
{
	struct space_total total;
	int res = open_state(sp);
	bool clean = state_load(&sp->state, &total);
	if (sp->overallocates && sp->by_handle)
		atomic_store(&sp->trims, with_root(sp, trim_is_possible));
	if (res == 0)
		res = state_save(&sp->state, &(struct space_total){0}, false);
	if (res < 0)
		say_not_kept(sp, res);
	atomic_store_explicit(&sp->counting, true, memory_order_release);
	adopt_open_files(sp);
	if (!clean)
		return counted_recount(sp, false);
	sp->verify = true;
	space_add(&sp->table.bytes, total.bytes);
	space_add(&sp->table.inodes, total.inodes);
	return 0;
}

/* --- looking again --------------------------------------------------------------------------- */

/* trimmed: preallocated blocks were freed.  If the file was not touched since, any other blocks beyond its data hold
 * extended attributes or the block map, and are counted. */
static void look_again(struct space *sp, struct space_slot *s, bool trimmed)
{
	struct fhandle fh;
	struct stat st;
	table_handle(&sp->table, s, &fh);
	if (!sp->by_handle || !fh.bytes)
		return;
	uint64_t ticket = slot_ticket(s);
	bool all = trimmed && table_is_untouched(&sp->table, s, ticket);
	AUTO_FD fd = fhandle_open_at(sp->mount_fd, &fh, O_PATH | O_CLOEXEC);
	if (fd == -ESTALE)
		table_vanished(&sp->table, s, ticket);
	else if (fd >= 0 && mirror_stat(fd, &st) == 0 && st.st_ino == s->ino)
		space_enter(sp, s, ticket, &st, all);
	if (all && fd >= 0)
		table_keep_all(&sp->table, s);
}

/* True: the files of the tree and their preallocated blocks together exceed the limit. */
static bool holds_too_much(struct space *sp)
{
	uint64_t limit = atomic_load(&sp->limit_bytes);
	int64_t excess = atomic_load(&sp->table.excess);
	pthread_mutex_lock(&sp->list_lock);
	list_for_each (it, &sp->mirrors) {
		const struct fs *fs = list_entry(it, struct fs, of_space);
		limit = space_tighter(limit, atomic_load(&fs->limit_bytes));
	}
	pthread_mutex_unlock(&sp->list_lock);
	return limit && excess > 0 && space_used(&sp->table.bytes) + (uint64_t)excess > limit;
}

/* Checks these files, frees preallocated blocks of those that are closed, and drops the references. */
static void look_at(struct space *sp, struct space_slot *const *due, unsigned n)
{
	bool waste = false;
	for (unsigned i = 0; i < n; i++) {
		look_again(sp, due[i], false);
		waste |= table_has_waste(&sp->table, due[i]);
	}
	if (waste)
		trim(sp);
	for (unsigned i = 0; i < n; i++) {
		if (waste)
			look_again(sp, due[i], true);
		table_put(&sp->table, due[i], monotonic_ns());
	}
}

static uint64_t counted_tend(struct space *sp)
{
	struct space_slot *due[DUE];
	unsigned n = DUE;
	for (int round = 0; round < ROUNDS && n == DUE && !atomic_load(&sp->stop); round++) {
		n = table_due(&sp->table, monotonic_ns(), IDLE_KEEP, due, DUE);
		look_at(sp, due, n);
	}
	if (atomic_load(&sp->trims) && holds_too_much(sp))
		trim(sp);
	/* From now on, an operation that leaves a file to check wakes this thread. */
	atomic_store(&sp->keeper_sleeps, true);
	bool more = table_has_work(&sp->table);
	if (more)
		atomic_store(&sp->keeper_sleeps, false);
	return more ? TEND_NS : NEVER;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Checks all files that may have changed since they were last checked. */
static void look_at_all(struct space *sp)
{
	uint64_t n = atomic_load(&sp->table.idle);
	struct space_slot **due = n ? malloc(n * sizeof(*due)) : NULL;
	n = due ? table_due(&sp->table, UINT64_MAX, UINT64_MAX, due, (unsigned)n) : 0;
	look_at(sp, due, (unsigned)n);
	free(due);
}

static void counted_end(struct space *sp)
{
	if (atomic_load(&sp->trims))
		trim(sp);
	look_at_all(sp);
	struct space_total total = total_of(sp);
	bool sure = atomic_load(&sp->enforcing) && !atomic_load(&sp->table.missed);
	int res = sure ? state_save(&sp->state, &total, true) : 0;
	if (res < 0)
		say_not_kept(sp, res);
	state_close(&sp->state);
}

const struct space_ops space_counted = {counted_start, counted_tend, counted_recount, counted_end};
