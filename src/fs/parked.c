/* SPDX-License-Identifier: MIT */
/* Requests that wait: the kernel's message, copied, and a place in the gate's queue.
 *
 *	park ─▶ in the table, in the gate ─▶ run (worker) ─▶ answered, out of the table
 *	                │                └─▶ refused (max_wait, end of the mount)
 *	                └─ interrupt: gate_cancel says whose it is
 *
 * libfuse has never seen a parked request, so nothing of it is shared with libfuse.  A request
 * stays in the table until it is answered; whoever ends it takes it out under the table's lock,
 * so that an interrupt never meets a freed one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "fs/context.h"
#include "fs/key.h"
#include "fs/mount_internal.h"

#define LARGE_MESSAGE (64U << 10) /* worth a look whether there is room before it is copied */

struct parked {
	struct job job;
	struct fs_mount *mount;
	struct list hash, watch; /* table lock */
	uint64_t unique;
	uint32_t pid;
	uint32_t process; /* of pid, where ->unheard */
	bool unheard;	  /* may belong to a caller whose death no interrupt tells */
	bool signalled;	  /* table lock: an interrupt came */
	bool entering;	  /* table lock: gate_park has not returned yet */
	bool interrupted; /* table lock: while entering */
	size_t len;
	_Alignas(8) char msg[];
};

static struct list *hash_of(struct parked_table *t, uint64_t unique)
{
	return &t->hash[(unique >> 1) % PARKED_HASH]; /* the kernel counts by two */
}

static struct parked *find_locked(struct parked_table *t, uint64_t unique)
{
	list_for_each (it, hash_of(t, unique)) {
		struct parked *p = list_entry(it, struct parked, hash);
		if (p->unique == unique)
			return p;
	}
	return NULL;
}

static void insert(struct parked_table *t, struct parked *p)
{
	const struct receiver *self = receiver_self();
	pthread_mutex_lock(&t->lock);
	p->interrupted = self && self->interrupted == p->unique;
	list_push_tail(hash_of(t, p->unique), &p->hash);
	t->n++;
	pthread_mutex_unlock(&t->lock);
}

static void remove_locked(struct parked_table *t, struct parked *p)
{
	list_remove(&p->hash);
	list_remove(&p->watch);
	if (--t->n == 0)
		pthread_cond_broadcast(&t->empty);
}

/* Takes it out of the table and frees it. */
static void finish(struct parked *p)
{
	struct parked_table *t = &p->mount->parked;
	pthread_mutex_lock(&t->lock);
	remove_locked(t, p);
	pthread_mutex_unlock(&t->lock);
	free(p);
}

static void parked_run(struct job *job)
{
	struct parked *p = container_of(job, struct parked, job);
	struct fs_mount *m = p->mount;
	uint64_t abort_after = atomic_load_explicit(&m->abort_after_ns, memory_order_relaxed);
	/* What may not be refused is run however late it is. */
	if (abort_after && !job->patient && mount_now_ns() > abort_after) {
		wire_reply_err(m->fd, p->unique, ECONNABORTED);
		gate_done(m->gate, &job->grant, OUTCOME_CANCELLED, 0);
	} else {
		run_message(m, p->msg, p->len, &job->grant);
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
		return ECONNABORTED;
	}
}

static void parked_refuse(struct job *job, enum grant_result why)
{
	struct parked *p = container_of(job, struct parked, job);
	wire_reply_err(p->mount->fd, p->unique, refusal_errno(p->mount, why));
	finish(p);
}

static const struct job_ops parked_ops = {.run = parked_run, .refuse = parked_refuse};

/* Ends the wait of p, if it still waits: the caller of the request is leaving. */
static void cancel_unlock(struct fs_mount *m, struct parked *p)
{
	struct parked_table *t = &m->parked;
	uint64_t unique = p->unique;
	bool mine = gate_cancel(m->g, &p->job);
	if (mine)
		remove_locked(t, p);
	pthread_mutex_unlock(&t->lock);
	if (mine) {
		wire_reply_err(m->fd, unique, EINTR);
		free(p);
	}
}

/* What must be known to tell whether the caller leaves; a copy, since p may end meanwhile. */
struct caller {
	uint64_t unique;
	uint32_t pid, process;
	bool signalled, patient;
};

static struct caller caller_locked(const struct parked *p)
{
	return (struct caller){p->unique, p->pid, p->process, p->signalled, p->job.patient};
}

static bool leaves(const struct fs_mount *m, const struct caller *c)
{
	if (!c->signalled)
		return process_has_died(c->pid, c->process);
	/* A page fault that is answered with EINTR is a SIGBUS: not for any signal. */
	return (atomic_load(&m->interrupt) == INTERRUPT_ANY && !c->patient) ||
	       caller_is_dying(c->pid);
}

/* Ends the wait of a caller that leaves, if it still waits. */
static void leave(struct fs_mount *m, const struct caller *c)
{
	struct parked_table *t = &m->parked;
	pthread_mutex_lock(&t->lock);
	struct parked *p = find_locked(t, c->unique);
	if (p)
		cancel_unlock(m, p);
	else
		pthread_mutex_unlock(&t->lock);
}

/* The caller of p got a signal.  Called with the table's lock held; drops it. */
static void interrupted_unlock(struct fs_mount *m, struct parked *p)
{
	struct parked_table *t = &m->parked;
	/* Watched first and looked at then: a signal that comes between the two is not missed. */
	p->signalled = true;
	if (list_empty(&p->watch))
		list_push_tail(&t->watched, &p->watch);
	struct caller c = caller_locked(p);
	pthread_mutex_unlock(&t->lock);

	if (leaves(m, &c))
		leave(m, &c);
	else
		watchdog_wake(m);
}

/* True when a receive thread has the request in hand: it runs it, or is about to park it and will
 * then find the mark.  Table lock held. */
static bool mark_receiver_locked(struct fs_mount *m, uint64_t unique)
{
	for (unsigned i = 0; i < RECEIVERS_MAX; i++)
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
	struct parked *p = find_locked(t, unique);
	if (p && p->entering) {
		p->interrupted = true;
		mark_receiver_locked(m, unique); /* it may find no room */
	} else if (p) {
		interrupted_unlock(m, p);
		return;
	} else if (late_interrupt_unlock(m, unique)) {
		return;
	} else if (!mark_receiver_locked(m, unique)) {
		/* Another thread has read the request but not got as far as saying so (or it has been
		 * answered, then the kernel ignores this): ask the kernel to say it again. */
		pthread_mutex_unlock(&t->lock);
		wire_reply_err(m->fd, unique | FUSE_INT_REQ_BIT, EAGAIN);
		return;
	}
	pthread_mutex_unlock(&t->lock);
}

#define RECHECK_BATCH 256

/* Looks at the oldest of the watched and puts them to the end.  Returns how many have left. */
static unsigned recheck_batch(struct fs_mount *m, size_t *looked)
{
	struct parked_table *t = &m->parked;
	struct list batch = LIST_INIT(batch);
	struct caller who[RECHECK_BATCH];
	unsigned n = 0, left = 0;

	pthread_mutex_lock(&t->lock);
	while (n < ARRAY_SIZE(who) && !list_empty(&t->watched)) {
		struct parked *p = list_first(&t->watched, struct parked, watch);
		who[n++] = caller_locked(p);
		list_remove(&p->watch);
		list_push_tail(&batch, &p->watch);
	}
	list_splice_tail(&t->watched, &batch);
	pthread_mutex_unlock(&t->lock);

	bool same = false, leaving = false;
	for (unsigned i = 0; i < n; i++) {
		/* Many are of the same process: asked once. */
		same = i && !who[i].signalled && !who[i - 1].signalled &&
		       who[i].process == who[i - 1].process;
		if (!same)
			leaving = leaves(m, &who[i]);
		if (!leaving)
			continue;
		leave(m, &who[i]);
		left++;
	}
	*looked += n;
	return left;
}

bool parked_recheck(struct fs_mount *m)
{
	struct parked_table *t = &m->parked;
	size_t looked = 0;
	pthread_mutex_lock(&t->lock);
	size_t all = t->n;
	bool any = !list_empty(&t->watched);
	pthread_mutex_unlock(&t->lock);
	/* A few at a time; but a process that dies seldom has one thread. */
	while (any && recheck_batch(m, &looked) && looked < all)
		;
	return any;
}

bool parked_watches(struct fs_mount *m)
{
	pthread_mutex_lock(&m->parked.lock);
	bool any = !list_empty(&m->parked.watched);
	pthread_mutex_unlock(&m->parked.lock);
	return any;
}

/* gate_park has returned: from now on an interrupt may take it out of the gate.  By number, since
 * the request may be answered and freed already. */
static void entered(struct fs_mount *m, uint64_t unique)
{
	struct parked_table *t = &m->parked;
	pthread_mutex_lock(&t->lock);
	struct parked *p = find_locked(t, unique);
	if (p)
		p->entering = false;
	if (p && p->unheard && list_empty(&p->watch))
		list_push_tail(&t->watched, &p->watch);
	if (p && p->interrupted)
		interrupted_unlock(m, p);
	else
		pthread_mutex_unlock(&t->lock);
}

void park(struct fs_mount *m, void *msg, size_t len, const struct classified *c)
{
	const struct fuse_in_header *in = msg;
	uint64_t unique = in->unique, now_ns = mount_now_ns();
	const struct job job = {
		.ops = &parked_ops,
		.cost = c->cost,
		.key = key_of(atomic_load_explicit(&m->fair, memory_order_relaxed), msg, len,
			      now_ns),
		.memory_bytes = sizeof(struct parked) + len,
		.patient = !c->refusable,
	};
	if (c->refusable && len >= LARGE_MESSAGE && gate_has_no_room(m->gate, &job)) {
		late_refuse(m, unique);
		return;
	}
	struct parked *p = malloc(sizeof(*p) + len);
	if (!p) {
		refuse(m, msg, len, c, ENOMEM);
		return;
	}
	*p = (struct parked){
		.job = job,
		.mount = m,
		.unique = unique,
		.pid = in->pid,
		.process = c->unheard ? (uint32_t)key_process(in->pid, now_ns) : 0,
		.unheard = c->unheard && in->pid,
		.entering = true,
		.len = len,
	};
	list_init(&p->watch);
	memcpy(p->msg, msg, len);
	insert(&m->parked, p);

	enum gate_verdict v = gate_park(m->gate, &p->job);
	switch (v) {
	case GATE_PARKED:
		entered(m, unique);
		break;
	case GATE_GO:
		run_message(m, p->msg, p->len, &p->job.grant);
		finish(p);
		break;
	case GATE_NO_ROOM:
		if (c->refusable) {
			finish(p);
			late_refuse(m, unique);
			break;
		} /* fall through */
	default:
		refuse(m, p->msg, p->len, c, v == GATE_MISCONFIGURED ? EINVAL : EAGAIN);
		finish(p);
		break;
	}
}

int parked_init(struct parked_table *t)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->empty, &attr);
	pthread_condattr_destroy(&attr);
	for (unsigned i = 0; i < PARKED_HASH; i++)
		list_init(&t->hash[i]);
	list_init(&t->watched);
	list_init(&t->late);
	t->n = t->n_late = 0;
	return 0;
}

void parked_destroy(struct parked_table *t)
{
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->empty);
}

bool parked_wait_empty(struct fs_mount *m, uint64_t until_ns)
{
	struct parked_table *t = &m->parked;
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(until_ns % NSEC_PER_SEC),
	};
	int rc = 0;
	pthread_mutex_lock(&t->lock);
	while (t->n > 0 && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&t->empty, &t->lock, &until);
	bool empty = t->n == 0;
	pthread_mutex_unlock(&t->lock);
	return empty;
}
