/* SPDX-License-Identifier: MIT */
#include "fs/space_hooks.h"

#include <errno.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "fs/handle.h"
#include "fs/inode_table.h"
#include "fs/space_map.h"
#include "fs/space_trim.h"

/* While more than this is free, a write reserves all blocks that it touches, which is cheap but too much.  Below it, a
 * write looks up in the block map of the file which blocks are missing and reserves only those, so that excessive
 * reservations never make another request fail. */
#define MARGIN (64ULL << 20)

#define FAST_SYMLINK 59 /* longest link target that nearly every filesystem stores in the inode */

/* True: space_refuse was called for the operation that this thread carries out. */
static _Thread_local bool refused;

int space_refuse(struct fs *fs)
{
	refused = true;
	atomic_fetch_add_explicit(&fs->cfg.space->refused, 1, memory_order_relaxed);
	return -space_errno(fs);
}

bool space_was_refused(void)
{
	bool was = refused;
	refused = false;
	return was;
}

static uint64_t bytes_limit(const struct fs *fs)
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

/* --- slots ----------------------------------------------------------------------------------- */

static uint64_t end_of(const struct space *sp, const struct stat *st)
{
	return space_round_up((uint64_t)st->st_size, sp->block);
}

static struct slot_stat slot_stat_of(const struct space *sp, const struct stat *st)
{
	bool file = S_ISREG(st->st_mode);
	uint64_t bytes = (uint64_t)st->st_blocks * 512, end = end_of(sp, st);
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
static int enter_fd(struct space *sp, struct space_slot *s, int fd)
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
	bool bypassing = atomic_load_explicit(&h->bypasses, memory_order_relaxed);
	struct fhandle fh = {0};
	if (h->inode->handle_bytes && h->inode->handle_bytes <= SPACE_HANDLE_MAX)
		inode_copy_handle(h->inode, &fh);
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
		(void)enter_fd(fs->cfg.space, s, h->fd);
}

void space_closed(struct fs *fs, struct handle *h)
{
	struct space_slot *s = atomic_load_explicit(&h->slot, memory_order_acquire);
	if (!s)
		return;
	table_closed(&fs->cfg.space->table, s, h->mode == IO_PASS, monotonic_ns());
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
	return slot_needs_base(op->slot) ? enter_fd(op->sp, op->slot, h->fd) : 0;
}

static void begin_change(struct space_op *op, enum slot_change c)
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

static int give_up(struct space_op *op, int res)
{
	end_change(op);
	space_unreserve(&op->sp->table.bytes, op->bytes);
	space_unreserve(&op->sp->table.inodes, op->inodes);
	if (op->slot && !op->borrowed)
		table_put(&op->sp->table, op->slot, monotonic_ns());
	op->sp = NULL;
	return res;
}

static uint64_t cap_of(struct space_op *op, const struct stat *st)
{
	if (!op->sp->overallocates || slot_counts_all(op->slot))
		return UINT64_MAX;
	return max_u64(end_of(op->sp, st), table_kept(&op->sp->table, op->slot));
}

/* Little is free: reserves only missing blocks, and if necessary shortens the range to [from, *to). */
static int reserve_closely(struct space_op *op, struct fs *fs, int fd, const struct stat *st,
			   uint64_t from, uint64_t *to, bool in_part)
{
	struct space_count *c = &op->sp->table.bytes;
	struct map_range r = {from, *to, op->sp->block, cap_of(op, st)};
	uint64_t limit = bytes_limit(fs), missing = map_missing(fd, &r);
	if (!in_part) {
		if (!space_reserve(c, missing, 0, limit))
			return space_refuse(fs);
		op->bytes = missing;
		return 0;
	}
	op->bytes = space_reserve_part(c, missing, op->sp->block, limit);
	if (op->bytes < missing)
		*to = map_fitting(fd, &r, op->bytes);
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
	uint64_t bytes = (uint64_t)st.st_blocks * 512, end = end_of(op->sp, &st);
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
	uint64_t limit = bytes_limit(fs), most = space_span((uint64_t)off, *size, op->sp->block);
	bool append = how == SPACE_APPEND, exactly = slot_counts_all(op->slot);
	most += append ? op->sp->block : 0;
	if (!exactly && (!limit || space_reserve(&op->sp->table.bytes, most, MARGIN, limit))) {
		op->bytes = limit ? most : 0;
		return 0;
	}
	struct stat st;
	int res = mirror_stat(h->fd, &st);
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
	uint64_t limit = bytes_limit(fs);
	if (res < 0 || !op->sp || !*size)
		return res;
	if (how == SPACE_WRITE && (begin_sure(op, off, *size, limit) ||
				   (prove(op, h->fd) && begin_sure(op, off, *size, limit))))
		return 0;
	/* A copy of a hole is a hole, on filesystems whose files can share blocks. */
	begin_change(op, how == SPACE_COPY ? CHANGE_ANY : CHANGE_WRITE);
	res = reserve_write(op, fs, h, off, size, how);
	return res < 0 ? give_up(op, res) : 0;
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
	begin_change(op, CHANGE_ANY);
	if (off < 0 || size <= 0 || !allocates(mode))
		return 0;
	uint64_t to = add_sat_u64((uint64_t)off, (uint64_t)size);
	op->keep_end = space_round_up(to, op->sp->block);
	if (!bytes_limit(fs))
		return 0;
	struct stat st;
	res = mirror_stat(h->fd, &st);
	if (res == 0)
		res = reserve_closely(op, fs, h->fd, &st, (uint64_t)off, &to, false);
	return res < 0 ? give_up(op, res) : 0;
}

/* --- everything else ------------------------------------------------------------------------- */

static int base_of(struct space_op *op, struct fs *fs, const struct inode *inode, int fd)
{
	if (!slot_needs_base(op->slot))
		return 0;
	if (fd >= 0)
		return enter_fd(op->sp, op->slot, fd);
	struct inode_ref ref;
	int res = inode_get(fs, inode->id, &ref);
	if (res < 0)
		return res;
	res = enter_fd(op->sp, op->slot, ref.fd);
	inode_put(fs, &ref);
	return res;
}

int space_change_begin_slow(struct space_op *op, struct fs *fs, struct inode *inode, int fd,
			    uint64_t bytes, uint64_t inodes)
{
	struct space *sp = fs->cfg.space;
	bool counted = !sp->dirs_are_free || !S_ISDIR(inode->type);
	*op = (struct space_op){.slot = counted ? table_get(&sp->table, inode->dev, inode->ino)
						: NULL};
	if (counted && !op->slot)
		return 0;
	op->sp = sp;
	int res = op->slot ? base_of(op, fs, inode, fd) : 0;
	if (S_ISREG(inode->type))
		begin_change(op, CHANGE_ANY);
	if (res == 0 && !space_reserve(&sp->table.bytes, bytes, 0, bytes_limit(fs)))
		res = space_refuse(fs);
	else if (res == 0)
		op->bytes = bytes;
	if (res == 0 && !space_reserve(&sp->table.inodes, inodes, 0, inodes_limit(fs)))
		res = space_refuse(fs);
	else if (res == 0)
		op->inodes = inodes;
	return res < 0 ? give_up(op, res) : 0;
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
	const struct space *sp = fs->cfg.space;
	uint64_t bytes = sp->dirs_are_free ? 0 : sp->block;
	if (S_ISDIR(type))
		bytes += sp->dir_bytes;
	if (S_ISLNK(type) && link_size > FAST_SYMLINK)
		bytes += space_round_up(link_size, sp->block);
	return begin_name(op, space_change_begin_slow(op, fs, dir->inode, dir->fd, bytes, !!type));
}

int space_move_begin_slow(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
			  bool whiteout)
{
	return begin_name(op, space_change_begin_slow(op, fs, dir->inode, dir->fd, 0, whiteout));
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
		(void)enter_fd(op->sp, op->slot, fd);
	space_unreserve(&t->bytes, op->bytes);
	space_unreserve(&t->inodes, op->inodes);
	uint64_t now_ns = op->made || (op->slot && !op->borrowed) ? monotonic_ns() : 0;
	if (op->made)
		table_put(t, op->made, now_ns);
	if (op->slot && !op->borrowed)
		table_put(t, op->slot, now_ns);
	space_wake(op->sp);
	op->sp = NULL;
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
	table_remove_end(&fs->cfg.space->table, v, removed, monotonic_ns());
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
	uint64_t bytes = bytes_limit(fs), inodes = inodes_limit(fs);
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
