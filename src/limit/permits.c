/* SPDX-License-Identifier: MIT */
/* All operations on in_flight are sequentially consistent.  A request that parks for a permit increments
 * `waiters` and then tries again; a release returns the permit and then looks at `waiters`.  With any
 * weaker order both could miss each other. */
#include "limit/permits.h"

#include <assert.h>
#include <inttypes.h>

#include "base/log.h"

static int64_t sane_limit(int64_t limit)
{
	if (limit >= 0)
		return limit;
	log_warning("a limit of %" PRId64 " permits is negative; taken as 0", limit);
	return 0;
}

void permits_init(struct permits *p, int64_t limit)
{
	atomic_init(&p->in_flight, 0);
	atomic_init(&p->limit, sane_limit(limit));
	atomic_init(&p->waiters, 0);
}

void permits_set_limit(struct permits *p, int64_t limit)
{
	atomic_store(&p->limit, sane_limit(limit));
}

bool permits_try(struct permits *p)
{
	int64_t held = atomic_load(&p->in_flight);
	do {
		if (held >= atomic_load_explicit(&p->limit, memory_order_relaxed))
			return false;
	} while (!atomic_compare_exchange_weak(&p->in_flight, &held, held + 1));
	return true;
}

void permits_take(struct permits *p)
{
	atomic_fetch_add(&p->in_flight, 1);
}

void permits_release(struct permits *p)
{
	int64_t held = atomic_load(&p->in_flight);
	do {
		if (held <= 0) {
#ifdef RATEFS_DEBUG
			assert(!"one permits_release too many");
#endif
			return;
		}
	} while (!atomic_compare_exchange_weak(&p->in_flight, &held, held - 1));
}

struct permits_snapshot permits_look(const struct permits *p)
{
	struct permits_snapshot s = {
		.limit = atomic_load_explicit(&p->limit, memory_order_relaxed),
		.in_flight = atomic_load_explicit(&p->in_flight, memory_order_relaxed),
	};
	s.available = s.limit > s.in_flight ? s.limit - s.in_flight : 0;
	return s;
}
