/* SPDX-License-Identifier: MIT */
#include "sched/clock.h"

#include "base/util.h"

static uint64_t fake_now(const struct clock *c)
{
	return container_of(c, const struct fake_clock, clk)->now;
}

static void fake_arm(const struct clock *c, uint64_t due_ns)
{
	struct fake_clock *f =
		(struct fake_clock *)(uintptr_t)container_of(c, const struct fake_clock, clk);
	f->armed_ns = due_ns;
	f->arms++;
}

void fake_clock_init(struct fake_clock *f, uint64_t now_ns)
{
	*f = (struct fake_clock){
		.clk = {.now_ns = fake_now, .arm = fake_arm}, .now = now_ns, .armed_ns = NEVER};
}
