/* SPDX-License-Identifier: MIT */
#include "fs/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/fdlimit.h"
#include "fs/mirror.h"
#include "sched/gate.h"

int handle_reserve(struct fs *fs)
{
	return fs->cfg.gate && !gate_open_try(fs->cfg.gate) ? -ENFILE : 0;
}

void handle_unreserve(struct fs *fs)
{
	if (fs->cfg.gate)
		gate_open_release(fs->cfg.gate);
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
	atomic_fetch_add_explicit(&fs->handles, 1, memory_order_relaxed);
	fdlimit_client_fds(1);
	fdlimit_keep();
	return h;
}

void handle_free(struct fs *fs, struct handle *h)
{
	close(h->fd);
	if (h->dir) {
		pthread_mutex_destroy(&h->dir->lock);
		free(h->dir->buf);
		free(h->dir);
	}
	free(h);
	atomic_fetch_sub_explicit(&fs->handles, 1, memory_order_relaxed);
	fdlimit_client_fds(-1);
	handle_unreserve(fs);
}
