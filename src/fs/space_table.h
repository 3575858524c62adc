/* SPDX-License-Identifier: MIT */
/* What each file that is being changed has been counted with: the books behind a tree's total.
 *
 * A file that nobody is changing has no slot; the total includes what st_blocks says of it.  Whoever is about to
 * change one takes its slot first, which remembers what the total has of it, and afterwards settles: the total changes
 * by the difference between that and st_blocks now.  So two writers of one file never count the same block twice, and
 * whatever they do, the total ends up with what the file has.
 *
 *	table_get ─▶ slot_needs_base? stat, table_base ─▶ the call ─▶ slot_ticket, stat, table_settle ─▶ table_put
 *
 * Tickets decide which of several results of stat is the newest without a lock over the system call: a ticket is
 * drawn after the change and before the stat, so the stat of the highest ticket has seen every change that drew a lower one.
 *
 * Most writes go into blocks that are there, or append to a file without holes.  What these take is known without a stat, and
 * entered so (table_write_begin); a stat follows after some of them, and when the file is closed.
 *
 * A scan walks the tree while it is being changed.  It counts each file that has no slot, and remembers that it did;
 * a file that has one is counted by its slot when the scan ends.
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
	unsigned refs;	    /* lock: operations, and open files */
	unsigned handles;   /* lock: open files */
	unsigned bypassing; /* lock: of these, whose writes we do not see */
	_Atomic bool known; /* written with lock: `bytes` is what the total has of it */
	bool exists;	    /* lock: the total has its inode */
	bool gone;	    /* lock: has no name; uncounted when its last open file is closed */
	bool dirty;	    /* lock: st_blocks may still change by itself */
	bool in_scan; /* lock: the scan under way had counted it, with base, before the slot was made */
	bool base_exists;    /* lock */
	bool unseen;	     /* lock: neither the scan under way nor anybody else has come by it */
	int64_t bytes, base; /* lock */
	uint64_t keep_end;   /* lock: blocks up to here were asked for, wherever the file ends */
	_Atomic uint64_t ticket;
	uint64_t applied; /* lock: the ticket of the newest result */
	uint64_t solid_to; /* lock: all its blocks are below, and none is missing there; 0: not known */
	uint64_t guessed; /* lock: the ticket of the last write that was entered without a stat */
	unsigned guesses; /* lock: how many, since the last stat */
	unsigned busy;	  /* lock: changes under way of another kind */
	unsigned epoch;	  /* lock: of these, so far */
	struct list idle; /* lock: in shard->idle while refs is 0 */
	uint64_t due_ns;  /* lock: when to look again */
	uint8_t looks;	  /* lock: how often that was done */
	uint8_t handle_bytes;
	int32_t handle_type;
	unsigned char handle[SPACE_HANDLE_MAX];
};

struct space_shard {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	struct space_slot **bucket;
	size_t n, buckets;
	struct list idle;  /* least recently used first */
	uint64_t *visited; /* by the scan under way: an open-addressed set of keys; 0 is free */
	size_t n_visited, visited_size;
};

struct space_table {
	struct space_shard shard[SPACE_SHARDS];
	struct space_count bytes, inodes;
	_Atomic uint64_t slots, idle, bypassing;
	_Atomic bool scanning;
	_Atomic uint64_t moves; /* of directories */
	/* Renames and links under way, those of the even and of the odd epochs: a scan waits for those from before it. */
	_Atomic unsigned epoch, moving[2];
	_Atomic bool missed; /* a change could not be counted */
};

void table_init(struct space_table *t);
void table_destroy(struct space_table *t);
/* As if it were new; nobody holds a slot.  Others may be looking at its totals. */
void table_reset(struct space_table *t);

/* The slot of a file, with one reference more; NULL: out of memory. */
struct space_slot *table_get(struct space_table *t, dev_t dev, uint64_t ino);
/* The same for a file that was made just now, with so many bytes, which are counted. */
struct space_slot *table_get_new(struct space_table *t, dev_t dev, uint64_t ino, int64_t bytes);
/* The same if it has one; else NULL. */
struct space_slot *table_find(struct space_table *t, dev_t dev, uint64_t ino);
/* An operation's reference goes.  now_ns: when; the slot is looked at again some time after. */
void table_put(struct space_table *t, struct space_slot *s, uint64_t now_ns);

/* An operation's reference becomes one of an open file, and goes.  fh: to find it by later. */
void table_opened(struct space_table *t, struct space_slot *s, bool bypassing,
		  const struct fhandle *fh);
void table_closed(struct space_table *t, struct space_slot *s, bool bypassing, uint64_t now_ns);

static inline bool slot_needs_base(const struct space_slot *s)
{
	return !atomic_load_explicit(&s->known, memory_order_acquire);
}
/* What stat says of a file. */
struct slot_stat {
	int64_t bytes;
	uint64_t size; /* in whole blocks; UINT64_MAX: is no regular file */
	uint64_t cap;  /* see table_settle */
	bool exists;   /* has a name */
};
/* Before the first change: what the total has of it. */
void table_base(struct space_table *t, struct space_slot *s, const struct slot_stat *st);
static inline uint64_t slot_ticket(struct space_slot *s)
{
	return atomic_fetch_add_explicit(&s->ticket, 1, memory_order_acq_rel) + 1;
}
/* What stat said with this ticket.  While the file is open, blocks beyond `cap` (UINT64_MAX: wherever they are) are not
 * counted unless somebody asked for them.  False: a write was entered meanwhile that stat may not have seen; try again. */
bool table_settle(struct space_table *t, struct space_slot *s, uint64_t ticket,
		  const struct slot_stat *st);

/* A write of [from, to) begins.  True: it takes *growth bytes, and table_write_end, with the same epoch, enters them if all of
 * it was written.  Else, or if that fails, settle. */
struct slot_write {
	uint64_t from, to, block;
	unsigned epoch;
};
bool table_write_begin(struct space_table *t, struct space_slot *s, struct slot_write *w,
		       uint64_t *growth);
bool table_write_end(struct space_table *t, struct space_slot *s, const struct slot_write *w);
/* Any other change of its data begins, and is over: between these no write is entered without a stat. */
void table_change_begin(struct space_table *t, struct space_slot *s);
void table_change_end(struct space_table *t, struct space_slot *s);
/* Writes were entered without a stat since the last. */
bool table_is_guessed(struct space_table *t, struct space_slot *s);

/* Somebody asked for blocks up to `end`; or the file was cut, and what was asked for beyond its end is gone. */
void table_keep(struct space_table *t, struct space_slot *s, uint64_t end);
void table_cut(struct space_table *t, struct space_slot *s);
uint64_t table_kept(struct space_table *t, struct space_slot *s);
void table_handle(struct space_table *t, struct space_slot *s, struct fhandle *out);

/* A file lost its last name; bytes: what st_blocks said of it. */
void table_gone(struct space_table *t, dev_t dev, uint64_t ino, int64_t bytes);
/* It has no name any more, or (O_TMPFILE) never had one: it goes with its last open file. */
void table_vanished(struct space_table *t, struct space_slot *s);
/* It got one. */
void table_named(struct space_table *t, struct space_slot *s);

/* A scan begins: from now on every change leaves a slot. */
void table_scan_begin(struct space_table *t);
/* A rename or link begins: before it asks whether a scan is under way; and ends. */
static inline unsigned table_move_begin(struct space_table *t)
{
	unsigned epoch = atomic_load(&t->epoch) & 1;
	atomic_fetch_add(&t->moving[epoch], 1);
	return epoch;
}
static inline void table_move_end(struct space_table *t, unsigned epoch)
{
	atomic_fetch_sub(&t->moving[epoch], 1);
}
/* After table_scan_begin: false while some are under way that began before it and may not know of it. */
static inline bool table_moves_settled(struct space_table *t)
{
	return atomic_load(&t->moving[(atomic_load(&t->epoch) - 1) & 1]) == 0;
}
enum visit { VISIT_COUNT, VISIT_KNOWN, VISIT_SLOT, VISIT_NO_MEMORY };
/* The scan came by a file.  VISIT_COUNT: count it.  VISIT_KNOWN: not again.  VISIT_SLOT: its slot counts it; settle it if it
 * has no base.  `remember`: others may change it, or it has several names. */
enum visit table_visit(struct space_table *t, dev_t dev, uint64_t ino, bool remember);
/* It is complete, and has counted so much: that, with what the slots say, becomes the total.  Or it was given up. */
void table_scan_end(struct space_table *t, int64_t bytes, int64_t inodes);
void table_scan_abort(struct space_table *t);

/* Slots that are due for another look: takes a reference of up to n of them.  Slots beyond `keep` are dropped. */
unsigned table_due(struct space_table *t, uint64_t now_ns, uint64_t keep, struct space_slot **out,
		   unsigned n);

#endif
