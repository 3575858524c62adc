/* SPDX-License-Identifier: MIT */
/* An open file or directory.
 *
 * The kernel knows it by a number, never by its address:
 *
 *	32 bits of generation, never 0    28 bits of place    4 bits of shard
 *
 * A place that is reused gets another generation, so a number that is stale or made up finds
 * nothing; and because a number contains no address, a later daemon can take over the table
 * (state.h). */
#ifndef FS_HANDLE_H
#define FS_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

#include "base/list.h"
#include "base/util.h"
#include "fs/caller.h"
#include "fs/overwrite.h"

struct fs;
struct fs_opener;
struct fuse_file_info;
struct inode;
struct scope_way;
struct space_slot;
struct request;
struct stat;

enum io_mode {
	IO_DIRECT,	/* every read and write reaches us */
	IO_CACHED,	/* the kernel's page cache */
	IO_PASS,	/* kernel passthrough: reads and writes bypass us */
	IO_PASS_DIRECT, /* beside handles in passthrough: limited, but its mappings bypass us */
};

struct dir_stream {
	pthread_mutex_t lock;
	char *buf; /* of getdents64; NULL until first read */
	size_t pos, len;
	off_t next; /* offset of the entry at pos */
};

struct handle {
	uint64_t number; /* under which the kernel knows it */
	int fd;
	_Atomic int flags; /* as opened; O_DIRECT and O_APPEND follow fcntl(F_SETFL) */
	enum io_mode mode;
	bool direct_io; /* reads and writes arrive as the program made them */
	bool mappable;	/* stores into a mapping of it bypass us */
	_Atomic bool written;
	_Atomic bool cannot_tell; /* the source does not say whether a read would block */
	_Atomic bool entered;	  /* inode and mode are set */
	_Atomic bool bypasses; /* its reads and writes do not reach the daemon: mode is IO_PASS */
	_Atomic uint64_t listener[2]; /* read, write: the kernel's number of a poll; 0: none */
	bool membership_matters;      /* to writes: see creds_be_writer */
	bool append_only;	      /* the backing file can only be opened with O_APPEND */
	pid_t pid;		      /* the opener: release and write-back name no caller */
	uid_t uid;
	gid_t gid;
	struct opener opener;
	const struct scope_way *counted; /* where max_open counts it; NULL: nowhere */
	struct inode *inode;
	_Atomic(struct space_slot *) slot; /* where its space is counted; NULL: not yet */
	struct list of_inode;		   /* in open_state->handles */
	struct dir_stream *dir;		   /* directories only */
};

/* What the open files of one inode have in common.  Guarded by inode_lock, except `overwrites`,
 * which has its own. */
struct open_state {
	struct list handles;
	unsigned n_direct, n_cached, n_pass; /* n_pass counts IO_PASS and IO_PASS_DIRECT */
	int32_t backing_id;		     /* of all n_pass handles; 0: none */
	uid_t backing_uid;		     /* whose credentials it uses */
	/* The file's time and size when the data that the page cache may hold was read. */
	struct timespec cached_mtime;
	off_t cached_size;
	struct overwrites overwrites;
};

/* The open_state of an inode, which is created if necessary; NULL: out of memory.  Call with the
 * inode's lock held. */
struct open_state *open_state_of_locked(struct inode *inode);

static inline void open_state_free(struct open_state *o)
{
	if (o)
		overwrites_destroy(&o->overwrites);
	free(o);
}

/* All handles of a mount, in shards, so that concurrent opens rarely wait for each other.  Chunks
 * of places are added, each twice as large as the one before, and stay until the end, so that a
 * place is found without a lock. */
#define HANDLE_SHARD_BITS  4
#define HANDLE_SHARDS	   (1U << HANDLE_SHARD_BITS)
#define HANDLE_PLACE_BITS  28
#define HANDLE_FIRST_CHUNK 64U
#define HANDLE_CHUNKS	   22

struct handle_place {
	_Atomic uint64_t number; /* of the handle here; 0: none */
	_Atomic(struct handle *) handle;
	uint32_t generation; /* shard lock: of the last handle here */
	uint32_t next_free;  /* shard lock: place + 1; 0: the last */
};

struct handle_shard {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	_Atomic(struct handle_place *) chunk[HANDLE_CHUNKS];
	uint32_t n;    /* lock: places that were ever used */
	uint32_t free; /* lock: place + 1 of the first free one; 0: none */
};

struct handle_table {
	struct handle_shard shards[HANDLE_SHARDS];
};

static inline struct handle_place *handle_place_at(const struct handle_shard *s, uint32_t place)
{
	uint64_t n = (uint64_t)place + HANDLE_FIRST_CHUNK;
	unsigned i =
		(unsigned)(63 - __builtin_clzll(n)) - (unsigned)__builtin_ctz(HANDLE_FIRST_CHUNK);
	if (i >= HANDLE_CHUNKS)
		return NULL;
	struct handle_place *chunk = atomic_load_explicit(&s->chunk[i], memory_order_acquire);
	return chunk ? &chunk[n - ((uint64_t)HANDLE_FIRST_CHUNK << i)] : NULL;
}

/* The handle of a number; NULL: there is none.  It stays valid until its RELEASE, which the kernel
 * sends when no other request on the handle is left. */
static inline struct handle *handle_find(const struct handle_table *t, uint64_t number)
{
	const struct handle_shard *s = &t->shards[number & (HANDLE_SHARDS - 1)];
	uint32_t place = (uint32_t)number >> HANDLE_SHARD_BITS;
	const struct handle_place *p = handle_place_at(s, place);
	if (!p || !number || atomic_load_explicit(&p->number, memory_order_acquire) != number)
		return NULL;
	return atomic_load_explicit(&p->handle, memory_order_relaxed);
}

void handle_table_init(struct handle_table *t);
/* Calls `visit` for each handle, with the lock of its shard held, until one call returns false. */
void handle_table_each(struct handle_table *t, bool (*visit)(struct handle *h, void *ctx),
		       void *ctx);
/* Gives a handle a number.  0 or -ENOMEM. */
int handle_table_add(struct handle_table *t, struct handle *h);
/* Enters a handle under the number that it has.  0, -ENOMEM, -EEXIST or -EINVAL. */
int handle_table_restore(struct handle_table *t, struct handle *h);
void handle_table_remove(struct handle_table *t, struct handle *h);
void handle_table_free(struct handle_table *t); /* must be empty */

/* See fs_mount_bypassing. */
unsigned handles_bypassing(struct fs *fs, struct fs_opener *out, unsigned n);
/* Space is being counted from now on: includes changes made through files that are already open. */
void handles_adopt(struct fs *fs);
/* Frees all handles at the end of a mount: the kernel does not release those that are open when the
 * connection is cut.  Call when no thread runs an operation any more. */
void handles_free(struct fs *fs);

/* Reserves one open file.  -ENFILE: max_open is reached, or the user has more than its share of
 * what the process can open.  The reservation passes to the handle that is made next; handle_free
 * returns it. */
int handle_reserve(struct request *req);
void handle_unreserve(struct request *req);

/* Takes *fd.  NULL: out of memory, *fd untouched. */
struct handle *handle_new(struct request *req, int *fd, int flags);
void handle_free(struct fs *fs, struct handle *h);
void handle_discard(struct handle *h); /* of one that is not in the table; does not close its fd */

/* Chooses the io_mode of a newly opened regular file, adds the handle to its inode's open_state and
 * fills in the answer to the kernel.  0 or -ENOMEM.  `st` is the file as it is now; with
 * cache=strict it is not looked at. */
int handle_open_mode(struct fs *fs, struct handle *h, struct inode *inode, const struct stat *st,
		     struct fuse_file_info *fi);
/* Adds a handle that was read back (state.h), whose mode was chosen earlier. */
void handle_enter_mode(struct fs *fs, struct handle *h);
/* Before handle_free.  The handle's reference of its inode remains, for inode_unref. */
void handle_close_mode(struct fs *fs, struct handle *h);

#endif
