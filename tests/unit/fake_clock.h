/* SPDX-License-Identifier: MIT */
/* A clock that moves only when a test changes `now`. */
#ifndef UNIT_FAKE_CLOCK_H
#define UNIT_FAKE_CLOCK_H

#include "base/util.h"
#include "sched/clock.h"

struct fake_clock {
	struct clock clk;
	uint64_t now;
	uint64_t armed_ns; /* what the gate last asked for */
	unsigned arms;	   /* how often it asked */
	unsigned reads;	   /* how often the time was read */
};

static inline struct fake_clock *fake_clock_of(const struct clock *c)
{
	return (struct fake_clock *)(uintptr_t)container_of(c, const struct fake_clock, clk);
}

static inline uint64_t fake_clock_now(const struct clock *c)
{
	struct fake_clock *f = fake_clock_of(c);
	f->reads++;
	return f->now;
}

static inline void fake_clock_arm(const struct clock *c, uint64_t due_ns)
{
	struct fake_clock *f = fake_clock_of(c);
	f->armed_ns = due_ns;
	f->arms++;
}

static inline void fake_clock_init(struct fake_clock *f, uint64_t now_ns)
{
	*f = (struct fake_clock){.clk = {.now_ns = fake_clock_now, .arm = fake_clock_arm},
				 .now = now_ns,
				 .armed_ns = NEVER};
}

#endif
