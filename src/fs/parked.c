/* SPDX-License-Identifier: MIT */
/* Requests that wait: each is kept (by its transport) and is queued in the gate.
 *
 *	park ─▶ in the table, in the gate ─▶ run (worker) ─▶ answered, out of the table
 *	                │                └─▶ refused (max_wait, end of the mount)
 *	                └─ interrupt: gate_cancel says who ends it
 *
 * A request stays in the table until it is answered; the thread that ends it removes it under the
 * table's lock, so that an interrupt never finds a request that has been freed.  Guarded by that
 * lock: hash, watch, entering (gate_park has not returned yet), interrupted (while entering). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "fs/caller.h"
#include "fs/mount_internal.h"
#include "fs/parked.h"
#include "fs/reply.h"
#include "fs/wire.h"

#define LARGE_MESSAGE (64U << 10) /* from this size on, check for room before copying it */

static struct list *hash_of(struct parked_table *t, uint64_t unique)
{
	return &t->hash[(unique >> 1) % PARKED_HASH]; /* the kernel counts by two */
}

struct request *parked_find_locked(struct parked_table *t, uint64_t unique)
{
	list_for_each (it, hash_of(t, unique)) {
		struct request *p = list_entry(it, struct request, hash);
		if (p->in->unique == unique)
			return p;
	}
	return NULL;
}

static unsigned missed_slot(uint64_t unique)
{
	return (unsigned)(unique >> 1) % MISSED_HASH;
}

bool parked_was_interrupted(const struct parked_table *t, uint64_t unique)
{
	const struct receiver *self = receiver_self();
	return t->missed[missed_slot(unique)] == unique || (self && self->interrupted == unique) ||
	       (runner_self && runner_self->interrupted == unique);
}

static void insert(struct parked_table *t, struct request *p)
{
	pthread_mutex_lock(&t->lock);
	p->interrupted = parked_was_interrupted(t, p->in->unique);
	list_push_tail(hash_of(t, p->in->unique), &p->hash);
	atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);
	pthread_mutex_unlock(&t->lock);
}

static void remove_locked(struct parked_table *t, struct request *p)
{
	list_remove(&p->hash);
	watch_remove(&t->watch, &p->watch);
}

static void forget(struct request *p)
{
	struct parked_table *t = &p->mount->parked;
	pthread_mutex_lock(&t->lock);
	remove_locked(t, p);
	pthread_mutex_unlock(&t->lock);
}

/* Returns a request that is not in the table any more to its transport, which uses the mount.  After that, this thread may be
 * one that outlives the mount: so the request counts until then. */
static void drop(struct request *p)
{
	struct parked_table *t = &p->mount->parked;
	request_drop(p);
	atomic_fetch_sub_explicit(&t->n, 1, memory_order_release);
}

static void finish(struct request *p)
{
	forget(p);
	drop(p);
}

static void run_admitted(struct request *p)
{
	p->grant = p->job.grant;
	p->granted = true;
	request_run(p);
}

static void parked_run(struct job *job)
{
	struct request *p = container_of(job, struct request, job);
	struct fs_mount *m = p->mount;
	atomic_store_explicit(&p->running, true, memory_order_relaxed);
	uint64_t abort_after = atomic_load_explicit(&m->abort_after_ns, memory_order_relaxed);
	/* Requests that must not be refused are run however late it is, unless the source has been
	 * abandoned. */
	if ((abort_after && !job->must_run && monotonic_ns() > abort_after) ||
	    atomic_load_explicit(&m->abandon, memory_order_relaxed)) {
		reply_status(p, -ENDING_ERRNO);
		gate_done(&job->grant, OUTCOME_CANCELLED, 0);
	} else {
		run_admitted(p);
	}
	finish(p);
}

static int refusal_errno(const struct fs_mount *m, enum grant_result why)
{
	switch (why) {
	case GRANT_TIMED_OUT:
		return atomic_load(&m->timeout_is_etimedout) ? ETIMEDOUT : EAGAIN;
	case GRANT_MISCONFIGURED:
		return EINVAL;
	default: /* the mount ends */
		return ENDING_ERRNO;
	}
}

static void parked_refuse(struct job *job, enum grant_result why)
{
	struct request *p = container_of(job, struct request, job);
	reply_status(p, -refusal_errno(p->mount, why));
	finish(p);
}

static const struct job_ops parked_ops = {.run = parked_run, .refuse = parked_refuse};

/* Requests that are never parked, such as release, must be carried out even then. */
static bool may_be_cancelled(const struct request *p)
{
	return p->op->throttling == THROTTLE_WAIT;
}

/* The job of p is on its way from the gate to its pool: tries again later. */
static void cancel_later_locked(struct parked_table *t, struct request *p)
{
	p->leaving = true;
	p->watch = (struct watched){0};
	watch_add(&t->watch, &p->watch, p->in->uid, p->process ? p->process : p->in->pid, true,
		  monotonic_ns());
}

void parked_cancel_unlock(struct fs_mount *m, struct request *p)
{
	struct parked_table *t = &m->parked;
	bool waits = !p->deferred && gate_cancel(m->gate, &p->job);
	/* Admitted, but all workers are busy, or hang in the source. */
	bool queued = !waits && may_be_cancelled(p) && workers_cancel(&p->job);
	watch_remove(&t->watch, &p->watch);
	if (waits || queued)
		remove_locked(t, p);
	else if (may_be_cancelled(p) && p->in->pid &&
		 !atomic_load_explicit(&p->running, memory_order_relaxed))
		cancel_later_locked(t, p);
	pthread_mutex_unlock(&t->lock);
	if (!waits && !queued)
		return;
	reply_status(p, -EINTR);
	if (queued && !p->deferred)
		gate_done(&p->job.grant, OUTCOME_CANCELLED, 0);
	else if (queued && p->granted)
		gate_done(&p->grant, OUTCOME_CANCELLED, 0);
	drop(p);
}

bool parked_any_signal_ends(const struct fs_mount *m, const struct request *p)
{
	/* EINTR for a page fault would cause SIGBUS, so not every signal ends its wait. */
	return atomic_load(&m->interrupt) == INTERRUPT_ANY && !p->job.must_run;
}

/* The caller of p got a signal.  Call with the table's lock held; releases it. */
static void interrupted_unlock(struct fs_mount *m, struct request *p)
{
	struct parked_table *t = &m->parked;
	if (parked_any_signal_ends(m, p)) {
		parked_cancel_unlock(m, p);
		return;
	}
	/* The watchdog finds out whether the signal is fatal: a thousand interrupts of one user
	 * must not delay one of another user. */
	watch_add(&t->watch, &p->watch, p->in->uid, 0, true, monotonic_ns());
	pthread_mutex_unlock(&t->lock);
	watchdog_look(m);
}

/* True: the thread that has taken the request handles it: it runs it, or is about to park it and will then find
 * the mark.  Call with the table's lock held. */
static bool mark_receiver_locked(struct fs_mount *m, uint64_t unique)
{
	for (unsigned i = 0; i < RECEIVERS_ALL; i++)
		if (atomic_load(&m->receiver[i].current) == unique) {
			m->receiver[i].interrupted = unique;
			return true;
		}
	for (unsigned i = 0; i < WORKERS_ALL; i++)
		if (atomic_load(&m->worker[i].unique) == unique) {
			m->worker[i].interrupted = unique;
			return true;
		}
	return false;
}

void parked_interrupt(struct fs_mount *m, uint64_t unique)
{
	struct parked_table *t = &m->parked;
	pthread_mutex_lock(&t->lock);
	struct request *p = parked_find_locked(t, unique);
	if (p && p->entering) {
		p->interrupted = true;
		mark_receiver_locked(m, unique); /* in case it is not parked for lack of room */
	} else if (p) {
		interrupted_unlock(m, p);
		return;
	} else if (delayed_interrupt_unlock(m, unique)) {
		return;
	} else if (!mark_receiver_locked(m, unique)) {
		/* Another thread has read the request but has not announced it yet, or the request
		 * has been answered.  In the first case that thread finds the mark when it parks the request,
		 * and the kernel repeats the interrupt if it is asked to, but not for requests by io_uring.
		 * A mark may be overwritten; then the check of the caller remains (parked_is_unsure). */
		t->missed[missed_slot(unique)] = unique;
		pthread_mutex_unlock(&t->lock);
		wire_reply(m->fd, unique | FUSE_INT_REQ_BIT, -EAGAIN, NULL, 0);
		return;
	}
	pthread_mutex_unlock(&t->lock);
}

/* Call with the table's lock held. */
static bool may_leave_locked(const struct request *p)
{
	return !p->entering && p->in->pid && may_be_cancelled(p) &&
	       !atomic_load_explicit(&p->running, memory_order_relaxed);
}

void parked_watch_all(struct fs_mount *m)
{
	struct parked_table *t = &m->parked;
	uint64_t now_ns = monotonic_ns();
	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < PARKED_HASH; i++)
		list_for_each (it, &t->hash[i]) {
			struct request *p = list_entry(it, struct request, hash);
			if (may_leave_locked(p))
				watch_add(&t->watch, &p->watch, p->in->uid, p->process, false,
					  now_ns);
		}
	pthread_mutex_unlock(&t->lock);
}

/* The request is in the gate or in a pool: from now on an interrupt may cancel it.  Finds it by its number, since it may have
 * been answered and freed already. */
static void may_be_interrupted(struct fs_mount *m, uint64_t unique)
{
	struct parked_table *t = &m->parked;
	pthread_mutex_lock(&t->lock);
	struct request *p = parked_find_locked(t, unique);
	if (p)
		p->entering = false;
	/* The first check of a caller that may have a signal already is not postponed: its process is not given here. */
	if (p && p->no_interrupt && may_leave_locked(p))
		watch_add(&t->watch, &p->watch, p->in->uid, parked_is_unsure(p) ? 0 : p->process,
			  false, monotonic_ns());
	if (p && p->interrupted)
		interrupted_unlock(m, p);
	else
		pthread_mutex_unlock(&t->lock);
}

/* gate_park has returned. */
static void entered(struct fs_mount *m, uint64_t unique)
{
	may_be_interrupted(m, unique);
	watchdog_hurry(m);
	/* If the mount refuses all that waits only after this, it finds the request in the gate; else it was too early. */
	if (atomic_load(&m->stopping))
		gate_mount_drain(m->gate_mount, false);
}

static size_t message_bytes(const struct request *r)
{
	return sizeof(*r->in) + r->op->args + r->payload_len;
}

static struct job job_of(const struct request *r)
{
	struct job job = {
		.ops = &parked_ops,
		.workers = r->mount->workers,
		.cost = r->cost,
		.caller = r->caller,
		.memory_bytes = sizeof(*r) + message_bytes(r),
		.must_run = !r->refusable,
	};
	if (gate_model(r->mount->gate_mount) == GATE_MODEL_TIME)
		job.access = request_access(r);
	return job;
}

static void add_to_table(struct request *p, const struct job *job, bool deferred)
{
	p->job = *job;
	p->deferred = deferred;
	p->sure = p->leaving = false;
	atomic_store_explicit(&p->running, false, memory_order_relaxed);
	p->switches = UINT64_MAX;
	p->watch = (struct watched){.by_process = !p->in_blocks && !parked_is_unsure(p)};
	/* If the request is asynchronous, its thread may end before the first check.  Otherwise, that check finds out the
	 * process. */
	p->process = p->in_blocks || p->transfer
			     ? (uint32_t)caller_process(p->in->pid, monotonic_ns())
			     : 0;
	p->entering = true;
	insert(&p->mount->parked, p);
}

/* Keeps the request and adds it to the table; NULL: out of memory. */
static struct request *parked_new(struct request *r, const struct job *job)
{
	struct request *p = request_keep(r, true);
	if (p)
		add_to_table(p, job, false);
	return p;
}

/* The gate admits p without a wait.  It leaves the table first, because its transport may defer it. */
static void run_immediately(struct request *p)
{
	forget(p);
	run_admitted(p);
	drop(p);
}

void park_deferred(struct request *r, struct workers *pool, const struct job_ops *ops)
{
	struct fs_mount *m = r->mount;
	uint64_t unique = r->in->unique;
	struct list ready = LIST_INIT(ready);
	add_to_table(r, &(struct job){.ops = ops, .workers = pool, .must_run = !r->refusable},
		     true);
	list_push_tail(&ready, &r->job.link);
	workers_dispatch(NULL, &ready);
	/* The watchdog is awake, because a request has arrived.  It need not hurry: nearly always a worker takes it soon. */
	may_be_interrupted(m, unique);
}

void parked_run_deferred(struct request *r)
{
	atomic_store_explicit(&r->running, true, memory_order_relaxed);
	if (atomic_load_explicit(&r->mount->abandon, memory_order_relaxed)) {
		reply_status(r, -ENDING_ERRNO);
		if (r->granted)
			gate_done(&r->grant, OUTCOME_CANCELLED, 0);
	} else {
		request_run(r);
	}
	finish(r);
}

void park_granted(struct request *r)
{
	struct fs_mount *m = r->mount;
	uint64_t unique = r->in->unique;
	struct job job = job_of(r);
	job.grant = r->grant;
	struct request *p = parked_new(r, &job);
	if (!p) {
		r->granted = true;
		request_run(r);
	} else if (gate_device(m->gate_mount, &p->job) == GATE_PARKED) {
		entered(m, unique);
	} else {
		run_immediately(p);
	}
}

void park(struct request *r)
{
	struct fs_mount *m = r->mount;
	uint64_t unique = r->in->unique;
	struct job job = job_of(r);
	if (r->refusable && message_bytes(r) >= LARGE_MESSAGE &&
	    gate_has_no_room(m->gate_mount, &job)) {
		delayed_refuse(r);
		return;
	}
	struct request *p = parked_new(r, &job);
	if (!p) {
		refuse(r, ENOMEM);
		return;
	}
	enum gate_verdict v = gate_park(m->gate_mount, &p->job);
	switch (v) {
	case GATE_PARKED:
		entered(m, unique);
		break;
	case GATE_GO:
		run_immediately(p);
		break;
	case GATE_NO_ROOM:
		if (p->refusable) {
			forget(p);
			delayed_refuse(p);
			drop(p);
			break;
		} /* fall through */
	default:
		/* First out of the table: what may not be refused is carried out, and its transport may defer it. */
		forget(p);
		refuse(p, v == GATE_MISCONFIGURED ? EINVAL : EAGAIN);
		drop(p);
		break;
	}
}

void parked_init(struct parked_table *t)
{
	pthread_mutex_init(&t->lock, NULL);
	for (unsigned i = 0; i < PARKED_HASH; i++)
		list_init(&t->hash[i]);
	watch_init(&t->watch);
	list_init(&t->delayed);
	for (unsigned i = 0; i < DELAYED_HASH; i++)
		list_init(&t->delayed_hash[i]);
	t->n_delayed = 0;
	memset(t->missed, 0, sizeof(t->missed));
	atomic_init(&t->n, 0);
}

void parked_destroy(struct parked_table *t)
{
	pthread_mutex_destroy(&t->lock);
}

unsigned parked_count(struct fs_mount *m)
{
	return atomic_load_explicit(&m->parked.n, memory_order_acquire);
}
