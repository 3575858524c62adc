/* SPDX-License-Identifier: MIT */
/* Steps in the source that several operations share. */
#include "fs/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "base/util.h"
#include "fs/fdlimit.h"
#include "fs/wire.h"

#define HOLD_NS NSEC_PER_SEC /* long enough for the kernel to retry */

struct fd_path fd_path(int fd)
{
	struct fd_path p;
	snprintf(p.text, sizeof(p.text), "/proc/self/fd/%d", fd);
	return p;
}

static int open_child_once(const struct fs *fs, int dir_fd, const char *name)
{
	int fd;
	if (fs->no_xdev && !fs->cfg.own_namespace) {
		struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				       .resolve = RESOLVE_NO_XDEV};
		fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
	} else {
		fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

int mirror_open_child(const struct fs *fs, int dir_fd, const char *name)
{
	int fd = open_child_once(fs, dir_fd, name);
	if (fd == -EMFILE && fdlimit_make_room(16))
		fd = open_child_once(fs, dir_fd, name);
	return fd;
}

bool mirror_has_cached(int dir_fd, const char *name)
{
	/* O_DIRECTORY: a file that is found need not be opened and closed, which may delete it. */
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_CACHED};
	AUTO_FD fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
	return fd >= 0 || errno == ENOTDIR || errno == ENOENT;
}

int mirror_stat_child(const struct fs *fs, int dir_fd, const char *name, struct stat *st)
{
	if (!fs->no_xdev || fs->cfg.own_namespace)
		return fstatat(dir_fd, name, st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ? -errno
											    : 0;
	/* A plain stat would enter what is mounted there, possibly this very mount. */
	AUTO_FD fd = mirror_open_child(fs, dir_fd, name);
	return fd < 0 ? fd : mirror_stat(fd, st);
}

int mirror_reopen(struct fs *fs, int fd, int flags)
{
	flags = (flags & ~(O_NOFOLLOW | O_CREAT | O_EXCL)) | O_CLOEXEC;
	struct fd_path path = fd_path(fd);
	int out = openat(fs->proc_fd, path.text + strlen("/proc/self/fd/"), flags);
	if (out < 0 && errno == EMFILE && fdlimit_make_room(16))
		out = openat(fs->proc_fd, path.text + strlen("/proc/self/fd/"), flags);
	return out < 0 ? -errno : out;
}

bool mirror_is_long_to_cut(int fd)
{
	struct stat st;
	return mirror_stat(fd, &st) == 0 && mirror_is_large(&st);
}

int mirror_check_name(const char *name)
{
	if (!name || !*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
		return -EINVAL;
	return 0;
}

void fhandle_of(const struct fs *fs, int fd, const char *name, struct fhandle *out)
{
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + FHANDLE_MAX];
	} u;
	int mount_id;
	out->bytes = 0;
	out->sure = !*name;
	if (!fs->by_handle)
		return;
	u.h.handle_bytes = FHANDLE_MAX;
	if (name_to_handle_at(fd, name, &u.h, &mount_id, *name ? 0 : AT_EMPTY_PATH) < 0)
		return;
	out->bytes = (uint8_t)u.h.handle_bytes;
	out->type = u.h.handle_type;
	memcpy(out->data, u.h.f_handle, u.h.handle_bytes);
}

/* A handle is stale if its file is deleted between the kernel's LOOKUP and its OPEN or GETATTR.
 * The kernel then repeats the lookup, but only once: the second result must not become stale as
 * well. */
static bool files_are_replaced(const struct fs *fs)
{
	uint64_t until = atomic_load_explicit(&fs->hold_until_ns, memory_order_relaxed);
	return until && monotonic_ns() < until;
}

int fhandle_open_at(int mount_fd, const struct fhandle *fh, int flags)
{
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + FHANDLE_MAX];
	} u;
	u.h.handle_bytes = fh->bytes;
	u.h.handle_type = fh->type;
	memcpy(u.h.f_handle, fh->data, fh->bytes);
	int fd = open_by_handle_at(mount_fd, &u.h, flags);
	if (fd < 0 && errno == ENOMEM) /* ext4 also returns it while it creates that inode */
		fd = open_by_handle_at(mount_fd, &u.h, flags);
	return fd < 0 ? -errno : fd;
}

int fhandle_open(struct fs *fs, const struct fhandle *fh, int flags)
{
	int fd = fhandle_open_at(fs->mount_fd, fh, flags);
	if (fd != -ENOMEM && fd != -ESTALE)
		return fd;
	atomic_store_explicit(&fs->hold_until_ns, monotonic_ns() + HOLD_NS, memory_order_relaxed);
	return -ESTALE;
}

uint64_t mirror_shown_ino(const struct fs *fs, dev_t dev, uint64_t ino)
{
	if (dev == fs->inodes.root->dev)
		return ino;
	uint64_t mixed = (uint64_t)dev * 0x9E3779B97F4A7C15ULL;
	return ino ^ (1ULL << 63 | (mixed & ~(uint64_t)UINT32_MAX) >> 1);
}

void mirror_show_owner(const struct fs *fs, uid_t *uid, gid_t *gid)
{
	if (!fs->cfg.own_namespace)
		return;
	*uid = geteuid(); /* the only user in that namespace */
	*gid = getegid();
}

struct stat mirror_shown(const struct fs *fs, const struct stat *st)
{
	struct stat shown = *st;
	shown.st_ino = mirror_shown_ino(fs, st->st_dev, st->st_ino);
	mirror_show_owner(fs, &shown.st_uid, &shown.st_gid);
	return shown;
}

/* Writing, truncating and allocating clear set-id bits; the kernel then asks for times and size
 * again, but assumes that the mode is unchanged.  It also does not notice that a store into a
 * mapping of the source's file changes the time. */
double mirror_attr_timeout_s(const struct fs *fs, const struct inode *inode, mode_t mode)
{
	if (S_ISREG(mode) &&
	    ((mode & (S_ISUID | S_ISGID)) ||
	     (inode && atomic_load_explicit(&inode->n_mappable, memory_order_relaxed))))
		return 0;
	return S_ISDIR(mode) && fs->moment_s > 0 ? fs->moment_s : fs->attr_timeout_s;
}

void mirror_end_moment(const struct fs *fs, uint64_t ino)
{
	if (fs->moment_s > 0)
		wire_notify_attr(fs->dev_fd, ino);
}

static double entry_attr_timeout_s(const struct fs *fs, const struct inode *inode, mode_t mode)
{
	bool is_open = atomic_load_explicit(&inode->n_open, memory_order_relaxed);
	if (fs->moment_s > 0 && !is_open && !(S_ISREG(mode) && (mode & (S_ISUID | S_ISGID))))
		return fs->moment_s;
	return mirror_attr_timeout_s(fs, inode, mode);
}

void mirror_fill_entry(const struct fs *fs, struct inode *inode, const struct stat *st,
		       struct fuse_entry_param *e)
{
	e->ino = inode->id;
	e->generation = inode->id & COUNTED_ID ? fs->generation
					       : durable_generation(&fs->durable, inode->id);
	e->attr = mirror_shown(fs, st);
	e->attr_timeout = entry_attr_timeout_s(fs, inode, st->st_mode);
	e->entry_timeout = fs->entry_timeout_s;
}

/* Makes an inode for a file that has none.  *st: its attributes, read before its handle; updated. */
static int intern_by_handle(struct fs *fs, const struct inode_ref *dir, const char *name,
			    const struct fhandle *fh, struct stat *st, struct inode **out)
{
	struct stat again;
	int res = mirror_stat_child(fs, dir->fd, name, &again);
	if (res < 0)
		return res;
	/* If the file has been replaced meanwhile, *st and the handle may be of different files. */
	if (!fh->bytes || again.st_ino != st->st_ino || again.st_dev != st->st_dev)
		return -EAGAIN;
	int no_fd = -1;
	*out = inode_intern(fs, &again, &no_fd, fh, dir->inode, name);
	*st = again;
	return *out ? 0 : -ENOMEM;
}

/* Looks up by inode number and file handle: a file that is only looked at needs no fd.  -EAGAIN: it
 * needs one. */
static int lookup_by_handle(struct fs *fs, const struct inode_ref *dir, const char *name,
			    struct fuse_entry_param *e)
{
	struct stat st;
	struct inode *inode;
	int res = mirror_stat_child(fs, dir->fd, name, &st);
	if (res < 0)
		return res;
	res = inode_find(fs, &st, NULL, &inode);
	if (res == -ENOENT) {
		struct fhandle fh;
		fhandle_of(fs, dir->fd, name, &fh);
		res = inode_find(fs, &st, &fh, &inode);
		if (res == -ENOENT)
			res = intern_by_handle(fs, dir, name, &fh, &st, &inode);
	}
	if (res == 0)
		mirror_fill_entry(fs, inode, &st, e);
	return res;
}

int mirror_lookup(struct fs *fs, const struct inode_ref *dir, const char *name,
		  struct fuse_entry_param *e)
{
	bool by_handle = fs->by_handle && !files_are_replaced(fs);
	int res = by_handle ? lookup_by_handle(fs, dir, name, e) : -EAGAIN;
	if (res != -EAGAIN)
		return res;
	AUTO_FD fd = mirror_open_child(fs, dir->fd, name);
	if (by_handle && (fd == -EMFILE || fd == -ENFILE)) { /* perhaps no fd is needed now */
		res = lookup_by_handle(fs, dir, name, e);
		return res == -EAGAIN ? fd : res;
	}
	if (fd < 0)
		return fd;
	struct stat st;
	res = mirror_stat(fd, &st);
	if (res < 0)
		return res;
	struct fhandle none = {0};
	struct inode *inode = inode_intern(fs, &st, &fd, &none, dir->inode, name);
	if (!inode)
		return -ENOMEM;
	mirror_fill_entry(fs, inode, &st, e);
	return 0;
}

int mirror_entry_of_fd(struct fs *fs, const struct inode_ref *dir, const char *name, int fd,
		       struct fuse_entry_param *e)
{
	struct stat st;
	int res = mirror_stat(fd, &st);
	if (res < 0)
		return res;
	struct fhandle fh = {0};
	fhandle_of(fs, fd, "", &fh);
	AUTO_FD path_fd = -1;
	if (!fh.bytes) {
		path_fd = openat(AT_FDCWD, fd_path(fd).text, O_PATH | O_CLOEXEC);
		if (path_fd < 0)
			return -errno;
	}
	struct inode *inode = inode_intern(fs, &st, &path_fd, &fh, dir->inode, name);
	if (!inode)
		return -ENOMEM;
	mirror_fill_entry(fs, inode, &st, e);
	return 0;
}
