/* SPDX-License-Identifier: MIT */
/* Time as a table: the real one, and a fake one that moves only when told. */
#ifndef SCHED_CLOCK_H
#define SCHED_CLOCK_H

#include <stdint.h>

struct clock {
	/* ns of one monotonic clock; safe from any thread. */
	uint64_t (*now_ns)(const struct clock *c);
	/* The gate has something to do at due_ns (NEVER: nothing).  Called with the gate's lock held:
	 * must not call back into the gate. */
	void (*arm)(const struct clock *c, uint64_t due_ns);
};

static inline uint64_t clock_now(const struct clock *c)
{
	return c->now_ns(c);
}

struct fake_clock {
	struct clock clk;
	uint64_t now;
	uint64_t armed_ns;
	unsigned arms;
};
void fake_clock_init(struct fake_clock *f, uint64_t now_ns);

#endif
