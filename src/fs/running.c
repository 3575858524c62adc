/* SPDX-License-Identifier: MIT */
/* Which requests are in the source, since when, and with which operation.
 *
 * Every thread that carries out requests, receiver or worker, writes to a record of its own with
 * plain stores, so nothing shared is updated.  A receiver does not read the clock for it: the watchdog
 * dates a request when it finds it unchanged.  So ages are accurate to a few milliseconds, and shorter
 * requests have none. */
#include <errno.h>
#include <string.h>

#include "fs/mount_internal.h"

#define RUNNERS (RECEIVERS_ALL + WORKERS_ALL)

_Thread_local struct runner *runner_self;

static struct runner *runner_at(struct fs_mount *m, unsigned i)
{
	return i < RECEIVERS_ALL ? &m->receiver[i].runner : &m->worker[i - RECEIVERS_ALL];
}

void runners_init(struct fs_mount *m)
{
	for (unsigned i = 0; i < RUNNERS; i++) {
		struct runner *r = runner_at(m, i);
		pthread_mutex_init(&r->lock, NULL);
		r->worker = i >= RECEIVERS_ALL;
	}
}

void runners_destroy(struct fs_mount *m)
{
	for (unsigned i = 0; i < RUNNERS; i++)
		pthread_mutex_destroy(&runner_at(m, i)->lock);
}

bool runner_start_worker(void *mount)
{
	struct fs_mount *m = mount;
	if (!fs_thread_start())
		return false;
	/* There are at most WORKERS_ALL workers, so one is free. */
	for (unsigned i = 0; i < WORKERS_ALL && !runner_self; i++)
		if (!atomic_exchange(&m->worker[i].taken, true))
			runner_self = &m->worker[i];
	return true;
}

void runner_stop_worker(void *mount)
{
	if (runner_self)
		atomic_store(&runner_self->taken, false);
	runner_self = NULL;
	fs_thread_stop();
}

void runners_give_up(struct fs_mount *m)
{
	for (unsigned i = 0; i < RUNNERS; i++) {
		struct runner *r = runner_at(m, i);
		pthread_mutex_lock(&r->lock);
		bool holds = r->holds;
		struct grant grant = r->grant;
		r->holds = false;
		pthread_mutex_unlock(&r->lock);
		if (holds)
			gate_done(&grant, OUTCOME_CANCELLED, 0);
	}
}

static bool is_running(const struct runner *r)
{
	return atomic_load_explicit(&r->opcode, memory_order_acquire);
}

void runners_note(struct fs_mount *m, uint64_t now_ns)
{
	for (unsigned i = 0; i < RECEIVERS_ALL; i++) {
		struct runner *r = runner_at(m, i);
		if (is_running(r) && !atomic_load_explicit(&r->since_ns, memory_order_relaxed))
			atomic_store_explicit(&r->since_ns, now_ns, memory_order_relaxed);
	}
}

void runners_see(struct fs_mount *m, struct runners_seen *seen)
{
	for (unsigned i = 0; i < RUNNERS; i++) {
		const struct runner *r = runner_at(m, i);
		seen->entered[i] = is_running(r) ? atomic_load(&r->entered) : 0;
	}
}

unsigned runners_remain(struct fs_mount *m, const struct runners_seen *seen)
{
	unsigned n = 0;
	for (unsigned i = 0; i < RUNNERS; i++) {
		const struct runner *r = runner_at(m, i);
		n += seen->entered[i] && is_running(r) &&
		     atomic_load(&r->entered) == seen->entered[i];
	}
	return n;
}

/* --- looking ---------------------------------------------------------------------------------- */

static void add_op(struct fs_source_look *out, const struct fs_source_op *op)
{
	unsigned i = 0;
	while (i < out->n_ops && strcmp(out->op[i].name, op->name) != 0)
		i++;
	if (i == FS_SOURCE_OPS) {
		i--;
		out->op[i].name = "others";
	} else if (i == out->n_ops) {
		out->op[out->n_ops++] = (struct fs_source_op){.name = op->name};
	}
	out->op[i].n += op->n;
	out->op[i].oldest_ns = max_u64(out->op[i].oldest_ns, op->oldest_ns);
	out->n += op->n;
	if (op->oldest_ns >= out->oldest_ns) {
		out->oldest_ns = op->oldest_ns;
		out->oldest_op = op->name;
	}
}

void fs_source_look_add(struct fs_source_look *to, const struct fs_source_look *from)
{
	for (unsigned i = 0; i < from->n_ops; i++)
		add_op(to, &from->op[i]);
	to->stuck += from->stuck;
	to->queued += from->queued;
}

void fs_mount_look_source(struct fs_mount *m, struct fs_source_look *out)
{
	uint64_t now_ns = monotonic_ns();
	*out = (struct fs_source_look){.queued = workers_queued(m->workers) + rings_queued(m),
				       .oldest_op = ""};
	for (unsigned i = 0; i < RUNNERS; i++) {
		const struct runner *r = runner_at(m, i);
		uint32_t opcode = atomic_load_explicit(&r->opcode, memory_order_acquire);
		uint64_t since_ns = atomic_load_explicit(&r->since_ns, memory_order_relaxed);
		if (!opcode)
			continue;
		uint64_t age_ns = since_ns && now_ns > since_ns ? now_ns - since_ns : 0;
		add_op(out, &(struct fs_source_op){opcode_name(opcode - 1), 1, age_ns});
		out->stuck += age_ns >= FS_STUCK_NS;
	}
}
