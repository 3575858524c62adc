/* SPDX-License-Identifier: MIT */
#include "fs/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fs/fdlimit.h"
#include "fs/inode_table.h"
#include "fs/mirror.h"
#include "fs/space_hooks.h"
#include "sched/gate.h"

#define VERSION 1
static const char magic[8] = "ratefs\n";

struct head {
	char magic[8];
	uint32_t version, by_handle;
	uint64_t root_dev, root_ino, root_nlookup;
	uint64_t generation, key[2];
	uint64_t next_id[INODE_SHARDS];
	uint64_t n_inodes, n_handles;
};

/* The open_state of an inode; the number of handles in each mode follows from the handle
 * records. */
struct open_record {
	int32_t backing_id;
	uint32_t backing_uid;
	struct timespec cached_mtime;
	int64_t cached_size;
	uint64_t overwrite_next;
	uint32_t n_overwritten;
	struct byte_range overwritten[OVERWRITES_MAX];
};

struct inode_record {
	uint64_t id, nlookup, ino, dev, parent; /* parent: an id, 0: none */
	int64_t fd;				/* index in fds; -1: none */
	uint32_t type;
	int32_t handle_type;
	uint32_t handle_bytes, name_bytes; /* both follow the record */
	uint32_t pinned, has_open;
	struct open_record open;
};

struct handle_record {
	uint64_t number, inode, fd;
	uint64_t listener[2];
	int32_t flags, mode;
	uint32_t pid, uid, gid;
	uint32_t is_dir, written, membership_matters, append_only;
};

/* --- writing ------------------------------------------------------------------------------------ */

static int put(struct fs_state *s, const void *bytes, size_t n)
{
	if (s->room - s->len < n) {
		size_t room = max_u64(2 * s->room, s->len + n + 4096);
		char *data = realloc(s->data, room);
		if (!data)
			return -ENOMEM;
		s->data = data;
		s->room = room;
	}
	if (n)
		memcpy(s->data + s->len, bytes, n);
	s->len += n;
	return 0;
}

/* Adds a descriptor; returns its index in fds, or -errno. */
static int64_t put_fd(struct fs_state *s, int fd)
{
	if (s->n_fds == s->fds_room) {
		size_t room = 2 * s->fds_room + 64;
		int *fds = realloc(s->fds, room * sizeof(*fds));
		if (!fds)
			return -ENOMEM;
		s->fds = fds;
		s->fds_room = room;
	}
	s->fds[s->n_fds] = fd;
	return (int64_t)s->n_fds++;
}

static void fill_open_record(struct open_state *o, struct open_record *r)
{
	r->backing_id = o->backing_id;
	r->backing_uid = o->backing_uid;
	r->cached_mtime = o->cached_mtime;
	r->cached_size = o->cached_size;
	pthread_mutex_lock(&o->overwrites.lock);
	r->overwrite_next = o->overwrites.next;
	r->n_overwritten = o->overwrites.n_done;
	memcpy(r->overwritten, o->overwrites.done, sizeof(r->overwritten));
	pthread_mutex_unlock(&o->overwrites.lock);
}

static int save_inode(struct fs_state *s, const struct inode *inode)
{
	struct inode_record r;
	struct fhandle fh;
	memset(&r, 0, sizeof(r));
	inode_copy_handle(inode, &fh);
	r.id = inode->id;
	r.nlookup = inode->nlookup;
	r.ino = inode->ino;
	r.dev = inode->dev;
	r.parent = inode->parent ? inode->parent->id : 0;
	r.type = inode->type;
	r.handle_type = fh.type;
	r.handle_bytes = fh.bytes;
	r.name_bytes = inode->name ? (uint32_t)strlen(inode->name) : 0;
	r.pinned = inode->pinned;
	r.has_open = inode->open != NULL;
	if (inode->open)
		fill_open_record(inode->open, &r.open);
	/* An inode that can be reopened by its file handle needs no descriptor. */
	bool goes_with_fd = inode->fd >= 0 && (inode->pinned || !fh.bytes);
	r.fd = goes_with_fd ? put_fd(s, inode->fd) : -1;
	if (goes_with_fd && r.fd < 0)
		return (int)r.fd;
	int res = put(s, &r, sizeof(r));
	if (res == 0)
		res = put(s, fh.data, fh.bytes);
	return res < 0 ? res : put(s, inode->name, r.name_bytes);
}

static int save_inodes(struct fs *fs, struct fs_state *s, uint64_t *n)
{
	int res = 0;
	for (unsigned i = 0; i < INODE_SHARDS && res == 0; i++) {
		struct inode_shard *shard = &fs->inodes.shards[i];
		pthread_mutex_lock(&shard->lock);
		for (size_t b = 0; b < shard->buckets && res == 0; b++)
			for (const struct inode *it = shard->by_id[b]; it && res == 0;
			     it = it->next_by_id) {
				res = save_inode(s, it);
				++*n;
			}
		pthread_mutex_unlock(&shard->lock);
	}
	return res;
}

struct handles_to_save {
	struct fs_state *s;
	uint64_t n;
	int res;
};

static bool save_handle(struct handle *h, void *ctx)
{
	struct handles_to_save *to = ctx;
	struct handle_record r;
	memset(&r, 0, sizeof(r));
	int64_t fd = put_fd(to->s, h->fd);
	if (fd < 0) {
		to->res = (int)fd;
		return false;
	}
	r.number = h->number;
	r.inode = h->inode->id;
	r.fd = (uint64_t)fd;
	r.flags = atomic_load(&h->flags);
	r.mode = h->mode;
	r.pid = (uint32_t)h->pid;
	r.uid = h->uid;
	r.gid = h->gid;
	r.is_dir = h->dir != NULL;
	r.written = atomic_load(&h->written);
	r.membership_matters = h->membership_matters;
	r.append_only = h->append_only;
	for (unsigned i = 0; i < 2; i++)
		r.listener[i] = atomic_load(&h->listener[i]);
	to->res = put(to->s, &r, sizeof(r));
	to->n++;
	return to->res == 0;
}

int fs_state_save(struct fs *fs, struct fs_state *out)
{
	struct head head;
	memset(&head, 0, sizeof(head));
	memcpy(head.magic, magic, sizeof(magic));
	head.version = VERSION;
	head.by_handle = fs->by_handle;
	head.root_dev = fs->inodes.root->dev;
	head.root_ino = fs->inodes.root->ino;
	head.root_nlookup = fs->inodes.root->nlookup;
	head.generation = fs->generation;
	memcpy(head.key, fs->durable.key, sizeof(head.key));
	for (unsigned i = 0; i < INODE_SHARDS; i++)
		head.next_id[i] = fs->inodes.shards[i].next_id;
	int res = put(out, &head, sizeof(head));
	if (res == 0)
		res = save_inodes(fs, out, &head.n_inodes);
	struct handles_to_save to = {.s = out};
	if (res == 0)
		handle_table_each(&fs->handle_table, save_handle, &to);
	head.n_handles = to.n;
	if (res == 0)
		memcpy(out->data, &head, sizeof(head));
	return res < 0 ? res : to.res;
}

void fs_state_free(struct fs_state *s)
{
	free(s->data);
	free(s->fds);
	*s = (struct fs_state){0};
}

/* --- reading ------------------------------------------------------------------------------------ */

struct reader {
	const struct fs_state *s;
	size_t at;
};

static const void *get(struct reader *r, size_t n)
{
	if (r->s->len - r->at < n)
		return NULL;
	const void *bytes = r->s->data + r->at;
	r->at += n;
	return bytes;
}

static bool get_record(struct reader *r, void *record, size_t n)
{
	const void *bytes = get(r, n);
	if (bytes)
		memcpy(record, bytes, n);
	return bytes;
}

/* A duplicate, or -errno. */
static int get_fd(const struct reader *r, uint64_t place)
{
	if (place >= r->s->n_fds)
		return -EINVAL;
	int fd = fcntl(r->s->fds[place], F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

static int load_open(struct inode *inode, const struct open_record *r)
{
	struct open_state *o = open_state_of_locked(inode);
	if (!o)
		return -ENOMEM;
	if (r->n_overwritten > OVERWRITES_MAX)
		return -EINVAL;
	o->backing_id = r->backing_id;
	o->backing_uid = r->backing_uid;
	o->cached_mtime = r->cached_mtime;
	o->cached_size = r->cached_size;
	o->overwrites.next = r->overwrite_next;
	o->overwrites.n_done = r->n_overwritten;
	memcpy(o->overwrites.done, r->overwritten, sizeof(r->overwritten));
	return 0;
}

/* Adds an inode to its shard, without its parent, whose record may come later. */
static int load_inode(struct fs *fs, struct reader *in)
{
	struct inode_record r;
	struct fhandle fh = {0};
	if (!get_record(in, &r, sizeof(r)) || r.handle_bytes > FHANDLE_MAX || !r.id ||
	    r.id == FUSE_ROOT_ID || r.name_bytes > NAME_MAX)
		return -EINVAL;
	fh.bytes = (uint8_t)r.handle_bytes;
	fh.type = r.handle_type;
	if (!get_record(in, fh.data, r.handle_bytes))
		return -EINVAL;
	const char *name = get(in, r.name_bytes);
	if (!name)
		return -EINVAL;
	struct inode_shard *s = inode_shard_of_key(fs, r.dev, r.ino);
	if (s != inode_shard_of_id(fs, r.id) || inode_find_id_locked(s, r.id))
		return -EINVAL;
	AUTO_FD fd = r.fd >= 0 ? get_fd(in, (uint64_t)r.fd) : -1;
	if (r.fd >= 0 && fd < 0)
		return fd;
	struct stat st = {.st_dev = r.dev, .st_ino = r.ino, .st_mode = r.type};
	struct inode *inode = inode_add_locked(fs, s, &st, &fh, r.id);
	if (!inode)
		return -ENOMEM;
	inode->nlookup = r.nlookup;
	if (fd >= 0)
		inode_adopt_fd_locked(fs, s, inode, &fd);
	if (r.pinned)
		inode_set_pinned_locked(inode, inode->fd >= 0);
	if (r.name_bytes && !(inode->name = strndup(name, r.name_bytes)))
		return -ENOMEM;
	return r.has_open ? load_open(inode, &r.open) : 0;
}

static struct inode *find_inode(struct fs *fs, uint64_t id)
{
	return id == FUSE_ROOT_ID ? fs->inodes.root
				  : inode_find_id_locked(inode_shard_of_id(fs, id), id);
}

/* Sets the parent, in a second pass over the same records. */
static int load_parent(struct fs *fs, struct reader *in)
{
	struct inode_record r;
	if (!get_record(in, &r, sizeof(r)) || !get(in, r.handle_bytes) || !get(in, r.name_bytes))
		return -EINVAL;
	struct inode *inode = find_inode(fs, r.id);
	inode->parent = r.parent ? find_inode(fs, r.parent) : NULL;
	return (r.parent && !inode->parent) || !r.parent != !inode->name ? -EINVAL : 0;
}

static int make_dir_stream(struct handle *h)
{
	h->dir = calloc(1, sizeof(*h->dir));
	if (!h->dir)
		return -ENOMEM;
	pthread_mutex_init(&h->dir->lock, NULL);
	(void)lseek(h->fd, 0, SEEK_SET); /* a new stream starts at position 0 */
	return 0;
}

static struct handle *new_handle(struct fs *fs, const struct handle_record *r, int fd)
{
	struct handle *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	const struct caller opener = {.tid = r->pid, .uid = r->uid, .gid = r->gid};
	h->number = r->number;
	h->fd = fd;
	atomic_store(&h->flags, r->flags);
	h->mode = (enum io_mode)r->mode;
	h->pid = (pid_t)r->pid;
	h->uid = r->uid;
	h->gid = r->gid;
	atomic_store(&h->written, r->written);
	h->membership_matters = r->membership_matters;
	h->append_only = r->append_only;
	for (unsigned i = 0; i < 2; i++)
		atomic_store(&h->listener[i], r->listener[i]);
	list_init(&h->of_inode);
	fdlimit_client_add(r->uid); /* the file is already open, so limits cannot refuse it */
	h->counted = fs->cfg.gate_mount ? gate_open_try(fs->cfg.gate_mount, &opener) : NULL;
	return h;
}

static int load_handle(struct fs *fs, struct reader *in)
{
	struct handle_record r;
	if (!get_record(in, &r, sizeof(r)) || r.mode < IO_DIRECT || r.mode > IO_PASS_DIRECT)
		return -EINVAL;
	struct inode *inode = find_inode(fs, r.inode);
	if (!inode || (!r.is_dir && !inode->open))
		return -EINVAL;
	AUTO_FD fd = get_fd(in, r.fd);
	if (fd < 0)
		return fd;
	struct handle *h = new_handle(fs, &r, fd);
	if (!h)
		return -ENOMEM;
	int res = handle_table_restore(&fs->handle_table, h);
	if (res < 0) {
		handle_discard(h);
		return res;
	}
	(void)take_fd(&fd);
	h->inode = inode;
	atomic_fetch_add_explicit(&fs->handles, 1, memory_order_relaxed);
	if (r.is_dir)
		return make_dir_stream(h);
	handle_enter_mode(fs, h);
	return 0;
}

static bool fits(const struct fs *fs, const struct head *head)
{
	return !memcmp(head->magic, magic, sizeof(magic)) && head->version == VERSION &&
	       head->by_handle == fs->by_handle && head->root_dev == fs->inodes.root->dev &&
	       head->root_ino == fs->inodes.root->ino;
}

int fs_state_load(struct fs *fs, const struct fs_state *in)
{
	struct reader r = {.s = in};
	struct head head;
	int res = 0;
	if (!get_record(&r, &head, sizeof(head)) || !fits(fs, &head))
		return -EINVAL;
	fs->generation = head.generation;
	memcpy(fs->durable.key, head.key, sizeof(head.key));
	fs->inodes.root->nlookup = head.root_nlookup;
	for (unsigned i = 0; i < INODE_SHARDS; i++)
		fs->inodes.shards[i].next_id = head.next_id[i];
	struct reader again = r;
	for (uint64_t i = 0; i < head.n_inodes && res == 0; i++)
		res = load_inode(fs, &r);
	for (uint64_t i = 0; i < head.n_inodes && res == 0; i++)
		res = load_parent(fs, &again);
	for (uint64_t i = 0; i < head.n_handles && res == 0; i++)
		res = load_handle(fs, &r);
	if (res == 0 && r.at != in->len)
		res = -EINVAL;
	if (space_counts(fs))
		inodes_adopt(fs);
	return res;
}
