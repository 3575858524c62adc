/* SPDX-License-Identifier: MIT */
/* What the files of the space table share: space_table.c (finding, making and dropping slots), space_slot.c (what a slot
 * counts), space_visit.c (scans).  Where a name ends in _locked, the lock of the shard is held. */
#ifndef FS_SPACE_TABLE_INTERNAL_H
#define FS_SPACE_TABLE_INTERNAL_H

#include "fs/space_table.h"

static inline uint64_t key_of(dev_t dev, uint64_t ino)
{
	uint64_t h = (ino ^ ((uint64_t)dev << 44)) * 0x9E3779B97F4A7C15ULL;
	h ^= h >> 32;
	return h ? h : 1;
}

static inline struct space_shard *shard_of(struct space_table *t, uint64_t key)
{
	return &t->shard[key % SPACE_SHARDS];
}

static inline size_t bucket_of(const struct space_shard *sh, uint64_t key)
{
	return (key / SPACE_SHARDS) & (sh->buckets - 1);
}

/* Locks the shard of a slot. */
static inline struct space_shard *lock_of(struct space_table *t, const struct space_slot *s)
{
	struct space_shard *sh = shard_of(t, key_of(s->dev, s->ino));
	pthread_mutex_lock(&sh->lock);
	return sh;
}

/* Like table_get; keeps the lock of its shard *sh. */
struct space_slot *table_get_locked(struct space_table *t, dev_t dev, uint64_t ino,
				    struct space_shard **sh);
struct space_slot *slot_find_locked(const struct space_shard *sh, uint64_t key, dev_t dev,
				    uint64_t ino);
/* NULL: out of memory. */
struct space_slot *slot_make_locked(struct space_table *t, struct space_shard *sh, uint64_t key,
				    dev_t dev, uint64_t ino);
void slot_drop_locked(struct space_table *t, struct space_shard *sh, struct space_slot *s);
void slot_ref_locked(struct space_table *t, struct space_slot *s);
void slot_unref_locked(struct space_table *t, struct space_shard *sh, struct space_slot *s,
		       uint64_t now_ns);

/* Call it after a change of an open file, which might stay open for long. */
static inline void slot_note_pending_locked(struct space_table *t, struct space_slot *s)
{
	if (s->dirty && s->handles && !s->pending) {
		s->pending = true;
		s->looks = 0;
		s->due_ns = 0;
		atomic_fetch_add(&t->pending, 1);
	}
}

/* Counts a new file.  An earlier file with this inode number no longer exists. */
void slot_count_new_locked(struct space_table *t, struct space_slot *s, int64_t bytes);
/* The file no longer exists. */
void slot_uncount_locked(struct space_table *t, struct space_slot *s);

/* Whether the current scan has already counted a file that had no slot. */
bool was_visited_locked(const struct space_shard *sh, uint64_t key);
void forget_visited_locked(struct space_shard *sh);

#endif
