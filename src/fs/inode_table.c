/* SPDX-License-Identifier: MIT */
/* The table itself: hash chains, file handles, fds.  inode.c uses it. */
#include "fs/inode_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/durable.h"
#include "fs/fdlimit.h"
#include "fs/fdpile.h"
#include "fs/handle.h"
#include "fs/mirror.h"

static uint64_t key_hash(dev_t dev, uint64_t ino)
{
	uint64_t h = (ino ^ ((uint64_t)dev << 40)) * 0x9E3779B97F4A7C15ULL;
	return h ^ (h >> 29);
}

struct inode_shard *inode_shard_of_key(struct fs *fs, dev_t dev, uint64_t ino)
{
	return &fs->inodes.shards[key_hash(dev, ino) >> (64 - INODE_SHARD_BITS)];
}

struct inode_shard *inode_shard_of_id(struct fs *fs, uint64_t id)
{
	if (!(id & COUNTED_ID))
		return inode_shard_of_key(fs, fs->durable.dev, durable_number(id));
	return &fs->inodes.shards[id & (INODE_SHARDS - 1)];
}

static size_t id_slot(const struct inode_shard *s, uint64_t id)
{
	return (id * 0x9E3779B97F4A7C15ULL >> 32) & (s->buckets - 1);
}

size_t inode_key_slot(const struct inode_shard *s, dev_t dev, uint64_t ino)
{
	return key_hash(dev, ino) & (s->buckets - 1);
}

pthread_mutex_t *inode_lock(struct fs *fs, const struct inode *inode)
{
	return &inode_shard_of_id(fs, inode->id)->lock;
}

/* -- the hash tables; call with the shard's lock held -- */

struct inode *inode_find_id_locked(const struct inode_shard *s, uint64_t id)
{
	struct inode *it = s->buckets ? s->by_id[id_slot(s, id)] : NULL;
	while (it && it->id != id)
		it = it->next_by_id;
	return it;
}

void inode_link_locked(struct inode_shard *s, struct inode *inode)
{
	struct inode **by_id = &s->by_id[id_slot(s, inode->id)];
	struct inode **by_key = &s->by_key[inode_key_slot(s, inode->dev, inode->ino)];
	inode->next_by_id = *by_id;
	inode->next_by_key = *by_key;
	*by_id = *by_key = inode;
}

bool inode_resize_locked(struct inode_shard *s, size_t buckets)
{
	struct inode **by_id = calloc(buckets, sizeof(*by_id));
	struct inode **by_key = calloc(buckets, sizeof(*by_key));
	if (!by_id || !by_key) {
		free(by_id);
		free(by_key);
		return s->buckets != 0;
	}
	struct inode **old = s->by_id;
	size_t n_old = s->buckets;
	free(s->by_key);
	s->by_id = by_id;
	s->by_key = by_key;
	s->buckets = buckets;
	for (size_t i = 0; i < n_old; i++) {
		for (struct inode *it = old[i], *next; it; it = next) {
			next = it->next_by_id;
			inode_link_locked(s, it);
		}
	}
	free(old);
	return true;
}

void inode_unlink_locked(struct inode_shard *s, struct inode *inode)
{
	struct inode **pp = &s->by_id[id_slot(s, inode->id)];
	while (*pp != inode)
		pp = &(*pp)->next_by_id;
	*pp = inode->next_by_id;
	pp = &s->by_key[inode_key_slot(s, inode->dev, inode->ino)];
	while (*pp != inode)
		pp = &(*pp)->next_by_key;
	*pp = inode->next_by_key;
	if (--s->n < s->buckets / 8 && s->buckets > INODE_BUCKETS_MIN)
		inode_resize_locked(s, s->buckets / 2);
}

/* -- file handles of an inode -- */

static const unsigned char *handle_data(const struct inode *inode)
{
	return inode->handle_bytes > FHANDLE_INLINE ? inode->handle.data
						    : inode->handle.inline_data;
}

void inode_set_handle(struct inode *inode, const struct fhandle *fh)
{
	if (!fh->bytes || inode->handle_bytes)
		return;
	unsigned char *to = inode->handle.inline_data;
	if (fh->bytes > FHANDLE_INLINE) {
		to = malloc(fh->bytes);
		if (!to)
			return; /* without a handle, the inode keeps its fd */
		inode->handle.data = to;
	}
	memcpy(to, fh->data, fh->bytes);
	inode->handle_sure = fh->sure;
	inode->handle_bytes = fh->bytes;
	inode->handle_type = fh->type;
}

void inode_copy_handle(const struct inode *inode, struct fhandle *out)
{
	out->bytes = inode->handle_bytes;
	out->sure = inode->handle_sure;
	out->type = inode->handle_type;
	memcpy(out->data, handle_data(inode), inode->handle_bytes);
}

bool inode_same_handle(const struct inode *inode, const struct fhandle *fh)
{
	return inode->handle_bytes == fh->bytes && inode->handle_type == fh->type &&
	       memcmp(handle_data(inode), fh->data, fh->bytes) == 0;
}

bool inode_handle(struct fs *fs, struct inode *inode, struct fhandle *out)
{
	struct inode_shard *s = inode_shard_of_id(fs, inode->id);
	pthread_mutex_lock(&s->lock);
	bool has = inode->handle_bytes && !inode->pinned;
	if (has)
		inode_copy_handle(inode, out);
	pthread_mutex_unlock(&s->lock);
	return has;
}

bool inode_is_fd(struct fs *fs, struct inode *inode, const struct fhandle *fh, int fd)
{
	struct stat st;
	if (fh->sure)
		return true;
	if (mirror_stat(fd, &st) < 0 || st.st_dev != inode->dev || st.st_ino != inode->ino ||
	    (st.st_mode & S_IFMT) != inode->type)
		return false;
	struct inode_shard *s = inode_shard_of_id(fs, inode->id);
	pthread_mutex_lock(&s->lock);
	inode->handle_sure |= fh->bytes != 0;
	pthread_mutex_unlock(&s->lock);
	return true;
}

/* -- the fd of an inode -- */

void inode_adopt_fd_locked(struct fs *fs, struct inode_shard *s, struct inode *inode, int *fd)
{
	inode->fd = take_fd(fd);
	inode->recently_used = true;
	list_push_tail(&s->with_fd, &inode->with_fd);
	atomic_fetch_add_explicit(&fs->inodes.n_fds, 1, memory_order_relaxed);
	fdlimit_inode_fds(1);
}

bool inode_set_pinned_locked(struct inode *inode, bool pinned)
{
	if (inode->pinned == pinned)
		return pinned;
	if (pinned && !fdlimit_pin_try())
		return false;
	if (!pinned)
		fdlimit_pin_done();
	inode->pinned = pinned;
	return pinned;
}

int inode_drop_fd_locked(struct fs *fs, struct inode *inode)
{
	inode_set_pinned_locked(inode, false);
	int fd = take_fd(&inode->fd);
	list_remove(&inode->with_fd);
	atomic_fetch_sub_explicit(&fs->inodes.n_fds, 1, memory_order_relaxed);
	fdlimit_inode_fds(-1);
	return fd;
}

/* True: it can be found again after its fd is closed. */
static bool recoverable_locked(struct fs *fs, struct inode *inode)
{
	if (inode->users || inode->pinned)
		return false;
	if (!fs->by_handle)
		return inode->parent != NULL;
	if (!inode->handle_bytes) {
		struct fhandle fh;
		fhandle_of(fs, inode->fd, "", &fh);
		inode_set_handle(inode, &fh);
	}
	return inode->handle_bytes != 0;
}

/* Second chance: the first pass over the list clears the marks, the second closes the fd. */
bool inode_table_close_one(struct fs *fs)
{
	struct inode_table *t = &fs->inodes;
	for (unsigned tries = 0; tries < 2 * INODE_SHARDS; tries++) {
		struct inode_shard *s = &t->shards[atomic_fetch_add(&t->hand, 1) % INODE_SHARDS];
		int fd = -1;
		pthread_mutex_lock(&s->lock);
		for (unsigned looked = 0; fd < 0 && looked < 64 && !list_empty(&s->with_fd);
		     looked++) {
			struct inode *it = list_first(&s->with_fd, struct inode, with_fd);
			list_remove(&it->with_fd);
			list_push_tail(&s->with_fd, &it->with_fd);
			if (it->recently_used)
				it->recently_used = false;
			else if (recoverable_locked(fs, it))
				fd = inode_drop_fd_locked(fs, it);
		}
		pthread_mutex_unlock(&s->lock);
		if (fd >= 0) {
			close(fd);
			return true;
		}
	}
	return false;
}

#define FILE_BUCKETS 1024 /* of a shard, that are searched */

static uint64_t find_file_locked(const struct inode_shard *s)
{
	for (size_t i = 0; i < s->buckets && i < FILE_BUCKETS; i++)
		for (const struct inode *it = s->by_id[i]; it; it = it->next_by_id)
			if (it->type == S_IFREG && it->nlookup)
				return it->id;
	return 0;
}

uint64_t inode_table_next_file(struct fs *fs)
{
	struct inode_table *t = &fs->inodes;
	uint64_t id = 0;
	for (unsigned tries = 0; tries < INODE_SHARDS && !id; tries++) {
		struct inode_shard *s =
			&t->shards[atomic_fetch_add(&t->next_file, 1) % INODE_SHARDS];
		pthread_mutex_lock(&s->lock);
		id = find_file_locked(s);
		pthread_mutex_unlock(&s->lock);
	}
	return id;
}

/* Only regular files, which may hold many blocks; the fd of a directory is kept, because a
 * directory that was deleted in the source may still be a working directory.  True: some files were
 * used since the last call or are in use, or the pile is full. */
static bool drop_idle(struct fs *fs, struct inode_shard *s, struct fd_pile *pile)
{
	bool left = false;
	pthread_mutex_lock(&s->lock);
	list_for_each_safe (pos, &s->with_fd) {
		struct inode *it = list_entry(pos, struct inode, with_fd);
		left |= S_ISREG(it->type) && (it->recently_used || it->users);
		if (it->recently_used)
			it->recently_used = false;
		else if (S_ISREG(it->type) && pile->n == FD_PILE)
			left = true;
		else if (S_ISREG(it->type) && recoverable_locked(fs, it))
			pile->fd[pile->n++] = inode_drop_fd_locked(fs, it);
	}
	pthread_mutex_unlock(&s->lock);
	return left;
}

bool inode_table_close_idle(struct fs *fs)
{
	bool left = false;
	if (!fs->by_handle) /* reopening by name is less reliable: the file may have been moved */
		return false;
	struct fd_pile *pile = fd_pile_new();
	if (!pile)
		return true;
	for (unsigned i = 0; i < INODE_SHARDS; i++)
		left |= drop_idle(fs, &fs->inodes.shards[i], pile);
	fd_pile_close(pile);
	return left;
}

/* -- the table -- */

int inode_table_init(struct fs *fs, int root_fd)
{
	struct inode_table *t = &fs->inodes;
	struct stat st;
	int res = mirror_stat(root_fd, &st);
	if (res < 0)
		return res;
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		pthread_mutex_init(&t->shards[i].lock, NULL);
		list_init(&t->shards[i].with_fd);
	}
	struct inode *root = calloc(1, sizeof(*root));
	if (!root)
		return -ENOMEM;
	root->id = FUSE_ROOT_ID;
	root->dev = st.st_dev;
	root->ino = st.st_ino;
	root->type = st.st_mode & S_IFMT;
	root->fd = root_fd;
	root->nlookup = 1;
	list_init(&root->with_fd);
	t->root = root;
	fdlimit_add(fs, t);
	return 0;
}

void inode_table_free(struct fs *fs)
{
	struct inode_table *t = &fs->inodes;
	if (!t->root)
		return;
	fdlimit_remove(t);
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		struct inode_shard *s = &t->shards[i];
		for (size_t b = 0; b < s->buckets; b++) {
			for (struct inode *it = s->by_id[b], *next; it; it = next) {
				next = it->next_by_id;
				if (it->fd >= 0)
					close(inode_drop_fd_locked(fs, it));
				if (it->handle_bytes > FHANDLE_INLINE)
					free(it->handle.data);
				free(it->name);
				open_state_free(it->open);
				free(it);
			}
		}
		free(s->by_id);
		free(s->by_key);
		pthread_mutex_destroy(&s->lock);
	}
	open_state_free(t->root->open);
	free(t->root);
	t->root = NULL;
}
