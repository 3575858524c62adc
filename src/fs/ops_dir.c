/* SPDX-License-Identifier: MIT */
/* Operations on open directories.  Offsets are those of the source (d_off), so a position stays
 * valid whatever happens to the directory. */
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
#include "fs/creds.h"
#include "fs/fdlimit.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/ops.h"
#include "fs/reply.h"

#define DENTS_MAX (64U << 10)
#define DENTS_MIN 1024U
/* How many times longer an entry with attributes is in a reply than in the source. */
#define PLUS_RATIO 5

struct dent {
	uint64_t d_ino;
	int64_t d_off;
	uint16_t d_reclen;
	uint8_t d_type;
	char d_name[];
};

static struct handle *dir_handle(struct request *req, struct inode *inode, int *fd, int flags)
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

void op_opendir(struct request *req)
{
	const struct fuse_open_in *in = req->args;
	struct fs *fs = req->fs;
	int asked = (int)in->flags;
	struct inode_ref ref;
	int res = handle_reserve(req);
	if (res < 0) {
		reply_status(req, res);
		return;
	}
	struct handle *h = NULL;
	res = inode_get(fs, req->in->nodeid, &ref);
	if (res == 0) {
		int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (asked & O_NOATIME);
		AUTO_FD fd = openat(ref.fd, ".", flags);
		if (fd < 0 && errno == EMFILE && fdlimit_make_room(16))
			fd = openat(ref.fd, ".", flags);
		/* Opening "." needs search permission, which is not needed to read a directory. */
		if (fd < 0 && errno == EACCES)
			fd = mirror_reopen(fs, ref.fd, flags);
		else if (fd < 0)
			fd = -errno;
		res = fd < 0 ? fd : 0;
		h = res == 0 ? dir_handle(req, ref.inode, &fd, asked) : NULL;
		if (res == 0 && !h)
			res = -ENOMEM;
		inode_put(fs, &ref);
	}
	if (!h) {
		handle_unreserve(req);
		reply_status(req, res);
		return;
	}
	if (reply_open(req, &(struct fuse_file_info){.fh = h->number}) < 0)
		handle_free(fs, h);
}

/* Reads more entries into the buffer.  1; 0: the end of the directory; or -errno. */
static int refill(struct handle *h, size_t want)
{
	struct dir_stream *d = h->dir;
	if (!d->buf && !(d->buf = malloc(DENTS_MAX)))
		return -ENOMEM;
	/* Read about as much as the reply will hold: entries that stay in the buffer become
	 * outdated when the directory changes. */
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

/* Adds one entry to the reply.  Returns the bytes used; 0: it does not fit; -1: leave it out. */
static ssize_t add_entry(struct request *req, struct handle *h, const struct dent *de, char *out,
			 size_t room, bool plus)
{
	struct fs *fs = req->fs;
	struct fuse_entry_param e = {
		.attr = {.st_ino = mirror_shown_ino(fs, h->inode->dev, de->d_ino),
			 .st_mode = (mode_t)de->d_type << 12}};
	size_t need = plus ? fuse_add_direntry_plus(NULL, NULL, 0, de->d_name, &e, 0)
			   : fuse_add_direntry(NULL, NULL, 0, de->d_name, &e.attr, 0);
	if (need > room)
		return 0;
	if (!plus)
		return (ssize_t)fuse_add_direntry(NULL, out, room, de->d_name, &e.attr, de->d_off);
	bool leave_out = de->d_type != DT_DIR && de->d_type != DT_UNKNOWN &&
			 !habit_wants_attributes(&fs->habits, (pid_t)req->in->pid);
	if (!is_dot(de->d_name) && !leave_out) {
		const struct inode_ref dir = {h->inode, h->fd};
		if (mirror_lookup(fs, &dir, de->d_name, &e) == -ENOENT)
			return -1;
	}
	return (ssize_t)fuse_add_direntry_plus(NULL, out, room, de->d_name, &e, de->d_off);
}

/* Fills req->buffer.  Returns the bytes of the reply, or -errno.  *cut: there are more entries. */
static ssize_t fill(struct request *req, struct handle *h, size_t size, off_t off, bool plus,
		    bool *cut)
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
		ssize_t n = add_entry(req, h, de, req->buffer + used, size - used, plus);
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

/* The kernel did not accept the reply: drops the references that it would have held. */
static void forget_entries(struct fs *fs, const char *buf, size_t used)
{
	for (size_t at = 0; at < used;) {
		const struct fuse_direntplus *dp = (const struct fuse_direntplus *)(buf + at);
		if (dp->entry_out.nodeid)
			inode_forget(fs, dp->entry_out.nodeid, 1);
		at += FUSE_DIRENTPLUS_SIZE(dp);
	}
}

static void read_dir(struct request *req, bool plus)
{
	const struct fuse_read_in *in = req->args;
	struct handle *h = req->handle;
	size_t size = min_u64(in->size, FS_BUFFER_SIZE);
	if (plus && in->offset == 0)
		habit_begin(&req->fs->habits, (pid_t)req->in->pid);
	pthread_mutex_lock(&h->dir->lock);
	bool cut = false;
	ssize_t n = fill(req, h, size, (off_t)in->offset, plus, &cut);
	pthread_mutex_unlock(&h->dir->lock);
	if (n < 0) {
		reply_status(req, (int)n);
		return;
	}
	struct fs *fs = req->fs;
	listing_gave(&fs->listings, req->in->nodeid, size, (size_t)n, cut);
	req->bytes_moved = (uint64_t)n;
	if (reply_buf(req, req->buffer, (size_t)n) < 0 && plus)
		forget_entries(fs, req->buffer, (size_t)n);
}

void op_readdir(struct request *req)
{
	read_dir(req, false);
}

void op_readdirplus(struct request *req)
{
	read_dir(req, true);
}

void op_releasedir(struct request *req)
{
	struct handle *h = req->handle;
	(void)creds_be_opener(req->fs, h->uid, h->gid); /* it is closed even if this fails */
	handle_free(req->fs, h);
	reply_status(req, 0);
}
