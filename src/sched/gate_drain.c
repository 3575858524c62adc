/* SPDX-License-Identifier: MIT */
/* The end of a mount: parked jobs are run without limits or refused.  Limits stay in force for
 * later requests. */
#include "sched/gate_internal.h"

struct drain {
	struct gate *g;
	bool run;
	uint64_t now_ns;
};

static void count_wait(const struct job *j, uint64_t now_ns)
{
	uint64_t wait_ns = now_ns - j->parked_ns, ns[WAIT_ROWS];
	leaf_waited(j->leaf, j->cost.cls, wait_ns);
	job_clock_read(j, now_ns, wait_ns, ns);
	key_waited(lane_key(j->lane), ns, wait_ns);
}

static void drain_job(struct job *j, void *arg)
{
	const struct drain *d = arg;
	if (!d->run && !j->must_run) {
		job_refuse_locked(d->g, j, GRANT_CANCELLED, d->now_ns);
		return;
	}
	if (!j->probe)
		count_wait(j, d->now_ns);
	job_dequeue(j, d->now_ns);
	job_count_admitted(j);
	grant_init(&j->grant, j->leaf, &j->cost);
	j->grant.probe = j->probe;
	if (!j->probe)
		leaf_grant_begin(j->leaf);
	j->state = JOB_READY;
	list_push_tail(&d->g->ready, &j->link);
}

static void drain_leaf(struct leaf *f, void *arg)
{
	accounts_drop(f, ((const struct drain *)arg)->now_ns);
	jobs_each(f, drain_job, arg);
}

void gate_mount_drain(struct gate_mount *m, bool run)
{
	struct gate *g = m->leaf.node.gate;
	gate_lock(g);
	struct drain d = {g, run, clock_now(g->clock)};
	leaves_each(&m->leaf.node, drain_leaf, &d);
	device_drain(m, run, d.now_ns);
	gate_dispatch_locked(g, d.now_ns, d.now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
}
