/* SPDX-License-Identifier: MIT */
/* Checks the callers of parked requests: which of them are about to die, or have got a signal that the kernel did not
 * report?  Their requests need not wait any longer.  watch.h says whose turn it is. */
#include "fs/dying.h"
#include "fs/parked.h"

/* What is needed to check a caller; a copy, since its request may end meanwhile. */
struct looked_at {
	uint64_t unique;
	uint32_t pid, process;
	bool signalled, leaves;
	bool unsure; /* a signal may have been missed */
	bool any_signal;
	bool transfer; /* may be asynchronous, even without O_DIRECT: its thread may end before its process */
	bool write;
	uint64_t switches; /* how often it had slept when it was last found in D state */
};

static bool is_running(struct watched *w)
{
	return atomic_load_explicit(&container_of(w, struct request, watch)->running,
				    memory_order_relaxed);
}

static bool next_caller(struct fs_mount *m, bool due, uint64_t now_ns, struct looked_at *c)
{
	struct parked_table *t = &m->parked;
	pthread_mutex_lock(&t->lock);
	struct watched *w = watch_next(&t->watch, due, now_ns);
	while (w && is_running(w)) {
		watch_remove(&t->watch, w); /* it cannot be cancelled any more */
		w = watch_next(&t->watch, due, now_ns);
	}
	if (w) {
		const struct request *p = container_of(w, struct request, watch);
		*c = (struct looked_at){p->in->unique,
					p->in->pid,
					p->process,
					w->signalled,
					w->leaves || p->leaving ||
						(w->signalled && parked_any_signal_ends(m, p)),
					parked_is_unsure(p),
					parked_any_signal_ends(m, p),
					p->transfer,
					p->in->opcode == FUSE_WRITE,
					p->switches};
	}
	pthread_mutex_unlock(&t->lock);
	return w;
}

/* No signal is known.  The thread that sent the request has to be released when it is killed, if it waits for it.  With
 * O_DIRECT it need not: then a signal that it survives, and its end, prove nothing as long as its process lives. */
static struct caller_look look_at_sender(const struct looked_at *c)
{
	struct caller_look sender = caller_look(c->pid);
	uint32_t process = c->process ? c->process : sender.process;
	bool dies = sender.state == CALLER_DYING && !sender.gone;
	bool killed = sender.killed || process_has_died(c->pid, process);
	return (struct caller_look){.state = dies || killed ? CALLER_DYING : CALLER_CALM,
				    .killed = killed,
				    .process = process};
}

/* The kernel lets a caller that got a signal wait for nothing but the answer, or death.  But the sender of an asynchronous
 * request may wait in the same way for something else, without any signal: so this counts only if it has not run since the
 * last check.  A thread that makes a file longer by an asynchronous write waits until it is answered. */
static bool has_got_signal(const struct looked_at *c, const struct caller_look *l)
{
	return l->state == CALLER_CALM && l->wait == WAITS_FOR_DEATH && !c->write &&
	       l->switches == c->switches && l->switches != UINT64_MAX;
}

static struct caller_look look_at_caller(const struct looked_at *c)
{
	if (!c->signalled && !c->unsure)
		return look_at_sender(c);
	struct caller_look l = caller_look(c->pid);
	if (c->transfer && c->process) {
		/* It may be asynchronous: then its process counts, not its thread.  (A thread that is exiting has taken the
		 * fatal signal already, so that this one is not pending any more.) */
		if (process_has_died(c->pid, c->process))
			return (struct caller_look){.state = CALLER_DYING, .killed = true};
		if (l.gone)
			return (struct caller_look){.state = CALLER_CALM, .wait = WAITS_NOT_YET};
	}
	if (c->unsure && has_got_signal(c, &l))
		l.state = CALLER_SIGNALLED;
	return l;
}

/* The caller of p was checked and continues to wait.  Call with the table's lock held. */
static void stays_locked(struct fs_mount *m, struct request *p, const struct looked_at *c,
			 const struct caller_look *l, uint32_t process, uint64_t now_ns)
{
	struct watch *w = &m->parked.watch;
	p->switches = l->wait == WAITS_FOR_DEATH ? l->switches : UINT64_MAX;
	if (!c->unsure || l->state != CALLER_CALM || l->wait != WAITS_FOR_SIGNALS ||
	    p->watch.signalled) {
		watch_stays(w, &p->watch, process, now_ns);
		return;
	}
	/* The kernel reports the next signal, unless the request is asynchronous. */
	p->sure = true;
	watch_remove(w, &p->watch);
	p->watch.by_process = true;
	if (p->transfer)
		watch_add(w, &p->watch, p->in->uid, process, false, now_ns);
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
	struct request *p = parked_find_locked(t, c->unique);
	if (p && l.process)
		p->process = l.process;
	if (p && l.killed)
		watch_killed(&t->watch, &p->watch, process);
	if (p && leaves) {
		parked_cancel_unlock(m, p);
		return;
	}
	if (p)
		stays_locked(m, p, c, &l, process, now_ns);
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
