/* SPDX-License-Identifier: MIT */
/* The interface of operations to space accounting: one call before they change the source, one after.
 *
 *	struct space_op op;
 *	int res = space_write_begin(&op, fs, h, off, &size, append);	0 or -errno; may reduce size
 *	if (res == 0) the call
 *	space_end(&op, h->fd);						whether it succeeded or not
 *
 * If nothing is counted, each call costs one test.  None holds a lock over a system call.  A begin that failed needs no
 * end, but an end is harmless. */
#ifndef FS_SPACE_HOOKS_H
#define FS_SPACE_HOOKS_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/space_internal.h"

struct space_op {
	struct space *sp;	 /* NULL: nothing to settle */
	struct space_slot *slot; /* NULL: only reserved */
	struct space_slot *made; /* of the new inode; its open file takes it over (space_made_open) */
	uint64_t bytes, inodes; /* reserved */
	bool borrowed;		/* the handle holds the slot's reference */
	bool sure;		/* the cost of the write is known in advance: `write` */
	struct slot_write write;
	bool locked; /* space_end must unlock sp->names */
	bool names;  /* space_end must call table_name_end with `epoch` */
	unsigned epoch;
	enum slot_change changing;
	bool cut;	   /* frees blocks beyond the end of the file */
	uint64_t keep_end; /* blocks up to here are preallocated; 0: none */
};

static inline bool space_counts(const struct fs *fs)
{
	return fs->cfg.space &&
	       atomic_load_explicit(&fs->cfg.space->counting, memory_order_acquire);
}

/* A write to an open file.  May reduce *size. */
enum space_write { SPACE_WRITE, SPACE_APPEND, SPACE_COPY };
int space_write_begin_slow(struct space_op *op, struct fs *fs, struct handle *h, off_t off,
			   size_t *size, enum space_write how);
static inline int space_write_begin(struct space_op *op, struct fs *fs, struct handle *h, off_t off,
				    size_t *size, bool append)
{
	op->sp = NULL;
	return space_counts(fs) ? space_write_begin_slow(op, fs, h, off, size,
							 append ? SPACE_APPEND : SPACE_WRITE)
				: 0;
}

/* The same for a copy, which ends at the end of the source file. */
static inline int space_copy_begin(struct space_op *op, struct fs *fs, const struct handle *from,
				   off_t off_in, struct handle *to, off_t off_out, size_t *size)
{
	struct stat st;
	op->sp = NULL;
	if (!space_counts(fs))
		return 0;
	if (mirror_stat(from->fd, &st) == 0)
		*size = min_u64(*size, off_in < st.st_size ? (uint64_t)(st.st_size - off_in) : 0);
	return space_write_begin_slow(op, fs, to, off_out, size, SPACE_COPY);
}
/* The errno of requests that do not fit. */
static inline int space_errno(const struct fs *fs)
{
	return atomic_load_explicit(&fs->quota_is_edquot, memory_order_relaxed) ? EDQUOT : ENOSPC;
}

/* Counts a request that does not fit; returns its -errno, marked for reply_status. */
int space_refuse(struct fs *fs);
/* True: a request that needs space may have to wait, because the kernel has not forgotten a deleted file yet. */
bool space_may_wait(const struct fs *fs);
/* The calling thread never does: such a request is refused. */
void space_never_wait(void);

int space_allocate_begin_slow(struct space_op *op, struct fs *fs, struct handle *h, int mode,
			      off_t off, off_t size);
static inline int space_allocate_begin(struct space_op *op, struct fs *fs, struct handle *h,
				       int mode, off_t off, off_t size)
{
	op->sp = NULL;
	return space_counts(fs) ? space_allocate_begin_slow(op, fs, h, mode, off, size) : 0;
}

/* Another change of an inode, given by fd or, if fd is -1, by its id: truncation (`cut`) and extended attributes.  `bytes`:
 * the most that it may need. */
int space_change_begin_slow(struct space_op *op, struct fs *fs, struct inode *inode, int fd,
			    uint64_t bytes);
static inline int space_change_begin(struct space_op *op, struct fs *fs, struct inode *inode,
				     int fd, uint64_t bytes)
{
	op->sp = NULL;
	return space_counts(fs) ? space_change_begin_slow(op, fs, inode, fd, bytes) : 0;
}
/* Blocks that an extended attribute may need: at least one, although a small one may fit into the inode; none on tmpfs. */
static inline uint64_t space_xattr_bytes(const struct fs *fs, const char *name, size_t size)
{
	if (!space_counts(fs) || fs->cfg.space->xattrs_are_free)
		return 0;
	return space_round_up(strlen(name) + size + 1, fs->cfg.space->block);
}
/* A truncation to `size`, which may also be more than the file has. */
int space_cut_begin_slow(struct space_op *op, struct fs *fs, int fd, off_t size);
static inline int space_cut_begin(struct space_op *op, struct fs *fs, struct inode *inode, int fd,
				  off_t size)
{
	int res = space_change_begin(op, fs, inode, fd, 0);
	if (op->sp)
		op->cut = true;
	return op->sp && size ? space_cut_begin_slow(op, fs, fd, size) : res;
}
/* Adds a name to a directory, with a new inode of that type or without. */
#define SPACE_NO_INODE 0
int space_name_begin_slow(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
			  mode_t type, size_t link_size);
static inline int space_name_begin(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
				   mode_t type, size_t link_size)
{
	op->sp = NULL;
	return space_counts(fs) ? space_name_begin_slow(op, fs, dir, type, link_size) : 0;
}

/* fd: the file that was changed; < 0: the call failed. */
void space_end_slow(struct space_op *op, int fd);
static inline void space_end(struct space_op *op, int fd)
{
	if (op->sp)
		space_end_slow(op, fd);
}

/* The same for a write of n bytes; < 0: it failed. */
void space_write_end_slow(struct space_op *op, int fd, ssize_t n);
static inline void space_write_end(struct space_op *op, int fd, ssize_t n)
{
	if (op->sp)
		space_write_end_slow(op, fd, n);
}

/* Something was created.  st: its attributes as mirror_entry_of_fd or mirror_lookup found them;
 * NULL: they failed.  Call before space_end. */
void space_made_slow(struct space_op *op, const struct stat *st);
static inline void space_made_fd(struct space_op *op, struct fs *fs, int fd, const struct stat *st)
{
	struct stat own;
	if (!op->sp)
		return;
	if (st &&
	    st->st_dev == fs->inodes.root->dev) /* elsewhere, numbers are not those of the source */
		space_made_slow(op, st);
	else if (mirror_stat(fd, &own) == 0)
		space_made_slow(op, &own);
}
/* The new file has been opened; its handle does not have a mode yet.  New files do not bypass the daemon while space is
 * counted. */
void space_made_open_slow(struct space_op *op, const struct inode *inode, struct handle *h);
static inline void space_made_open(struct space_op *op, const struct inode *inode, struct handle *h)
{
	if (op->sp && op->made)
		space_made_open_slow(op, inode, h);
}
/* The new file has no name (O_TMPFILE).  Call after space_made_fd. */
void space_made_nameless_slow(struct space_op *op, struct fs *fs, uint64_t id);
static inline void space_made_nameless(struct space_op *op, struct fs *fs, uint64_t id)
{
	if (op->sp && op->made)
		space_made_nameless_slow(op, fs, id);
}
static inline void space_made_at(struct space_op *op, struct fs *fs, int dir_fd, const char *name,
				 const struct stat *st)
{
	struct stat own;
	if (!op->sp)
		return;
	if (st && st->st_dev == fs->inodes.root->dev)
		space_made_slow(op, st);
	else if (mirror_stat_child(fs, dir_fd, name, &own) == 0)
		space_made_slow(op, &own);
}
/* A name is about to be removed.  First space_remove_prepare; then stat it; then space_remove_begin, unless st_nlink is 0;
 * and space_dir_begin.  After the attempt, space_end, and last space_remove_end. */
static inline void space_remove_prepare(struct slot_victim *v, const struct fs *fs)
{
	bool counts = space_counts(fs);
	v->slot = NULL;
	v->inode = 0;
	v->locked = counts && space_lock_names(fs->cfg.space, true);
	v->drops = counts ? atomic_load(&fs->cfg.space->table.drops) : 0;
}
/* The directory of the name, or that to which it is moved.  adds: a name is added there. */
int space_dir_begin_slow(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
			 bool adds);
static inline int space_dir_begin(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
				  bool adds)
{
	op->sp = NULL;
	return space_counts(fs) ? space_dir_begin_slow(op, fs, dir, adds) : 0;
}
void space_remove_begin_slow(struct slot_victim *v, struct fs *fs, int dir_fd, const char *name,
			     const struct stat *st);
static inline void space_remove_begin(struct slot_victim *v, struct fs *fs, int dir_fd,
				      const char *name, const struct stat *st)
{
	if (space_counts(fs) && st->st_nlink && (st->st_nlink == 1 || S_ISDIR(st->st_mode)))
		space_remove_begin_slow(v, fs, dir_fd, name, st);
}
void space_remove_end_slow(const struct slot_victim *v, struct fs *fs, bool removed);
static inline void space_remove_end(const struct slot_victim *v, struct fs *fs, bool removed)
{
	if (v->slot)
		space_remove_end_slow(v, fs, removed);
	space_unlock_names(fs->cfg.space, v->locked);
}
/* A file without a name (O_TMPFILE) got one. */
void space_linked_slow(struct fs *fs, const struct inode *inode);
static inline void space_linked(struct fs *fs, const struct inode *inode)
{
	if (space_counts(fs))
		space_linked_slow(fs, inode);
}
/* A rename out of `dir` happens between this and its space_end; call space_moving for what is renamed.  adds: the new name
 * is in the same directory, and nothing has it yet. */
int space_move_begin_slow(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
			  bool whiteout, bool adds);
static inline int space_move_begin(struct space_op *op, struct fs *fs, const struct inode_ref *dir,
				   bool whiteout, bool adds)
{
	op->sp = NULL;
	return space_counts(fs) ? space_move_begin_slow(op, fs, dir, whiteout, adds) : 0;
}
/* `name` is about to be renamed.  A scan could miss it or count it twice.  So a file gets a slot, which counts it; after the
 * rename of a directory, the scan is repeated. */
void space_moving_slow(struct fs *fs, int dir_fd, const char *name);
static inline void space_moving(const struct space_op *op, struct fs *fs, int dir_fd,
				const char *name)
{
	if (op->sp && atomic_load(&op->sp->table.scanning))
		space_moving_slow(fs, dir_fd, name);
}

/* A file was opened, is about to be closed, and was closed (its fd, too). */
void space_opened_slow(struct fs *fs, struct handle *h);
static inline void space_opened(struct fs *fs, struct handle *h)
{
	if (space_counts(fs))
		space_opened_slow(fs, h);
}
/* The file was open before counting began: writes to it may be in progress that are not counted. */
void space_adopt(struct fs *fs, struct handle *h);
void space_closing(struct fs *fs, struct handle *h); /* before its fd is closed */
void space_closed(struct fs *fs, struct handle *h);

/* Applies the limits to the answer for df. */
void space_statfs(const struct fs *fs, struct statvfs *st);

/* Enters the result of a stat; see table_settle.  all: counts preallocated blocks, unless the file is open. */
bool space_enter(struct space *sp, struct space_slot *s, uint64_t ticket, const struct stat *st,
		 bool all);

#endif
