/* SPDX-License-Identifier: MIT */
/* An admission is a small state machine in the caller's memory; `opaque` holds the bulkhead and the
 * state.
 *
 *	UNUSED ──enter──▶ ACTIVE ──leave──▶ ENDED ──enter──▶ ACTIVE …
 *
 * The move to ENDED is one atomic exchange: the thread that makes it counts the outcome and returns
 * the permit; all others find ENDED.  Listeners are called after both. */
#include <ratelimit/bulkhead.h>

#include <errno.h>

#include "limit/permits.h"
#include "ratelimit/object.h"

enum { OWNER, STATE };

/* Not small numbers, so that memory which was never initialised is not taken for an admission. */
#define UNUSED UINT64_C(0)
#define ACTIVE UINT64_C(0x616374697665a5a5)
#define ENDED  UINT64_C(0x656e6465645a5a5a)

#define OUTCOMES (RATELIMIT_CANCELLED + 1)

struct ratelimit_bulkhead {
	struct permits permits;
	_Atomic uint64_t admitted, refused, ended[OUTCOMES];
	size_t listeners;
	struct ratelimit_bulkhead_listener listener[];
};

int ratelimit_bulkhead_new(struct ratelimit_bulkhead **bulkhead, int64_t limit,
			   const struct ratelimit_bulkhead_listener *listeners, size_t n)
{
	*bulkhead = NULL;
	if (limit < 0 || n > 1024)
		return -EINVAL;
	struct ratelimit_bulkhead *b = object_new(sizeof(*b) + n * sizeof(b->listener[0]));
	if (!b)
		return -ENOMEM;
	permits_init(&b->permits, limit);
	b->listeners = n;
	if (n)
		memcpy(b->listener, listeners, n * sizeof(b->listener[0]));
	*bulkhead = b;
	return 0;
}

void ratelimit_bulkhead_free(struct ratelimit_bulkhead *bulkhead)
{
	free(bulkhead);
}

static void tell(const struct ratelimit_bulkhead *b, enum ratelimit_bulkhead_event_kind kind,
		 enum ratelimit_outcome outcome)
{
	if (!b->listeners)
		return;
	struct permits_snapshot s = permits_look(&b->permits);
	for (size_t i = 0; i < b->listeners; i++) {
		/* each listener gets a copy, so that it cannot change what the next one sees */
		struct ratelimit_bulkhead_event event = {kind, outcome, s.limit, s.in_flight};
		b->listener[i].call(b->listener[i].data, &event);
	}
}

int ratelimit_bulkhead_enter(struct ratelimit_bulkhead *bulkhead,
			     struct ratelimit_admission *admission)
{
	if (__atomic_load_n(&admission->opaque[STATE], __ATOMIC_ACQUIRE) == ACTIVE)
		return -EBUSY;
	if (!permits_try(&bulkhead->permits)) {
		__atomic_store_n(&admission->opaque[STATE], UNUSED, __ATOMIC_RELEASE);
		atomic_fetch_add(&bulkhead->refused, 1);
		tell(bulkhead, RATELIMIT_BULKHEAD_REFUSED, RATELIMIT_SUCCESS);
		return -EAGAIN;
	}
	atomic_fetch_add(&bulkhead->admitted, 1);
	admission->opaque[OWNER] = (uint64_t)(uintptr_t)bulkhead;
	__atomic_store_n(&admission->opaque[STATE], ACTIVE, __ATOMIC_RELEASE);
	tell(bulkhead, RATELIMIT_BULKHEAD_ADMITTED, RATELIMIT_SUCCESS);
	return 0;
}

int ratelimit_bulkhead_leave(struct ratelimit_admission *admission, enum ratelimit_outcome outcome)
{
	if ((unsigned)outcome >= OUTCOMES)
		return -EINVAL;
	uint64_t active = ACTIVE;
	if (!__atomic_compare_exchange_n(&admission->opaque[STATE], &active, ENDED, 0,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return active == ENDED ? -EALREADY : -EINVAL;
	struct ratelimit_bulkhead *b =
		(struct ratelimit_bulkhead *)(uintptr_t)admission->opaque[OWNER];
	atomic_fetch_add(&b->ended[outcome], 1);
	permits_release(&b->permits);
	tell(b, RATELIMIT_BULKHEAD_ENDED, outcome);
	return 0;
}

int ratelimit_bulkhead_set_limit(struct ratelimit_bulkhead *bulkhead, int64_t limit)
{
	if (limit < 0)
		return -EINVAL;
	permits_set_limit(&bulkhead->permits, limit);
	return 0;
}

void ratelimit_bulkhead_look(const struct ratelimit_bulkhead *bulkhead,
			     struct ratelimit_bulkhead_state *state)
{
	/* Read the counters of ends before that of admissions, so that no end is seen without its
	 * admission. */
	uint64_t succeeded = atomic_load(&bulkhead->ended[RATELIMIT_SUCCESS]);
	uint64_t failed = atomic_load(&bulkhead->ended[RATELIMIT_FAILURE]);
	uint64_t cancelled = atomic_load(&bulkhead->ended[RATELIMIT_CANCELLED]);
	struct permits_snapshot s = permits_look(&bulkhead->permits);
	*state = (struct ratelimit_bulkhead_state){
		.limit = s.limit,
		.available = s.available,
		.in_flight = s.in_flight,
		.admitted = atomic_load(&bulkhead->admitted),
		.refused = atomic_load(&bulkhead->refused),
		.succeeded = succeeded,
		.failed = failed,
		.cancelled = cancelled,
	};
}
