/* SPDX-License-Identifier: MIT */
/* Requests by io_uring: each CPU has a queue in the kernel and a thread here that is pinned to it, so that a request
 * costs one switch on the CPU of its caller.
 *
 *	kernel   ──▶ entry waits ──▶ holds a request ──▶ taken (completion) ──▶ answered ──▶ committed ─┐
 *	                 ▲                                                                             │
 *	                 └─────────────────────────────────────────────────────────────────────────────┘
 *
 * An entry consists of a request, a buffer for its answer, and memory that the kernel fills.  It is held by the ring thread
 * that handles it, by the gate while it is parked, or by the worker that carries it out.  When the last hold is dropped,
 * the ring thread commits the answer, which also fetches the next request.  A queue always has spare entries in the
 * kernel: for each entry that is parked, the same system call registers another one.
 *
 * A ring thread must not block, since no other thread can take the requests of its CPU.  So it carries out only what
 * cannot: everything if the source is in memory; if it is a disk, what the kernel's caches have (enum blocking in opcodes.h);
 * otherwise nothing but refusals and the like.  Workers carry out the rest.
 *
 * /dev/fuse remains in use for INIT, FORGET and INTERRUPT, and for everything else until the rings are ready.  The kernel
 * never reports a signal that the caller got before the daemon took the request; so the callers of parked requests are
 * checked periodically (see watch.h). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "fs/mirror.h"
#include "fs/mount_internal.h"
#include "fs/reply.h"
#include "fs/uring.h"

#define SPARES	       1024  /* entries of a queue that wait in the kernel */
#define ENTRIES_MAX    65536 /* of a queue */
#define SUBMISSIONS    256
#define COMPLETIONS    1024
#define LARGE	       (64U << 10) /* payload memory beyond it is released after a wait */
#define PARAMETER      "/sys/module/fuse/parameters/enable_uring"

/* The kernel's part of an entry; linux/fuse.h of newer kernels defines it. */
struct ring_header {
	char in_out[128]; /* struct fuse_in_header, then struct fuse_out_header */
	char op_in[128];  /* the arguments */
	uint64_t flags, commit_id;
	uint32_t payload_size, padding;
	uint64_t reserved;
};
struct ring_command {
	uint64_t flags, commit_id;
	uint16_t queue;
	uint8_t padding[6];
};
enum { RING_REGISTER = 1, RING_COMMIT_AND_FETCH = 2 };

struct entry {
	struct request req;
	struct fuse_in_header in; /* a copy: the answer overwrites the original */
	struct ring *ring;
	struct entry *next;	 /* in ring->answered */
	struct entry *next_made; /* in ring->made */
	_Atomic int holds;
	bool answered, was_kept;
	uint64_t commit_id;
	struct ring_header *header;
	struct iovec iov[2]; /* header, payload */
};

struct ring {
	struct fs_mount *mount;
	struct receiver *self;
	unsigned queue;
	pthread_t thread;
	bool started;
	struct uring u;
	int wake_fd;
	uint64_t wakes;			  /* what was read from it */
	_Atomic(struct entry *) answered; /* by other threads */
	struct entry *made;
	unsigned n_made, n_waiting; /* n_waiting: in the kernel, waiting for a request */
	bool served; /* a request has arrived */
	_Atomic bool stop, ended;
};

struct rings {
	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned n, n_ready, n_failed;				/* lock */
	int error;						/* lock: of the first that failed */
	enum { RINGS_UNDECIDED, RINGS_GO, RINGS_OFF } decision; /* lock */
	struct ring ring[];
};

static _Thread_local struct ring *ring_self;
static _Atomic bool forbidden;

void uring_forbid(void)
{
	atomic_store(&forbidden, true);
}

/* --- entries ------------------------------------------------------------------------------------- */

static struct entry *entry_of(struct request *r)
{
	return container_of(r, struct entry, req);
}

static bool prepare(struct ring *ring, struct entry *e, uint32_t command)
{
	struct io_uring_sqe *sqe = uring_get(&ring->u);
	if (!sqe)
		return false;
	struct ring_command c = {.commit_id = e->commit_id, .queue = (uint16_t)ring->queue};
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->cmd_op = command;
	sqe->user_data = (uintptr_t)e;
	if (command == RING_REGISTER) {
		sqe->addr = (uintptr_t)e->iov;
		sqe->len = 2;
	}
	memcpy(sqe->cmd, &c, sizeof(c));
	return true;
}

static struct entry *entry_new(struct ring *ring)
{
	struct entry *e = calloc(1, sizeof(*e));
	char *memory = mmap(NULL, 4096 + FS_BUFFER_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!e || memory == MAP_FAILED) {
		free(e);
		if (memory != MAP_FAILED)
			munmap(memory, 4096 + FS_BUFFER_SIZE);
		return NULL;
	}
	e->ring = ring;
	e->header = (struct ring_header *)memory;
	e->iov[0] = (struct iovec){memory, sizeof(*e->header)};
	e->iov[1] = (struct iovec){memory + 4096, FS_BUFFER_SIZE};
	e->next_made = ring->made;
	ring->made = e;
	ring->n_made++;
	return e;
}

/* Keeps enough entries in the kernel for a burst: a request without a free entry waits until another request of the
 * queue is answered. */
static void keep_spares(struct ring *ring)
{
	while (ring->n_waiting < SPARES && ring->n_made < ENTRIES_MAX) {
		struct entry *e = entry_new(ring);
		if (!e || !prepare(ring, e, RING_REGISTER))
			return; /* the entry stays unused; a later call may succeed */
		ring->n_waiting++;
	}
}

/* Releases most of the payload's memory, which would add up if many requests have waited. */
static void give_back_payload(struct entry *e)
{
	madvise((char *)e->iov[1].iov_base + LARGE, FS_BUFFER_SIZE - LARGE, MADV_DONTNEED);
}

static void commit(struct ring *ring, struct entry *e)
{
	if (e->was_kept && e->req.payload_len > LARGE && e->header->payload_size <= LARGE)
		give_back_payload(e);
	if (prepare(ring, e, RING_COMMIT_AND_FETCH))
		ring->n_waiting++;
	else
		log_error("%s: io_uring accepts no more answers", ring->mount->mountpoint);
}

static void wake(const struct ring *ring)
{
	const uint64_t one = 1;
	ssize_t n = write(ring->wake_fd, &one, sizeof(one));
	(void)n;
}

static void hand_to_ring(struct entry *e)
{
	struct ring *ring = e->ring;
	struct entry *first = atomic_load(&ring->answered);
	do
		e->next = first;
	while (!atomic_compare_exchange_weak(&ring->answered, &first, e));
	if (!first)
		wake(ring);
}

static void take_answered(struct ring *ring)
{
	struct entry *e = atomic_exchange(&ring->answered, NULL);
	while (e) {
		struct entry *next = e->next;
		commit(ring, e);
		e = next;
	}
}

static bool wait_to_be_woken(struct ring *ring)
{
	struct io_uring_sqe *sqe = uring_get(&ring->u);
	if (!sqe)
		return false;
	sqe->opcode = IORING_OP_READ;
	sqe->fd = ring->wake_fd;
	sqe->addr = (uintptr_t)&ring->wakes;
	sqe->len = sizeof(ring->wakes);
	sqe->user_data = 0;
	return true;
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
	e->answered = true;
	return 0;
}

static char *ring_room(struct request *r)
{
	return entry_of(r)->iov[1].iov_base;
}

static struct request *ring_keep(struct request *r, bool payload)
{
	struct entry *e = entry_of(r);
	e->was_kept = true;
	atomic_fetch_add(&e->holds, 1);
	if (!payload && r->payload_len > LARGE) {
		give_back_payload(e);
		r->payload_len = LARGE;
	}
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
		commit(e->ring, e);
	else
		hand_to_ring(e);
}

static void run_deferred(struct job *job)
{
	struct request *r = container_of(job, struct request, job);
	if (atomic_load_explicit(&r->mount->abandon, memory_order_relaxed)) {
		reply_status(r, -ENDING_ERRNO);
		if (r->granted)
			gate_done(&r->grant, OUTCOME_CANCELLED, 0);
	} else {
		request_run(r);
	}
	request_drop(r);
}

static const struct job_ops deferred_ops = {.run = run_deferred};

static void ring_defer(struct request *r)
{
	struct list ready;
	request_keep(r, true);
	r->no_wait = false;
	r->job = (struct job){.ops = &deferred_ops, .workers = r->mount->workers};
	list_init(&ready);
	list_push_tail(&ready, &r->job.link);
	workers_dispatch(NULL, &ready);
}

static bool ring_may_block(struct request *r)
{
	enum source_kind kind = r->fs->kind;
	if (!ring_self)
		return false; /* a worker */
	r->no_wait = kind != SOURCE_MEMORY;
	switch (r->op->blocking) {
	case BLOCKS_NEVER:
		return false;
	case BLOCKS_IF_COLD:
		return kind == SOURCE_UNKNOWN;
	case BLOCKS_ON_DISK:
		return kind != SOURCE_MEMORY;
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

static void serve(struct ring *ring, struct entry *e)
{
	struct request *r = &e->req;
	memcpy(&e->in, e->header->in_out, sizeof(e->in));
	e->commit_id = e->header->commit_id;
	e->answered = e->was_kept = false;
	atomic_store_explicit(&e->holds, 1, memory_order_relaxed);
	r->transport = &transport_uring;
	r->mount = ring->mount;
	r->fs = ring->mount->fs;
	r->in = &e->in;
	r->op = opcode_of(e->in.opcode);
	r->args = e->header->op_in;
	r->payload = e->iov[1].iov_base;
	r->payload_len = min_u64(e->header->payload_size, FS_BUFFER_SIZE);
	if (receiver_begins(ring->self, e->in.unique))
		watchdog_wake(ring->mount);
	admit(r);
	receiver_ends(ring->self);
	request_drop(r);
}

/* The kernel keeps using /dev/fuse until each queue has an entry. */
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

static void complete(struct ring *ring, const struct io_uring_cqe *cqe)
{
	struct entry *e = (struct entry *)(uintptr_t)cqe->user_data;
	if (!e) {
		take_answered(ring);
		wait_to_be_woken(ring);
		return;
	}
	ring->n_waiting--;
	if (cqe->res < 0) {
		/* The connection has ended for all entries, or the kernel refuses this one. */
		if (!ring->served && cqe->res != -ENOTCONN && cqe->res != -ECONNABORTED)
			refused(ring, cqe->res);
		return;
	}
	ring->served = true;
	serve(ring, e);
}

static void run_ring(struct ring *ring)
{
	struct io_uring_cqe cqe;
	wait_to_be_woken(ring);
	keep_spares(ring);
	while (!atomic_load_explicit(&ring->stop, memory_order_acquire)) {
		int res = uring_enter(&ring->u, true);
		if (res < 0 && res != -EINTR && res != -EAGAIN && res != -EBUSY) {
			log_error("%s: io_uring: %s", ring->mount->mountpoint, strerror(-res));
			return;
		}
		bool any = false;
		while (uring_take(&ring->u, &cqe)) {
			complete(ring, &cqe);
			any |= cqe.user_data && cqe.res >= 0;
		}
		if (any)
			keep_spares(ring);
	}
}

/* Failure is harmless: the CPU may be offline, or not allowed for this process. */
static void settle_on(unsigned cpu)
{
	cpu_set_t set;
	struct sched_param param = {0};
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	/* SCHED_BATCH: this thread does not preempt the caller that wakes it, which is about to sleep anyway. */
	sched_setscheduler(0, SCHED_BATCH, &param);
}

static int open_ring(struct ring *ring)
{
	if (!fs_thread_start())
		return -ENOMEM;
	return uring_open(&ring->u, SUBMISSIONS, COMPLETIONS, ring->mount->fd);
}

/* Reports whether the ring is ready, and waits for the decision of INIT. */
static bool wait_for_go(struct ring *ring, int error)
{
	struct rings *rings = ring->mount->rings;
	pthread_mutex_lock(&rings->lock);
	if (error < 0) {
		rings->n_failed++;
		rings->error = rings->error ? rings->error : error;
	} else {
		rings->n_ready++;
	}
	pthread_cond_broadcast(&rings->change);
	while (rings->decision == RINGS_UNDECIDED)
		pthread_cond_wait(&rings->change, &rings->lock);
	bool go = rings->decision == RINGS_GO;
	pthread_mutex_unlock(&rings->lock);
	return go && error == 0;
}

static void *ring_main(void *arg)
{
	struct ring *ring = arg;
	ring_self = ring;
	receiver_become(ring->self);
	runner_self = &ring->self->runner;
	settle_on(ring->queue);
	if (wait_for_go(ring, open_ring(ring)))
		run_ring(ring);
	uring_close(&ring->u);
	fs_thread_stop();
	atomic_store(&ring->ended, true);
	return NULL;
}

/* --- all of a mount --------------------------------------------------------------------------------- */

static bool is_enabled(void)
{
	char text[4] = "";
	AUTO_FD fd = open(PARAMETER, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && text[0] == 'Y';
}

static void decide(struct rings *rings, bool go)
{
	pthread_mutex_lock(&rings->lock);
	if (rings->decision == RINGS_UNDECIDED)
		rings->decision = go ? RINGS_GO : RINGS_OFF;
	pthread_cond_broadcast(&rings->change);
	pthread_mutex_unlock(&rings->lock);
}

/* Waits until all rings are ready or one has failed. */
static int wait_until_ready(struct rings *rings)
{
	pthread_mutex_lock(&rings->lock);
	while (rings->n_ready + rings->n_failed < rings->n)
		pthread_cond_wait(&rings->change, &rings->lock);
	int error = rings->n_failed ? rings->error : 0;
	pthread_mutex_unlock(&rings->lock);
	return error;
}

static int start_ring(struct fs_mount *m, unsigned i)
{
	struct ring *ring = &m->rings->ring[i];
	ring->mount = m;
	ring->queue = i;
	ring->self = &m->receiver[RECEIVERS_MAX + i];
	ring->self->mount = m;
	ring->u.fd = -1;
	ring->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (ring->wake_fd < 0)
		return -errno;
	int rc = pthread_create(&ring->thread, NULL, ring_main, ring);
	ring->started = rc == 0;
	return -rc;
}

static int start_all(struct fs_mount *m, unsigned n)
{
	struct rings *rings = calloc(1, sizeof(*rings) + n * sizeof(struct ring));
	if (!rings)
		return -ENOMEM;
	pthread_mutex_init(&rings->lock, NULL);
	pthread_cond_init(&rings->change, NULL);
	for (unsigned i = 0; i < n; i++)
		rings->ring[i].wake_fd = -1;
	rings->n = n;
	m->rings = rings;
	for (unsigned i = 0; i < n; i++) {
		int res = start_ring(m, i);
		if (res < 0) { /* the rings that were not started count as failed */
			pthread_mutex_lock(&rings->lock);
			rings->n_failed += n - i;
			rings->error = res;
			pthread_mutex_unlock(&rings->lock);
			break;
		}
	}
	return wait_until_ready(rings);
}

void rings_start(struct fs_mount *m)
{
	long n = sysconf(_SC_NPROCESSORS_CONF); /* the kernel wants a queue for each possible CPU */
	if (atomic_load(&forbidden)) {
		snprintf(m->why_not_uring, sizeof(m->why_not_uring),
			 "no mount had transport=uring when the daemon was started");
	} else if (!is_enabled()) {
		snprintf(m->why_not_uring, sizeof(m->why_not_uring),
			 "it is disabled in the kernel: echo Y > " PARAMETER);
	} else if (n < 1 || n > RINGS_MAX) {
		snprintf(m->why_not_uring, sizeof(m->why_not_uring), "too many CPUs (%ld)", n);
	} else {
		int res = start_all(m, (unsigned)n);
		if (res == 0)
			return;
		snprintf(m->why_not_uring, sizeof(m->why_not_uring), "cannot set it up: %s",
			 strerror(-res));
		rings_stop(m);
	}
}

bool rings_at_init(struct fs_mount *m, bool offered)
{
	bool go = m->rings && !m->why_not_uring[0] && offered;
	if (m->rings && !m->why_not_uring[0] && !offered)
		snprintf(m->why_not_uring, sizeof(m->why_not_uring),
			 "the kernel does not offer it");
	return go;
}

void rings_go(struct fs_mount *m, bool go)
{
	if (m->rings)
		decide(m->rings, go);
	atomic_store(&m->uses_uring, go);
}

bool rings_are_gone(struct fs_mount *m)
{
	for (unsigned i = 0; m->rings && i < m->rings->n; i++)
		if (m->rings->ring[i].started && !atomic_load(&m->rings->ring[i].ended))
			return false;
	return true;
}

void rings_stop(struct fs_mount *m)
{
	if (!m->rings)
		return;
	for (unsigned i = 0; i < m->rings->n; i++) {
		struct ring *ring = &m->rings->ring[i];
		atomic_store_explicit(&ring->stop, true, memory_order_release);
		if (ring->wake_fd >= 0)
			wake(ring);
	}
	decide(m->rings, false);
}

void rings_free(struct fs_mount *m)
{
	if (!m->rings)
		return;
	rings_stop(m);
	for (unsigned i = 0; i < m->rings->n; i++) {
		struct ring *ring = &m->rings->ring[i];
		if (ring->started)
			pthread_join(ring->thread, NULL);
		for (struct entry *e = ring->made, *next; e; e = next) {
			next = e->next_made;
			munmap(e->iov[0].iov_base, 4096 + FS_BUFFER_SIZE);
			free(e);
		}
		if (ring->wake_fd >= 0)
			close(ring->wake_fd);
	}
	pthread_mutex_destroy(&m->rings->lock);
	pthread_cond_destroy(&m->rings->change);
	free(m->rings);
	m->rings = NULL;
}
