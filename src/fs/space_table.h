/* SPDX-License-Identifier: MIT */
/* Accounting behind the total of a tree: a slot for each file that is being changed.
 *
 * A file that is not being changed has no slot; the total includes its st_blocks.  An operation
 * that changes a file first takes
 * its slot, which stores how much of the total belongs to the file.  Afterwards the operation settles: it adds the difference
 * between the current st_blocks and the stored value to the total, and stores the new value.  So concurrent writers of one
 * file never count a block twice, and the total ends up with the final st_blocks.
 *
 *	table_get ─▶ slot_needs_base? stat, table_base ─▶ the call ─▶ slot_ticket, stat, table_settle ─▶ table_put
 *
 * Tickets order the results of concurrent stats without a lock over the system call: an operation draws a ticket after its
 * change and before its stat, so the stat with the highest ticket has seen the changes of all lower ones.
 *
 * Most writes overwrite allocated blocks or append to a file without holes.  Their cost is known without a stat and is
 * counted directly (table_write_begin); a stat follows soon after (table_due), and when the file is closed.
 *
 * The filesystem itself may change st_blocks some time after a request, when it writes data that it has not allocated yet.
 * Files for which that is possible are dirty, and are checked again for some minutes (table_due).
 *
 * Inode numbers are reused immediately.  So an operation that removes a file holds its slot from before the removal, and
 * `born` tells it whether the slot belongs to a new file by now.
 *
 * A scan walks the tree while it is being changed.  It counts each file without a slot, and remembers it; a file with a
 * slot is counted by its slot when the scan ends.
 *
 * Locking  safe from any thread; one mutex per shard, for memory only.
 * Errors   out of memory is a NULL slot: the change is then not counted until the next scan. */
#ifndef FS_SPACE_TABLE_H
#define FS_SPACE_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "fs/inode.h"
#include "fs/space_count.h"

#define SPACE_SHARDS	 32
#define SPACE_HANDLE_MAX 28 /* bytes of a file handle that a slot keeps */

struct space_slot {
	struct space_slot *next;
	uint64_t ino;
	dev_t dev;
	unsigned refs;	    /* lock: operations, open files, and holds */
	unsigned handles;   /* lock: open files, and holds; see table_hold */
	unsigned bypassing; /* lock: open files whose writes or mappings bypass the daemon */
	_Atomic bool
		known; /* written with lock: `bytes` is the part of the total that belongs to the file */
	bool exists; /* lock: the total includes its inode */
	bool gone;   /* lock: has no name; subtracted when its last open file is closed */
	bool dirty;  /* lock: st_blocks may still change (delayed allocation) */
	bool pending; /* lock: changed while open; counted in table->pending until it has been checked */
	bool in_scan;	  /* lock: the current scan counted it, with `base`, before it got a slot */
	bool base_exists; /* lock */
	bool unseen;	  /* lock: neither the current scan nor an operation has seen it */
	int64_t bytes, base; /* lock */
	uint64_t keep_end; /* lock: blocks up to here were requested, even beyond the end of the file */
	int64_t excess; /* lock: preallocated bytes that `bytes` leaves out; added up in table->excess */
	_Atomic bool
		all_counts; /* all its blocks are counted, because the filesystem never frees preallocated ones */
	_Atomic uint64_t ticket;
	uint64_t born;	   /* lock: the ticket when it was counted as a new file */
	uint64_t named;	   /* lock: the ticket when it got its first name (O_TMPFILE) */
	uint64_t applied;  /* lock: the ticket of the newest stat that was applied */
	uint64_t solid_to; /* lock: all blocks below this offset are allocated … */
	bool solid_end;	   /* … lock: and none above */
	uint8_t proof_in; /* lock: after this many writes of unknown cost, find out what solid_to is */
	uint64_t guessed; /* lock: the ticket of the last write that was counted without a stat */
	_Atomic bool unverified; /* written with lock: there was such a write since the last stat */
	unsigned busy;		 /* lock: changes in progress that may free blocks */
	unsigned unsure;	 /* lock: writes in progress whose cost is unknown */
	unsigned epoch;		 /* lock: number of such changes and writes so far */
	uint64_t changed;	 /* lock: the ticket when the last of these ended */
	struct list idle;	 /* lock: in shard->idle while refs is 0 */
	uint64_t due_ns;	 /* lock: when to check it again */
	uint8_t looks;		 /* lock: how often it was checked */
	uint8_t handle_bytes;
	int32_t handle_type;
	unsigned char handle[SPACE_HANDLE_MAX];
};

struct space_shard {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	struct space_slot **bucket;
	size_t n, buckets;
	struct list idle; /* least recently used first */
	uint64_t *visited; /* files counted by the current scan: an open-addressed set of keys; 0 is free */
	size_t n_visited, visited_size;
};

struct space_table {
	struct space_shard shard[SPACE_SHARDS];
	struct space_count bytes, inodes;
	_Atomic uint64_t slots, idle, bypassing, pending, held;
	_Atomic uint64_t held_ns; /* when a file was last held or released */
	_Atomic int64_t excess;	  /* preallocated bytes that are not counted; see table_settle */
	_Atomic uint64_t
		drops; /* slots dropped so far: stats of files without a slot may be outdated */
	_Atomic bool scanning;
	_Atomic bool alone;	/* the scan assumes that nothing is changed meanwhile */
	_Atomic bool disturbed; /* something was changed */
	_Atomic uint64_t moves; /* renames of directories */
	/* Operations in progress that give a file a name, by even and odd epoch; see table_name_begin. */
	_Atomic unsigned epoch, naming[2];
	_Atomic bool missed; /* a change could not be counted */
};

void table_init(struct space_table *t);
void table_destroy(struct space_table *t);
/* Empties the table.  No slot may be held; other threads may read the totals. */
void table_reset(struct space_table *t);

/* Takes a reference of the slot of a file, which is created if necessary; NULL: out of memory. */
struct space_slot *table_get(struct space_table *t, dev_t dev, uint64_t ino);
/* The same for a file that was just created; counts its bytes. */
struct space_slot *table_get_new(struct space_table *t, dev_t dev, uint64_t ino, int64_t bytes);
/* The same, but NULL if the file has no slot. */
struct space_slot *table_find(struct space_table *t, dev_t dev, uint64_t ino);
/* Drops an operation's reference at now_ns; the file is checked again some time later. */
void table_put(struct space_table *t, struct space_slot *s, uint64_t now_ns);

/* Turns an operation's reference into that of an open file, and drops it.  fh: to find the file later. */
void table_opened(struct space_table *t, struct space_slot *s, bool bypassing,
		  const struct fhandle *fh);
/* Changes of the file that are not counted may be in progress. */
void table_suspect(struct space_table *t, struct space_slot *s);
void table_closed(struct space_table *t, struct space_slot *s, bool bypassing, uint64_t now_ns);

/* A deleted file takes space as long as the kernel knows its inode, for example by an fd of O_PATH, of which the daemon is
 * not told.  So it is held from its deletion until the kernel forgets the inode, and counted like an open file. */
void table_hold(struct space_table *t, struct space_slot *s, uint64_t now_ns);
void table_release(struct space_table *t, struct space_slot *s, uint64_t now_ns);

static inline bool slot_needs_base(const struct space_slot *s)
{
	return !atomic_load_explicit(&s->known, memory_order_acquire);
}
/* The result of a stat. */
struct slot_stat {
	int64_t bytes;
	uint64_t size;	     /* in whole blocks; UINT64_MAX: is no regular file */
	uint64_t cap;	     /* see table_settle */
	uint64_t cap_closed; /* the same, for a file that is not open */
	bool exists;	     /* has a name */
	bool final;	     /* only requests change st_blocks */
};
/* Before the first change: sets how much of the total belongs to the file. */
void table_base(struct space_table *t, struct space_slot *s, const struct slot_stat *st);
static inline uint64_t slot_ticket(struct space_slot *s)
{
	return atomic_fetch_add_explicit(&s->ticket, 1, memory_order_acq_rel) + 1;
}
/* Applies the result of a stat with this ticket.  Blocks beyond `cap` (UINT64_MAX: no cap) are counted only if they were
 * requested; otherwise they are excess.  False: meanwhile a write was counted that the stat may not include; try again. */
bool table_settle(struct space_table *t, struct space_slot *s, uint64_t ticket,
		  const struct slot_stat *st);

/* A write of [from, to) begins.  True: it needs exactly *growth bytes, and table_write_end with the same epoch counts them if
 * everything was written, and drops what was reserved.  If one of the two returns false, settle. */
struct slot_write {
	uint64_t from, to, block;
	unsigned epoch;
};
bool table_write_begin(struct space_table *t, struct space_slot *s, struct slot_write *w,
		       uint64_t *growth);
bool table_write_end(struct space_table *t, struct space_slot *s, const struct slot_write *w,
		     uint64_t reserved);
/* Is it time to look at the file's map, so that the cost of writes is known?  Then pass the result, with the same epoch. */
bool table_wants_proof(struct space_table *t, struct space_slot *s, unsigned *epoch);
struct slot_proof {
	uint64_t solid_to;
	bool solid_end;
	unsigned epoch;
};
void table_prove(struct space_table *t, struct space_slot *s, const struct slot_proof *p);
/* Begin and end of a change that is settled by a stat: of a write, or of one that may free blocks, too. */
enum slot_change { CHANGE_NONE, CHANGE_WRITE, CHANGE_ANY };
void table_change_begin(struct space_table *t, struct space_slot *s, enum slot_change c);
void table_change_end(struct space_table *t, struct space_slot *s, enum slot_change c);
/* Were writes counted without a stat since the last stat? */
static inline bool slot_is_unverified(const struct space_slot *s)
{
	return atomic_load_explicit(&s->unverified, memory_order_acquire);
}

/* Blocks up to `end` were preallocated; or the file was truncated, which frees preallocated blocks beyond its end. */
void table_keep(struct space_table *t, struct space_slot *s, uint64_t end);
void table_cut(struct space_table *t, struct space_slot *s);
uint64_t table_kept(struct space_table *t, struct space_slot *s);
/* How many bytes of the total belong to the file. */
uint64_t table_counted(struct space_table *t, struct space_slot *s);
/* The preallocated blocks of this file stay; count them. */
static inline void slot_count_all(struct space_slot *s)
{
	atomic_store_explicit(&s->all_counts, true, memory_order_relaxed);
}
static inline bool slot_counts_all(const struct space_slot *s)
{
	return atomic_load_explicit(&s->all_counts, memory_order_relaxed);
}
/* True: the file is not open, and no operation came between the last stat and the one with this ticket. */
bool table_is_untouched(struct space_table *t, struct space_slot *s, uint64_t ticket);
/* All blocks that are counted now stay counted: they are no excess. */
void table_keep_all(struct space_table *t, struct space_slot *s);
/* True: the file is not open and has preallocated blocks that are not counted. */
bool table_has_waste(struct space_table *t, struct space_slot *s);
/* The preallocated blocks of all files were freed: there is no excess, and every slot is due. */
void table_check_all(struct space_table *t);
void table_handle(struct space_table *t, struct space_slot *s, struct fhandle *out);

/* A file that is about to lose its last name.  `st` is the stat by which its inode number was
 * found, before the slot was taken.  False: that stat may be outdated, because the slot was dropped
 * meanwhile; call table_base with a new one. */
struct slot_victim {
	struct space_slot *slot;
	uint64_t born;
	uint64_t drops; /* table->drops before the stat */
	bool locked;	/* sp->names; see space_remove_prepare */
	uint64_t inode; /* the ID of its inode; 0: the kernel does not know it */
};
bool table_remove_begin(struct space_table *t, dev_t dev, uint64_t ino, const struct slot_stat *st,
			struct slot_victim *v);
void table_remove_end(struct space_table *t, const struct slot_victim *v, bool removed,
		      uint64_t now_ns);
/* A stat with this ticket found that the file has no name any more, or (O_TMPFILE) not yet: it is subtracted when its last
 * open file is closed, unless it got a name since that stat. */
void table_vanished(struct space_table *t, struct space_slot *s, uint64_t ticket);
/* A file without a name got one. */
void table_named(struct space_table *t, struct space_slot *s);

/* A scan begins: until it ends, every changed file keeps its slot.  alone: presumably nothing is changed meanwhile, and the
 * scan does not remember most files that it has counted; if table->disturbed is set when it ends, abort it. */
void table_scan_begin(struct space_table *t, bool alone);
/* The scan has visited everything. */
static inline void table_scan_visited(struct space_table *t)
{
	atomic_fetch_add(&t->epoch, 1);
}
/* Begin and end of an operation that gives a file a name: create, link, rename.  Call begin before checking whether a scan
 * is in progress. */
static inline unsigned table_name_begin(struct space_table *t)
{
	unsigned epoch = atomic_load(&t->epoch) & 1;
	atomic_fetch_add(&t->naming[epoch], 1);
	return epoch;
}
static inline void table_name_end(struct space_table *t, unsigned epoch)
{
	atomic_fetch_sub(&t->naming[epoch], 1);
}
/* False while there are such operations that began before the last table_scan_begin or table_scan_visited.  Wait for them in
 * both cases: renames and links that began before the scan may not know of it; and a file that the scan has counted would be
 * counted again by its creator if that comes later than table_scan_end. */
static inline bool table_names_settled(struct space_table *t)
{
	return atomic_load(&t->naming[(atomic_load(&t->epoch) - 1) & 1]) == 0;
}
enum visit { VISIT_COUNT, VISIT_KNOWN, VISIT_SLOT, VISIT_NO_MEMORY };
/* The scan visits a file.  VISIT_COUNT: count it.  VISIT_KNOWN: already counted.  VISIT_SLOT: its slot counts it; settle the
 * slot if it has no base.  has_links: it has several names. */
enum visit table_visit(struct space_table *t, dev_t dev, uint64_t ino, bool has_links);
/* The scan is complete: its count and the slots become the total.  Or it was abandoned. */
void table_scan_end(struct space_table *t, int64_t bytes, int64_t inodes);
void table_scan_abort(struct space_table *t);

/* True: there is a file to check, now or later. */
static inline bool table_has_work(struct space_table *t)
{
	return atomic_load(&t->idle) || atomic_load(&t->bypassing) || atomic_load(&t->pending);
}
/* Returns up to n slots that are due to be checked, with a reference each.  Idle slots beyond `keep` are dropped.  UINT64_MAX
 * as now_ns: all that are dirty. */
unsigned table_due(struct space_table *t, uint64_t now_ns, uint64_t keep, struct space_slot **out,
		   unsigned n);

#endif
