/* SPDX-License-Identifier: MIT */
/* Files without a name whose space is in use, because the kernel knows their inodes; see inode_hold. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "fs/inode_table.h"
#include "fs/mirror.h"
#include "fs/space_hooks_internal.h"

void inode_release_locked(struct fs *fs, struct inode *inode)
{
	if (inode->held)
		table_release(&fs->cfg.space->table, take_ptr(&inode->held), monotonic_ns());
}

void inode_hold(struct fs *fs, uint64_t id, struct space_slot *slot, uint64_t now_ns)
{
	struct inode_shard *s = inode_shard_of_id(fs, id);
	pthread_mutex_lock(&s->lock);
	struct inode *inode = inode_find_id_locked(s, id);
	if (inode && !inode->held) {
		inode->held = slot;
		table_hold(&fs->cfg.space->table, slot, now_ns);
	}
	pthread_mutex_unlock(&s->lock);
}

static void adopt(struct fs *fs, uint64_t id)
{
	struct space *sp = fs->cfg.space;
	struct inode_ref ref;
	if (inode_get_no_fd(fs, id, &ref) < 0)
		return;
	struct space_slot *s =
		ref.fd >= 0 ? table_get(&sp->table, ref.inode->dev, ref.inode->ino) : NULL;
	if (s) {
		inode_hold(fs, id, s, monotonic_ns());
		/* The first stat gives the base, which is 0 without a name. */
		if (space_enter_fd(sp, s, ref.fd) == 0)
			(void)space_enter_fd(sp, s, ref.fd);
		table_put(&sp->table, s, monotonic_ns());
	}
	inode_put(fs, &ref);
}

/* The IDs of up to max pinned inodes of a shard; returns how many there are. */
static size_t list_pinned(struct inode_shard *s, uint64_t *ids, size_t max)
{
	size_t n = 0;
	pthread_mutex_lock(&s->lock);
	list_for_each (pos, &s->with_fd) {
		const struct inode *it = list_entry(pos, struct inode, with_fd);
		if (!it->pinned || it->held)
			continue;
		if (n < max)
			ids[n] = it->id;
		n++;
	}
	pthread_mutex_unlock(&s->lock);
	return n;
}

void inodes_adopt(struct fs *fs)
{
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		struct inode_shard *s = &fs->inodes.shards[i];
		size_t n = list_pinned(s, NULL, 0);
		uint64_t *ids = n ? malloc(n * sizeof(*ids)) : NULL;
		n = ids ? min_u64(list_pinned(s, ids, n), n) : 0;
		while (n)
			adopt(fs, ids[--n]);
		free(ids);
	}
}

void inodes_release(struct fs *fs)
{
	for (unsigned i = 0; i < INODE_SHARDS; i++) {
		struct inode_shard *s = &fs->inodes.shards[i];
		pthread_mutex_lock(&s->lock);
		for (size_t b = 0; b < s->buckets; b++)
			for (struct inode *it = s->by_id[b]; it; it = it->next_by_id)
				inode_release_locked(fs, it);
		pthread_mutex_unlock(&s->lock);
	}
}
