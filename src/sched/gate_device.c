/* SPDX-License-Identifier: MIT */
/* Admitted jobs in the device of their mount: the gate holds them until the date that the model
 * computed.  They hold their permits and have spent their tokens; max_wait does not apply to
 * them. */
#include <errno.h>

#include "sched/gate_internal.h"

/* --- the model of a mount --- */

enum gate_model gate_model(const struct gate_mount *m)
{
	return (enum gate_model)atomic_load_explicit(&m->model, memory_order_relaxed);
}

uint32_t gate_ops(const struct gate_mount *m, const struct cost *c)
{
	bool transfer = c->cls == COST_READ || c->cls == COST_WRITE || c->cls == COST_COPY;
	uint64_t size = atomic_load_explicit(&m->iops_size, memory_order_relaxed);
	return transfer ? device_ops(c->bytes, size) : c->ops;
}

int device_prepare(struct gate_mount *m, const struct gate_mount_config *cfg, uint64_t now_ns,
		   struct device **out)
{
	struct gate *g = m->leaf.node.gate;
	*out = NULL;
	if (!device_config_models(&cfg->device))
		return 0;
	if (!heap_reserve(&g->dates, g->in_device + g->parked))
		return -ENOMEM;
	*out = device_new(&cfg->device, m->device, now_ns);
	return *out ? 0 : -ENOMEM;
}

/* Jobs that have a date keep it, even if there is no device any more. */
void device_apply(struct gate_mount *m, const struct gate_mount_config *cfg, struct device *d)
{
	device_free(m->device);
	m->device = d;
	atomic_store(&m->iops_size, cfg->device.iops_size);
	atomic_store(&m->model, d && !cfg->dry_run	? GATE_MODEL_TIME
				: cfg->device.iops_size ? GATE_MODEL_COST
							: GATE_MODEL_OFF);
}

bool device_reserve(struct gate *g)
{
	return heap_reserve(&g->dates, g->in_device + g->parked + 1);
}

/* --- in and out --- */

static void count(const struct job *j, uint64_t by)
{
	struct gate_mount *m = j->leaf->mount;
	m->leaf.node.gate->in_device += by;
	if (!j->must_run) {
		m->n_in_device += by;
		m->in_device_bytes += by * j->memory_bytes;
	}
	for (struct node *n = &j->leaf->node; n; n = n->parent)
		n->branch->device_now[j->cost.cls] += by;
}

/* Where a job in the device is counted now: in its class, or in the mount if that class was
 * removed. */
static struct leaf *leaf_now(struct gate_mount *m, struct leaf *f)
{
	list_for_each (it, &m->class_leaves)
		if (list_entry(it, struct leaf, of_mount) == f)
			return f;
	return &m->leaf;
}

void device_uncount(struct gate_mount *m)
{
	list_for_each (it, &m->in_device)
		count(list_entry(it, struct job, link), -(uint64_t)1);
}

void device_count(struct gate_mount *m)
{
	list_for_each (it, &m->in_device) {
		struct job *j = list_entry(it, struct job, link);
		j->leaf = leaf_now(m, j->leaf);
		count(j, 1);
	}
}

bool job_enter_device(struct job *j, uint64_t at_ns)
{
	struct gate_mount *m = j->leaf->mount;
	struct gate *g = m->leaf.node.gate;
	if (!m->device || mount_is_dry(m) || j->probe || j->own)
		return false;
	uint64_t date_ns = device_date_ns(m->device, &j->access, j->cost.bytes, at_ns);
	if (date_ns <= at_ns)
		return false;
	j->state = JOB_DEVICE;
	j->device_ns = at_ns;
	j->date = (struct heap_item){.key = min_u64(date_ns, INT64_MAX), .tie = g->seq++};
	heap_push(&g->dates, &j->date);
	list_push_tail(&m->in_device, &j->link);
	count(j, 1);
	return true;
}

static void leave(struct gate *g, struct job *j, uint64_t now_ns)
{
	heap_remove(&g->dates, &j->date);
	list_remove(&j->link);
	count(j, -(uint64_t)1);
	for (struct node *n = &j->leaf->node; n; n = n->parent)
		histogram_add(&n->branch->device[j->cost.cls], now_ns - j->device_ns);
}

void job_leave_device(struct gate *g, struct job *j, uint64_t now_ns)
{
	leave(g, j, now_ns);
	j->state = JOB_READY;
	list_push_tail(&g->ready, &j->link);
}

static void release_permits(const struct chain *ch)
{
	if (!ch)
		return;
	chain_release(ch);
	for (unsigned i = 0; i < ch->permits; i++)
		resource_kick(link_resource(&ch->link[ch->links + i]));
}

void job_abandon_locked(struct job *j, uint64_t now_ns)
{
	struct grant *grant = &j->grant;
	leave(j->leaf->node.gate, j, now_ns);
	leaf_count(grant->leaf, grant->cost.cls, COUNT_ABORTED, 1);
	release_permits(grant->chain);
	keys_unpin(grant);
	leaf_grant_end(grant->leaf);
}

void device_drain(struct gate_mount *m, bool run, uint64_t now_ns)
{
	struct gate *g = m->leaf.node.gate;
	list_for_each_safe (it, &m->in_device) {
		struct job *j = list_entry(it, struct job, link);
		if (run || j->must_run) {
			job_leave_device(g, j, now_ns);
			continue;
		}
		job_abandon_locked(j, now_ns);
		j->state = JOB_DONE;
		j->refusal = GRANT_CANCELLED;
		list_push_tail(&g->refused, &j->link);
	}
}

enum gate_verdict gate_device(struct gate_mount *m, struct job *j)
{
	struct gate *g = m->leaf.node.gate;
	gate_lock(g);
	j->leaf = j->grant.leaf;
	j->cost = j->grant.cost;
	bool parked = device_reserve(g) && job_enter_device(j, clock_now(g->clock));
	gate_arm_locked(g);
	gate_unlock_deliver(g);
	return parked ? GATE_PARKED : GATE_GO;
}
