/* SPDX-License-Identifier: MIT */
#include "fs/space_hooks_internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/monotonic.h"
#include "fs/dying.h"
#include "fs/handle.h"
#include "fs/inode_table.h"
#include "fs/request.h"

/* While deleted files are held, a request that does not fit waits for the kernel to forget them: a moment in any case, longer
 * if files were deleted or forgotten lately, or while there are messages of the kernel that nobody has read or handled.  As long
 * as many requests wait, the others do not wait longer only because files were deleted lately.  More than WAITING_MAX, which is
 * half of the threads that read messages, are refused immediately, so that threads remain for other requests. */
#define FORGET_MIN_NS  (50 * NSEC_PER_MSEC)
#define FORGET_LATE_NS (100 * NSEC_PER_MSEC)
#define FORGET_MAX_NS  (2 * NSEC_PER_SEC)
#define FORGET_NAP_NS  (NSEC_PER_MSEC / 5) /* multiplied by the number of requests that wait */
#define WAITING_MANY   4
#define WAITING_MAX    32
/* While more than this is free, requests fit, also all of those that threads have just taken. */
#define PLENTY_BYTES  (256ULL << 20)
#define PLENTY_INODES 4096

#define FAST_SYMLINK 59 /* longest link target that nearly every filesystem stores in the inode */

static _Thread_local bool never_waits;

void space_never_wait(void)
{
	never_waits = true;
}

int space_refuse(struct fs *fs)
{
	atomic_fetch_add_explicit(&fs->cfg.space->refused, 1, memory_order_relaxed);
	return -(space_errno(fs) + SPACE_REFUSAL);
}

uint64_t space_bytes_limit(const struct fs *fs)
{
	const struct space *sp = fs->cfg.space;
	if (!atomic_load_explicit(&sp->enforcing, memory_order_acquire))
		return 0;
	return space_tighter(atomic_load_explicit(&sp->limit_bytes, memory_order_relaxed),
			     atomic_load_explicit(&fs->limit_bytes, memory_order_relaxed));
}

static uint64_t inodes_limit(const struct fs *fs)
{
	const struct space *sp = fs->cfg.space;
	if (!atomic_load_explicit(&sp->enforcing, memory_order_acquire))
		return 0;
	return space_tighter(atomic_load_explicit(&sp->limit_inodes, memory_order_relaxed),
			     atomic_load_explicit(&fs->limit_inodes, memory_order_relaxed));
}

/* Deleted files that nobody uses are held until the kernel's message has been handled that it has forgotten them. */
static bool is_forgetting(const struct fs *fs, uint64_t waited_ns, uint64_t now_ns, bool many,
			  uint64_t *unsure)
{
	struct space_table *t = &fs->cfg.space->table;
	if (!atomic_load_explicit(&t->held, memory_order_acquire) || waited_ns >= FORGET_MAX_NS)
		return false;
	uint64_t held_ns = atomic_load_explicit(&t->held_ns, memory_order_relaxed);
	return waited_ns < FORGET_MIN_NS || (!many && now_ns < held_ns + FORGET_LATE_NS) ||
	       (fs->is_behind && fs->is_behind(fs->mount, unsure));
}

static bool leaves_less(const struct space_count *c, uint64_t limit, uint64_t plenty)
{
	return space_left(limit, atomic_load_explicit(&c->committed, memory_order_relaxed)) <
	       plenty;
}

bool space_may_wait(const struct fs *fs)
{
	if (!space_counts(fs))
		return false;
	const struct space_table *t = &fs->cfg.space->table;
	return atomic_load_explicit(&t->held, memory_order_acquire) &&
	       (leaves_less(&t->bytes, space_bytes_limit(fs), PLENTY_BYTES) ||
		leaves_less(&t->inodes, inodes_limit(fs), PLENTY_INODES));
}

bool space_caller_dies(uint64_t *look_ns, uint64_t now_ns)
{
	if (!request_tid || now_ns < *look_ns)
		return false;
	*look_ns = now_ns + SPACE_LOOK_NS;
	struct caller_look caller = caller_look(request_tid);
	/* The thread that sent an asynchronous request may have ended before its process. */
	return !caller.gone &&
	       (caller.state == CALLER_DYING || process_has_died(request_tid, caller.process));
}

/* others: requests that wait already. */
static bool wait_for_room(const struct fs *fs, struct space_count *c, uint64_t n, uint64_t limit,
			  unsigned others)
{
	const struct timespec nap = {.tv_nsec = (long)(FORGET_NAP_NS * (others + 1))};
	uint64_t since_ns = monotonic_ns(), now_ns = since_ns, unsure = UINT64_MAX;
	uint64_t look_ns = since_ns + SPACE_LOOK_NS;
	bool fits = false, soon = true, many = others >= WAITING_MANY;
	while (!fits && soon) {
		soon = is_forgetting(fs, now_ns - since_ns, now_ns, many, &unsure) &&
		       !space_caller_dies(&look_ns, now_ns);
		fits = space_reserve(c, n, 0, limit);
		if (!fits && soon)
			nanosleep(&nap, NULL);
		now_ns = monotonic_ns();
	}
	return fits;
}

bool space_reserve_soon(const struct fs *fs, struct space_count *c, uint64_t n, uint64_t limit)
{
	struct space *sp = fs->cfg.space;
	if (space_reserve(c, n, 0, limit))
		return true;
	if (never_waits)
		return false;
	unsigned others = atomic_fetch_add(&sp->waiting, 1);
	bool fits = others < WAITING_MAX && wait_for_room(fs, c, n, limit, others);
	atomic_fetch_sub(&sp->waiting, 1);
	return fits;
}

/* --- slots ----------------------------------------------------------------------------------- */

static struct slot_stat slot_stat_of(const struct space *sp, const struct stat *st)
{
	bool file = S_ISREG(st->st_mode);
	uint64_t bytes = (uint64_t)st->st_blocks * 512, end = space_end_of(sp, st);
	return (struct slot_stat){
		.bytes = (int64_t)bytes,
		.size = file ? end : UINT64_MAX,
		.cap = file && sp->overallocates ? end : UINT64_MAX,
		.cap_closed = file && atomic_load(&sp->trims) ? end : UINT64_MAX,
		.exists = st->st_nlink > 0,
		.final = !sp->delays || (file && bytes == end && bytes <= sp->plain_max),
	};
}

bool space_enter(struct space *sp, struct space_slot *s, uint64_t ticket, const struct stat *st,
		 bool all)
{
	struct slot_stat now = slot_stat_of(sp, st);
	bool done = true;
	if (all)
		now.cap_closed = UINT64_MAX;
	if (slot_needs_base(s))
		table_base(&sp->table, s, &now);
	else
		done = table_settle(&sp->table, s, ticket, &now);
	if (st->st_nlink == 0)
		table_vanished(&sp->table, s, ticket);
	return done;
}

/* If the file is written to constantly, every result may be outdated; then a later stat corrects
 * the count. */
int space_enter_fd(struct space *sp, struct space_slot *s, int fd)
{
	for (int tries = 0; tries < 4; tries++) {
		struct stat st;
		uint64_t ticket = slot_ticket(s);
		int res = mirror_stat(fd, &st);
		if (res < 0 || space_enter(sp, s, ticket, &st, false))
			return res;
	}
	return 0;
}

/* --- every operation ------------------------------------------------------------------------- */

void space_begin_change(struct space_op *op, enum slot_change c)
{
	table_change_begin(&op->sp->table, op->slot, c);
	op->changing = c;
}

static void end_change(struct space_op *op)
{
	if (op->changing)
		table_change_end(&op->sp->table, op->slot, op->changing);
	op->changing = CHANGE_NONE;
}

int space_give_up(struct space_op *op, int res)
{
	end_change(op);
	space_unreserve(&op->sp->table.bytes, op->bytes);
	space_unreserve(&op->sp->table.inodes, op->inodes);
	if (op->slot && !op->borrowed)
		table_put(&op->sp->table, op->slot, monotonic_ns());
	op->sp = NULL;
	return res;
}

/* --- attributes ------------------------------------------------------------------------------ */

static int base_of(struct space_op *op, struct fs *fs, const struct inode *inode, int fd)
{
	if (!slot_needs_base(op->slot))
		return 0;
	if (fd >= 0)
		return space_enter_fd(op->sp, op->slot, fd);
	struct inode_ref ref;
	int res = inode_get(fs, inode->id, &ref);
	if (res < 0)
		return res;
	res = space_enter_fd(op->sp, op->slot, ref.fd);
	inode_put(fs, &ref);
	return res;
}

static bool has_room(const struct fs *fs, struct space_count *c, uint64_t n, uint64_t limit,
		     bool waits)
{
	return waits ? space_reserve_soon(fs, c, n, limit) : space_reserve(c, n, 0, limit);
}

/* Reserves what the operation may need; waits: until there is room, see space_reserve_soon. */
static int reserve(struct space_op *op, struct fs *fs, uint64_t bytes, uint64_t inodes, bool waits)
{
	struct space_table *t = &fs->cfg.space->table;
	*op = (struct space_op){.sp = fs->cfg.space};
	if (!has_room(fs, &t->bytes, bytes, space_bytes_limit(fs), waits))
		return space_give_up(op, space_refuse(fs));
	op->bytes = bytes;
	if (!has_room(fs, &t->inodes, inodes, inodes_limit(fs), waits))
		return space_give_up(op, space_refuse(fs));
	op->inodes = inodes;
	return 0;
}

/* After reserve: finds the slot of what is changed. */
static int enter(struct space_op *op, struct fs *fs, const struct inode *inode, int fd)
{
	bool counted = !op->sp->dirs_are_free || !S_ISDIR(inode->type);
	op->slot = counted ? table_get(&op->sp->table, inode->dev, inode->ino) : NULL;
	if (counted && !op->slot) /* out of memory: the change is not counted */
		return space_give_up(op, 0);
	int res = op->slot ? base_of(op, fs, inode, fd) : 0;
	if (res < 0)
		return space_give_up(op, res);
	if (S_ISREG(inode->type))
		space_begin_change(op, CHANGE_ANY);
	return 0;
}

/* Requests of all mirrors need sp->names.  So a request waits for room before it locks them, never after. */
int space_change_begin_slow(struct space_op *op, struct fs *fs, struct inode *inode, int fd,
			    uint64_t bytes)
{
	struct space *sp = fs->cfg.space;
	int res = reserve(op, fs, bytes, 0, true);
	if (res < 0)
		return res;
	bool locked = space_lock_names(sp, false);
	res = enter(op, fs, inode, fd);
	space_unlock_names(sp, locked);
	return res;
}

/* --- names ----------------------------------------------------------------------------------- */

static uint64_t growth_of_dir(const struct space *sp)
{
	return sp->dirs_are_free ? 0 : sp->block;
}

/* A rename may make a directory grow.  When the tree is full, files can still be renamed, until a directory has grown and
 * the limit is exceeded. */
static uint64_t growth_of_rename(const struct fs *fs)
{
	const struct space_count *c = &fs->cfg.space->table.bytes;
	uint64_t limit = space_bytes_limit(fs), bytes = growth_of_dir(fs->cfg.space);
	bool fits = space_left(limit, atomic_load(&c->committed)) >= bytes;
	return fits || space_used(c) > limit ? bytes : 0;
}

/* After space_remove_prepare.  If there are several mirrors, sp->names is locked, so it does not wait for room. */
static int begin_prepared(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
			  uint64_t bytes, uint64_t inodes)
{
	bool alone = !atomic_load_explicit(&fs->cfg.space->shared, memory_order_acquire);
	int res = reserve(op, fs, bytes, inodes, alone);
	return res < 0 ? res : enter(op, fs, dir->inode, dir->fd);
}

int space_dir_begin_slow(struct space_op *op, struct fs *fs, const struct inode_ref *dir, bool adds)
{
	return begin_prepared(op, fs, dir, adds ? growth_of_rename(fs) : 0, 0);
}

static int begin_name(struct space_op *op, int res)
{
	if (op->sp) {
		op->names = true;
		op->epoch = table_name_begin(&op->sp->table);
	}
	return res;
}

/* The directory may grow by one block; what the new inode needs depends on its type. */
int space_name_begin_slow(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
			  mode_t type, size_t link_size)
{
	struct space *sp = fs->cfg.space;
	uint64_t bytes = growth_of_dir(sp);
	if (S_ISDIR(type))
		bytes += sp->dir_bytes;
	if (S_ISLNK(type) && link_size > FAST_SYMLINK)
		bytes += space_round_up(link_size, sp->block);
	int res = reserve(op, fs, bytes, !!type, true);
	if (res < 0)
		return res;
	bool locked = space_lock_names(sp, true);
	res = begin_name(op, enter(op, fs, dir->inode, dir->fd));
	op->locked = locked && op->sp;
	space_unlock_names(sp, locked && !op->sp);
	return res;
}

int space_move_begin_slow(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
			  bool whiteout, bool adds)
{
	uint64_t bytes = adds ? growth_of_rename(fs) : 0;
	return begin_name(op, begin_prepared(op, fs, dir, bytes, whiteout));
}

void space_made_nameless_slow(struct space_op *op, struct fs *fs, uint64_t id)
{
	inode_hold(fs, id, op->made, monotonic_ns());
}

void space_made_slow(struct space_op *op, const struct stat *st)
{
	struct space_table *t = &op->sp->table;
	struct space_slot *s =
		table_get_new(t, st->st_dev, st->st_ino, (int64_t)st->st_blocks * 512);
	if (s && st->st_nlink == 0)
		table_vanished(t, s, slot_ticket(s));
	op->made = s;
}

void space_end_slow(struct space_op *op, int fd)
{
	struct space_table *t = &op->sp->table;
	if (op->cut)
		table_cut(t, op->slot);
	if (op->keep_end)
		table_keep(t, op->slot, op->keep_end);
	if (op->keep_end && op->sp->overallocates && fd >= 0)
		slot_count_all(op->slot);
	end_change(op);
	if (op->names)
		table_name_end(t, op->epoch);
	if (op->slot && fd >= 0)
		(void)space_enter_fd(op->sp, op->slot, fd);
	space_unreserve(&t->bytes, op->bytes);
	space_unreserve(&t->inodes, op->inodes);
	uint64_t now_ns = op->made || (op->slot && !op->borrowed) ? monotonic_ns() : 0;
	if (op->made)
		table_put(t, op->made, now_ns);
	if (op->slot && !op->borrowed)
		table_put(t, op->slot, now_ns);
	space_wake(op->sp);
	space_unlock_names(op->sp, op->locked);
	op->sp = NULL;
}

void space_remove_begin_slow(struct slot_victim *v, struct fs *fs, int dir_fd, const char *name,
			     const struct stat *st)
{
	struct space *sp = fs->cfg.space;
	struct slot_stat now = slot_stat_of(sp, st);
	struct stat again;
	if (table_remove_begin(&sp->table, st->st_dev, st->st_ino, &now, v))
		return;
	if (mirror_stat_child(fs, dir_fd, name, &again) == 0 && again.st_ino == st->st_ino &&
	    again.st_dev == st->st_dev)
		now = slot_stat_of(sp, &again);
	table_base(&sp->table, v->slot, &now);
}

void space_remove_end_slow(const struct slot_victim *v, struct fs *fs, bool removed)
{
	struct space *sp = fs->cfg.space;
	uint64_t now_ns = monotonic_ns();
	/* If other mirrors show the tree, the kernel may remember names of the file that were removed there, and then does not
	 * forget it for a long time, although nobody uses it. */
	if (removed && !atomic_load_explicit(&sp->shared, memory_order_acquire))
		inode_hold(fs, v->inode, v->slot, now_ns);
	table_remove_end(&sp->table, v, removed, now_ns);
}

void space_linked_slow(struct fs *fs, const struct inode *inode)
{
	struct space_table *t = &fs->cfg.space->table;
	struct space_slot *s = table_find(t, inode->dev, inode->ino);
	if (!s)
		return;
	table_named(t, s);
	table_put(t, s, monotonic_ns());
}

void space_moving_slow(struct fs *fs, int dir_fd, const char *name)
{
	struct space *sp = fs->cfg.space;
	struct stat st;
	int res = name[0] ? mirror_stat_child(fs, dir_fd, name, &st) : mirror_stat(dir_fd, &st);
	if (res < 0)
		return;
	if (S_ISDIR(st.st_mode)) {
		atomic_fetch_add(&sp->table.moves, 1);
		return;
	}
	struct space_slot *s = table_get(&sp->table, st.st_dev, st.st_ino);
	if (!s)
		return;
	if (slot_needs_base(s))
		space_enter(sp, s, slot_ticket(s), &st, false);
	table_put(&sp->table, s, monotonic_ns());
}

/* --- df -------------------------------------------------------------------------------------- */

void space_statfs(const struct fs *fs, struct statvfs *st)
{
	if (!space_counts(fs))
		return;
	const struct space_table *t = &fs->cfg.space->table;
	uint64_t bytes = space_bytes_limit(fs), inodes = inodes_limit(fs);
	uint64_t unit = st->f_frsize ? st->f_frsize : st->f_bsize;
	if (bytes && unit) {
		uint64_t left = space_left(bytes, (int64_t)space_used(&t->bytes)) / unit;
		uint64_t used = space_round_up(space_used(&t->bytes), unit) / unit;
		st->f_bavail = min_u64(left, st->f_bavail);
		st->f_bfree = left;
		st->f_blocks = used + left;
	}
	if (inodes) {
		uint64_t left = space_left(inodes, (int64_t)space_used(&t->inodes));
		/* A source that does not count inodes (f_files is 0) always has free ones. */
		st->f_favail = st->f_files ? min_u64(left, st->f_favail) : left;
		st->f_ffree = left;
		st->f_files = space_used(&t->inodes) + left;
	}
}
