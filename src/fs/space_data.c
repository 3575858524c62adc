/* SPDX-License-Identifier: MIT */
/* Space accounting of open files and of the data written to them. */
#include <errno.h>
#include <linux/falloc.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "fs/handle.h"
#include "fs/inode_table.h"
#include "fs/space_hooks_internal.h"
#include "fs/space_map.h"
#include "fs/space_trim.h"

/* While more than this is free, a write reserves all blocks that it touches, which is cheap but too much.  Below it, a
 * write looks up in the block map of the file which blocks are missing and reserves only those, so that excessive
 * reservations never make another request fail. */
#define MARGIN (64ULL << 20)

/* How long a request waits for preallocated blocks to be freed, which happens every second. */
#define TRIM_MAX_NS	 (3 * NSEC_PER_SEC)
#define TRIM_NAP_NS	 (5 * NSEC_PER_MSEC)
#define TRIM_WAITING_MAX 4 /* requests that wait at the same time; others are refused */

/* --- open files ------------------------------------------------------------------------------ */

/* To find the file later; empty if it has none. */
static struct fhandle handle_of(const struct inode *inode)
{
	struct fhandle fh = {0};
	if (inode->handle_bytes && inode->handle_bytes <= SPACE_HANDLE_MAX)
		inode_copy_handle(inode, &fh);
	return fh;
}

/* Data of the file may change without a request: by writes, or by stores into a mapping. */
static bool bypasses(const struct handle *h)
{
	return h->mode == IO_PASS || h->mappable;
}

/* The slot of an open file; NULL: out of memory. */
static struct space_slot *slot_of(struct fs *fs, struct handle *h)
{
	struct space_slot *s = atomic_load_explicit(&h->slot, memory_order_acquire);
	if (s)
		return s;
	struct space_table *t = &fs->cfg.space->table;
	s = table_get(t, h->inode->dev, h->inode->ino);
	if (!s)
		return NULL;
	bool bypassing = bypasses(h);
	struct fhandle fh = handle_of(h->inode);
	table_opened(t, s, bypassing, &fh);
	if (fs->cfg.space->overallocates && trim_is_useless(h->fd))
		slot_count_all(s);
	struct space_slot *other = NULL;
	if (atomic_compare_exchange_strong(&h->slot, &other, s))
		return s;
	table_closed(t, s, bypassing, monotonic_ns());
	return other;
}

void space_opened_slow(struct fs *fs, struct handle *h)
{
	(void)slot_of(fs, h);
}

/* XFS frees the preallocated blocks of every new file, so there is no need to ask (trim_is_useless). */
void space_made_open_slow(struct space_op *op, const struct inode *inode, struct handle *h)
{
	if (op->made->dev != inode->dev || op->made->ino != inode->ino)
		return;
	struct fhandle fh = handle_of(inode);
	table_opened(&op->sp->table, op->made, false, &fh);
	atomic_store_explicit(&h->slot, take_ptr(&op->made), memory_order_release);
}

void space_adopt(struct fs *fs, struct handle *h)
{
	struct space_slot *s = slot_of(fs, h);
	if (s)
		table_suspect(&fs->cfg.space->table, s);
}

void space_closing(struct fs *fs, struct handle *h)
{
	struct space_slot *s = atomic_load_explicit(&h->slot, memory_order_acquire);
	if (s && slot_is_unverified(s))
		(void)space_enter_fd(fs->cfg.space, s, h->fd);
}

void space_closed(struct fs *fs, struct handle *h)
{
	struct space_slot *s = atomic_load_explicit(&h->slot, memory_order_acquire);
	if (!s)
		return;
	table_closed(&fs->cfg.space->table, s, bypasses(h), monotonic_ns());
	space_wake(fs->cfg.space);
}

/* --- data ------------------------------------------------------------------------------------ */

/* A slot can be settled only after a first stat has given its base. */
static int begin_data(struct space_op *op, struct fs *fs, struct handle *h)
{
	*op = (struct space_op){.slot = slot_of(fs, h), .borrowed = true};
	if (!op->slot)
		return 0;
	op->sp = fs->cfg.space;
	if (!slot_needs_base(op->slot))
		return 0;
	bool locked = space_lock_names(op->sp, false);
	int res = space_enter_fd(op->sp, op->slot, h->fd);
	space_unlock_names(op->sp, locked);
	return res;
}

static uint64_t cap_of(struct space_op *op, const struct stat *st)
{
	if (!op->sp->overallocates || slot_counts_all(op->slot))
		return UINT64_MAX;
	return max_u64(space_end_of(op->sp, st), table_kept(&op->sp->table, op->slot));
}

/* *n: preallocated bytes before `to`. */
static int preallocated(struct space_op *op, int fd, uint64_t to, uint64_t *n)
{
	struct stat st;
	int res = mirror_stat(fd, &st);
	if (res < 0)
		return res;
	uint64_t end = cap_of(op, &st), bytes = (uint64_t)st.st_blocks * 512,
		 counted = table_counted(&op->sp->table, op->slot);
	*n = to > end && bytes > counted
		     ? min_u64(bytes - counted, space_round_up(to - end, op->sp->block))
		     : 0;
	return 0;
}

static bool reserves_preallocated(struct space_op *op, const struct fs *fs, uint64_t n)
{
	bool fits = space_reserve(&op->sp->table.bytes, n, 0, space_bytes_limit(fs));
	op->bytes += fits ? n : 0;
	return fits;
}

/* Waits until the keeper has made XFS free so many preallocated blocks that the others fit. */
static int wait_for_trim(struct space_op *op, struct fs *fs, int fd, uint64_t to)
{
	const struct timespec nap = {.tv_nsec = TRIM_NAP_NS};
	uint64_t now_ns = monotonic_ns(), until_ns = now_ns + TRIM_MAX_NS, n;
	uint64_t look_ns = now_ns + SPACE_LOOK_NS;
	int res = space_enter_fd(op->sp, op->slot, fd); /* tells it that there are some */
	space_wake(op->sp);
	while (res == 0 && atomic_load(&op->sp->trims) && now_ns < until_ns &&
	       !space_caller_dies(&look_ns, now_ns)) {
		nanosleep(&nap, NULL);
		res = preallocated(op, fd, to, &n);
		if (res == 0 && reserves_preallocated(op, fs, n))
			return 0;
		now_ns = monotonic_ns();
	}
	return res < 0 ? res : space_refuse(fs);
}

/* The file is about to end at `to` or beyond it: preallocated blocks before that become its data. */
static int take_preallocated(struct space_op *op, struct fs *fs, int fd, uint64_t to)
{
	uint64_t n;
	if (!op->sp->overallocates || !space_bytes_limit(fs) || slot_counts_all(op->slot))
		return 0;
	int res = preallocated(op, fd, to, &n);
	if (res < 0 || reserves_preallocated(op, fs, n))
		return res;
	bool may_wait = atomic_fetch_add(&op->sp->trimming, 1) < TRIM_WAITING_MAX;
	res = may_wait ? wait_for_trim(op, fs, fd, to) : space_refuse(fs);
	atomic_fetch_sub(&op->sp->trimming, 1);
	return res;
}

/* Little is free: reserves only missing blocks, and if necessary shortens the range to [from, *to). */
static int reserve_closely(struct space_op *op, struct fs *fs, int fd, const struct stat *st,
			   uint64_t from, uint64_t *to, bool in_part)
{
	struct space_count *c = &op->sp->table.bytes;
	struct map_range r = {from, *to, op->sp->block, cap_of(op, st)};
	uint64_t limit = space_bytes_limit(fs), missing = map_missing(fd, &r);
	if (space_reserve_soon(fs, c, missing, limit)) {
		op->bytes += missing;
		return 0;
	}
	if (!in_part)
		return space_refuse(fs);
	uint64_t part = space_reserve_part(c, missing, op->sp->block, limit);
	op->bytes += part;
	if (part < missing)
		*to = map_fitting(fd, &r, part);
	return *to > from ? 0 : space_refuse(fs);
}

/* For writes whose cost is known in advance. */
static bool begin_sure(struct space_op *op, off_t off, size_t size, uint64_t limit)
{
	struct space_table *t = &op->sp->table;
	uint64_t growth;
	op->write = (struct slot_write){(uint64_t)off, (uint64_t)off + size, op->sp->block, 0};
	op->sure = table_write_begin(t, op->slot, &op->write, &growth) &&
		   !(growth && slot_counts_all(op->slot)) &&
		   space_reserve(&t->bytes, growth, 0, limit);
	if (op->sure)
		op->bytes = growth;
	return op->sure;
}

/* Finds out which blocks the file has, so that the cost of the writes that follow is known. */
static bool prove(struct space_op *op, int fd)
{
	struct stat st;
	struct slot_proof p;
	if (!table_wants_proof(&op->sp->table, op->slot, &p.epoch) || mirror_stat(fd, &st) < 0)
		return false;
	off_t hole = lseek(fd, 0, SEEK_HOLE);
	uint64_t bytes = (uint64_t)st.st_blocks * 512, end = space_end_of(op->sp, &st);
	if (hole < 0)
		return false;
	p.solid_to = hole < st.st_size ? (uint64_t)hole - (uint64_t)hole % op->sp->block : end;
	p.solid_end = p.solid_to == end && bytes == end;
	if (p.solid_to > bytes)
		return false;
	table_prove(&op->sp->table, op->slot, &p);
	return true;
}

/* For writes of unknown cost.  If little is free, may reduce *size. */
static int reserve_write(struct space_op *op, struct fs *fs, struct handle *h, off_t off,
			 size_t *size, enum space_write how)
{
	uint64_t limit = space_bytes_limit(fs),
		 most = space_span((uint64_t)off, *size, op->sp->block);
	bool append = how == SPACE_APPEND, exactly = slot_counts_all(op->slot);
	most += append ? op->sp->block : 0;
	uint64_t first = (uint64_t)off - (uint64_t)off % op->sp->block;
	int res = append ? 0 : take_preallocated(op, fs, h->fd, first);
	if (res < 0)
		return res;
	if (!exactly && (!limit || space_reserve(&op->sp->table.bytes, most, MARGIN, limit))) {
		op->bytes += limit ? most : 0;
		return 0;
	}
	struct stat st;
	res = mirror_stat(h->fd, &st);
	uint64_t from = append && res == 0 ? (uint64_t)st.st_size : (uint64_t)off;
	uint64_t to = from + *size;
	if (res == 0)
		res = reserve_closely(op, fs, h->fd, &st, from, &to, true);
	if (res < 0)
		return res;
	*size = to - from;
	if (exactly && to > (uint64_t)st.st_size)
		trim_prevent(h->fd, (off_t)from, *size);
	return 0;
}

int space_write_begin_slow(struct space_op *op, struct fs *fs, struct handle *h, off_t off,
			   size_t *size, enum space_write how)
{
	int res = begin_data(op, fs, h);
	uint64_t limit = space_bytes_limit(fs);
	if (res < 0 || !op->sp || !*size)
		return res;
	if (how == SPACE_WRITE && (begin_sure(op, off, *size, limit) ||
				   (prove(op, h->fd) && begin_sure(op, off, *size, limit))))
		return 0;
	/* A copy of a hole is a hole, on filesystems whose files can share blocks. */
	space_begin_change(op, how == SPACE_COPY ? CHANGE_ANY : CHANGE_WRITE);
	res = reserve_write(op, fs, h, off, size, how);
	return res < 0 ? space_give_up(op, res) : 0;
}

/* Whether this mode of fallocate allocates blocks: all do, except punching, collapsing and inserting a hole. */
static bool allocates(int mode)
{
	return !(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE));
}

int space_allocate_begin_slow(struct space_op *op, struct fs *fs, struct handle *h, int mode,
			      off_t off, off_t size)
{
	int res = begin_data(op, fs, h);
	if (res < 0 || !op->sp)
		return res;
	space_begin_change(op, CHANGE_ANY);
	if (off < 0 || size <= 0 || !allocates(mode))
		return 0;
	uint64_t to = add_sat_u64((uint64_t)off, (uint64_t)size);
	op->keep_end = space_round_up(to, op->sp->block);
	if (!space_bytes_limit(fs))
		return 0;
	struct stat st;
	/* XFS will not free any preallocated blocks of this file: all of them count from now on. */
	res = take_preallocated(op, fs, h->fd, UINT64_MAX);
	if (res == 0)
		res = mirror_stat(h->fd, &st);
	if (res == 0)
		res = reserve_closely(op, fs, h->fd, &st, (uint64_t)off, &to, false);
	return res < 0 ? space_give_up(op, res) : 0;
}

int space_cut_begin_slow(struct space_op *op, struct fs *fs, int fd, off_t size)
{
	int res = take_preallocated(op, fs, fd, (uint64_t)size);
	return res < 0 ? space_give_up(op, res) : 0;
}

void space_write_end_slow(struct space_op *op, int fd, ssize_t n)
{
	struct space_table *t = &op->sp->table;
	bool all = op->sure && n >= 0 && (uint64_t)n == op->write.to - op->write.from;
	if (!all || !table_write_end(t, op->slot, &op->write, op->bytes)) {
		space_end_slow(op, fd);
		return;
	}
	space_wake(op->sp);
	op->sp = NULL;
}
