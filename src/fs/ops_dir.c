/* SPDX-License-Identifier: MIT */
/* Operations on open directories.  Offsets are the backing's own (d_off), so a position stays good
 * whatever happens to the directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fs/context.h"
#include "fs/creds.h"
#include "fs/fdlimit.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/reply.h"

#define DENTS_MAX (64U << 10)
#define DENTS_MIN 1024U
/* A reply entry with attributes is some times as long as the backing's. */
#define PLUS_RATIO 5

struct dent {
	uint64_t d_ino;
	int64_t d_off;
	uint16_t d_reclen;
	uint8_t d_type;
	char d_name[];
};

static struct handle *dir_handle(fuse_req_t req, struct inode *inode, int *fd, int flags)
{
	struct dir_stream *d = calloc(1, sizeof(*d));
	struct handle *h = d ? handle_new(req, fd, flags) : NULL;
	if (!h) {
		free(d);
		return NULL;
	}
	pthread_mutex_init(&d->lock, NULL);
	h->dir = d;
	h->inode = inode;
	return h;
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct inode_ref ref;
	int res = handle_reserve(req);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	struct handle *h = NULL;
	res = inode_get(fs, ino, &ref);
	if (res == 0) {
		int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (fi->flags & O_NOATIME);
		AUTO_FD fd = openat(ref.fd, ".", flags);
		if (fd < 0 && errno == EMFILE && fdlimit_make_room(16))
			fd = openat(ref.fd, ".", flags);
		/* To read a directory one need not be allowed to search it, as "." demands. */
		if (fd < 0 && errno == EACCES)
			fd = mirror_reopen(fs, ref.fd, flags);
		else if (fd < 0)
			fd = -errno;
		res = fd < 0 ? fd : 0;
		h = res == 0 ? dir_handle(req, ref.inode, &fd, fi->flags) : NULL;
		if (res == 0 && !h)
			res = -ENOMEM;
		inode_put(fs, &ref);
	}
	if (res < 0) {
		handle_unreserve(req);
		reply_status(req, res);
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)h;
	if (reply_open(req, fi) < 0)
		handle_free(fs, h);
}

/* More entries into the buffer.  1, 0 at the end, -errno. */
static int refill(struct handle *h, size_t want)
{
	struct dir_stream *d = h->dir;
	if (!d->buf && !(d->buf = malloc(DENTS_MAX)))
		return -ENOMEM;
	/* About as much as the reply will hold: what waits here while the directory changes is not
	 * what a program would see of the backing. */
	if (want < DENTS_MIN)
		want = DENTS_MIN;
	ssize_t n = syscall(SYS_getdents64, h->fd, d->buf, min_u64(want, DENTS_MAX));
	d->pos = 0;
	d->len = n > 0 ? (size_t)n : 0;
	return n < 0 ? -errno : n > 0;
}

static bool is_dot(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* One entry into the reply.  Bytes used, 0 if it does not fit, -1 to leave it out. */
static ssize_t add_entry(fuse_req_t req, struct handle *h, const struct dent *de, char *out,
			 size_t room, bool plus)
{
	struct fs *fs = fs_of(req);
	struct fuse_entry_param e = {
		.attr = {.st_ino = mirror_shown_ino(fs, h->inode->dev, de->d_ino),
			 .st_mode = (mode_t)de->d_type << 12}};
	size_t need = plus ? fuse_add_direntry_plus(req, NULL, 0, de->d_name, &e, 0)
			   : fuse_add_direntry(req, NULL, 0, de->d_name, &e.attr, 0);
	if (need > room)
		return 0;
	if (!plus)
		return (ssize_t)fuse_add_direntry(req, out, room, de->d_name, &e.attr, de->d_off);
	bool leave_out = de->d_type != DT_DIR && de->d_type != DT_UNKNOWN &&
			 !habit_wants_attributes(&fs->habits, fuse_req_ctx(req)->pid);
	if (!is_dot(de->d_name) && !leave_out) {
		const struct inode_ref dir = {h->inode, h->fd};
		if (mirror_lookup(fs, &dir, de->d_name, &e) == -ENOENT)
			return -1;
	}
	return (ssize_t)fuse_add_direntry_plus(req, out, room, de->d_name, &e, de->d_off);
}

/* Bytes of the reply in fs_context.buffer, or -errno.  *cut: there was more. */
static ssize_t fill(fuse_req_t req, struct handle *h, size_t size, off_t off, bool plus, bool *cut)
{
	struct dir_stream *d = h->dir;
	size_t used = 0;
	if (off != d->next || off == 0) {
		if ((d->next != 0 || d->len) && lseek(h->fd, off, SEEK_SET) < 0)
			return -errno;
		if (d->next == 0 && !d->len && off != 0 && lseek(h->fd, off, SEEK_SET) < 0)
			return -errno;
		d->pos = d->len = 0;
		d->next = off;
	}
	for (;;) {
		if (d->pos >= d->len) {
			int res = refill(h, (size - used) / (plus ? PLUS_RATIO : 1));
			if (res < 0 && !used)
				return res;
			if (res <= 0)
				break;
		}
		const struct dent *de = (const struct dent *)(d->buf + d->pos);
		ssize_t n = add_entry(req, h, de, fs_context.buffer + used, size - used, plus);
		if (n == 0) {
			*cut = true;
			break;
		}
		if (n > 0)
			used += (size_t)n;
		d->pos += de->d_reclen;
		d->next = de->d_off;
	}
	return (ssize_t)used;
}

/* The kernel did not take the reply: it does not know these entries. */
static void forget_entries(struct fs *fs, const char *buf, size_t used)
{
	for (size_t at = 0; at < used;) {
		const struct fuse_direntplus *dp = (const struct fuse_direntplus *)(buf + at);
		if (dp->entry_out.nodeid)
			inode_forget(fs, dp->entry_out.nodeid, 1);
		at += FUSE_DIRENTPLUS_SIZE(dp);
	}
}

static void read_dir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi, bool plus)
{
	struct handle *h = handle_from_fh(fi->fh);
	if (size > FS_BUFFER_SIZE)
		size = FS_BUFFER_SIZE;
	if (plus && off == 0)
		habit_begin(&fs_of(req)->habits, fuse_req_ctx(req)->pid);
	pthread_mutex_lock(&h->dir->lock);
	bool cut = false;
	ssize_t n = fill(req, h, size, off, plus, &cut);
	pthread_mutex_unlock(&h->dir->lock);
	if (n < 0) {
		reply_status(req, (int)n);
		return;
	}
	struct fs *fs = fs_of(req);
	listing_gave(&fs->listings, ino, size, (size_t)n, cut);
	fs_context.bytes_moved = (uint64_t)n;
	if (reply_buf(req, fs_context.buffer, (size_t)n) < 0 && plus)
		forget_entries(fs, fs_context.buffer, (size_t)n);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	read_dir(req, ino, size, off, fi, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	read_dir(req, ino, size, off, fi, true);
}

void dir_release(struct fs *fs, uint64_t fh)
{
	struct handle *h = handle_from_fh(fh);
	(void)creds_be_opener(fs, h->uid, h->gid); /* it is closed in any case: nobody else will */
	handle_free(fs, h);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	int fd = handle_from_fh(fi->fh)->fd;
	int res = datasync ? fdatasync(fd) : fsync(fd);
	reply_status(req, res < 0 ? -errno : 0);
}
