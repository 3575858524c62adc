/* SPDX-License-Identifier: MIT */
#include "fs/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/fdlimit.h"
#include "fs/mirror.h"
#include "sched/gate.h"

int handle_reserve(fuse_req_t req)
{
	struct fs *fs = fs_of(req);
	uid_t uid = fuse_req_ctx(req)->uid;
	if (!fdlimit_client_try(uid))
		return -ENFILE;
	if (!fs->cfg.gate || gate_open_try(fs->cfg.gate))
		return 0;
	fdlimit_client_done(uid);
	return -ENFILE;
}

static void give_back(struct fs *fs, uid_t uid)
{
	fdlimit_client_done(uid);
	if (fs->cfg.gate)
		gate_open_release(fs->cfg.gate);
}

void handle_unreserve(fuse_req_t req)
{
	give_back(fs_of(req), fuse_req_ctx(req)->uid);
}

static struct handle_shard *shard_of(struct fs *fs, const struct handle *h)
{
	return &fs->handle_shards[((uintptr_t)h >> 6) % HANDLE_SHARDS];
}

void handles_init(struct fs *fs)
{
	for (unsigned i = 0; i < HANDLE_SHARDS; i++) {
		pthread_mutex_init(&fs->handle_shards[i].lock, NULL);
		list_init(&fs->handle_shards[i].handles);
	}
}

void handles_free(struct fs *fs)
{
	for (unsigned i = 0; i < HANDLE_SHARDS; i++) {
		struct handle_shard *s = &fs->handle_shards[i];
		list_for_each_safe (it, &s->handles)
			handle_free(fs, list_entry(it, struct handle, of_fs));
		pthread_mutex_destroy(&s->lock);
	}
}

struct handle *handle_new(fuse_req_t req, int *fd, int flags)
{
	struct fs *fs = fs_of(req);
	struct handle *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	h->fd = take_fd(fd);
	h->flags = flags;
	h->pid = ctx->pid;
	h->uid = ctx->uid;
	h->gid = ctx->gid;
	list_init(&h->of_inode);
	struct handle_shard *shard = shard_of(fs, h);
	pthread_mutex_lock(&shard->lock);
	list_push_tail(&shard->handles, &h->of_fs);
	pthread_mutex_unlock(&shard->lock);
	atomic_fetch_add_explicit(&fs->handles, 1, memory_order_relaxed);
	fdlimit_keep();
	return h;
}

void handle_free(struct fs *fs, struct handle *h)
{
	struct handle_shard *shard = shard_of(fs, h);
	pthread_mutex_lock(&shard->lock);
	list_remove(&h->of_fs);
	pthread_mutex_unlock(&shard->lock);
	close(h->fd);
	if (h->dir) {
		pthread_mutex_destroy(&h->dir->lock);
		free(h->dir->buf);
		free(h->dir);
	}
	give_back(fs, h->uid);
	free(h);
	atomic_fetch_sub_explicit(&fs->handles, 1, memory_order_relaxed);
}
