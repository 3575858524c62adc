/* SPDX-License-Identifier: MIT */
/* What the files of a mount share: mount.c (start), mount_end.c (end), mount_init.c (INIT), transport_dev.c and receive.c
 * (messages and threads), admit.c (admission), parked.c (waiting requests), parked_look.c (checks of their callers), watch.c
 * (which caller to check next), running.c (requests in the source), delayed.c (delayed refusals), poll.c (polls),
 * watchdog.c (threads that are stuck, callers that die), detach.c (unmounting).
 *
 * Lock order: parked.lock or polls.lock → the gate's lock, or that of a pool of workers.  None is held over a backing call,
 * a reply, or a look into /proc. */
#ifndef FS_MOUNT_INTERNAL_H
#define FS_MOUNT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/monotonic.h"
#include "fs/detach.h"
#include "fs/mount.h"
#include "fs/request.h"
#include "fs/watch.h"
#include "sched/gate.h"
#include "sched/workers.h"

#define MESSAGE_MAX (FS_MAX_TRANSFER + (64U << 10)) /* header, arguments and data of a request */

#define PARKED_HASH   4096
#define DELAYED_HASH  256
#define POLL_HASH     512
#define MISSED_HASH   512
#define RECEIVERS_MAX 64
#define RINGS_MAX     64
#define RECEIVERS_ALL (RECEIVERS_MAX + RINGS_MAX) /* ring threads are receivers, too */
#define WORKERS_MAX   64			  /* of the mount; of each of its rings … */
#define RINGS_WORKERS 256			  /* … and of all rings together */
#define WORKERS_ALL   (WORKERS_MAX + RINGS_WORKERS)
#define READY_NS      (10 * NSEC_PER_SEC) /* until the kernel has sent its first message */
/* grace period for parked requests and open files at the end */
#define STOP_GRACE_NS (500 * NSEC_PER_MSEC)

/* Requests that wait or are being run by a worker, by the kernel's number, for FUSE_INTERRUPT. */
struct parked_table {
	pthread_mutex_t lock;
	struct list hash[PARKED_HASH]; /* lock */
	/* lock: callers that were interrupted, or whose interrupts are never sent or never received */
	struct watch watch;
	_Atomic unsigned
		n; /* requests that are in the table, or are still on their way back to their transport */
	/* lock: refused, but the reply is delayed (delayed.c) */
	struct list delayed;
	struct list delayed_hash[DELAYED_HASH]; /* lock */
	unsigned n_delayed;			/* lock */
	/* lock: numbers of interrupted requests that no thread had announced yet; see parked_interrupt */
	uint64_t missed[MISSED_HASH];
};

struct poll_table {
	pthread_mutex_t lock;
	pthread_cond_t empty;
	struct list hash[POLL_HASH]; /* lock: by handle */
	uint64_t last_id;	     /* lock */
	_Atomic unsigned n;
};

/* What a thread that carries out requests is doing.  Written by that thread for every request. */
struct runner {
	_Alignas(CACHE_LINE) _Atomic uint32_t
		opcode;		   /* of the request in the source, plus 1; 0: none */
	_Atomic uint64_t entered;  /* how many requests so far */
	_Atomic uint64_t since_ns; /* start of this request; 0: not dated yet */
	bool worker;		   /* reads the clock itself */
	_Atomic bool taken;	   /* of a worker: a thread uses it */
	_Atomic uint64_t unique; /* of a worker with a ring: the request that it serves; 0: none */
	uint64_t interrupted;	 /* parked.lock: its request that was interrupted */
	pthread_mutex_t lock;	 /* guards the two below */
	bool holds;		 /* the request holds permits, by `grant` */
	struct grant grant;
};

/* One receive thread.  Its own cache line: `current` is written for every request. */
struct receiver {
	_Alignas(CACHE_LINE) _Atomic uint64_t current; /* unique of the request it runs; 0: none */
	_Atomic uint64_t served;
	struct runner runner;
	uint64_t interrupted;	/* parked.lock: its request that was interrupted */
	uint64_t served_before; /* used by the watchdog only */
	_Atomic int kick;	/* enum receiver_kick */
	_Atomic int state;	/* enum receiver_state */
	pthread_t thread;
	_Atomic pid_t tid; /* 0: it has not begun to read */
	struct fs_mount *mount;
};
enum receiver_state {
	RECEIVER_UNUSED,
	RECEIVER_STARTING, /* `thread` is not set yet */
	RECEIVER_ALIVE,
	RECEIVER_ENDED
};

/* A signal that makes a receiver return from reading a message.  It must not arrive during a call
 * into the source, which it could make fail: see kick() in receive.c. */
enum receiver_kick { KICK_NONE, KICK_SENT, KICK_CAME };

struct fs_mount {
	struct fs *fs;
	struct fuse_session *se;
	int fd;
	int dead_fd; /* a pipe without a reader: replaces fd when the connection is cut */
	struct mount_place place;
	char *mountpoint, *fuse_options;
	struct workers *workers;
	/* No worker can be started, of the mount or of a ring, so a receiver has to carry out their jobs; one does. */
	_Atomic bool stranded, stands_in;
	struct runner worker[WORKERS_ALL];
	struct gate *gate;
	struct gate_mount *gate_mount;

	enum mount_transport wanted;
	struct rings *rings;	 /* NULL: none */
	char why_not_uring[128]; /* "": no reason */
	bool init_offers_uring;
	pthread_mutex_t init_lock; /* held while threads are started, and to answer INIT */
	_Atomic bool uses_uring;

	_Atomic bool nonblock_waits, timeout_is_etimedout;
	_Atomic int interrupt;

	struct parked_table parked;
	struct poll_table polls;

	struct receiver receiver[RECEIVERS_ALL];
	unsigned receivers_busy;  /* how many receivers to keep while requests arrive … */
	unsigned receivers_floor; /* … and now; used by the watchdog only */
	_Atomic unsigned receivers_wanted;
	unsigned calm_ticks;	       /* used by the watchdog only */
	unsigned stuck_ticks;	       /* the same: how long no receiver has read messages */
	_Atomic bool draining;	       /* new requests are refused */
	_Atomic uint64_t waived_bytes; /* write-back that bypassed the limits while draining */
	uint64_t waived_max;
	_Atomic bool abandon;  /* do not wait for the source any more */
	_Atomic bool cut;      /* the connection has been cut */
	_Atomic bool stopping; /* receivers exit when they see it; rings refuse what arrives */
	/* parked requests are refused after this time; 0: run them */
	_Atomic uint64_t abort_after_ns;
	_Atomic bool ended_once;
	_Atomic bool ended; /* the kernel has closed the connection */
	void (*on_end)(struct fs_mount *m, void *ctx);
	void *on_end_ctx;

	pthread_t detacher;
	bool detaches;
	_Atomic bool detach_done;

	pthread_t watchdog;
	pthread_mutex_t watchdog_lock;
	pthread_cond_t watchdog_cond;
	_Atomic bool watchdog_sleeps;
	_Atomic bool watchdog_dozes; /* its present tick is a long one */
	bool watchdog_stop;	     /* watchdog_lock */
	bool watchdog_look;	     /* watchdog_lock: a caller has received a signal */
	bool watchdog_started;
	bool started;
};

/* The error for requests that arrive while the mount is ending: the same as from a dead mount a
 * moment later.  Programs do not retry after it, as many do after EAGAIN and EINTR. */
#define ENDING_ERRNO ENOTCONN

/* Handshake between receivers and a watchdog that goes to sleep.  A receiver announces what it
 * runs, then checks whether the watchdog sleeps; the watchdog announces that it sleeps, then
 * checks what is running.  Each stores first and then loads the other's value.  All four accesses
 * are sequentially consistent; otherwise both could miss the other's store, and the watchdog would
 * sleep while requests are stuck. */

/* True: the watchdog sleeps and must be woken. */
static inline bool receiver_begins(struct receiver *r, uint64_t unique)
{
	atomic_store_explicit(&r->current, unique, memory_order_seq_cst);
	return atomic_load_explicit(&r->mount->watchdog_sleeps, memory_order_seq_cst);
}

static inline void receiver_ends(struct receiver *r)
{
	uint64_t served = atomic_load_explicit(&r->served, memory_order_relaxed);
	atomic_store_explicit(&r->current, 0, memory_order_release);
	atomic_store_explicit(&r->served, served + 1, memory_order_relaxed);
}

/* The number of requests begun so far. */
static inline uint64_t receivers_begun(const struct fs_mount *m)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < RECEIVERS_ALL; i++) {
		const struct receiver *r = &m->receiver[i];
		sum += atomic_load_explicit(&r->served, memory_order_relaxed) +
		       (atomic_load_explicit(&r->current, memory_order_seq_cst) != 0);
	}
	return sum;
}

/* The watchdog is about to sleep; false: a request has arrived since `begun` was counted. */
static inline bool watchdog_lies_down(struct fs_mount *m, uint64_t begun)
{
	atomic_store_explicit(&m->watchdog_sleeps, true, memory_order_seq_cst);
	return receivers_begun(m) == begun;
}

/* Bracket the operation, on the thread that carries it out. */
static inline void runner_enter(struct runner *r, uint32_t opcode, const struct grant *grant)
{
	atomic_store_explicit(&r->since_ns, r->worker ? monotonic_ns() : 0, memory_order_relaxed);
	atomic_store_explicit(&r->entered,
			      atomic_load_explicit(&r->entered, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	atomic_store_explicit(&r->opcode, opcode + 1, memory_order_release);
	if (!grant || !gate_holds_permits(grant))
		return;
	pthread_mutex_lock(&r->lock);
	r->grant = *grant;
	r->holds = true;
	pthread_mutex_unlock(&r->lock);
}

/* False: runners_give_up has settled the grant already. */
static inline bool runner_leave(struct runner *r, const struct grant *grant)
{
	atomic_store_explicit(&r->opcode, 0, memory_order_release);
	if (!grant || !gate_holds_permits(grant))
		return true;
	pthread_mutex_lock(&r->lock);
	bool holds = r->holds;
	r->holds = false;
	pthread_mutex_unlock(&r->lock);
	return holds;
}

/* admit.c: carries out a request, parks it or replies to it; afterwards it belongs to the
 * transport again. */
void admit(struct request *r);
/* Replies with `err`, if the request can be replied to in this way. */
void refuse(struct request *r, int err);

/* parked.c */
void parked_init(struct parked_table *t);
void parked_destroy(struct parked_table *t);
void park(struct request *r);
/* The same for an admitted request: passes it to the mount's device. */
void park_granted(struct request *r);
/* The same for one that must be carried out by this pool; ops->run calls parked_run_deferred. */
void park_deferred(struct request *r, struct workers *pool, const struct job_ops *ops);
void parked_run_deferred(struct request *r);
void parked_interrupt(struct fs_mount *m, uint64_t unique);
/* No interrupts are received any more: the watchdog checks the callers of all requests that wait now. */
void parked_watch_all(struct fs_mount *m);
/* True: this thread has taken the request, which has been interrupted already.  Call with parked.lock held. */
bool parked_was_interrupted(const struct parked_table *t, uint64_t unique);
/* Checks callers that may be dying, and ends the waits of those that are.  Until due_until_ns it
 * checks all that are due, then only those that cannot be postponed.  True: until_ns was reached
 * before all had been checked. */
bool parked_look(struct fs_mount *m, uint64_t due_until_ns, uint64_t until_ns);
bool parked_watches(struct fs_mount *m);   /* there are callers to check, or delayed replies */
unsigned parked_count(struct fs_mount *m); /* requests that wait or are being run by a worker */

/* running.c */
void runners_init(struct fs_mount *m);
void runners_destroy(struct fs_mount *m);
extern _Thread_local struct runner *runner_self; /* NULL on threads that run no requests */
bool runner_start_worker(void *mount);		 /* hooks of the pool */
void runner_stop_worker(void *mount);
/* Called by the watchdog: dates requests that have been running since its last look. */
void runners_note(struct fs_mount *m, uint64_t now_ns);
/* Releases the permits of requests in the source, because these have been abandoned. */
void runners_give_up(struct fs_mount *m);
/* Records which requests are in the source now, to count later how many of them still are. */
struct runners_seen {
	uint64_t entered[RECEIVERS_ALL + WORKERS_ALL]; /* 0: was not in the source */
};
void runners_see(struct fs_mount *m, struct runners_seen *seen);
unsigned runners_remain(struct fs_mount *m, const struct runners_seen *seen);

/* delayed.c: delays a refusal, so that callers that retry in a loop do not slow others down.
 * Replies EAGAIN when it is due, or when the caller gets a signal. */
void delayed_refuse(struct request *r);
/* Called with parked.lock held, which it releases if the request was a delayed one.  False: it was
 * not, and the lock is still held. */
bool delayed_interrupt_unlock(struct fs_mount *m, uint64_t unique);
/* Replies to up to n requests that are due. */
void delayed_answer(struct fs_mount *m, uint64_t now_ns, unsigned n);

/* poll.c */
void poll_init(struct poll_table *t);
void poll_destroy(struct poll_table *t);
/* A non-blocking transfer gets less than it asked for, or nothing.  Call before replying to it. */
void poll_fell_short(const struct request *r);
void poll_forget(struct fs_mount *m, uint64_t fh); /* the handle is being released */
void poll_forget_all(struct fs_mount *m);	   /* returns when none is left */

/* transport_dev.c: reads messages until the connection ends, or this receiver is not wanted any more. */
void dev_serve(struct receiver *r);

/* mount_init.c */
/* Call before the first message is read.  0, or -1 with err. */
int mount_watch_init(struct fs_mount *m, struct error *err);
/* Handles the kernel's INIT, when init_lock is free. */
void mount_init(struct fs_mount *m, void *message, size_t len);

/* rings.c */
#define INIT_OVER_IO_URING (1U << (41 - 32)) /* in flags2 of INIT */
/* Creates the rings, if possible; if not, m->why_not_uring says why.  Call with init_lock held, before
 * INIT is answered. */
void rings_start(struct fs_mount *m);
/* Decides, given whether the kernel offers io_uring, whether to use it.  Call rings_go when the
 * kernel has been told. */
bool rings_at_init(struct fs_mount *m, bool offered);
void rings_go(struct fs_mount *m, bool go);
void rings_stop(struct fs_mount *m); /* returns immediately */
bool rings_are_gone(struct fs_mount *m);
/* Called by the watchdog every few seconds: releases memory that is no longer used.  False: there is nothing to release. */
bool rings_sweep(struct fs_mount *m);
/* Records the requests that threads have just taken and are serving, to wait for these and not for later ones. */
struct rings_seen {
	uint64_t unique[RINGS_MAX + WORKERS_ALL]; /* 0: none */
};
void rings_see(struct fs_mount *m, struct rings_seen *seen);
/* True: one of these is still being served. */
bool rings_serve(struct fs_mount *m, const struct rings_seen *seen);
/* The same as for the mount's own workers; see workers.h. */
unsigned rings_queued(struct fs_mount *m);
void rings_run_queued(struct fs_mount *m);
void rings_join(struct fs_mount *m); /* ends them, and waits for their threads and workers */
void rings_free(struct fs_mount *m); /* no request may be held any more */

/* receive.c */
struct receiver *receiver_self(void); /* NULL on other threads */
void receiver_become(struct receiver *r);
void connection_ended(struct fs_mount *m);
bool receiver_is_surplus(const struct receiver *r);
void receiver_let_kick_come(struct receiver *r);
/* No worker can be started (m->stranded): carries out their jobs, unless another receiver does. */
void receiver_stand_in(struct receiver *r);
void receivers_call_stand_in(struct fs_mount *m); /* called by the watchdog */
int receivers_start(struct fs_mount *m);
void receivers_rest(struct fs_mount *m); /* the watchdog calls it when no request arrives */
bool receivers_have_served(const struct fs_mount *m); /* anything yet */
/* The watchdog calls it on each tick, with the number of requests since the last one.  False:
 * receivers are missing. */
bool receivers_adapt(struct fs_mount *m, uint64_t came);
unsigned receivers_alive(const struct fs_mount *m);
/* Also notices that the connection has ended, because no receiver reads from it then. */
bool receivers_all_stuck(struct fs_mount *m);
/* Makes receivers that are waiting for a message check ->stopping; returns how many there were. */
unsigned receivers_kick(struct fs_mount *m);
/* True: the kernel has messages that nobody has read, or a receiver may have read one that a file was forgotten, and not have
 * handled it yet.  Set *unsure to UINT64_MAX, then call it until it returns false: by then, all files that were forgotten
 * before the first call are forgotten here, too. */
bool receivers_are_behind(struct fs_mount *m, uint64_t *unsure);
void receivers_join(struct fs_mount *m); /* waits for all of them, when no more are started */

/* watchdog.c */
void watchdog_init(struct fs_mount *m);
void watchdog_destroy(struct fs_mount *m); /* when no thread of the mount is left */
int watchdog_start(struct fs_mount *m);
void watchdog_ask_to_stop(struct fs_mount *m);
void watchdog_stop(struct fs_mount *m);
/* If it sleeps.  A receiver calls it for every request. */
void watchdog_wake(struct fs_mount *m);
/* Wakes it, and makes its tick a short one.  Call after adding something to the table of parked requests: it announces that
 * it sleeps or has a long tick before it checks that table, so it misses nothing. */
void watchdog_hurry(struct fs_mount *m);
void watchdog_look(struct fs_mount *m); /* a caller has received a signal */
void watchdog_strand(void *mount);	/* a hook of pools: no worker can be started */

#endif
