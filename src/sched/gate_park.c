/* SPDX-License-Identifier: MIT */
/* Puts jobs into the queues and takes them out: park, cancel, refuse. */
#include "sched/gate_internal.h"

/* --- costs --- */

/* The cost of a turn at a node without limits from there to the root: the same for all requests. */
#define EQUAL_TURN (1ULL << 16)

static uint64_t scaled(uint64_t n, uint64_t ns_32)
{
	u128 t = (u128)n * ns_32 >> (32 - FQ_SHIFT);
	return t > FQ_COST_MAX ? FQ_COST_MAX : (uint64_t)t;
}

uint64_t turn_cost_of(const struct node *n, const struct cost *c)
{
	const struct branch *b =
		n->branch ? n->branch : n->parent->branch; /* a key uses that of its leaf */
	const struct turn_cost *per = &b->cost[c->cls];
	if (!per->op_ns && !per->byte_ns)
		return EQUAL_TURN;
	uint64_t t = max_u64(scaled(c->ops, per->op_ns), scaled(c->bytes, per->byte_ns));
	return t ? t : 1;
}

uint64_t turn_cost(const struct node *n, const struct job *j)
{
	return mount_is_dry(j->leaf->mount) ? EQUAL_TURN : turn_cost_of(n, &j->cost);
}

/* --- counting --- */

void leaf_waited(struct leaf *f, enum cost_class cls, uint64_t wait_ns)
{
	for (struct node *n = &f->node; n; n = n->parent)
		histogram_add(&n->branch->wait[cls], wait_ns);
}

void job_count_admitted(const struct job *j)
{
	if (j->probe)
		return;
	leaf_count(j->leaf, j->cost.cls, COUNT_OPS, j->cost.ops);
	leaf_count(j->leaf, j->cost.cls, COUNT_BYTES, j->cost.bytes);
}

static void count_in_tree(const struct job *j, uint64_t by, uint64_t memory)
{
	struct gate_mount *m = j->leaf->mount;
	m->parked += by;
	if (j->must_run) {
		m->must_run += by;
		m->must_run_bytes += memory;
	}
	j->leaf->node.gate->parked += by;
	for (struct node *n = &j->leaf->node; n; n = n->parent) {
		n->branch->parked_now[j->cost.cls] += by;
		n->branch->parked_bytes_now += memory;
	}
}

/* Newcomers must not overtake parked jobs; if keys have limits of their own, only those of their
 * own key. */
void leaf_tell_newcomers(struct leaf *f)
{
	const struct gate *g = f->node.gate;
	uint32_t waiting = 0;
	for (unsigned i = 0; i < g->lanes; i++)
		if (f->lane_parked[i])
			waiting |= g->classes_of[i];
	waiting &= ~atomic_load_explicit(&f->each, memory_order_relaxed);
	atomic_store(&f->waiting, f->mount->moving ? UINT32_MAX : waiting);
}

void job_tell_newcomers(const struct job *j)
{
	const struct lane *l = j->lane;
	struct key *key = lane_key(l);
	uint32_t classes = j->leaf->node.gate->classes_of[l->index];
	leaf_tell_newcomers(j->leaf);
	if (key->node.lane[l->index].parked)
		atomic_fetch_or(&key->waiting, classes);
	else
		atomic_fetch_and(&key->waiting, ~classes);
}

void job_count_parked(const struct job *j, int by)
{
	struct leaf *f = j->leaf;
	struct key *key = lane_key(j->lane);
	uint64_t memory = by > 0 ? j->memory_bytes : -j->memory_bytes;
	if (!j->own) /* for the gate's own jobs, no caller waits */
		count_in_tree(j, (uint64_t)by, memory);
	else
		key->parked_own += (uint32_t)by;
	if (by > 0 && key->parked == 0)
		keys_busy(key);
	key->parked += (uint32_t)by;
	key->parked_bytes += memory;
	if (key->parked == 0)
		keys_idle(&f->keys, key);
	f->lane_parked[j->lane->index] += (uint64_t)by;
	lane_whole(j->lane)->parked += (uint32_t)by;
}

/* --- in and out of a queue --- */

void job_set_deadline(struct gate *g, struct job *j)
{
	if (heap_contains(&j->deadline))
		heap_remove(&g->deadlines, &j->deadline);
	if (!j->leaf->max_wait_ns || j->must_run)
		return;
	j->deadline.key = add_sat_u64(j->parked_ns, j->leaf->max_wait_ns);
	j->deadline.tie = j->seq;
	if (j->deadline.key <
	    INT64_MAX) /* centuries: treat as never, so that the heap's order does not wrap */
		heap_push(&g->deadlines, &j->deadline);
}

static void job_enqueue(struct job *j, uint64_t now_ns)
{
	struct lane *l = j->lane;
	bool first = list_empty(&l->jobs);
	list_push_tail(&l->jobs, &j->link);
	job_count_parked(j, 1);
	job_tell_newcomers(j);
	if (first)
		lane_touch(l, now_ns);
}

void job_dequeue(struct job *j, uint64_t now_ns)
{
	struct gate *g = j->leaf->node.gate;
	struct lane *l = j->lane;
	bool first = l->jobs.next == &j->link;
	list_remove(&j->link);
	job_clock_stop(j);
	if (j->probe)
		probe_left(lane_key(l), j);
	if (heap_contains(&j->deadline))
		heap_remove(&g->deadlines, &j->deadline);
	job_count_parked(j, -1);
	job_tell_newcomers(j);
	if (first)
		lane_leave_outer(l, j, now_ns);
	outer_detach(j);
	if (first)
		lane_touch(l, now_ns);
}

struct jobs_each {
	void (*fn)(struct job *j, void *arg);
	void *arg;
};

static void key_jobs_each(struct key *key, void *arg)
{
	const struct jobs_each *e = arg;
	for (unsigned i = 0; i < LANES; i++) {
		const struct lane *whole = &key->node.lane[i], *l = whole;
		for (; l; l = part_next(whole, l == whole ? NULL : l))
			list_for_each_safe (it, (struct list *)&l->jobs)
				e->fn(list_entry(it, struct job, link), e->arg);
	}
}

void jobs_each(struct leaf *f, void (*fn)(struct job *j, void *arg), void *arg)
{
	struct jobs_each e = {fn, arg};
	keys_each(&f->keys, key_jobs_each, &e);
}

/* Call before the job leaves its queue. */
static void count_refusal(const struct job *j, enum grant_result why, uint64_t now_ns)
{
	uint64_t wait_ns = now_ns > j->parked_ns ? now_ns - j->parked_ns : 0, ns[WAIT_ROWS];
	if (j->probe || j->own)
		return;
	job_clock_read(j, now_ns, wait_ns, ns);
	leaf_count(j->leaf, j->cost.cls,
		   why == GRANT_TIMED_OUT	? COUNT_TIMED_OUT
		   : why == GRANT_MISCONFIGURED ? COUNT_MISCONFIGURED
						: COUNT_CANCELLED,
		   1);
	event_of_job(why == GRANT_TIMED_OUT	  ? EVENT_TIMED_OUT
		     : why == GRANT_MISCONFIGURED ? EVENT_MISCONFIGURED
						  : EVENT_CANCELLED,
		     j, ns, now_ns);
}

void job_refuse_locked(struct gate *g, struct job *j, enum grant_result why, uint64_t now_ns)
{
	count_refusal(j, why, now_ns);
	job_dequeue(j, now_ns);
	j->state = JOB_DONE;
	if (job_is_debt(j))
		j->own->owed_ops = j->own->owed_bytes = 0;
	if (j->own)
		return;
	j->refusal = why;
	list_push_tail(&g->refused, &j->link);
}

/* --- the verbs --- */

/* Jobs that must run always have room and take none from others: the kernel bounds their number
 * (page faults and write-back). */
static uint64_t refusable_jobs(const struct gate_mount *m)
{
	return m->parked - m->must_run + m->n_in_device;
}

static uint64_t refusable_bytes(const struct gate_mount *m)
{
	return m->leaf.node.branch->parked_bytes_now - m->must_run_bytes + m->in_device_bytes;
}

static bool room_for(const struct gate_mount *m, const struct job *j)
{
	return j->must_run || (refusable_jobs(m) < m->max_parked &&
			       refusable_bytes(m) + j->memory_bytes <= m->max_parked_bytes);
}

/* The last quarter of the room is reserved for keys that have less parked than there is room left,
 * so that one key that parks all it can does not cause requests of others to be refused. */
static bool takes_too_much(uint64_t own, uint64_t used, uint64_t max)
{
	return used >= max - max / 4 && own >= max - used;
}

static bool greedy(const struct gate_mount *m, const struct key *key, const struct job *j)
{
	return j->key.kind != FAIR_NONE && !j->must_run &&
	       (takes_too_much(key->parked, refusable_jobs(m), m->max_parked) ||
		takes_too_much(key->parked_bytes, refusable_bytes(m), m->max_parked_bytes));
}

bool job_park(struct leaf *f, struct key *key, struct job *j, const struct caller *c,
	      uint64_t now_ns)
{
	struct gate *g = f->node.gate;
	j->leaf = f;
	j->outer_keys = 0;
	if (c)
		outer_attach(j, c, now_ns);
	j->lane = lane_for(&key->node.lane[g->lane_of[j->cost.cls]], j, now_ns);
	if (!j->own && !job_clock_start(j, now_ns)) {
		outer_detach(j);
		return false;
	}
	j->state = JOB_PARKED;
	j->parked_ns = now_ns;
	j->seq = g->seq++;
	j->deadline = (struct heap_item){0};
	j->waited = false;
	job_set_deadline(g, j);
	job_enqueue(j, now_ns);
	if (j->probe && !j->own)
		probe_parked(key, j, now_ns);
	return true;
}

/* Queues the job and runs the scheduler; GO: it was admitted immediately. */
static enum gate_verdict park_locked(struct leaf *f, struct job *j, struct key *key,
				     uint64_t now_ns)
{
	struct gate *g = f->node.gate;
	if (greedy(f->mount, key, j) || !heap_reserve(&g->deadlines, g->parked + 1) ||
	    !job_park(f, key, j, &j->caller, now_ns))
		return GATE_NO_ROOM;
	gate_dispatch_locked(g, now_ns, now_ns);
	if (j->state == JOB_READY) {
		list_remove(&j->link);
		return GATE_GO;
	}
	if (j->state == JOB_DEVICE) {
		leaf_count(f, j->cost.cls, COUNT_AT_ONCE, 1);
		return GATE_PARKED;
	}
	j->waited = true;
	if (!j->probe) {
		leaf_count(f, j->cost.cls, COUNT_PARKED, 1);
		key->waited.n++;
		key->uid = j->caller.uid;
	}
	return GATE_PARKED;
}

static bool has_voucher(const struct key *key, enum cost_class cls)
{
	const struct account *a = account_find(key, cls);
	return a && a->vouchers;
}

/* Nothing limits the job: only a device can delay it. */
static enum gate_verdict pass_unlimited(struct leaf *f, struct job *j, uint64_t now_ns)
{
	if (f->mount->device && !j->probe && !room_for(f->mount, j))
		return GATE_NO_ROOM;
	job_count_admitted(j);
	if (!j->probe)
		leaf_grant_begin(f);
	if (!job_enter_device(j, now_ns))
		return GATE_GO;
	leaf_count(f, j->cost.cls, COUNT_AT_ONCE, 1);
	return GATE_PARKED;
}

static enum gate_verdict gate_park_locked(struct leaf *f, struct job *j, uint64_t now_ns)
{
	struct gate_mount *m = f->mount;
	enum cost_class cls = j->cost.cls;
	const struct chain *limits = leaf_limits(f, cls);
	if (m->device && !device_reserve(f->node.gate))
		return GATE_NO_ROOM;
	if (m->device && !j->probe)
		j->cost.ops = device_merged_ops(m->device, &j->access, j->cost.bytes);
	j->leaf = f;
	j->date = (struct heap_item){0};
	j->clock_was = NULL;
	grant_init(&j->grant, f, &j->cost);
	j->grant.probe = j->probe;
	if (!leaf_limits_class(f, cls))
		return pass_unlimited(f, j, now_ns);
	if (j->probe && has_voucher(keys_get(f, j->key, now_ns), cls))
		return GATE_GO; /* the key has had its turn and has not used it yet */
	if (!mount_is_dry(m) && chain_misconfigured(limits, &j->cost))
		return GATE_MISCONFIGURED;
	if (!room_for(m, j))
		return GATE_NO_ROOM;
	if (atomic_load_explicit(&m->full_rejects, memory_order_relaxed) && limits &&
	    !j->must_run && inflight_is_full(limits))
		return GATE_FULL;
	gate_catch_up_locked(f->node.gate, now_ns);
	return park_locked(f, j, keys_get(f, j->key, now_ns), now_ns);
}

static void count_verdict(struct leaf *f, const struct job *j, enum gate_verdict verdict)
{
	enum cost_class cls = j->cost.cls;
	if (verdict == GATE_GO) {
		leaf_count(f, cls, COUNT_AT_ONCE, 1);
	} else if (verdict == GATE_MISCONFIGURED) {
		leaf_count(f, cls, COUNT_MISCONFIGURED, 1);
		event_of_refusal(EVENT_MISCONFIGURED, f, &j->caller, &j->cost);
	} else {
		bool room = verdict != GATE_NO_ROOM;
		leaf_count(f, cls, room ? COUNT_FULL : COUNT_NO_ROOM, 1);
		event_of_refusal(room ? EVENT_FULL : EVENT_NO_ROOM, f, &j->caller, &j->cost);
	}
}

static bool needs_name(const struct leaf *f, struct fair_key id, uint64_t now_ns)
{
	const struct key *key = keys_find(&f->keys, id);
	return key && key_needs_name(key, now_ns);
}

enum gate_verdict gate_park(struct gate_mount *m, struct job *j)
{
	struct gate *g = m->leaf.node.gate;
	const struct caller caller = j->caller; /* the job may end at any time */
	enum cost_class cls = j->cost.cls;
	struct leaf *f = leaf_of_lock(m, &j->caller, cls, &j->key);
	uint64_t now_ns = clock_now(g->clock);
	enum gate_verdict verdict = gate_park_locked(f, j, now_ns);
	bool describe = verdict == GATE_PARKED && !j->probe && needs_name(f, j->key, now_ns);
	gate_arm_locked(g);
	gate_unlock_deliver(g);
	if (describe)
		key_describe(m, &caller, cls, now_ns);
	if (verdict != GATE_PARKED && !j->probe)
		count_verdict(f, j, verdict);
	return verdict;
}

bool gate_has_no_room(struct gate_mount *m, struct job *j)
{
	struct gate *g = m->leaf.node.gate;
	struct leaf *f = leaf_of_lock(m, &j->caller, j->cost.cls, &j->key);
	uint64_t now_ns = clock_now(g->clock);
	bool none = (leaf_limits_class(f, j->cost.cls) || m->device) && !room_for(m, j);
	if (!none && leaf_limits_class(f, j->cost.cls))
		none = greedy(m, keys_get(f, j->key, now_ns), j);
	gate_unlock_deliver(g);
	if (none)
		count_verdict(f, j, GATE_NO_ROOM);
	return none;
}

uint64_t gate_no_room_delay_ns(const struct gate_mount *m)
{
	struct gate *g = m->leaf.node.gate;
	gate_lock(g);
	uint64_t max_wait_ns = m->leaf.max_wait_ns;
	gate_unlock_deliver(g);
	return max_wait_ns ? min_u64(max_wait_ns, GATE_NO_ROOM_DELAY_NS) : GATE_NO_ROOM_DELAY_NS;
}

bool gate_cancel(struct gate *g, struct job *j)
{
	gate_lock(g);
	bool parked = j->state == JOB_PARKED || j->state == JOB_DEVICE;
	if (parked) {
		uint64_t now_ns = clock_now(g->clock);
		if (j->state == JOB_PARKED) {
			count_refusal(j, GRANT_CANCELLED, now_ns);
			job_dequeue(j, now_ns);
		} else {
			job_abandon_locked(j, now_ns);
		}
		j->state = JOB_DONE;
		/* No job may be refused here: refusing takes the lock that our caller holds. */
		gate_release_locked(g, now_ns, now_ns);
		gate_arm_locked(g);
	}
	gate_unlock_deliver(g);
	return parked;
}
