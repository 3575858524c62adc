/* SPDX-License-Identifier: MIT */
/* Where the gate gets its time.  The daemon uses the stepper's clock (stepper.c), tests a clock that
 * moves only when they say so. */
#ifndef SCHED_CLOCK_H
#define SCHED_CLOCK_H

#include <stdint.h>

struct clock {
	/* The current time in ns of one monotonic clock.  Safe from any thread. */
	uint64_t (*now_ns)(const struct clock *c);
	/* Asks for a call of gate_step at due_ns (NEVER: none is needed).  Called with the gate's lock
	 * held, so it must not call the gate. */
	void (*arm)(const struct clock *c, uint64_t due_ns);
};

static inline uint64_t clock_now(const struct clock *c)
{
	return c->now_ns(c);
}

#endif
