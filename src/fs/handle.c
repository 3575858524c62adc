/* SPDX-License-Identifier: MIT */
#include "fs/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/fdlimit.h"
#include "fs/mirror.h"
#include "fs/space_hooks.h"
#include "fs/request.h"
#include "sched/gate.h"

int handle_reserve(struct request *req)
{
	struct fs *fs = req->fs;
	const struct caller caller = {
		.tid = req->in->pid, .uid = req->in->uid, .gid = req->in->gid};
	if (!fdlimit_client_try(req->in->uid))
		return -ENFILE;
	req->reserved = fs->cfg.gate_mount ? gate_open_try(fs->cfg.gate_mount, &caller) : NULL;
	if (!fs->cfg.gate_mount || req->reserved)
		return 0;
	fdlimit_client_done(req->in->uid);
	req->too_many_open = true;
	return -ENFILE;
}

static void release_counts(const struct scope_way *counted, uid_t uid)
{
	fdlimit_client_done(uid);
	if (counted)
		gate_open_release(counted);
}

void handle_unreserve(struct request *req)
{
	release_counts(req->reserved, req->in->uid);
	req->reserved = NULL;
}

struct openers {
	struct fs_opener *out;
	unsigned n, max;
};

static bool add_opener(struct handle *h, void *ctx)
{
	struct openers *o = ctx;
	unsigned i = 0;
	if (!atomic_load_explicit(&h->bypasses, memory_order_relaxed))
		return true;
	while (i < o->n && (o->out[i].pid != h->pid || o->out[i].uid != h->uid))
		i++;
	if (i == o->max)
		return true;
	if (i == o->n)
		o->out[o->n++] = (struct fs_opener){.pid = h->pid, .uid = h->uid};
	o->out[i].handles++;
	return true;
}

unsigned handles_bypassing(struct fs *fs, struct fs_opener *out, unsigned max)
{
	struct openers o = {.out = out, .max = max};
	handle_table_each(&fs->handle_table, add_opener, &o);
	return o.n;
}

static bool adopt(struct handle *h, void *fs)
{
	if (atomic_load_explicit(&h->entered, memory_order_acquire))
		space_adopt(fs, h);
	return true;
}

void handles_adopt(struct fs *fs)
{
	handle_table_each(&fs->handle_table, adopt, fs);
}

void handles_free(struct fs *fs)
{
	for (unsigned i = 0; i < HANDLE_SHARDS; i++) {
		const struct handle_shard *s = &fs->handle_table.shards[i];
		for (uint32_t place = 0; place < s->n; place++) {
			struct handle *h = atomic_load(&handle_place_at(s, place)->handle);
			if (h)
				handle_free(fs, h);
		}
	}
	handle_table_free(&fs->handle_table);
}

struct handle *handle_new(struct request *req, int *fd, int flags)
{
	struct fs *fs = req->fs;
	struct handle *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	h->fd = *fd;
	h->flags = flags;
	h->pid = (pid_t)req->in->pid;
	h->uid = req->in->uid;
	h->gid = req->in->gid;
	if (fs->cfg.gate_mount && gate_asks_for_openers(fs->cfg.gate_mount))
		h->opener = opener_of(req->in->pid);
	h->counted = req->reserved;
	list_init(&h->of_inode);
	if (handle_table_add(&fs->handle_table, h) < 0) {
		free(h);
		return NULL;
	}
	(void)take_fd(fd);
	req->reserved = NULL;
	atomic_fetch_add_explicit(&fs->handles, 1, memory_order_relaxed);
	fdlimit_keep();
	return h;
}

void handle_discard(struct handle *h)
{
	if (h->dir) {
		pthread_mutex_destroy(&h->dir->lock);
		free(h->dir->buf);
		free(h->dir);
	}
	release_counts(h->counted, h->uid);
	free(h);
}

void handle_free(struct fs *fs, struct handle *h)
{
	handle_table_remove(&fs->handle_table, h);
	space_closing(fs, h);
	close(h->fd);
	space_closed(fs, h);
	handle_discard(h);
	atomic_fetch_sub_explicit(&fs->handles, 1, memory_order_relaxed);
}
