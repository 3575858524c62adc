/* SPDX-License-Identifier: MIT */
/* Operations on an inode's attributes: lookup, getattr, setattr, readlink, statfs, ioctl.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fs/creds.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/ops.h"
#include "fs/reply.h"
#include "fs/space_hooks.h"
#include "fs/wire.h"

/* Looks up "." or "..", which the kernel asks for when a caller uses a file handle, to find the
 * file and to connect it to the tree. */
static int lookup_dots(struct fs *fs, const struct inode_ref *dir, const char *name,
		       struct fuse_entry_param *e)
{
	bool up = name[1] == '.' && dir->inode != fs->inodes.root;
	AUTO_FD fd = up ? mirror_open_child(fs, dir->fd, "..") : -1;
	if (up && fd < 0)
		return fd;
	if (up && !inode_is_inside(fs, fd)) /* it was moved out of the source */
		return -ESTALE;
	struct stat st;
	int res = mirror_stat(up ? fd : dir->fd, &st);
	if (res == 0 && st.st_nlink == 0) /* deleted, and the kernel's FORGET is on its way */
		res = -ESTALE;
	if (res < 0)
		return res;
	struct fhandle fh;
	fhandle_of(fs, up ? fd : dir->fd, "", &fh);
	struct inode *inode = inode_intern(fs, &st, &fd, &fh, NULL, NULL);
	if (!inode)
		return -ENOMEM;
	mirror_fill_entry(fs, inode, &st, e);
	return 0;
}

/* Looks up "." of an ID that is not in the table. */
static int lookup_forgotten(struct fs *fs, uint64_t id, struct fuse_entry_param *e)
{
	struct inode *inode;
	struct stat st;
	int res = inode_remember(fs, id, &st, &inode);
	if (res == 0)
		mirror_fill_entry(fs, inode, &st, e);
	return res;
}

/* Like inode_get.  If the thread must not block and the inode has no fd, sets req->again, because
 * opening one may block. */
static int get_inode(struct request *req, struct inode_ref *out)
{
	if (!req->no_wait)
		return inode_get(req->fs, req->in->nodeid, out);
	int res = inode_get_no_fd(req->fs, req->in->nodeid, out);
	if (res == 0 && out->fd < 0) {
		inode_put(req->fs, out);
		req->again = true;
		res = -EAGAIN;
	}
	return res;
}

void op_lookup(struct request *req)
{
	struct fs *fs = req->fs;
	uint64_t parent = req->in->nodeid;
	const char *name = request_name(req, 0);
	struct inode_ref dir;
	struct fuse_entry_param e = {0};
	if (!name) {
		reply_status(req, -EINVAL);
		return;
	}
	int res = get_inode(req, &dir);
	if (res == 0 && req->no_wait && !mirror_has_cached(dir.fd, name)) {
		inode_put(fs, &dir);
		req->again = true;
	}
	if (req->again)
		return;
	if (res == -ESTALE && !strcmp(name, ".")) {
		res = lookup_forgotten(fs, parent, &e);
	} else if (res == 0) {
		if (!strcmp(name, ".") || !strcmp(name, ".."))
			res = lookup_dots(fs, &dir, name, &e);
		else if ((res = mirror_check_name(name)) == 0)
			res = mirror_lookup(fs, &dir, name, &e);
		inode_put(fs, &dir);
	}
	if (res < 0) {
		/* ENOENT is sent as an error, so that the kernel does not cache it: the name may be
		 * created directly in the source, which we would not notice. */
		reply_status(req, res);
	} else {
		if (!S_ISDIR(e.attr.st_mode))
			habit_asked(&fs->habits, (pid_t)req->in->pid);
		if (reply_entry(req, &e) < 0)
			inode_forget(fs, e.ino, 1);
	}
}

void op_getattr(struct request *req)
{
	const struct handle *h = req->handle;
	struct fs *fs = req->fs;
	struct stat st = {0};
	double timeout_s = 0;
	int res;
	if (h) {
		res = mirror_stat(h->fd, &st);
		timeout_s = mirror_attr_timeout_s(fs, h->inode, st.st_mode);
	} else {
		struct inode_ref ref;
		res = get_inode(req, &ref);
		if (res == 0) {
			res = mirror_stat(ref.fd, &st);
			timeout_s = mirror_attr_timeout_s(fs, ref.inode, st.st_mode);
			inode_put(fs, &ref);
		}
	}
	if (req->again)
		return;
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	if (!h && !S_ISDIR(st.st_mode))
		habit_asked(&fs->habits, (pid_t)req->in->pid);
	st = mirror_shown(fs, &st);
	reply_attr(req, &st, timeout_s);
}

/* -- setattr: one attribute at a time, because each has its own system call -- */

static int set_mode(int fd, mode_t mode)
{
	return chmod(fd_path(fd).text, mode) < 0 ? -errno : 0;
}

static int set_owner(int fd, const struct stat *attr, int to_set)
{
	uid_t uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
	gid_t gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;
	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int set_size(int fd, off_t size, struct handle *h)
{
	int res = h ? ftruncate(h->fd, size) : truncate(fd_path(fd).text, size);
	if (h)
		atomic_store_explicit(&h->written, true, memory_order_relaxed);
	return res < 0 ? -errno : 0;
}

static int set_times(int fd, const struct stat *attr, int to_set)
{
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
	if (to_set & FUSE_SET_ATTR_ATIME_NOW)
		ts[0].tv_nsec = UTIME_NOW;
	else if (to_set & FUSE_SET_ATTR_ATIME)
		ts[0] = attr->st_atim;
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		ts[1].tv_nsec = UTIME_NOW;
	else if (to_set & FUSE_SET_ATTR_MTIME)
		ts[1] = attr->st_mtim;
	return utimensat(fd, "", ts, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

#define SET_OWNER (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)
#define SET_TIMES                                                                                  \
	(FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW |                     \
	 FUSE_SET_ATTR_MTIME_NOW)

static bool explicit_times(int to_set)
{
	return ((to_set & FUSE_SET_ATTR_ATIME) && !(to_set & FUSE_SET_ATTR_ATIME_NOW)) ||
	       ((to_set & FUSE_SET_ATTR_MTIME) && !(to_set & FUSE_SET_ATTR_MTIME_NOW));
}

static int cut(struct fs *fs, struct inode *inode, int fd, off_t size, struct handle *h)
{
	struct space_op space;
	int res = space_cut_begin(&space, fs, inode, fd, size);
	if (res == 0)
		res = set_size(fd, size, h);
	space_end(&space, fd);
	return res;
}

static int set_all(struct request *req, const struct inode_ref *ref, const struct stat *attr,
		   int to_set)
{
	int fd = ref->fd;
	struct fs *fs = req->fs;
	int res = 0;
	if (to_set & FUSE_SET_ATTR_SIZE) {
		struct stat now;
		bool ask = req->in->uid != 0 && mirror_stat(fd, &now) == 0 &&
			   creds_membership_matters(req, &now);
		res = creds_be_writer(fs, req, ask);
		if (res == 0)
			res = cut(fs, ref->inode, fd, attr->st_size, req->handle);
	}
	/* No attribute is set: chown(-1, -1), which changes only the change time and set-id bits.
	 * The kernel also sends this on behalf of a writer, which need not be the owner. */
	bool touch = !(to_set & (FUSE_SET_ATTR_SIZE | SET_OWNER | FUSE_SET_ATTR_MODE | SET_TIMES));
	/* The caller's groups decide to which group it may give the file, and whether the file may
	 * be set-group-id.  The owner is set before the mode, because a change of owner clears
	 * set-id bits. */
	bool membership = (to_set & FUSE_SET_ATTR_GID) ||
			  ((to_set & FUSE_SET_ATTR_MODE) && (attr->st_mode & S_ISGID));
	if (res == 0)
		res = touch	   ? creds_be_toucher(fs, req)
		      : membership ? creds_be_member(fs, req)
				   : creds_be_changer(fs, req);
	if (res == 0 && ((to_set & SET_OWNER) || touch))
		res = set_owner(fd, attr, to_set);
	if (res == 0 && (to_set & FUSE_SET_ATTR_MODE))
		res = set_mode(fd, attr->st_mode & 07777);
	if (res == 0 && (to_set & SET_TIMES)) {
		/* Every writer may set times to "now", which also accompanies a truncation. */
		if (!explicit_times(to_set))
			res = creds_be_toucher(fs, req);
		if (res == 0)
			res = set_times(fd, attr, to_set);
	}
	return res;
}

/* Which attributes the kernel wants set, in its own numbers. */
#define SETTABLE                                                                                   \
	(FATTR_MODE | FATTR_UID | FATTR_GID | FATTR_SIZE | FATTR_ATIME | FATTR_MTIME |             \
	 FATTR_ATIME_NOW | FATTR_MTIME_NOW | FATTR_CTIME)

static struct stat stat_to_set(const struct fuse_setattr_in *in)
{
	return (struct stat){
		.st_mode = in->mode,
		.st_uid = in->uid,
		.st_gid = in->gid,
		.st_size = (off_t)in->size,
		.st_atim = {(time_t)in->atime, (long)in->atimensec},
		.st_mtim = {(time_t)in->mtime, (long)in->mtimensec},
	};
}

void op_setattr(struct request *req)
{
	const struct fuse_setattr_in *in = req->args;
	struct fs *fs = req->fs;
	struct inode_ref ref;
	struct stat st, attr = stat_to_set(in);
	/* Without an open file, this waits for leases. */
	req->again = req->must_be_brief && (in->valid & FATTR_SIZE) &&
		     (!req->handle || mirror_is_long_to_cut(req->handle->fd));
	if (req->again)
		return;
	int res = inode_get(fs, req->in->nodeid, &ref);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	res = set_all(req, &ref, &attr, (int)(in->valid & SETTABLE));
	if (res == 0)
		res = mirror_stat(ref.fd, &st);
	double timeout_s = res == 0 ? mirror_attr_timeout_s(fs, ref.inode, st.st_mode) : 0;
	inode_put(fs, &ref);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	st = mirror_shown(fs, &st);
	reply_attr(req, &st, timeout_s);
}

void op_readlink(struct request *req)
{
	struct fs *fs = req->fs;
	struct inode_ref ref;
	char target[PATH_MAX + 1];
	int res = inode_get(fs, req->in->nodeid, &ref);
	if (res == 0) {
		ssize_t n = readlinkat(ref.fd, "", target, PATH_MAX);
		res = n < 0 ? -errno : 0;
		inode_put(fs, &ref);
		target[n < 0 ? 0 : n] = '\0';
	}
	if (res < 0)
		reply_status(req, res);
	else
		reply_link(req, target);
}

void op_statfs(struct request *req)
{
	struct fs *fs = req->fs;
	struct statvfs st;
	if (fstatvfs(fs->root_fd, &st) < 0) {
		reply_status(req, -errno);
		return;
	}
	space_statfs(fs, &st);
	reply_statfs(req, &st);
}

/* -- ioctl: file flags, project ids, versions -- */

/* The size of the data.  Some commands pass an int, although their number says long. */
static size_t ioctl_size(unsigned int cmd)
{
	switch (cmd) {
	case FS_IOC_GETFLAGS:
	case FS_IOC_SETFLAGS:
	case FS_IOC_GETVERSION:
	case FS_IOC_SETVERSION:
		return sizeof(int);
	case FS_IOC_FSGETXATTR:
	case FS_IOC_FSSETXATTR:
		return sizeof(struct fsxattr);
	case FS_IOC_GETFSLABEL:
		return FSLABEL_MAX;
	default:
		return 0;
	}
}

#define EXTENT_HINTS (FS_XFLAG_EXTSIZE | FS_XFLAG_EXTSZINHERIT | FS_XFLAG_COWEXTSIZE)

/* While space is counted, nobody may give a file a hint for the size of its extents (XFS): a write of one byte could then
 * allocate a gigabyte, which was not reserved. */
static int check_hints(const struct fs *fs, int fd, const void *data)
{
	struct fsxattr to, now;
	memcpy(&to, data, sizeof(to));
	if (!space_counts(fs) || !(to.fsx_xflags & EXTENT_HINTS))
		return 0;
	if (ioctl(fd, FS_IOC_FSGETXATTR, &now) < 0)
		return -errno;
	bool same = (now.fsx_xflags & EXTENT_HINTS) == (to.fsx_xflags & EXTENT_HINTS) &&
		    now.fsx_extsize == to.fsx_extsize && now.fsx_cowextsize == to.fsx_cowextsize;
	return same ? 0 : -EPERM;
}

void op_ioctl(struct request *req)
{
	const struct fuse_ioctl_in *in = req->args;
	struct fs *fs = req->fs;
	unsigned int cmd = in->cmd;
	size_t in_size = min_u64(in->in_size, req->payload_len), out_size = in->out_size;
	char data[FSLABEL_MAX] = {0};
	size_t size = ioctl_size(cmd);
	if (!size || (in->flags & FUSE_IOCTL_UNRESTRICTED) || in_size > sizeof(data) ||
	    out_size > sizeof(data)) {
		reply_status(req, -ENOTTY);
		return;
	}
	bool sets = _IOC_DIR(cmd) & _IOC_WRITE;
	if (sets) {
		if (in_size < size) {
			reply_status(req, -EINVAL);
			return;
		}
		memcpy(data, req->payload, in_size);
	}
	int res = creds_be_plain_caller(fs, req);
	if (res == 0 && cmd == FS_IOC_FSSETXATTR)
		res = check_hints(fs, req->handle->fd, data);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	if (ioctl(req->handle->fd, cmd, data) < 0) {
		reply_status(req, -errno);
		return;
	}
	if (sets && fs->attr_timeout_s > 0)
		wire_notify_attr(fs->dev_fd,
				 req->in->nodeid); /* the kernel does not expect a new ctime */
	reply_ioctl(req, data, sets ? 0 : min_u64(size, out_size));
}
