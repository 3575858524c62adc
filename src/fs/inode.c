/* SPDX-License-Identifier: MIT */
#include "fs/inode.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/durable.h"
#include "fs/fdlimit.h"
#include "fs/handle.h"
#include "fs/inode_table.h"
#include "fs/mirror.h"

/* Returns memory to the system after this many inodes have been forgotten. */
#define TRIM_STEP 50000
/* An inode that has been found by its handle this many times gets an fd, which makes finding it cheaper. */
#define FINDS_PER_OPEN 16

/* -- reopening an inode -- */

static int reopen_by_name(struct fs *fs, uint64_t parent_id, const char *name)
{
	struct inode_ref dir = INODE_REF_INIT;
	int res = inode_get(fs, parent_id, &dir);
	if (res < 0)
		return res;
	int fd = mirror_open_child(fs, dir.fd, name);
	inode_put(fs, &dir);
	return fd == -ENOENT ? -ESTALE : fd;
}

/* A file that is open through this mount can be reached by its open file even if it has no name any
 * more. */
static int reopen_by_open_file(struct fs *fs, struct inode_shard *s, struct inode *inode)
{
	int fd = -ESTALE;
	pthread_mutex_lock(&s->lock);
	const struct handle *h =
		inode->open ? list_first(&inode->open->handles, struct handle, of_inode) : NULL;
	if (h) {
		fd = openat(AT_FDCWD, fd_path(h->fd).text, O_PATH | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	pthread_mutex_unlock(&s->lock);
	return fd;
}

/* *fh: the handle by which it is opened; empty: by name. */
static int reopen_once(struct fs *fs, struct inode_shard *s, struct inode *inode,
		       struct fhandle *fh)
{
	char name[NAME_MAX + 1];
	uint64_t parent_id = 0;
	pthread_mutex_lock(&s->lock);
	inode_copy_handle(inode, fh);
	if (inode->parent) {
		parent_id = inode->parent->id;
		strncpy(name, inode->name, NAME_MAX);
		name[NAME_MAX] = '\0';
	}
	pthread_mutex_unlock(&s->lock);
	if (fh->bytes)
		return fhandle_open(fs, fh, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	fh->sure = false;
	return parent_id ? reopen_by_name(fs, parent_id, name) : -ESTALE;
}

static int reopen(struct fs *fs, struct inode_shard *s, struct inode *inode)
{
	struct fhandle fh;
	int res = reopen_once(fs, s, inode, &fh);
	if (res == -EMFILE && fdlimit_make_room(16))
		res = reopen_once(fs, s, inode, &fh);
	if (res < 0 && res != -EMFILE && res != -ENFILE && res != -ENOMEM)
		return reopen_by_open_file(fs, s, inode);
	if (res < 0)
		return res;
	/* Name and handle may not have been read together with the inode number: check that they belong to it. */
	AUTO_FD fd = res;
	return inode_is_fd(fs, inode, &fh, fd) ? take_fd(&fd) : -ESTALE;
}

static int get(struct fs *fs, uint64_t id, struct inode_ref *out, bool want_fd)
{
	struct inode_shard *s = inode_shard_of_id(fs, id);
	if (id == FUSE_ROOT_ID) {
		*out = (struct inode_ref){fs->inodes.root, fs->root_fd};
		return 0;
	}
	pthread_mutex_lock(&s->lock);
	struct inode *inode = inode_find_id_locked(s, id);
	if (!inode) {
		pthread_mutex_unlock(&s->lock);
		return -ESTALE;
	}
	inode->users++;
	inode->recently_used = true;
	*out = (struct inode_ref){inode, inode->fd};
	pthread_mutex_unlock(&s->lock);
	if (out->fd >= 0 || !want_fd)
		return 0;

	AUTO_FD fd = reopen(fs, s, inode);
	if (fd < 0) {
		int res = fd;
		inode_put(fs, out);
		return res;
	}
	pthread_mutex_lock(&s->lock);
	if (inode->fd < 0)
		inode_adopt_fd_locked(fs, s, inode, &fd);
	out->fd = inode->fd;
	pthread_mutex_unlock(&s->lock);
	fdlimit_keep();
	return 0;
}

int inode_get(struct fs *fs, uint64_t id, struct inode_ref *out)
{
	return get(fs, id, out, true);
}

int inode_get_no_fd(struct fs *fs, uint64_t id, struct inode_ref *out)
{
	return get(fs, id, out, false);
}

/* -- end of an inode -- */

/* Frees an inode without references.  Returns the parent of a freed inode, whose reference must be
 * dropped as well. */
static struct inode *free_if_unused(struct fs *fs, struct inode_shard *s, struct inode *inode)
{
	/* called with the lock held; releases it */
	if (inode->nlookup || inode->users || inode == fs->inodes.root) {
		pthread_mutex_unlock(&s->lock);
		return NULL;
	}
	int fd = inode->fd >= 0 ? inode_drop_fd_locked(fs, inode) : -1;
	inode_release_locked(fs, inode);
	inode_unlink_locked(s, inode);
	atomic_fetch_sub_explicit(&fs->inodes.n, 1, memory_order_relaxed);
	pthread_mutex_unlock(&s->lock);
	if (fd >= 0)
		close(fd);
	struct inode *parent = inode->parent;
	if (inode->handle_bytes > FHANDLE_INLINE)
		free(inode->handle.data);
	open_state_free(inode->open);
	free(inode->name);
	free(inode);
	return parent;
}

void inode_unref(struct fs *fs, struct inode *inode, uint64_t n)
{
	while (inode) {
		struct inode_shard *s = inode_shard_of_id(fs, inode->id);
		pthread_mutex_lock(&s->lock);
		inode->nlookup -= n < inode->nlookup ? n : inode->nlookup;
		inode = free_if_unused(fs, s, inode);
		n = 1;
	}
}

void inode_put(struct fs *fs, struct inode_ref *ref)
{
	struct inode *inode = ref->inode;
	if (!inode || inode == fs->inodes.root)
		return;
	ref->inode = NULL;
	struct inode_shard *s = inode_shard_of_id(fs, inode->id);
	pthread_mutex_lock(&s->lock);
	inode->users--;
	struct inode *parent = free_if_unused(fs, s, inode);
	if (parent)
		inode_unref(fs, parent, 1);
}

void inode_forget(struct fs *fs, uint64_t id, uint64_t n)
{
	struct inode_shard *s = inode_shard_of_id(fs, id);
	if (id == FUSE_ROOT_ID)
		return;
	pthread_mutex_lock(&s->lock);
	struct inode *inode = inode_find_id_locked(s, id);
	if (!inode) {
		pthread_mutex_unlock(&s->lock);
		return;
	}
	inode->nlookup -= n < inode->nlookup ? n : inode->nlookup;
	struct inode *parent = free_if_unused(fs, s, inode);
	if (parent)
		inode_unref(fs, parent, 1);
	uint64_t now = atomic_load_explicit(&fs->inodes.n, memory_order_relaxed);
	uint64_t peak = atomic_load_explicit(&fs->inodes.peak, memory_order_relaxed);
	if (now + TRIM_STEP < peak && atomic_compare_exchange_strong(&fs->inodes.peak, &peak, now))
		malloc_trim(0);
}

/* -- creating and finding -- */

static struct inode *find_key_locked(struct fs *fs, struct inode_shard *s, const struct stat *st,
				     int fd, const struct fhandle *fh)
{
	struct fhandle looked_up = {0};
	struct inode *it = s->buckets ? s->by_key[inode_key_slot(s, st->st_dev, st->st_ino)] : NULL;
	for (; it; it = it->next_by_key) {
		if (it->dev != st->st_dev || it->ino != st->st_ino)
			continue;
		if (it->fd >= 0 || !it->handle_bytes)
			return it;
		if (!fh->bytes) {
			fhandle_of(fs, fd, "", &looked_up);
			fh = &looked_up;
		}
		if (inode_same_handle(it, fh))
			return it;
	}
	return NULL;
}

struct inode *inode_add_locked(struct fs *fs, struct inode_shard *s, const struct stat *st,
			       const struct fhandle *fh, uint64_t id)
{
	if (s->n >= s->buckets &&
	    !inode_resize_locked(s, s->buckets ? 2 * s->buckets : INODE_BUCKETS_MIN))
		return NULL;
	struct inode *inode = calloc(1, sizeof(*inode));
	if (!inode)
		return NULL;
	inode->id = id ? id : durable_id(&fs->durable, st, fh);
	if (!inode->id)
		inode->id = COUNTED_ID | (++s->next_id << INODE_SHARD_BITS) |
			    (uint64_t)(s - fs->inodes.shards);
	inode->dev = st->st_dev;
	inode->ino = st->st_ino;
	inode->type = st->st_mode & S_IFMT;
	inode->fd = -1;
	list_init(&inode->with_fd);
	inode_set_handle(inode, fh);
	inode_link_locked(s, inode);
	s->n++;
	uint64_t n = atomic_fetch_add_explicit(&fs->inodes.n, 1, memory_order_relaxed) + 1;
	if (n > atomic_load_explicit(&fs->inodes.peak, memory_order_relaxed))
		atomic_store_explicit(&fs->inodes.peak, n, memory_order_relaxed);
	return inode;
}

static void note_size(struct inode *inode, const struct stat *st)
{
	atomic_store_explicit(&inode->large, mirror_is_large(st), memory_order_relaxed);
}

/* If there are no file handles: records where the inode was last seen.  *dir comes with a
 * reference; on return, *dir is the inode whose reference must be dropped. */
static void place_locked(struct inode *inode, struct inode **dir, const char *name)
{
	if (inode->parent == *dir && strcmp(inode->name, name) == 0)
		return;
	char *copy = strdup(name);
	if (!copy)
		return;
	free(inode->name);
	inode->name = copy;
	struct inode *old = inode->parent;
	inode->parent = *dir;
	*dir = old;
}

static void ref_for_name(struct fs *fs, struct inode *dir)
{
	struct inode_shard *s = inode_shard_of_id(fs, dir->id);
	pthread_mutex_lock(&s->lock);
	dir->nlookup++;
	pthread_mutex_unlock(&s->lock);
}

static bool is_root(const struct fs *fs, const struct stat *st)
{
	const struct inode *root = fs->inodes.root;
	return root && root->dev == st->st_dev && root->ino == st->st_ino;
}

struct inode *inode_intern(struct fs *fs, const struct stat *st, int *fd, const struct fhandle *fh,
			   struct inode *dir, const char *name)
{
	if (is_root(fs, st))
		return fs->inodes.root;
	struct fhandle looked_up;
	if (!fh->bytes && *fd >= 0) {
		fhandle_of(fs, *fd, "", &looked_up);
		fh = &looked_up;
	}
	struct inode *named_in = fs->by_handle || !name ? NULL : dir;
	if (named_in)
		ref_for_name(fs, named_in);
	struct inode_shard *s = inode_shard_of_key(fs, st->st_dev, st->st_ino);
	pthread_mutex_lock(&s->lock);
	struct inode *inode = find_key_locked(fs, s, st, *fd, fh);
	if (!inode)
		inode = inode_add_locked(fs, s, st, fh, 0);
	if (inode) {
		inode->nlookup++;
		note_size(inode, st);
		if (*fd >= 0 && inode->fd < 0)
			inode_adopt_fd_locked(fs, s, inode, fd);
		if (named_in)
			place_locked(inode, &named_in, name);
	}
	pthread_mutex_unlock(&s->lock);
	inode_unref(fs, named_in, 1);
	fdlimit_keep();
	return inode;
}

bool inode_is_inside(const struct fs *fs, int fd)
{
	AUTO_FD up = -1;
	struct stat st, below = {0};
	while (mirror_stat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		if (is_root(fs, &st))
			return true;
		if (st.st_ino == below.st_ino && st.st_dev == below.st_dev)
			break; /* the root of its filesystem */
		below = st;
		int next = mirror_open_child(fs, fd, "..");
		if (next < 0)
			break;
		if (up >= 0)
			close(up);
		fd = up = next;
	}
	return false;
}

int inode_remember(struct fs *fs, uint64_t id, struct stat *st, struct inode **out)
{
	struct fhandle fh;
	if (!durable_handle(&fs->durable, id, &fh))
		return -ESTALE;
	AUTO_FD fd = fhandle_open(fs, &fh, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -ESTALE;
	if (mirror_stat(fd, st) < 0 || st->st_nlink == 0 ||
	    (S_ISDIR(st->st_mode) && !inode_is_inside(fs, fd)))
		return -ESTALE;
	/* Some filesystems accept a generation of 0 for any: the file's own handle decides. */
	fhandle_of(fs, fd, "", &fh);
	if (durable_id(&fs->durable, st, &fh) != id)
		return -ESTALE;
	*out = inode_intern(fs, st, &fd, &fh, NULL, NULL);
	return *out ? 0 : -ENOMEM;
}

int inode_find(struct fs *fs, const struct stat *st, const struct fhandle *fh, struct inode **out)
{
	int res = -ENOENT;
	struct inode_shard *s = inode_shard_of_key(fs, st->st_dev, st->st_ino);
	pthread_mutex_lock(&s->lock);
	struct inode *it = s->buckets ? s->by_key[inode_key_slot(s, st->st_dev, st->st_ino)] : NULL;
	for (; it && res == -ENOENT; it = it->next_by_key) {
		if (it->dev != st->st_dev || it->ino != st->st_ino)
			continue;
		if (it->fd >= 0)
			res = 0;
		else if (fh && fh->bytes && inode_same_handle(it, fh))
			res = ++it->finds % FINDS_PER_OPEN ? 0 : -EAGAIN;
		if (res == 0) {
			it->nlookup++;
			it->recently_used = true;
			note_size(it, st);
			*out = it;
		}
	}
	pthread_mutex_unlock(&s->lock);
	return res;
}

/* Pins the inode of this number if it has an fd: its number then cannot have been reused.  True: that was all, else its
 * handle must be compared. */
static bool pin_numbered(struct inode_shard *s, const struct stat *st, uint64_t *id)
{
	bool known = false, held = false;
	pthread_mutex_lock(&s->lock);
	struct inode *it = s->buckets ? s->by_key[inode_key_slot(s, st->st_dev, st->st_ino)] : NULL;
	for (; it && !held; it = it->next_by_key) {
		if (it->dev != st->st_dev || it->ino != st->st_ino)
			continue;
		known = true;
		held = it->fd >= 0;
		if (held) { /* known to the kernel even if there are too many to pin it */
			inode_set_pinned_locked(it, true);
			*id = it->id;
		}
	}
	pthread_mutex_unlock(&s->lock);
	return !known || held;
}

uint64_t inode_keep_unlinked(struct fs *fs, int dir_fd, const char *name, struct stat *st)
{
	if (mirror_stat_child(fs, dir_fd, name, st) < 0) {
		st->st_nlink = 0;
		return 0;
	}
	if (fs->by_handle && st->st_nlink > 1 && !S_ISDIR(st->st_mode))
		return 0;
	struct inode_shard *s = inode_shard_of_key(fs, st->st_dev, st->st_ino);
	AUTO_FD fd = -1;
	uint64_t id = 0;
	if (pin_numbered(s, st, &id))
		return id;
	struct fhandle fh;
	fhandle_of(fs, dir_fd, name, &fh); /* the inode number may have been reused */
	for (int round = 0; round < 2; round++) {
		pthread_mutex_lock(&s->lock);
		struct inode *it = find_key_locked(fs, s, st, fd, &fh);
		if (it && it->fd < 0 && fd >= 0)
			inode_adopt_fd_locked(fs, s, it, &fd);
		bool has_fd = it && it->fd >= 0;
		if (has_fd)
			inode_set_pinned_locked(it, true);
		id = it ? it->id : 0;
		pthread_mutex_unlock(&s->lock);
		if (!it || has_fd || round)
			break;
		fd = mirror_open_child(fs, dir_fd, name);
		struct stat now;
		if (fd < 0)
			return id;
		if (mirror_stat(fd, &now) < 0 || now.st_ino != st->st_ino ||
		    now.st_dev != st->st_dev)
			return 0;
	}
	fdlimit_keep();
	return id;
}

void inode_unpin(struct fs *fs, uint64_t id)
{
	if (!id)
		return;
	struct inode_shard *s = inode_shard_of_id(fs, id);
	pthread_mutex_lock(&s->lock);
	struct inode *inode = inode_find_id_locked(s, id);
	if (inode) {
		inode_set_pinned_locked(inode, false);
		inode_release_locked(fs, inode);
	}
	pthread_mutex_unlock(&s->lock);
}

void inode_pin(struct fs *fs, struct inode *inode, int *fd)
{
	struct inode_shard *s = inode_shard_of_id(fs, inode->id);
	pthread_mutex_lock(&s->lock);
	if (inode->fd < 0 && *fd >= 0)
		inode_adopt_fd_locked(fs, s, inode, fd);
	inode_set_pinned_locked(inode, inode->fd >= 0);
	pthread_mutex_unlock(&s->lock);
}

void inode_moved(struct fs *fs, const struct stat *st, struct inode *dir, const char *name)
{
	if (fs->by_handle)
		return;
	ref_for_name(fs, dir);
	struct inode_shard *s = inode_shard_of_key(fs, st->st_dev, st->st_ino);
	pthread_mutex_lock(&s->lock);
	struct fhandle none = {0};
	struct inode *inode = find_key_locked(fs, s, st, -1, &none);
	if (inode && inode->parent)
		place_locked(inode, &dir, name);
	pthread_mutex_unlock(&s->lock);
	inode_unref(fs, dir, 1);
}
