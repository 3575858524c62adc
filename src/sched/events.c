/* SPDX-License-Identifier: MIT */
#include "sched/events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

#include "config.h"

#ifdef HAVE_SYS_SDT_H
#include <sys/sdt.h>
#define PROBE(name, mount, key, uid, c, wait_ns)                                                   \
	DTRACE_PROBE6(ratefs, name, mount, key, uid, (c)->ops, (c)->bytes, wait_ns)
#else
#define PROBE(name, mount, key, uid, c, wait_ns)                                                   \
	((void)(mount), (void)(key), (void)(uid), (void)(c), (void)(wait_ns))
#endif

const char *event_kind_name(enum event_kind kind)
{
	static const char *const names[EVENT_KINDS] = {
		[EVENT_ADMITTED] = "admitted",
		[EVENT_WOULD_BLOCK] = "would_block",
		[EVENT_FULL] = "full",
		[EVENT_NO_ROOM] = "no_room",
		[EVENT_TIMED_OUT] = "timed_out",
		[EVENT_CANCELLED] = "cancelled",
		[EVENT_MISCONFIGURED] = "misconfigured",
		[EVENT_TOO_MANY_OPEN] = "too_many_open",
		[EVENT_NO_SPACE] = "no_space",
	};
	return names[kind];
}

/* --- the ring --- */

int gate_events_start(struct gate *g, void (*wake)(void *ctx), void *ctx)
{
	struct events *ev = &g->events;
	struct event *ring = calloc(EVENTS_MAX, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	pthread_mutex_lock(&ev->lock);
	ev->ring = ring;
	ev->first = ev->n = 0;
	ev->dropped = 0;
	ev->wake = wake;
	ev->ctx = ctx;
	pthread_mutex_unlock(&ev->lock);
	atomic_store(&ev->on, true);
	return 0;
}

void gate_events_stop(struct gate *g)
{
	struct events *ev = &g->events;
	atomic_store(&ev->on, false);
	pthread_mutex_lock(&ev->lock);
	free(ev->ring);
	ev->ring = NULL;
	ev->n = 0;
	pthread_mutex_unlock(&ev->lock);
}

unsigned gate_events_take(struct gate *g, struct event *out, unsigned n, uint64_t *dropped)
{
	struct events *ev = &g->events;
	unsigned taken = 0;
	pthread_mutex_lock(&ev->lock);
	for (; taken < n && ev->n; taken++, ev->n--) {
		out[taken] = ev->ring[ev->first];
		ev->first = (ev->first + 1) % EVENTS_MAX;
	}
	*dropped = ev->dropped;
	ev->dropped = 0;
	pthread_mutex_unlock(&ev->lock);
	return taken;
}

static void put(struct events *ev, const struct event *e)
{
	void (*wake)(void *ctx) = NULL;
	pthread_mutex_lock(&ev->lock);
	void *ctx = ev->ctx;
	if (ev->ring && ev->n == EVENTS_MAX) {
		ev->dropped++;
	} else if (ev->ring) {
		ev->ring[(ev->first + ev->n) % EVENTS_MAX] = *e;
		wake = ev->n++ ? NULL : ev->wake;
	}
	pthread_mutex_unlock(&ev->lock);
	if (wake)
		wake(ctx);
}

/* --- what happens --- */

static void probe(enum event_kind kind, const struct leaf *f, uint64_t key, uint32_t uid,
		  const struct cost *c, uint64_t wait_ns)
{
	const char *mount = f->mount->leaf.node.branch->name;
	switch (kind) {
	case EVENT_ADMITTED:
		PROBE(admitted, mount, key, uid, c, wait_ns);
		break;
	case EVENT_WOULD_BLOCK:
		PROBE(would_block, mount, key, uid, c, wait_ns);
		break;
	case EVENT_FULL:
		PROBE(full, mount, key, uid, c, wait_ns);
		break;
	case EVENT_NO_ROOM:
		PROBE(no_room, mount, key, uid, c, wait_ns);
		break;
	case EVENT_TIMED_OUT:
		PROBE(timed_out, mount, key, uid, c, wait_ns);
		break;
	case EVENT_CANCELLED:
		PROBE(cancelled, mount, key, uid, c, wait_ns);
		break;
	case EVENT_TOO_MANY_OPEN:
		PROBE(too_many_open, mount, key, uid, c, wait_ns);
		break;
	case EVENT_NO_SPACE:
		PROBE(no_space, mount, key, uid, c, wait_ns);
		break;
	default:
		PROBE(misconfigured, mount, key, uid, c, wait_ns);
	}
}

static bool anybody_listens(const struct gate *g)
{
	return atomic_load_explicit(&g->events.on, memory_order_relaxed);
}

/* Call with gate->lock held, which guards the names of classes. */
static void put_class(struct event *e, const struct leaf *f)
{
	if (f->node.kind == SCOPE_CLASS)
		snprintf(e->class, sizeof(e->class), "%s", f->node.branch->name);
}

/* The rows with the longest waits, longest first. */
static void put_limits(struct event *e, const struct leaf *f, const uint64_t ns[WAIT_ROWS])
{
	for (unsigned i = 1; i < f->n_wait_rows; i++) {
		unsigned at = EVENT_LIMITS;
		while (at > 0 && ns[i] > e->limit[at - 1].wait_ns)
			at--;
		if (at == EVENT_LIMITS || !ns[i])
			continue;
		memmove(&e->limit[at + 1], &e->limit[at],
			(EVENT_LIMITS - 1 - at) * sizeof(e->limit[0]));
		e->limit[at] = f->wait_row[i].limit;
		e->limit[at].wait_ns = ns[i];
	}
}

void event_of_job(enum event_kind kind, const struct job *j, const uint64_t ns[], uint64_t now_ns)
{
	const struct key *key = lane_key(j->lane);
	struct gate *g = j->leaf->node.gate;
	uint64_t wait_ns = now_ns > j->parked_ns ? now_ns - j->parked_ns : 0;
	probe(kind, j->leaf, j->key.id, j->caller.uid, &j->cost, wait_ns);
	if (!anybody_listens(g))
		return;
	struct event e = {
		.kind = kind,
		.at_ns = now_ns,
		.mount = j->leaf->mount,
		.key = j->key,
		.uid = j->caller.uid,
		.tid = j->caller.tid,
		.cost = j->cost,
		.wait_ns = wait_ns,
	};
	put_limits(&e, j->leaf, ns);
	memcpy(e.name, key->name, sizeof(e.name));
	put_class(&e, j->leaf);
	put(&g->events, &e);
}

/* Looks up a thread that is refused repeatedly only once per second, because that reads /proc. */
static void refused_name(const struct gate *g, const struct caller *c, struct event *e)
{
	static _Thread_local struct {
		const struct gate *gate;
		uint64_t second, handle;
		uint32_t tid;
		char name[KEY_NAME_MAX];
	} last;
	uint64_t second = e->at_ns / NSEC_PER_SEC + 1, handle = c->opener ? c->handle : 0;
	if (last.gate != g || last.second != second || last.tid != c->tid ||
	    last.handle != handle) {
		last.gate = g;
		last.second = second;
		last.tid = c->tid;
		last.handle = handle;
		g->callers->name(c, last.name);
	}
	memcpy(e->name, last.name, sizeof(e->name));
}

/* The widest scope whose max_inflight is reached. */
static bool find_full(const struct chain *ch, struct refusal *why)
{
	for (unsigned i = ch ? ch->permits : 0; i-- > 0;)
		if (permits_look(chain_permit(ch, i)).available == 0) {
			*why = (struct refusal){.limiter = ch->link[ch->links + i].limiter,
						.kind = -1};
			return true;
		}
	return false;
}

/* The widest scope whose max_open is reached.  Call with gate->lock held. */
static void find_max_open(struct event *e, const struct leaf *f)
{
	const struct scope_way *way = atomic_load_explicit(&f->way, memory_order_acquire);
	for (unsigned i = way->n; i-- > 0;)
		if (permits_look(&way->node[i]->limiter->open).available <= 0) {
			limit_name(way->node[i], RES_INFLIGHT, &e->limit[0]);
			e->limit[0].name = "max_open";
			return;
		}
}

/* Asks the limits of the caller's key in a leaf. */
static bool key_refuses(const struct event *e, const struct leaf *f, const struct caller *c,
			struct refusal *why)
{
	const struct fair_key id =
		caller_key(c, f->node.gate->callers, atomic_load(&f->fair), e->at_ns);
	const struct key *key = keys_find(&f->keys, id);
	const struct chain *ch = key ? key->node.own[e->cost.cls] : NULL;
	return ch && chain_look(ch, &e->cost, e->at_ns, why) != GRANT_OK;
}

/* Asks the limits once more: the refusal did not record which one it was, because that is needed
 * only while somebody subscribes to events.  If tokens have arrived meanwhile, the limit stays
 * unknown.  Call with gate->lock held. */
static void find_refusing_limit(struct event *e, const struct leaf *f, const struct caller *c)
{
	struct leaf *up[GRANT_KEYS_MAX];
	const struct chain *ch = leaf_limits(f, e->cost.cls);
	struct refusal why = {.kind = -1};
	bool full = e->kind == EVENT_FULL;
	bool found = full ? find_full(ch, &why)
			  : ch && chain_look(ch, &e->cost, e->at_ns, &why) != GRANT_OK;
	for (unsigned i = outer_leaves(f, e->cost.cls, up); i-- > 0 && !full && !found;)
		found = key_refuses(e, up[i], c, &why);
	if (!found && (full || !key_refuses(e, f, c, &why)))
		return;
	unsigned index = why.kind < 0 ? RES_INFLIGHT : (unsigned)why.kind * BUCKET_ROLES + why.role;
	limit_name(why.limiter->owner, index, &e->limit[0]);
}

void event_of_refusal(enum event_kind kind, const struct leaf *f, const struct caller *c,
		      const struct cost *cost)
{
	struct gate *g = f->node.gate;
	probe(kind, f, c->tid, c->uid, cost, 0);
	if (!anybody_listens(g))
		return;
	struct event e = {.kind = kind,
			  .at_ns = clock_now(g->clock),
			  .mount = f->mount,
			  .uid = c->uid,
			  .tid = c->tid,
			  .cost = *cost};
	e.key = caller_key(c, g->callers, atomic_load(&f->fair), e.at_ns);
	outer_look_up(f, cost->cls, c, e.at_ns);
	if (g->callers && c->tid)
		refused_name(g, c, &e);
	gate_lock(g);
	put_class(&e, f);
	if (kind == EVENT_TOO_MANY_OPEN)
		find_max_open(&e, f);
	else if (kind != EVENT_NO_ROOM && kind != EVENT_NO_SPACE)
		find_refusing_limit(&e, f, c);
	gate_unlock_deliver(g);
	put(&g->events, &e);
}

void gate_refused(const struct grant *grant, const struct caller *caller, enum gate_outcome outcome)
{
	struct caller c = *caller;
	c.opener = NULL; /* the request has been answered, so its file may be gone */
	if (!grant->probe)
		event_of_refusal(outcome == OUTCOME_NO_SPACE ? EVENT_NO_SPACE : EVENT_TOO_MANY_OPEN,
				 grant->leaf, &c, &grant->cost);
}
