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
#include "fs/dying.h"
#include "fs/mount_internal.h"
#include "fs/reply.h"
#include "fs/wire.h"

#define LARGE_MESSAGE (64U << 10) /* from this size on, check for room before copying it */

static struct list *hash_of(struct parked_table *t, uint64_t unique)
{
	return &t->hash[(unique >> 1) % PARKED_HASH]; /* the kernel counts by two */
}

static struct request *find_locked(struct parked_table *t, uint64_t unique)
{
	list_for_each (it, hash_of(t, unique)) {
		struct request *p = list_entry(it, struct request, hash);
		if (p->in->unique == unique)
			return p;
	}
	return NULL;
}

static void insert(struct parked_table *t, struct request *p)
{
	const struct receiver *self = receiver_self();
	pthread_mutex_lock(&t->lock);
	p->interrupted = self && self->interrupted == p->in->unique;
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

/* Ends the wait of p, if it still waits, because its caller is dying.  Call with the table's lock
 * held; releases it. */
static void cancel_unlock(struct fs_mount *m, struct request *p)
{
	struct parked_table *t = &m->parked;
	bool mine = gate_cancel(m->gate, &p->job);
	if (mine)
		remove_locked(t, p);
	else
		watch_remove(&t->watch, &p->watch); /* it is being run or refused */
	pthread_mutex_unlock(&t->lock);
	if (mine) {
		reply_status(p, -EINTR);
		drop(p);
	}
}

/* True when an interrupt alone ends the wait. */
static bool any_signal_ends(const struct fs_mount *m, const struct request *p)
{
	/* EINTR for a page fault would cause SIGBUS, so not every signal ends its wait. */
	return atomic_load(&m->interrupt) == INTERRUPT_ANY && !p->job.must_run;
}

/* The caller of p got a signal.  Call with the table's lock held; releases it. */
static void interrupted_unlock(struct fs_mount *m, struct request *p)
{
	struct parked_table *t = &m->parked;
	if (any_signal_ends(m, p)) {
		cancel_unlock(m, p);
		return;
	}
	/* The watchdog finds out whether the signal is fatal: a thousand interrupts of one user
	 * must not delay one of another user. */
	watch_add(&t->watch, &p->watch, p->in->uid, 0, true, monotonic_ns());
	pthread_mutex_unlock(&t->lock);
	watchdog_look(m);
}

/* True: a receive thread handles the request: it runs it, or is about to park it and will then find
 * the mark.  Call with the table's lock held. */
static bool mark_receiver_locked(struct fs_mount *m, uint64_t unique)
{
	for (unsigned i = 0; i < RECEIVERS_ALL; i++)
		if (atomic_load(&m->receiver[i].current) == unique) {
			m->receiver[i].interrupted = unique;
			return true;
		}
	return false;
}

void parked_interrupt(struct fs_mount *m, uint64_t unique)
{
	struct parked_table *t = &m->parked;
	pthread_mutex_lock(&t->lock);
	struct request *p = find_locked(t, unique);
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
		 * has been answered.  Ask the kernel to repeat the interrupt, which it does only in
		 * the first case, and not for requests by io_uring: the callers of these are checked
		 * when they have been parked (is_unsure). */
		pthread_mutex_unlock(&t->lock);
		wire_reply(m->fd, unique | FUSE_INT_REQ_BIT, -EAGAIN, NULL, 0);
		return;
	}
	pthread_mutex_unlock(&t->lock);
}

/* What is needed to check a caller; a copy, since its request may end meanwhile. */
struct looked_at {
	uint64_t unique;
	uint32_t pid, process;
	bool signalled, leaves;
	bool unsure; /* a signal may have been missed */
	bool any_signal;
	bool transfer; /* may be asynchronous, even without O_DIRECT: its thread may end before its process */
	bool write;
};

/* True: the caller may have got a signal that the kernel did not report, or reported before the request was in the table.
 * Not for O_DIRECT, which may be asynchronous: then the caller need not wait for this request at all. */
static bool is_unsure(const struct request *p)
{
	return p->transport->misses_signals && !p->in_blocks;
}

static bool next_caller(struct fs_mount *m, bool due, uint64_t now_ns, struct looked_at *c)
{
	struct parked_table *t = &m->parked;
	pthread_mutex_lock(&t->lock);
	struct watched *w = watch_next(&t->watch, due, now_ns);
	if (w) {
		const struct request *p = container_of(w, struct request, watch);
		*c = (struct looked_at){p->in->unique,
					p->in->pid,
					p->process,
					w->signalled,
					w->leaves || (w->signalled && any_signal_ends(m, p)),
					is_unsure(p),
					any_signal_ends(m, p),
					p->transfer,
					p->in->opcode == FUSE_WRITE};
	}
	pthread_mutex_unlock(&t->lock);
	return w;
}

/* O_DIRECT: the thread that sent the request may wait for it, and then has to be released when it is killed.  But it need
 * not: a signal that it survives, and its end, prove nothing as long as its process lives. */
static struct caller_look look_at_sender(const struct looked_at *c)
{
	struct caller_look sender = caller_look(c->pid);
	bool dies = sender.state == CALLER_DYING && !sender.gone;
	bool killed = sender.killed || process_has_died(c->pid, c->process);
	return (struct caller_look){.state = dies || killed ? CALLER_DYING : CALLER_CALM,
				    .killed = killed,
				    .process = c->process};
}

static struct caller_look look_at_caller(const struct looked_at *c)
{
	if (!c->signalled && !c->unsure)
		return look_at_sender(c);
	struct caller_look l = caller_look(c->pid);
	if (l.gone && c->transfer && c->process && !process_has_died(c->pid, c->process))
		l = (struct caller_look){.state = CALLER_CALM, .wait = WAITS_NOT_YET};
	/* The kernel lets a caller that got a signal wait for nothing but the answer, or death.  But a thread that makes a file
	 * longer by an asynchronous write waits in the same way, without any signal. */
	if (c->unsure && l.state == CALLER_CALM && l.wait == WAITS_FOR_DEATH && !c->write)
		l.state = CALLER_SIGNALLED;
	return l;
}

static void look(struct fs_mount *m, const struct looked_at *c, uint64_t now_ns)
{
	struct parked_table *t = &m->parked;
	struct caller_look l = {.state = CALLER_DYING};
	if (!c->leaves)
		l = look_at_caller(c);
	uint32_t process = l.process ? l.process : c->process;
	bool leaves = l.state == CALLER_DYING || (l.state == CALLER_SIGNALLED && c->any_signal);

	pthread_mutex_lock(&t->lock);
	struct request *p = find_locked(t, c->unique);
	if (p && l.process)
		p->process = l.process;
	if (p && l.killed)
		watch_killed(&t->watch, &p->watch, process);
	if (p && leaves) {
		cancel_unlock(m, p);
		return;
	}
	if (p && c->unsure && l.state == CALLER_CALM && l.wait == WAITS_FOR_SIGNALS &&
	    !p->watch.signalled)
		watch_remove(&t->watch, &p->watch); /* the kernel reports the next signal */
	else if (p)
		watch_stays(&t->watch, &p->watch, process, now_ns);
	pthread_mutex_unlock(&t->lock);
}

bool parked_look(struct fs_mount *m, uint64_t due_until_ns, uint64_t until_ns)
{
	struct looked_at c;
	for (;;) {
		uint64_t now_ns = monotonic_ns();
		if (now_ns >= until_ns)
			return true;
		if (!next_caller(m, now_ns < due_until_ns, now_ns, &c))
			return false;
		look(m, &c, now_ns);
	}
}

bool parked_watches(struct fs_mount *m)
{
	pthread_mutex_lock(&m->parked.lock);
	bool any = watch_any(&m->parked.watch) || m->parked.n_delayed;
	pthread_mutex_unlock(&m->parked.lock);
	return any;
}

/* gate_park has returned: from now on an interrupt may cancel the request in the gate.  Finds the
 * request by its number, since it may have been answered and freed already. */
static void entered(struct fs_mount *m, uint64_t unique)
{
	struct parked_table *t = &m->parked;
	pthread_mutex_lock(&t->lock);
	struct request *p = find_locked(t, unique);
	if (p)
		p->entering = false;
	if (p && p->no_interrupt && p->in->pid)
		watch_add(&t->watch, &p->watch, p->in->uid, p->process, false, monotonic_ns());
	if (p && p->interrupted)
		interrupted_unlock(m, p);
	else
		pthread_mutex_unlock(&t->lock);
	watchdog_wake(m);
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

/* Keeps the request and adds it to the table; NULL: out of memory. */
static struct request *parked_new(struct request *r, const struct job *job)
{
	struct request *p = request_keep(r, true);
	if (!p)
		return NULL;
	p->job = *job;
	p->watch = (struct watched){0};
	/* The first check of a caller that may have a signal already finds out its process. */
	p->process = p->no_interrupt && !is_unsure(p)
			     ? (uint32_t)caller_process(p->in->pid, monotonic_ns())
			     : 0;
	p->entering = true;
	insert(&p->mount->parked, p);
	return p;
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
		run_admitted(p);
		finish(p);
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
		run_admitted(p);
		finish(p);
		break;
	case GATE_NO_ROOM:
		if (p->refusable) {
			forget(p);
			delayed_refuse(p);
			drop(p);
			break;
		} /* fall through */
	default:
		refuse(p, v == GATE_MISCONFIGURED ? EINVAL : EAGAIN);
		finish(p);
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
