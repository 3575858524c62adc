/* SPDX-License-Identifier: MIT */
/* The workers of a main ring; see ring.h.
 *
 *	bare   ──▶ carries out a request that the ring thread has passed to the pool ──▶ commits it: armed
 *	armed  ──▶ waits for a request of its entry, carries it out, commits it: armed again
 *	armed  ──▶ its request is parked, or the ring thread commits it: bare
 *
 * The ring thread commits if jobs wait in the pool, or if the last requests were of a kind that the ring thread can usually
 * carry out itself: it does so in batches, which is faster if there are several clients.  While a worker is armed, it passes
 * some of these on, too; otherwise its own entries would be the last committed ones, and the worker's would not be used.
 *
 * Only bare workers take jobs of the pool: an armed one that did would let the request of its entry wait.  An armed worker
 * cannot exit, because there is no way to take an entry out of the kernel; it ends with the mount. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "fs/mirror.h"
#include "fs/ring.h"
#include "fs/splice.h"
#include "sched/workers.h"

#define RINGS_OF_WORKERS 8 /* of each CPU; with more, the ring thread's batches become smaller */
#define SUBMISSIONS	 4
#define COMPLETIONS	 8

static bool stopping(const struct ring *ring)
{
	return atomic_load_explicit(&ring->main->stop, memory_order_acquire);
}

/* Makes the worker return from waiting when the mount ends. */
static bool watch_for_stop(struct ring *ring)
{
	int stop_fd = ring->mount->rings->stop_fd;
	struct io_uring_sqe *sqe = stop_fd < 0 ? NULL : uring_get(&ring->u);
	if (!sqe)
		return false;
	sqe->opcode = IORING_OP_POLL_ADD;
	sqe->fd = stop_fd;
	sqe->poll32_events = POLLIN;
	return true;
}

static void close_own(struct ring *ring)
{
	uring_close(&ring->u);
	atomic_fetch_sub(&ring->main->n_armed, ring->n_waiting);
	atomic_fetch_sub(&ring->main->n_worker_rings, 1);
	ring->n_waiting = 0;
}

/* False: this worker has no ring, and does not get one now.  (It acts as the caller of its request, so the kernel may refuse
 * one.) */
static bool open_own(struct ring *ring)
{
	struct ring *main = ring->main;
	if (ring->u.fd >= 0)
		return true;
	if (atomic_fetch_add(&main->n_worker_rings, 1) < main->worker_rings_max) {
		/* The file is not registered: a worker that hangs in the source must not keep the connection open. */
		if (uring_open(&ring->u, SUBMISSIONS, COMPLETIONS, -1) == 0 && watch_for_stop(ring))
			return true;
		uring_close(&ring->u);
	}
	atomic_fetch_sub(&main->n_worker_rings, 1);
	return false;
}

static bool start_worker(void *ctx)
{
	struct ring *main = ctx;
	/* On the CPU of its ring it is woken faster, and finds the request's data in the CPU's caches. */
	ring_settle_on(main->queue);
	if (!runner_start_worker(main->mount))
		return false;
	splice_thread_stop(); /* of use with /dev/fuse only */
	/* If the source is in memory, hardly anything is passed to workers. */
	if (main->mount->fs->kind != SOURCE_MEMORY)
		ring_self = calloc(1, sizeof(*ring_self));
	if (ring_self)
		*ring_self = (struct ring){
			.mount = main->mount, .main = main, .queue = main->queue, .u.fd = -1};
	return true;
}

static void stop_worker(void *ctx)
{
	struct ring *main = ctx;
	if (ring_self && ring_self->u.fd >= 0)
		close_own(ring_self);
	free(ring_self);
	ring_self = NULL;
	runner_stop_worker(main->mount);
}

/* Serves the entry of an armed worker, until it is bare.  False: it was bare already. */
static bool serve_own(void *unused)
{
	struct ring *ring = ring_self;
	if (!ring || !ring->n_waiting)
		return false;
	while (ring->n_waiting && !stopping(ring) && ring_wait(ring))
		ring_handle_completions(ring);
	if (ring->n_waiting) {
		uring_enter(&ring->u, false); /* sends an answer that has been prepared */
		close_own(ring);
	}
	return true;
}

bool ring_worker_commits(struct entry *e)
{
	struct ring *ring = ring_self;
	if (ring->current != e) /* one that the gate refuses on this thread */
		return false;
	ring->current = NULL;
	bool easy = e->req.op->blocking == BLOCKS_NEVER ||
		    (e->req.op->blocking == BLOCKS_IF_COLD && ring->mount->fs->kind == SOURCE_DISK);
	ring->easy = easy ? ring->easy + 1 : 0;
	if (ring->easy > RING_EASY_MAX || ring->n_waiting || stopping(ring) ||
	    atomic_load_explicit(&ring->main->scarce, memory_order_relaxed) ||
	    workers_queued(ring->main->workers) || !open_own(ring))
		return false;
	ring_commit(ring, e);
	return true;
}

/* No worker can be started.  The ring thread must not take their place: the source may hang. */
static void strand(void *ctx)
{
	const struct ring *main = ctx;
	watchdog_strand(main->mount);
}

struct workers *ring_workers_new(struct ring *ring, unsigned max)
{
	ring->worker_rings_max = (unsigned)min_u64(RINGS_OF_WORKERS, max / 4);
	return workers_new(max, &(struct workers_hooks){.thread_start = start_worker,
							.thread_stop = stop_worker,
							.serve = serve_own,
							.stranded = strand,
							.ctx = ring});
}
