/* SPDX-License-Identifier: MIT */
/* Jobs into the queues and out of them: park, cancel, time out, drain. */
#include "sched/gate_internal.h"

__extension__ typedef unsigned __int128 u128;

/* --- costs --- */

/* Where nothing limits from here up: everybody's turn is as long as everybody else's. */
#define EQUAL_TURN (1ULL << 16)

static uint64_t scaled(uint64_t n, uint64_t ns_32)
{
	u128 t = (u128)n * ns_32 >> (32 - FQ_SHIFT);
	return t > FQ_COST_MAX ? FQ_COST_MAX : (uint64_t)t;
}

uint64_t route_cost(const struct route *rt, enum level level, const struct cost *c)
{
	if (!rt->op_ns[level] && !rt->byte_ns[level])
		return EQUAL_TURN;
	uint64_t t =
		max_u64(scaled(c->ops, rt->op_ns[level]), scaled(c->bytes, rt->byte_ns[level]));
	return t ? t : 1;
}

bool route_misconfigured(const struct route *rt, const struct cost *c)
{
	return (rt->zero_op && c->ops) || (rt->zero_byte && c->bytes);
}

/* --- counting --- */

void mount_waited(struct gate_mount *m, enum cost_class cls, uint64_t wait_ns)
{
	for (struct scope *s = &m->scope; s; s = s->parent)
		histogram_add(&s->wait[cls], wait_ns);
}

void job_count_admitted(const struct job *j, struct gate_mount *m)
{
	if (j->probe)
		return;
	mount_count(m, j->cost.cls, COUNT_OPS, j->cost.ops);
	mount_count(m, j->cost.cls, COUNT_BYTES, j->cost.bytes);
}

static void count_parked_now(struct gate_mount *m, const struct job *j, int by)
{
	m->parked += (uint64_t)by;
	if (j->patient) {
		m->patient += (uint64_t)by;
		m->patient_bytes += by > 0 ? j->memory_bytes : -j->memory_bytes;
	}
	m->scope.gate->parked += (uint64_t)by;
	for (struct scope *s = &m->scope; s; s = s->parent) {
		s->parked_now[j->cost.cls] += (uint64_t)by;
		s->parked_bytes_now += by > 0 ? j->memory_bytes : -j->memory_bytes;
	}
}

/* --- in and out of a queue --- */

static struct lane *job_lane(const struct job *j)
{
	return &j->mount->scope.lane[j->mount->scope.gate->lane_of[j->cost.cls]];
}

void job_set_deadline(struct gate *g, struct gate_mount *m, struct job *j)
{
	if (heap_contains(&j->deadline))
		heap_remove(&g->deadlines, &j->deadline);
	if (!m->max_wait_ns || j->patient)
		return;
	j->deadline.key = add_sat_u64(j->parked_ns, m->max_wait_ns);
	j->deadline.tie = j->seq;
	if (j->deadline.key < INT64_MAX) /* centuries: never, and no wrap in the heap's order */
		heap_push(&g->deadlines, &j->deadline);
}

void job_enqueue(struct gate_mount *m, struct job *j, uint64_t now_ns)
{
	struct gate *g = m->scope.gate;
	unsigned lane = g->lane_of[j->cost.cls];
	struct key_queue *kq = j->queue;
	struct lane *l = &m->scope.lane[lane];
	bool first = list_empty(&kq->jobs);
	list_push_tail(&kq->jobs, &j->link);
	if (l->parked++ == 0)
		atomic_fetch_or(&m->waiting, g->classes_of[lane]);
	if (first) {
		fq_add(&l->fq, &kq->item, route_cost(&m->route[j->cost.cls], LEVEL_MOUNT, &j->cost),
		       now_ns);
		lane_touch(l, now_ns);
	}
}

void job_dequeue(struct job *j, uint64_t now_ns)
{
	struct gate_mount *m = j->mount;
	struct gate *g = m->scope.gate;
	struct lane *l = job_lane(j);
	struct key_queue *kq = j->queue;
	bool first = kq->jobs.next == &j->link;
	list_remove(&j->link);
	if (heap_contains(&j->deadline))
		heap_remove(&g->deadlines, &j->deadline);
	count_parked_now(m, j, -1);
	kq->key->parked_bytes -= j->memory_bytes;
	if (--kq->key->parked == 0)
		keys_idle(&m->keys, kq->key);
	if (--l->parked == 0)
		atomic_fetch_and(&m->waiting, ~g->classes_of[l->index]);
	if (!first)
		return;
	struct job *next = list_first(&kq->jobs, struct job, link);
	if (next)
		fq_set_cost(&l->fq, &kq->item,
			    route_cost(&m->route[next->cost.cls], LEVEL_MOUNT, &next->cost));
	else
		fq_remove(&l->fq, &kq->item, now_ns);
	lane_touch(l, now_ns);
}

static void count_refusal(struct gate_mount *m, const struct job *j, enum grant_result why)
{
	if (!j->probe)
		mount_count(m, j->cost.cls,
			    why == GRANT_TIMED_OUT	 ? COUNT_TIMED_OUT
			    : why == GRANT_MISCONFIGURED ? COUNT_MISCONFIGURED
							 : COUNT_CANCELLED,
			    1);
}

void job_refuse_locked(struct gate *g, struct job *j, enum grant_result why, uint64_t now_ns)
{
	job_dequeue(j, now_ns);
	count_refusal(j->mount, j, why);
	j->state = JOB_DONE;
	j->refusal = why;
	list_push_tail(&g->refused, &j->link);
}

/* --- the verbs --- */

/* What may not be refused always has room, and takes none from the others: it is the kernel that
 * bounds its page faults and its write-back. */
static uint64_t impatient(const struct gate_mount *m)
{
	return m->parked - m->patient;
}

static uint64_t impatient_bytes(const struct gate_mount *m)
{
	return m->scope.parked_bytes_now - m->patient_bytes;
}

static bool room_for(const struct gate_mount *m, const struct job *j)
{
	return j->patient || (impatient(m) < m->max_parked &&
			      impatient_bytes(m) + j->memory_bytes <= m->max_parked_bytes);
}

/* The last quarter of the room is for those who hold little: whoever has as much as is left must not
 * take it, so that one who parks all that it can does not get the others refused. */
static bool takes_too_much(uint64_t own, uint64_t used, uint64_t max)
{
	return used >= max - max / 4 && own >= max - used;
}

static bool greedy(const struct gate_mount *m, const struct key *key, const struct job *j)
{
	return j->key.kind != FAIR_NONE && !j->patient &&
	       (takes_too_much(key->parked, impatient(m), m->max_parked) ||
		takes_too_much(key->parked_bytes, impatient_bytes(m), m->max_parked_bytes));
}

static bool inflight_full(const struct chain *ch)
{
	for (unsigned i = 0; i < ch->permits; i++)
		if (permits_look(ch->permit[i]).available == 0)
			return true;
	return false;
}

/* Queues the job and lets the scheduler look: GO when it is through already. */
static enum gate_verdict park_locked(struct gate_mount *m, struct job *j, uint64_t now_ns)
{
	struct gate *g = m->scope.gate;
	struct key *key = keys_get(m, j->key, now_ns);
	if (greedy(m, key, j) || !heap_reserve(&g->deadlines, g->parked + 1))
		return GATE_NO_ROOM;
	j->state = JOB_PARKED;
	j->mount = m;
	j->parked_ns = now_ns;
	j->seq = g->seq++;
	j->deadline = (struct heap_item){0};
	j->waited = false;
	j->queue = &key->queue[g->lane_of[j->cost.cls]];
	if (key->parked++ == 0)
		keys_busy(key);
	key->parked_bytes += j->memory_bytes;
	count_parked_now(m, j, 1);
	job_set_deadline(g, m, j);
	job_enqueue(m, j, now_ns);
	gate_dispatch_locked(g, now_ns, now_ns);
	if (j->state == JOB_READY) {
		list_remove(&j->link);
		return GATE_GO;
	}
	j->waited = true;
	if (!j->probe) {
		mount_count(m, j->cost.cls, COUNT_PARKED, 1);
		key->ever_parked++;
	}
	return GATE_PARKED;
}

static enum gate_verdict gate_park_locked(struct gate_mount *m, struct job *j, uint64_t now_ns)
{
	struct gate *g = m->scope.gate;
	enum cost_class cls = j->cost.cls;
	const struct chain *limits = atomic_load_explicit(&m->limits[cls], memory_order_relaxed);
	j->grant = (struct grant){.cost = j->cost, .probe = j->probe};
	if (!atomic_load_explicit(&m->chain[cls], memory_order_relaxed)) {
		job_count_admitted(j, m);
		return GATE_GO;
	}
	if (j->probe && m->voucher[cls].n)
		return GATE_GO; /* has had its turn, and asks again */
	if (route_misconfigured(&m->route[cls], &j->cost))
		return GATE_MISCONFIGURED;
	if (!room_for(m, j))
		return GATE_NO_ROOM;
	if (atomic_load_explicit(&m->full_rejects, memory_order_relaxed) && limits && !j->patient &&
	    inflight_full(limits))
		return GATE_FULL;
	gate_catch_up_locked(g, now_ns);
	return park_locked(m, j, now_ns);
}

enum gate_verdict gate_park(struct gate_mount *m, struct job *j)
{
	struct gate *g = m->scope.gate;
	gate_lock(g);
	enum gate_verdict verdict = gate_park_locked(m, j, clock_now(g->clock));
	gate_arm_locked(g);
	gate_unlock_deliver(g);
	if (verdict != GATE_PARKED && !j->probe)
		mount_count(m, j->cost.cls,
			    verdict == GATE_GO		    ? COUNT_AT_ONCE
			    : verdict == GATE_MISCONFIGURED ? COUNT_MISCONFIGURED
							    : COUNT_FULL,
			    1);
	return verdict;
}

bool gate_has_no_room(struct gate_mount *m, const struct job *j)
{
	struct gate *g = m->scope.gate;
	gate_lock(g);
	bool none = atomic_load_explicit(&m->chain[j->cost.cls], memory_order_relaxed) &&
		    (!room_for(m, j) || greedy(m, keys_get(m, j->key, clock_now(g->clock)), j));
	gate_unlock_deliver(g);
	if (none)
		mount_count(m, j->cost.cls, COUNT_FULL, 1);
	return none;
}

uint64_t gate_no_room_delay_ns(const struct gate_mount *m)
{
	struct gate *g = m->scope.gate;
	gate_lock(g);
	uint64_t max_wait_ns = m->max_wait_ns;
	gate_unlock_deliver(g);
	return max_wait_ns ? min_u64(max_wait_ns, GATE_NO_ROOM_DELAY_NS) : GATE_NO_ROOM_DELAY_NS;
}

bool gate_cancel(struct gate *g, struct job *j)
{
	gate_lock(g);
	bool parked = j->state == JOB_PARKED;
	if (parked) {
		uint64_t now_ns = clock_now(g->clock);
		j->state = JOB_DONE;
		job_dequeue(j, now_ns);
		count_refusal(j->mount, j, GRANT_CANCELLED);
		/* Others must not be refused here: that takes the lock which our caller holds. */
		gate_release_locked(g, now_ns, now_ns);
		gate_arm_locked(g);
	}
	gate_unlock_deliver(g);
	return parked;
}
