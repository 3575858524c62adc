/* SPDX-License-Identifier: MIT */
#include "fs/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/fdlimit.h"
#include "fs/mirror.h"
#include "fs/space_hooks.h"
#include "sched/gate.h"

/* Which scopes count the handle that this thread has reserved and not made yet. */
static _Thread_local const struct open_way *reserved;

int handle_reserve(fuse_req_t req)
{
	struct fs *fs = fs_of(req);
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	const struct caller caller = {(uint32_t)ctx->pid, ctx->uid, ctx->gid, 0};
	if (!fdlimit_client_try(ctx->uid))
		return -ENFILE;
	reserved = fs->cfg.gate ? gate_open_try(fs->cfg.gate, &caller) : NULL;
	if (!fs->cfg.gate || reserved)
		return 0;
	fdlimit_client_done(ctx->uid);
	return -ENFILE;
}

static void release_counts(const struct open_way *counted, uid_t uid)
{
	fdlimit_client_done(uid);
	if (counted)
		gate_open_release(counted);
}

void handle_unreserve(fuse_req_t req)
{
	release_counts(reserved, fuse_req_ctx(req)->uid);
	reserved = NULL;
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

static unsigned add_opener(const struct handle *h, struct fs_opener *out, unsigned n, unsigned max)
{
	unsigned i = 0;
	while (i < n && (out[i].pid != h->pid || out[i].uid != h->uid))
		i++;
	if (i == max)
		return n;
	if (i == n)
		out[n++] = (struct fs_opener){.pid = h->pid, .uid = h->uid};
	out[i].handles++;
	return n;
}

unsigned handles_bypassing(struct fs *fs, struct fs_opener *out, unsigned max)
{
	unsigned n = 0;
	for (unsigned i = 0; i < HANDLE_SHARDS; i++) {
		struct handle_shard *s = &fs->handle_shards[i];
		pthread_mutex_lock(&s->lock);
		list_for_each (it, &s->handles) {
			const struct handle *h = list_entry(it, struct handle, of_fs);
			if (atomic_load_explicit(&h->bypasses, memory_order_relaxed))
				n = add_opener(h, out, n, max);
		}
		pthread_mutex_unlock(&s->lock);
	}
	return n;
}

void handles_adopt_bypassing(struct fs *fs)
{
	for (unsigned i = 0; i < HANDLE_SHARDS; i++) {
		struct handle_shard *s = &fs->handle_shards[i];
		pthread_mutex_lock(&s->lock);
		list_for_each (it, &s->handles) {
			struct handle *h = list_entry(it, struct handle, of_fs);
			if (atomic_load_explicit(&h->bypasses, memory_order_acquire))
				space_opened(fs, h);
		}
		pthread_mutex_unlock(&s->lock);
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
	h->counted = reserved;
	reserved = NULL;
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
	space_closing(fs, h);
	close(h->fd);
	space_closed(fs, h);
	if (h->dir) {
		pthread_mutex_destroy(&h->dir->lock);
		free(h->dir->buf);
		free(h->dir);
	}
	release_counts(h->counted, h->uid);
	free(h);
	atomic_fetch_sub_explicit(&fs->handles, 1, memory_order_relaxed);
}
