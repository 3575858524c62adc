/* SPDX-License-Identifier: MIT */
/* Requests that arrive through io_uring: a ring thread takes them, admits them, and in the common
 * case carries them out and commits the answers itself.  See ring.h.
 *
 * A ring thread must not block, since its entries in the kernel would hold requests meanwhile.  So it
 * carries out only requests that cannot block: nearly all if the source is in memory; if the source
 * is a disk, those that the kernel's caches can answer (enum blocking in opcodes.h); otherwise only
 * those that make no call to the source.  Workers carry out the rest.
 *
 * /dev/fuse remains in use for INIT, FORGET and INTERRUPT, and for everything else until the rings are ready.  The kernel
 * never reports a signal that the caller got before the daemon took the request; so the callers of parked requests are
 * checked for signals (see watch.h), first when they are parked. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "fs/mirror.h"
#include "fs/reply.h"
#include "fs/ring.h"
#include "fs/space_hooks.h"

_Thread_local struct ring *ring_self;

static struct entry *entry_of(struct request *r)
{
	return container_of(r, struct entry, req);
}

/* --- the transport -------------------------------------------------------------------------------- */

static int ring_reply(struct request *r, int error, const struct iovec *data, unsigned n)
{
	struct entry *e = entry_of(r);
	char *payload = e->iov[1].iov_base;
	size_t used = 0;
	for (unsigned i = 0; i < n; i++) {
		if (data[i].iov_base != payload + used)
			memmove(payload + used, data[i].iov_base, data[i].iov_len);
		used += data[i].iov_len;
	}
	const struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + used), .error = error, .unique = e->in.unique};
	memcpy(e->header->in_out, &out, sizeof(out));
	e->header->payload_size = (uint32_t)used;
	entry_touched(e, used);
	e->answered = true;
	return 0;
}

static char *ring_room(struct request *r)
{
	return entry_of(r)->iov[1].iov_base;
}

static void hold(struct entry *e)
{
	if (ring_self == e->ring)
		ring_has_kept(e->ring);
	atomic_fetch_add(&e->holds, 1);
}

static struct request *ring_keep(struct request *r, bool payload)
{
	struct entry *e = entry_of(r);
	if (ring_self == e->ring && !ring_can_spare(e->ring))
		return NULL;
	hold(e);
	if (!payload)
		r->payload_len = min_u64(r->payload_len, RING_KEPT);
	entry_needs_only(e, r->payload_len);
	return r;
}

static void ring_drop(struct request *r)
{
	struct entry *e = entry_of(r);
	if (atomic_fetch_sub(&e->holds, 1) != 1)
		return;
	if (!e->answered)
		ring_reply(r, -EIO, NULL, 0);
	if (ring_self == e->ring)
		ring_commit(e->ring, e);
	else if (!ring_self || !ring_self->main || !ring_worker_commits(e))
		ring_hand_back(e);
}

static void run_deferred(struct job *job)
{
	struct request *r = container_of(job, struct request, job);
	if (ring_self)
		ring_self->current = entry_of(r);
	parked_run_deferred(r);
}

static const struct job_ops deferred_ops = {.run = run_deferred};

static void ring_defer(struct request *r)
{
	struct entry *e = entry_of(r);
	hold(e);
	r->no_wait = false;
	park_deferred(r, e->ring->workers, &deferred_ops);
}

/* Passes some requests that it could carry out itself to workers that are armed: see ring_workers.c. */
static bool feeds_workers(struct ring *ring)
{
	return atomic_load_explicit(&ring->n_armed, memory_order_relaxed) &&
	       ring->easy++ < RING_EASY_MAX;
}

static bool ring_may_block(struct request *r)
{
	enum source_kind kind = r->fs->kind;
	if (!ring_self || ring_self->main)
		return false; /* a worker, or a receiver in the place of one */
	r->no_wait = kind != SOURCE_MEMORY;
	r->must_be_brief = true;
	switch (r->op->blocking) {
	case BLOCKS_NEVER:
		return false;
	case BLOCKS_IF_COLD:
		return kind == SOURCE_UNKNOWN || (kind == SOURCE_DISK && feeds_workers(ring_self));
	case BLOCKS_ON_DISK:
		ring_self->easy = 0;
		return kind != SOURCE_MEMORY || space_may_wait(r->fs);
	default:
		return true;
	}
}

static const struct transport transport_uring = {
	.name = "uring",
	.misses_signals = true,
	.reply = ring_reply,
	.room = ring_room,
	.keep = ring_keep,
	.drop = ring_drop,
	.may_block = ring_may_block,
	.defer = ring_defer,
};

/* --- a ring thread --------------------------------------------------------------------------------- */

/* Announces the request: for interrupts, and for the end of the mount, which waits for it.  So ->stopping is read after it. */
static void begin(struct ring *ring, struct entry *e)
{
	bool asleep = true;
	if (ring->main)
		ring->current = e;
	if (!ring->main)
		asleep = receiver_begins(ring->self, e->in.unique);
	else if (runner_self)
		atomic_store(&runner_self->unique, e->in.unique);
	if (asleep)
		watchdog_wake(ring->mount);
}

static void end(struct ring *ring)
{
	if (!ring->main)
		receiver_ends(ring->self);
	else if (runner_self)
		atomic_store_explicit(&runner_self->unique, 0, memory_order_release);
}

static void serve(struct ring *ring, struct entry *e)
{
	struct request *r = &e->req;
	atomic_store_explicit(&e->holds, 1, memory_order_relaxed);
	r->transport = &transport_uring;
	r->mount = ring->mount;
	r->fs = ring->mount->fs;
	r->in = &e->in;
	r->op = opcode_of(e->in.opcode);
	r->args = e->header->op_in;
	r->payload = e->iov[1].iov_base;
	r->payload_len = min_u64(e->header->payload_size, FS_BUFFER_SIZE);
	entry_touched(e, r->payload_len);
	begin(ring, e);
	if (atomic_load(&ring->mount->stopping)) {
		/* With /dev/fuse, no thread would read it any more. */
		reply_status(r, -ENDING_ERRNO);
	} else {
		admit(r);
	}
	request_drop(r);
	end(ring); /* now the end of the mount need not wait for the answer */
}

/* The kernel has accepted no entry of this ring: it keeps using /dev/fuse until each queue has one. */
static void refused(struct ring *ring, int error)
{
	struct fs_mount *m = ring->mount;
	pthread_mutex_lock(&m->rings->lock);
	if (atomic_load(&m->uses_uring) && !atomic_load(&ring->stop)) {
		snprintf(m->why_not_uring, sizeof(m->why_not_uring),
			 "the kernel refuses its entries: %s", strerror(-error));
		atomic_store(&m->uses_uring, false);
		log_warning("%s: no io_uring, requests come by /dev/fuse: %s", m->mountpoint,
			    m->why_not_uring);
	}
	pthread_mutex_unlock(&m->rings->lock);
}

static void take(struct ring *ring, struct entry *e)
{
	memcpy(&e->in, e->header->in_out, sizeof(e->in));
	e->commit_id = e->header->commit_id;
	e->answered = false;
	if (e->in.opcode != FUSE_NOTIFY_REPLY) {
		serve(ring, e);
		return;
	}
	ring_reply(&e->req, 0, NULL, 0);
	if (ring_commit_kick(ring, e)) {
		struct ring *main = ring->main ? ring->main : ring;
		atomic_store(&main->kick, true);
		if (main != ring)
			ring_wake(main);
	}
}

/* The kernel has not taken an answer, so the caller still waits. */
static void not_committed(struct ring *ring, struct entry *e, int error)
{
	struct fs_mount *m = ring->mount;
	struct pollfd connection = {.fd = m->fd};
	switch (error) {
	case -ENOTCONN:
	case -ECONNABORTED:
	case -ECANCELED: /* the connection has ended */
		return;
	case -ENOMEM:
	case -EAGAIN:
		ring_hand_back(e);
		return;
	default:
		/* ENOENT means that the connection is just ending, which poll knows. */
		if (poll(&connection, 1, 0) > 0 && (connection.revents & POLLERR))
			return;
		log_error("%s: io_uring does not take an answer: %s", m->mountpoint,
			  strerror(-error));
		connection_ended(m);
	}
}

/* The connection has ended for all entries, or the kernel refuses this one. */
static void failed(struct ring *ring, struct entry *e, int error)
{
	if (e->answered)
		not_committed(ring, e, error);
	else if (!ring->main && !ring->served && !ring->n_waiting && error != -ENOTCONN &&
		 error != -ECONNABORTED)
		refused(ring, error);
}

/* True: a request has come, so the kernel accepts entries. */
static bool complete(struct ring *ring, const struct io_uring_cqe *cqe)
{
	struct entry *e = (struct entry *)(uintptr_t)cqe->user_data;
	if (!e) {
		if (ring->main)
			return false; /* the mount ends */
		ring_take_back(ring);
		ring->hears_wake_fd = cqe->flags & IORING_CQE_F_MORE;
		return false;
	}
	ring->n_waiting--;
	ring_entry_returns(ring, e);
	if (cqe->res >= 0) {
		ring->served = true;
		take(ring, e);
	} else {
		failed(ring, e, cqe->res);
	}
	if (ring->main)
		atomic_fetch_sub(&ring->main->n_armed, 1);
	return cqe->res >= 0;
}

bool ring_handle_completions(struct ring *ring)
{
	struct io_uring_cqe cqe;
	bool any = false;
	while (uring_take(&ring->u, &cqe))
		any |= complete(ring, &cqe);
	return any;
}

bool ring_wait(struct ring *ring)
{
	/* If there was no memory to listen to other threads, it must not sleep: they pass answers to it. */
	int res = uring_enter(&ring->u, ring->main || ring->hears_wake_fd);
	if (res == 0 || res == -EINTR || res == -EAGAIN || res == -EBUSY)
		return true;
	/* Callers would wait for this thread for ever, so the mount ends. */
	log_error("%s: io_uring: %s", ring->mount->mountpoint, strerror(-res));
	connection_ended(ring->mount);
	return false;
}

void ring_serve(struct ring *ring)
{
	ring_keep_spares(ring);
	while (!atomic_load_explicit(&ring->stop, memory_order_acquire)) {
		ring_wait_to_be_woken(ring);
		if (!ring_wait(ring))
			return;
		ring_has_submitted(ring);
		bool any = ring_handle_completions(ring);
		ring_trim(ring); /* before the kernel is called again */
		if (any)
			ring_keep_spares(ring);
		if (atomic_load_explicit(&ring->kick, memory_order_relaxed))
			ring_kick(ring);
	}
	ring_take_back(ring);
	uring_enter(&ring->u, false); /* the last answers */
}
