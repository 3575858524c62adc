/* SPDX-License-Identifier: MIT */
/* Operations on names: mknod, mkdir, symlink, link, unlink, rmdir, rename. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/creds.h"
#include "fs/mirror.h"
#include "fs/ops.h"
#include "fs/reply.h"
#include "fs/space_hooks.h"

/* Answers the creation of a name; ends `space` and puts `dir`.  is_new: the inode is new, too. */
static void answer_made(struct request *req, struct inode_ref *dir, const char *name,
			struct space_op *space, bool is_new, int res)
{
	struct fs *fs = req->fs;
	struct fuse_entry_param e = {0};
	bool made = res == 0;
	if (made)
		res = mirror_lookup(fs, dir, name, &e);
	if (made && is_new)
		space_made_at(space, fs, dir->fd, name, res == 0 ? &e.attr : NULL);
	space_end(space, made ? dir->fd : -1);
	inode_put(fs, dir);
	if (res < 0)
		reply_status(req, res);
	else if (reply_entry(req, &e) < 0)
		inode_forget(fs, e.ino, 1);
}

static bool get_dir(struct request *req, uint64_t parent, const char *name, struct inode_ref *dir)
{
	int res = mirror_check_name(name);
	if (res == 0)
		res = inode_get(req->fs, parent, dir);
	if (res < 0)
		reply_status(req, res);
	return res == 0;
}

void op_mknod(struct request *req)
{
	const struct fuse_mknod_in *in = req->args;
	const char *name = request_name(req, 0);
	struct inode_ref dir;
	if (!get_dir(req, req->in->nodeid, name, &dir))
		return;
	req->umask = in->umask;
	struct space_op space = {0};
	int res = creds_be_maker(req->fs, req, in->mode);
	if (res == 0)
		res = space_name_begin(&space, req->fs, &dir,
				       in->mode & S_IFMT ? in->mode : S_IFREG, 0);
	if (res == 0)
		res = mknodat(dir.fd, name, in->mode, in->rdev) < 0 ? -errno : 0;
	answer_made(req, &dir, name, &space, true, res);
}

void op_mkdir(struct request *req)
{
	const struct fuse_mkdir_in *in = req->args;
	const char *name = request_name(req, 0);
	struct inode_ref dir;
	if (!get_dir(req, req->in->nodeid, name, &dir))
		return;
	req->umask = in->umask;
	struct space_op space = {0};
	int res = creds_be_maker(req->fs, req, in->mode | S_IFDIR);
	if (res == 0)
		res = space_name_begin(&space, req->fs, &dir, S_IFDIR, 0);
	if (res == 0)
		res = mkdirat(dir.fd, name, in->mode) < 0 ? -errno : 0;
	answer_made(req, &dir, name, &space, true, res);
}

void op_symlink(struct request *req)
{
	const char *name = request_name(req, 0), *target = request_name(req, 1);
	struct inode_ref dir;
	if (!target) {
		reply_status(req, -EINVAL);
		return;
	}
	if (!get_dir(req, req->in->nodeid, name, &dir))
		return;
	struct space_op space = {0};
	req->umask = 0;
	int res = creds_be_maker(req->fs, req, S_IFLNK);
	if (res == 0)
		res = space_name_begin(&space, req->fs, &dir, S_IFLNK, strlen(target));
	if (res == 0)
		res = symlinkat(target, dir.fd, name) < 0 ? -errno : 0;
	answer_made(req, &dir, name, &space, true, res);
}

void op_link(struct request *req)
{
	struct fs *fs = req->fs;
	uint64_t ino = ((const struct fuse_link_in *)req->args)->oldnodeid;
	const char *newname = request_name(req, 0);
	struct inode_ref dir, ref;
	if (!get_dir(req, req->in->nodeid, newname, &dir))
		return;
	struct space_op space = {0};
	int res = inode_get(fs, ino, &ref);
	if (res < 0) {
		answer_made(req, &dir, newname, &space, false, res);
		return;
	}
	res = space_name_begin(&space, fs, &dir, SPACE_NO_INODE, 0);
	space_moving(&space, fs, ref.fd, "");
	/* The path leads to the inode of the fd, even to a symbolic link: it is not followed
	 * further. */
	if (res == 0 &&
	    linkat(AT_FDCWD, fd_path(ref.fd).text, dir.fd, newname, AT_SYMLINK_FOLLOW) < 0)
		res = -errno;
	if (res == 0) {
		space_linked(fs,
			     ref.inode); /* first: without a name and a pin, it would not count */
		inode_unpin(fs, ino);
	}
	inode_put(fs, &ref);
	answer_made(req, &dir, newname, &space, false, res);
}

static void remove_name(struct request *req, int flags)
{
	struct fs *fs = req->fs;
	const char *name = request_name(req, 0);
	struct inode_ref dir;
	if (!get_dir(req, req->in->nodeid, name, &dir))
		return;
	struct stat st;
	struct space_op space;
	struct slot_victim victim;
	space_remove_prepare(&victim, fs);
	uint64_t kept = victim.inode = inode_keep_unlinked(fs, dir.fd, name, &st);
	space_remove_begin(&victim, fs, dir.fd, name, &st);
	int res = space_dir_begin(&space, fs, &dir, false);
	if (res == 0)
		res = unlinkat(dir.fd, name, flags) < 0 ? -errno : 0;
	if (res < 0)
		inode_unpin(fs, kept);
	space_end(&space, res == 0 ? dir.fd : -1);
	space_remove_end(&victim, fs, res == 0);
	inode_put(fs, &dir);
	reply_status(req, res);
}

void op_unlink(struct request *req)
{
	remove_name(req, 0);
}

void op_rmdir(struct request *req)
{
	remove_name(req, AT_REMOVEDIR);
}

/* `old` had this name before it was renamed.  If both names led to it, of which the kernel need not know, nothing was renamed,
 * and there is no whiteout. */
static void count_whiteout(struct space_op *op, struct fs *fs, int dir_fd, const char *name,
			   const struct stat *old)
{
	struct stat st;
	if (op->sp && mirror_stat_child(fs, dir_fd, name, &st) == 0 && st.st_ino != old->st_ino)
		space_made_slow(op, &st);
}

/* over: the file that has the new name so far and will be removed.  adds: there is none. */
static int rename_counted(struct fs *fs, const struct inode_ref *from, const char *name,
			  const struct inode_ref *to, const char *newname, unsigned int flags,
			  const struct slot_victim *over, bool adds)
{
	struct space_op left, entered = {0};
	bool whiteout = flags & RENAME_WHITEOUT, within = from->inode == to->inode;
	int res = space_move_begin(&left, fs, from, whiteout, adds && within);
	if (res == 0 && !within)
		res = space_dir_begin(&entered, fs, to, adds);
	struct stat old;
	if (res == 0 && whiteout && mirror_stat_child(fs, from->fd, name, &old) < 0)
		old.st_ino = 0;
	space_moving(&left, fs, from->fd, name);
	if (flags & RENAME_EXCHANGE)
		space_moving(&left, fs, to->fd, newname);
	if (res == 0 && syscall(SYS_renameat2, from->fd, name, to->fd, newname, flags) < 0)
		res = -errno;
	if (res == 0 && whiteout)
		count_whiteout(&left, fs, from->fd, name, &old);
	space_end(&left, res == 0 ? from->fd : -1);
	space_end(&entered, res == 0 ? to->fd : -1);
	space_remove_end(over, fs, res == 0);
	return res;
}

/* True: both names lead to the one file, so the rename removes nothing.  The kernel may ask for that if they differ only in
 * case, or if it has seen another file of this name a moment ago, which was replaced through another mount. */
static bool is_itself(struct fs *fs, const struct inode_ref *from, const char *name,
		      const struct inode_ref *to, const struct stat *st)
{
	struct stat old;
	return space_counts(fs) && from->inode == to->inode && st->st_nlink &&
	       mirror_stat_child(fs, from->fd, name, &old) == 0 && old.st_ino == st->st_ino &&
	       old.st_dev == st->st_dev;
}

static int do_rename(struct request *req, const struct inode_ref *from, const char *name,
		     const struct inode_ref *to, const char *newname, unsigned int flags)
{
	struct fs *fs = req->fs;
	struct stat a, b, st;
	bool have_a = false, have_b = false;
	if (!fs->by_handle) {
		have_a = mirror_stat_child(fs, from->fd, name, &a) == 0;
		have_b = (flags & RENAME_EXCHANGE) &&
			 mirror_stat_child(fs, to->fd, newname, &b) == 0;
	}
	/* RENAME_WHITEOUT creates a whiteout, so the caller's umask must not apply. */
	req->umask = 0;
	int res = flags & RENAME_WHITEOUT ? creds_be_maker(fs, req, S_IFCHR) : 0;
	if (res < 0)
		return res;
	struct slot_victim over;
	uint64_t kept = 0;
	bool adds = !(flags & RENAME_EXCHANGE);
	space_remove_prepare(&over, fs);
	if (!(flags & (RENAME_EXCHANGE | RENAME_NOREPLACE))) {
		kept = over.inode = inode_keep_unlinked(fs, to->fd, newname, &st);
		adds = st.st_nlink == 0;
		if (!is_itself(fs, from, name, to, &st))
			space_remove_begin(&over, fs, to->fd, newname, &st);
	}
	res = rename_counted(fs, from, name, to, newname, flags, &over, adds);
	if (res < 0) {
		inode_unpin(fs, kept);
		return res;
	}
	if (have_a)
		inode_moved(fs, &a, to->inode, newname);
	if (have_b)
		inode_moved(fs, &b, from->inode, name);
	return 0;
}

static void rename_to(struct request *req, uint64_t newparent, unsigned int flags)
{
	struct fs *fs = req->fs;
	const char *name = request_name(req, 0), *newname = request_name(req, 1);
	struct inode_ref from, to;
	if (!get_dir(req, req->in->nodeid, name, &from))
		return;
	int res = mirror_check_name(newname);
	if (res == 0)
		res = inode_get(fs, newparent, &to);
	if (res == 0) {
		res = do_rename(req, &from, name, &to, newname, flags);
		inode_put(fs, &to);
	}
	inode_put(fs, &from);
	reply_status(req, res);
}

void op_rename(struct request *req)
{
	const struct fuse_rename_in *in = req->args;
	rename_to(req, in->newdir, 0);
}

void op_rename2(struct request *req)
{
	const struct fuse_rename2_in *in = req->args;
	rename_to(req, in->newdir, in->flags);
}
