/* SPDX-License-Identifier: MIT */
/* poll, select and epoll on a throttled handle: it is ready when a transfer would be admitted.  If
 * it is not ready, a probe is parked: a job that takes its turn in the gate like a transfer, but
 * is not charged.  When its turn comes the kernel is notified and asks again.
 * An edge-triggered epoll asks only after a notification.  So a handle that was reported ready to a
 * listener is remembered, and gets its probe when a transfer has been granted less than it wanted.
 * There is one probe per handle and direction.  A poller is freed by the thread that removes it
 * from the list. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "fs/handle.h"
#include "fs/mount_internal.h"
#include "fs/ops.h"
#include "fs/reply.h"
#include "fs/wire.h"

struct poller {
	struct job job;
	struct fs_mount *mount;
	struct list link; /* polls.lock */
	uint64_t id;	  /* never reused, unlike its address */
	uint64_t fh, kh;  /* polls.lock: kh */
	bool wanted;	  /* polls.lock: a program sleeps until notified */
	bool joined;	  /* polls.lock: more than one program does */
	bool entering;	  /* polls.lock: gate_park has not returned yet */
	bool over; /* polls.lock: was dropped while entering, or the kernel is being notified */
};

static void unlink_locked(struct poll_table *t, struct poller *p)
{
	list_remove(&p->link);
	if (atomic_fetch_sub(&t->n, 1) == 1)
		pthread_cond_broadcast(&t->empty);
}

/* The probe's turn has come, or never will: in both cases the kernel should ask again. */
static void wake(struct poller *p)
{
	struct fs_mount *m = p->mount;
	pthread_mutex_lock(&m->polls.lock);
	p->over = true; /* later polls get a new probe */
	uint64_t kh = p->kh;
	pthread_mutex_unlock(&m->polls.lock);
	wire_notify_poll(m->fd, kh);
	/* Only now off the list: the end of the mount waits for this before it closes the fd. */
	pthread_mutex_lock(&m->polls.lock);
	unlink_locked(&m->polls, p);
	pthread_mutex_unlock(&m->polls.lock);
	free(p);
}

static void probe_run(struct job *job)
{
	struct poller *p = container_of(job, struct poller, job);
	gate_done(&job->grant, OUTCOME_OK, 0);
	wake(p);
}

static void probe_refuse(struct job *job, enum grant_result why)
{
	wake(container_of(job, struct poller, job));
}

static const struct job_ops probe_ops = {.run = probe_run, .refuse = probe_refuse};

static struct list *hash_of(struct poll_table *t, uint64_t fh)
{
	return &t->hash[(fh * 0x9E3779B97F4A7C15ULL >> 40) % POLL_HASH];
}

static struct poller *find_locked(struct poll_table *t, uint64_t fh, enum cost_class cls)
{
	list_for_each (it, hash_of(t, fh)) {
		struct poller *p = list_entry(it, struct poller, link);
		if (p->fh == fh && p->job.cost.cls == cls && !p->over)
			return p;
	}
	return NULL;
}

/* Cancels p in the gate if it is still parked.  Call with polls.lock held: ending a probe takes
 * it. */
static void drop_locked(struct fs_mount *m, struct poller *p)
{
	if (p->entering) {
		p->over = true;
	} else if (gate_cancel(m->gate, &p->job)) {
		unlink_locked(&m->polls, p);
		free(p);
	}
}

/* gate_park has returned PARKED.  The probe may already be gone, hence the search. */
static void entered(struct fs_mount *m, uint64_t fh, uint64_t id)
{
	pthread_mutex_lock(&m->polls.lock);
	list_for_each (it, hash_of(&m->polls, fh)) {
		struct poller *p = list_entry(it, struct poller, link);
		if (p->id != id)
			continue;
		p->entering = false;
		if (p->over || !p->wanted)
			drop_locked(m, p);
		break;
	}
	pthread_mutex_unlock(&m->polls.lock);
}

/* Adds p to the list; false: there already is one for its handle and direction, which it joins. */
static bool enlist(struct poll_table *t, struct poller *p)
{
	pthread_mutex_lock(&t->lock);
	struct poller *old = find_locked(t, p->fh, p->job.cost.cls);
	if (old) {
		old->kh = p->kh;
		old->wanted |= p->wanted;
		old->joined |= p->wanted;
	} else {
		p->id = ++t->last_id;
		list_push_tail(hash_of(t, p->fh), &p->link);
		atomic_fetch_add(&t->n, 1);
	}
	pthread_mutex_unlock(&t->lock);
	return !old;
}

/* Would a transfer like this be admitted now?  If not, and a program will sleep, the kernel is
 * notified when it would be. */
static bool probe(struct fs_mount *m, const struct poller *like)
{
	struct poll_table *t = &m->polls;
	struct poller *p = malloc(sizeof(*p));
	if (!p)
		return true; /* a transfer that fails with EAGAIN is better than an endless sleep */
	*p = *like;
	if (!enlist(t, p)) {
		free(p);
		return false;
	}
	uint64_t id = p->id;
	switch (gate_park(m->gate_mount, &p->job)) {
	case GATE_PARKED:
		entered(m, like->fh, id);
		return false;
	case GATE_GO:
		gate_done(&p->job.grant, OUTCOME_OK, 0);
		break;
	default:
		break;
	}
	pthread_mutex_lock(&t->lock);
	p->over = true;
	uint64_t kh = p->joined ? p->kh : 0;
	pthread_mutex_unlock(&t->lock);
	if (kh) /* others that joined it meanwhile are asleep */
		wire_notify_poll(m->fd, kh);
	pthread_mutex_lock(&t->lock);
	unlink_locked(t, p);
	pthread_mutex_unlock(&t->lock);
	free(p);
	return true;
}

static struct poller poller_like(const struct request *r, enum cost_class cls)
{
	return (struct poller){
		.job = {.ops = &probe_ops,
			.workers = r->mount->workers,
			.cost = {.cls = cls, .ops = 1, .bytes = GATE_PARTIAL_BYTES},
			.caller = r->caller,
			.memory_bytes = sizeof(struct poller),
			.probe = true,
			.must_run = true},
		.mount = r->mount,
		.fh = request_fh(r),
		.entering = true,
	};
}

static _Atomic uint64_t *listener(struct handle *h, enum cost_class cls)
{
	return &h->listener[cls == COST_WRITE];
}

static bool ready(const struct request *r, enum cost_class cls)
{
	const struct fuse_poll_in *arg = r->args;
	if (gate_unlimited(r->mount->gate_mount, cls))
		return true;
	struct poller like = poller_like(r, cls);
	like.kh = arg->kh;
	like.wanted = arg->flags & FUSE_POLL_SCHEDULE_NOTIFY;
	if (!probe(r->mount, &like))
		return false;
	if (like.wanted)
		atomic_store(listener(r->handle, cls), arg->kh);
	return true;
}

void poll_fell_short(const struct request *r)
{
	_Atomic uint64_t *listens = listener(r->handle, r->cost.cls);
	if (!atomic_load_explicit(listens, memory_order_relaxed))
		return;
	struct poller like = poller_like(r, r->cost.cls);
	like.kh = atomic_exchange(listens, 0);
	like.wanted = true;
	if (like.kh && probe(r->mount, &like))
		wire_notify_poll(r->mount->fd, like.kh);
}

void op_poll(struct request *r)
{
	const struct fuse_poll_in *arg = r->args;
	struct fuse_poll_out out = {.revents = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM};
	if (r->handle->direct_io) {
		/* Without POLLIN or POLLOUT the kernel asks for everything (select does). */
		uint32_t want = arg->events ? arg->events : out.revents;
		if ((want & (POLLIN | POLLRDNORM)) && !ready(r, COST_READ))
			out.revents &= ~(uint32_t)(POLLIN | POLLRDNORM);
		if ((want & (POLLOUT | POLLWRNORM)) && !ready(r, COST_WRITE))
			out.revents &= ~(uint32_t)(POLLOUT | POLLWRNORM);
	}
	reply_buf(r, &out, sizeof(out));
}

void poll_forget(struct fs_mount *m, uint64_t fh)
{
	struct poll_table *t = &m->polls;
	if (atomic_load_explicit(&t->n, memory_order_acquire) == 0)
		return;
	pthread_mutex_lock(&t->lock);
	list_for_each_safe (it, hash_of(t, fh)) {
		struct poller *p = list_entry(it, struct poller, link);
		if (p->fh == fh)
			drop_locked(m, p);
	}
	pthread_mutex_unlock(&t->lock);
}

void poll_forget_all(struct fs_mount *m)
{
	pthread_mutex_lock(&m->polls.lock);
	for (unsigned i = 0; i < POLL_HASH; i++)
		list_for_each_safe (it, &m->polls.hash[i])
			drop_locked(m, list_entry(it, struct poller, link));
	while (atomic_load(&m->polls.n) > 0)
		pthread_cond_wait(&m->polls.empty, &m->polls.lock);
	pthread_mutex_unlock(&m->polls.lock);
}

void poll_init(struct poll_table *t)
{
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->empty, NULL);
	for (unsigned i = 0; i < POLL_HASH; i++)
		list_init(&t->hash[i]);
	t->n = 0;
	t->last_id = 0;
}

void poll_destroy(struct poll_table *t)
{
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->empty);
}
