/* SPDX-License-Identifier: MIT */
/* Operations that open, sync and close files: open, create, tmpfile, flush, release, fsync. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/creds.h"
#include "fs/fdlimit.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/ops.h"
#include "fs/mount_internal.h"
#include "fs/reply.h"
#include "fs/space_hooks.h"
#include "fs/wire.h"

/* Which of the caller's flags the backing file is opened with.  Not O_NONBLOCK, which concerns
 * limits only (admit.c).  Not O_APPEND: each write says whether it appends, since fcntl can change
 * that and write-back of mapped pages never appends. */
#define BACKING_FLAGS (O_ACCMODE | O_TRUNC | O_SYNC | O_DSYNC | O_DIRECT | O_NOATIME)

/* An inode is opened by its handle if it has one, even if it also has an fd: that takes less time than
 * by /proc/self/fd. */
static int open_by_handle(struct fs *fs, const struct inode_ref *ref, int flags)
{
	struct fhandle fh;
	/* A handle that is not sure may lead to another file, which must not be truncated before that is noticed. */
	if (!inode_handle(fs, ref->inode, &fh) || (!fh.sure && (flags & O_TRUNC)))
		return -ENOENT;
	/* Without an fd, a stale handle is the end of the inode. */
	AUTO_FD fd = ref->fd < 0 ? fhandle_open(fs, &fh, flags)
				 : fhandle_open_at(fs->mount_fd, &fh, flags);
	if (fd >= 0)
		return inode_is_fd(fs, ref->inode, &fh, fd) ? take_fd(&fd) : -ESTALE;
	return ref->fd >= 0 && (fd == -ESTALE || fd == -ENOMEM) ? -ENOENT : fd;
}

static int open_known(struct fs *fs, const struct inode_ref *ref, int flags)
{
	int fd = open_by_handle(fs, ref, flags | O_CLOEXEC);
	if (fd == -EMFILE && fdlimit_make_room(16))
		fd = open_by_handle(fs, ref, flags | O_CLOEXEC);
	if (fd != -ENOENT)
		return fd;
	if (ref->fd >= 0)
		return mirror_reopen(fs, ref->fd, flags);
	struct inode_ref opened;
	int res = inode_get(fs, ref->inode->id, &opened);
	if (res < 0)
		return res;
	fd = mirror_reopen(fs, opened.fd, flags);
	inode_put(fs, &opened);
	return fd;
}

static int be_truncator(struct fs *fs, struct request *req, struct inode *inode)
{
	struct inode_ref ref;
	struct stat st;
	bool ask = false;
	if (req->in->uid != 0 && inode_get(fs, inode->id, &ref) == 0) {
		ask = mirror_stat(ref.fd, &st) == 0 && creds_membership_matters(req, &st);
		inode_put(fs, &ref);
	}
	return creds_be_writer(fs, req, ask);
}

/* The file on the source must be opened without waiting for leases: with this flag, which means nothing else there. */
static int lease_flag(const struct request *req)
{
	return req->must_be_brief ? O_NONBLOCK : 0;
}

static int open_backing(struct request *req, const struct inode_ref *ref, int caller_flags)
{
	struct fs *fs = req->fs;
	int flags = (caller_flags & BACKING_FLAGS) | lease_flag(req);
	int fd = open_known(fs, ref, flags);
	/* An append-only file must be opened with O_APPEND. */
	if (fd == -EPERM && (caller_flags & O_APPEND))
		fd = open_known(fs, ref, flags | O_APPEND);
	/* Deleted directly in the source but open through us: inode_get finds it by its open
	 * file. */
	if (fd == -ESTALE && ref->fd < 0) {
		struct inode_ref held;
		int res = inode_get(fs, ref->inode->id, &held);
		if (res < 0)
			return res;
		fd = mirror_reopen(fs, held.fd, flags);
		inode_put(fs, &held);
	}
	return fd;
}

/* With cache=strict the attributes of an open file decide about nothing but what a write needs. */
static bool wants_attributes(const struct request *req, int caller_flags)
{
	return req->fs->cfg.cache != CACHE_STRICT ||
	       (req->in->uid != 0 && (caller_flags & O_ACCMODE) != O_RDONLY);
}

/* Opens the file, and fills *st with its attributes if they are wanted.  fd or -errno. */
static int open_inode(struct request *req, const struct inode_ref *ref, int caller_flags,
		      struct stat *st)
{
	struct fs *fs = req->fs;
	struct space_op space = {0};
	/* A device or FIFO opened here would act on the daemon; the kernel opens those itself. */
	if (!S_ISREG(ref->inode->type))
		return S_ISDIR(ref->inode->type) ? -EISDIR : -ENXIO;
	int res = caller_flags & O_TRUNC ? be_truncator(fs, req, ref->inode) : 0;
	if (res == 0 && (caller_flags & O_TRUNC))
		res = space_cut_begin(&space, fs, ref->inode, ref->fd, 0);
	if (res < 0)
		return res;
	AUTO_FD fd = open_backing(req, ref, caller_flags);
	space_end(&space, fd);
	if (fd < 0)
		return fd;
	res = wants_attributes(req, caller_flags) ? mirror_stat(fd, st) : 0;
	return res < 0 ? res : take_fd(&fd);
}

/* True: the thread must not block, and the file that the open truncates may be large. */
static bool is_long_to_open(const struct request *req, const struct inode_ref *ref,
			    int caller_flags)
{
	struct inode_ref opened;
	if (!req->must_be_brief || !(caller_flags & O_TRUNC))
		return false;
	if (ref->fd >= 0)
		return mirror_is_long_to_cut(ref->fd);
	if (inode_get(req->fs, ref->inode->id, &opened) < 0)
		return false;
	bool is_long = mirror_is_long_to_cut(opened.fd);
	inode_put(req->fs, &opened);
	return is_long;
}

static void fill_open(const struct handle *h, struct fuse_file_info *fi)
{
	/* A flush writes mapped pages to the backing file.  It is not needed if nothing can be
	 * changed, or if the kernel maps the backing file itself: this saves a message per
	 * close. */
	fi->noflush = (h->flags & O_ACCMODE) == O_RDONLY || h->mode == IO_PASS;
}

/* The inode goes last: as long as the handle is in the table, space_adopt may look at it. */
static void end_handle(struct fs *fs, struct handle *h)
{
	struct inode *inode = h->inode;
	handle_close_mode(fs, h);
	handle_free(fs, h);
	inode_unref(fs, inode, 1);
}

void op_open(struct request *req)
{
	const struct fuse_open_in *in = req->args;
	struct fs *fs = req->fs;
	uint64_t ino = req->in->nodeid;
	struct fuse_file_info fi = {.flags = (int)in->flags};
	struct inode_ref ref;
	struct stat st = {0};
	int res = handle_reserve(req);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	res = inode_get_no_fd(fs, ino, &ref);
	if (res < 0) {
		handle_unreserve(req);
		reply_status(req, res);
		return;
	}
	AUTO_FD fd = is_long_to_open(req, &ref, fi.flags) ? -EWOULDBLOCK
							  : open_inode(req, &ref, fi.flags, &st);
	res = fd < 0 ? fd : 0;
	req->again = res == -EWOULDBLOCK && req->must_be_brief;
	if (req->again) {
		handle_unreserve(req);
		inode_put(fs, &ref);
		return;
	}
	struct handle *h = res == 0 ? handle_new(req, &fd, fi.flags) : NULL;
	if (!h) {
		handle_unreserve(req);
		res = res ? res : -ENOMEM;
	} else {
		h->membership_matters = creds_membership_matters(req, &st);
		h->append_only = (fi.flags & O_APPEND) && (fcntl(h->fd, F_GETFL) & O_APPEND);
		res = handle_open_mode(fs, h, ref.inode, &st, &fi);
		if (res < 0)
			handle_free(fs, h);
		else if (h->mappable && fs->attr_timeout_s > 0)
			wire_notify_attr(fs->dev_fd, ino); /* see mirror_attr_timeout_s */
	}
	inode_put(fs, &ref);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	fill_open(h, &fi);
	mirror_end_moment(fs, ino);
	if (reply_open(req, &fi) < 0)
		end_handle(fs, h);
}

/* The kernel asks for a name that it believes is free.  If it is not, because somebody has just
 * created it directly in the source, only a regular file may be opened here. */
static int create_or_open(struct request *req, const struct inode_ref *dir, const char *name,
			  mode_t mode, int caller_flags, bool *made)
{
	struct fs *fs = req->fs;
	int flags = (caller_flags & BACKING_FLAGS) | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir->fd, name, flags, mode);
	if (fd < 0 && errno == EMFILE && fdlimit_make_room(16))
		fd = openat(dir->fd, name, flags, mode);
	*made = fd >= 0;
	if (fd >= 0)
		return fd;
	if (errno != EEXIST || (caller_flags & O_EXCL))
		return -errno;
	AUTO_FD path_fd = mirror_open_child(fs, dir->fd, name);
	if (path_fd < 0)
		return path_fd;
	struct stat st;
	int res = mirror_stat(path_fd, &st);
	if (res < 0)
		return res;
	/* The kernel looks it up again and treats it by its type.  A file that is to be truncated is then opened by
	 * op_open, which counts what that frees. */
	if (!S_ISREG(st.st_mode) || ((caller_flags & O_TRUNC) && space_counts(fs)))
		return -ESTALE;
	int fd_there = mirror_reopen(fs, path_fd, (caller_flags & BACKING_FLAGS) | lease_flag(req));
	return fd_there == -EWOULDBLOCK ? -ESTALE : fd_there;
}

/* Answers a create, given the fd of the file, which may be new (`made`), or -errno.  Puts `dir`,
 * and ends `space`. */
static void answer_created(struct request *req, struct inode_ref *dir, const char *name, int new_fd,
			   struct fuse_file_info *fi, struct space_op *space, bool made)
{
	struct fs *fs = req->fs;
	struct fuse_entry_param e = {0};
	AUTO_FD fd = new_fd;
	int res = fd < 0 ? fd : mirror_entry_of_fd(fs, dir, name, fd, &e);
	if (made)
		space_made_fd(space, fs, fd, res == 0 ? &e.attr : NULL);
	struct inode_ref ref = INODE_REF_INIT;
	if (res == 0)
		res = inode_get_no_fd(fs, e.ino, &ref);
	struct handle *h = NULL;
	if (res == 0) {
		/* A file without a name can be reached only by an fd. */
		AUTO_FD path_fd = -1;
		if (!name && ref.fd < 0)
			path_fd = openat(AT_FDCWD, fd_path(fd).text, O_PATH | O_CLOEXEC);
		if (!name) {
			inode_pin(fs, ref.inode, &path_fd);
			space_made_nameless(space, fs, ref.inode->id);
		}
		h = handle_new(req, &fd, fi->flags);
		if (h)
			space_made_open(space, ref.inode, h);
		res = h ? handle_open_mode(fs, h, ref.inode, &e.attr, fi) : -ENOMEM;
		if (res == 0) {
			fill_open(h, fi);
			e.attr_timeout = mirror_attr_timeout_s(fs, ref.inode, e.attr.st_mode);
		}
		if (res < 0 && h)
			handle_free(fs, h);
		else if (res < 0)
			handle_unreserve(req);
		inode_put(fs, &ref);
	} else {
		handle_unreserve(req);
	}
	space_end(space, new_fd < 0 ? -1 : dir->fd);
	inode_put(fs, dir);
	if (res != 0) {
		if (e.ino)
			inode_forget(fs, e.ino, 1);
		reply_status(req, res);
		return;
	}
	if (reply_create(req, &e, fi) < 0) {
		end_handle(fs, h);
		inode_forget(fs, e.ino, 1);
	}
}

static bool begin_create(struct request *req, mode_t mode, struct inode_ref *dir)
{
	struct fs *fs = req->fs;
	int res = handle_reserve(req);
	if (res == 0) {
		res = inode_get(fs, req->in->nodeid, dir);
		if (res == 0) {
			res = creds_be_maker(fs, req, mode | S_IFREG);
			if (res < 0)
				inode_put(fs, dir);
		}
		if (res < 0)
			handle_unreserve(req);
	}
	if (res < 0) {
		reply_status(req, res);
		return false;
	}
	return true;
}

void op_create(struct request *req)
{
	const struct fuse_create_in *in = req->args;
	const char *name = request_name(req, 0);
	struct fuse_file_info fi = {.flags = (int)in->flags};
	struct inode_ref dir = INODE_REF_INIT;
	int res = mirror_check_name(name);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	req->umask = in->umask;
	if (!begin_create(req, in->mode, &dir))
		return;
	struct space_op space;
	bool made = false;
	int fd = space_name_begin(&space, req->fs, &dir, S_IFREG, 0);
	if (fd == 0)
		fd = create_or_open(req, &dir, name, in->mode, fi.flags, &made);
	answer_created(req, &dir, name, fd, &fi, &space, made);
}

void op_tmpfile(struct request *req)
{
	const struct fuse_create_in *in = req->args;
	struct fuse_file_info fi = {.flags = (int)in->flags};
	struct inode_ref dir = INODE_REF_INIT;
	req->umask = in->umask;
	if (!begin_create(req, in->mode, &dir))
		return;
	/* O_EXCL here means "never to be linked". */
	int flags = (fi.flags & (BACKING_FLAGS | O_EXCL) & ~O_TRUNC) | O_TMPFILE | O_CLOEXEC;
	struct space_op space;
	int fd = space_name_begin(&space, req->fs, &dir, S_IFREG, 0);
	if (fd == 0) {
		fd = openat(dir.fd, ".", flags, in->mode);
		if (fd < 0 && errno == EMFILE && fdlimit_make_room(16))
			fd = openat(dir.fd, ".", flags, in->mode);
		fd = fd < 0 ? -errno : fd;
	}
	answer_created(req, &dir, NULL, fd, &fi, &space, fd >= 0);
}

void op_flush(struct request *req)
{
	/* Locks are kept by the kernel, and all data has been written to the source already. */
	reply_status(req, 0);
}

/* The last close of a file that has no name deletes it, and closing a file that was written to may
 * flush it. */
static bool closing_may_block(const struct handle *h)
{
	struct stat st;
	int flags = atomic_load_explicit(&h->flags, memory_order_relaxed);
	return (flags & O_ACCMODE) != O_RDONLY || mirror_stat(h->fd, &st) < 0 || st.st_nlink == 0;
}

/* In memory only the last close of a large file without a name takes long.  The kernel is asked only about files that
 * may be large: that takes about as long as the rest of a close. */
static bool closing_is_long(const struct handle *h)
{
	struct stat st;
	if (!atomic_load_explicit(&h->written, memory_order_relaxed) &&
	    !atomic_load_explicit(&h->inode->large, memory_order_relaxed))
		return false;
	return mirror_stat(h->fd, &st) == 0 && st.st_nlink == 0 && mirror_is_large(&st);
}

/* Allocates nothing: a handle must be released even if memory is exhausted. */
void op_release(struct request *req)
{
	struct handle *h = req->handle;
	req->again = req->no_wait ? closing_may_block(h) : req->must_be_brief && closing_is_long(h);
	if (req->again)
		return;
	poll_forget(req->mount, h->number);
	(void)creds_be_opener(req->fs, h->uid, h->gid); /* it is closed even if this fails */
	end_handle(req->fs, h);
	reply_status(req, 0);
}

void op_fsync(struct request *req)
{
	const struct fuse_fsync_in *in = req->args;
	int fd = req->handle->fd;
	int res = in->fsync_flags & FUSE_FSYNC_FDATASYNC ? fdatasync(fd) : fsync(fd);
	reply_status(req, res < 0 ? -errno : 0);
}
