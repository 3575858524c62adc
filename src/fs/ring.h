/* SPDX-License-Identifier: MIT */
/* FUSE over io_uring: each CPU has a queue in the kernel and a thread here that is pinned to it, so that a request
 * costs one switch on the CPU of its caller.
 *
 *	kernel   ──▶ entry waits ──▶ holds a request ──▶ taken (completion) ──▶ answered ──▶ committed ─┐
 *	                 ▲                                                                             │
 *	                 └─────────────────────────────────────────────────────────────────────────────┘
 *
 * An entry consists of a request, a buffer for its answer, and memory that the kernel fills.  It is held by the ring thread
 * that handles it, by the gate while it is parked, or by the worker that carries it out.  When the last hold is dropped,
 * the answer is committed, which also fetches the next request.
 *
 * A ring thread must not block; workers carry out requests that may.  A worker has a small ring of its own: it commits its
 * answer itself, and thereby takes the entry over.  Of the entries that wait, the kernel first uses the one that was committed
 * last, so the next request of this CPU goes straight to the worker, and a load of requests that may block costs no more
 * thread switches than with /dev/fuse.  While a worker carries out a request, it has no entry in the kernel, so nothing is stuck behind it; requests
 * that arrive meanwhile go to other workers that have one, or to the ring thread.
 *
 *	rings.c			threads, start and end
 *	ring_workers.c		the rings of workers
 *	transport_uring.c	the way of a request through a ring thread
 *	ring_entries.c		entries: made, committed, handed back by other threads; spares and kicks
 *	ring_memory.c		the memory of entries
 *
 * Threads  a ring and its entries in the kernel belong to its thread.  Others only hand entries back (ring_hand_back). */
#ifndef FS_RING_H
#define FS_RING_H

#include <pthread.h>
#include <stdatomic.h>

#include "fs/mount_internal.h"
#include "fs/uring.h"

/* The kernel's part of an entry; linux/fuse.h of newer kernels defines it. */
struct ring_header {
	char in_out[128]; /* struct fuse_in_header, then struct fuse_out_header */
	char op_in[128];  /* the arguments */
	uint64_t flags, commit_id;
	uint32_t payload_size, padding;
	uint64_t reserved;
};

struct chunk;

struct entry {
	struct request req;
	struct fuse_in_header in; /* a copy: the answer overwrites the original */
	struct ring *ring;	  /* the main ring */
	struct entry *next;	  /* in ring->answered or ring->unused */
	_Atomic int holds;
	bool answered;
	size_t touched_bytes; /* of its payload: memory that is in use, from the start of the payload */
	struct list idle;     /* in ring->committed or ring->idle, if that is more than RING_KEPT */
	unsigned sweep;	      /* when it was added there */
	uint64_t commit_id;
	struct ring_header *header;
	struct iovec iov[2]; /* header, payload */
};

struct ring {
	struct fs_mount *mount;
	struct ring
		*main; /* of a worker's ring: the main ring of its CPU; NULL: this is a main ring */
	unsigned queue;
	struct uring u;
	unsigned n_waiting; /* entries in the kernel that wait for a request; a worker has at most one */
	struct entry *current; /* of a worker: the entry whose request it carries out */
	unsigned easy; /* consecutive requests that the ring thread might have carried out itself */

	/* Of a main ring only. */
	struct receiver *self;
	pthread_t thread;
	bool started;
	int wake_fd;
	bool hears_wake_fd; /* the thread returns from ring_wait if another thread writes to wake_fd */
	_Atomic(struct entry *) answered; /* by other threads */
	struct workers *workers;	  /* carry out what may block, on the same CPU */
	/* How many workers have a ring, and how many may have one: others must remain for requests that the ring thread
	 * passes on. */
	_Atomic unsigned n_worker_rings;
	unsigned worker_rings_max;
	/* How many of these have an entry in the kernel, or carry out its request. */
	_Atomic unsigned n_armed;
	struct chunk *chunks;
	struct entry *unused; /* not registered yet */
	/* Entries that wait in the kernel and have memory, the one that was used last first; see ring_memory.c. */
	struct list committed, idle;
	size_t idle_bytes; /* of both */
	size_t keep_bytes,
		most_bytes; /* how much memory stays, and how much there may be for a while */
	_Atomic bool has_surplus;
	unsigned n_made;
	unsigned spares; /* how many entries should wait */
	/* Few do, and no more can be made: workers get none of them, because a worker does not know whether the request that
	 * it is about to park has the last entry. */
	_Atomic bool scarce;
	unsigned n_kept; /* requests that were not answered immediately, since the last kick */
	/* Requests may wait in the kernel, because no entry was free when they came. */
	_Atomic bool kick;
	uint64_t file; /* node ID of a file that the kernel knew at the last kick; 0: none */
	bool served;   /* a request has arrived */
	_Atomic bool stop, ended;
	char apart[CACHE_LINE]; /* from the ring of the next CPU */
};

struct rings {
	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned n, n_ready, n_failed;				/* lock */
	int error;						/* lock: of the first that failed */
	enum { RINGS_UNDECIDED, RINGS_GO, RINGS_OFF } decision; /* lock */
	int stop_fd; /* readable after rings_stop, for the workers */
	_Atomic unsigned sweeps;
	struct ring ring[];
};

extern _Thread_local struct ring *ring_self; /* NULL: neither a ring thread nor one of its workers */

/* --- transport_uring.c --- */

/* Takes requests until ring->stop. */
void ring_serve(struct ring *ring);
/* Submits, and waits for a completion.  False: the ring no longer works, and the mount ends. */
bool ring_wait(struct ring *ring);
/* Handles all completions that have arrived.  True: one of them was a request. */
bool ring_handle_completions(struct ring *ring);

/* rings.c: the calling thread runs on this CPU from now on. */
void ring_settle_on(unsigned cpu);

/* --- ring_workers.c --- */

/* After this many requests in a row that the ring thread can usually carry out itself, it does. */
#define RING_EASY_MAX 8

/* Creates the workers of a main ring. */
struct workers *ring_workers_new(struct ring *ring, unsigned max);
/* Commits the answer to ring_self->current, if `e` is that, through the ring of the worker that calls it.  False: it must
 * not; the ring thread commits. */
bool ring_worker_commits(struct entry *e);

/* --- ring_entries.c --- */

/* Makes entries if none is left to be registered.  Call before INIT is answered: after that, the kernel holds back all
 * requests until each queue has an entry.  False: out of memory. */
bool ring_make_entries(struct ring *ring);
/* Registers entries until enough wait in the kernel. */
void ring_keep_spares(struct ring *ring);
/* True: a request that has to wait may keep its entry.  If no more entries can be made, waiting requests must not hold all
 * of them: requests that need not wait would be stuck behind them. */
bool ring_can_spare(struct ring *ring);
/* Sends the answer, and makes the entry wait for another request. */
void ring_commit(struct ring *ring, struct entry *e);
/* Passes an entry to its ring thread, which commits it.  Callable from any thread. */
void ring_hand_back(struct entry *e);
void ring_take_back(struct ring *ring);
/* Makes the ring thread return from waiting.  Callable from any thread. */
void ring_wake(const struct ring *ring);
void ring_wait_to_be_woken(struct ring *ring);
/* A request is not answered immediately, so its entry does not fetch another. */
void ring_has_kept(struct ring *ring);
/* Makes the kernel send a message that no caller waits for: committing it fetches a request that
 * waits in the kernel, which registering a new entry would not do. */
void ring_kick(struct ring *ring);
/* Commits that message.  True: this fetched a request, and there may be more. */
bool ring_commit_kick(struct ring *ring, struct entry *e);
void ring_free_entries(struct ring *ring); /* of a ring that is closed */

/* --- ring_memory.c --- */

#define RING_KEPT                                                                                  \
	4096U /* bytes of a payload that are released only while a request waits that has none: a page */

void ring_memory_init(struct ring *ring, unsigned n_rings);
/* The first `bytes` of the payload have been written to. */
void entry_touched(struct entry *e, size_t bytes);
/* Releases the memory of the payload after the first `bytes`.  For requests that are about to wait. */
void entry_needs_only(struct entry *e, size_t bytes);
/* The entry will wait in the kernel as soon as the ring is submitted; it has come back from there. */
void ring_entry_leaves(struct ring *ring, struct entry *e);
void ring_entry_returns(struct ring *ring, struct entry *e);
/* Call after the ring was submitted, before completions are handled. */
void ring_has_submitted(struct ring *ring);
/* Releases memory of entries that wait, if there is too much of it.  Call when all completions have been handled, before
 * uring_enter or uring_get. */
void ring_trim(struct ring *ring);

#endif
