/* SPDX-License-Identifier: MIT */
/* Cancelling a job that is being ended in another way at the same time. */
#include "unit/world.h"

/* The fs layer cancels a job while it holds the lock that ending a job takes. */
START_TEST(a_cancel_refuses_nobody_else)
{
	struct world w;
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_READ_BPS, MIB);
	cfg.max_wait_ns = 50 * MS;
	world_init(&w);
	struct gate_mount *m = world_mount(&w, &fs, &cfg);
	struct work k[3] = {0};
	work_submit(&w, &k[0], m, COST_READ, MIB, 1);
	work_submit(&w, &k[1], m, COST_READ, MIB, 2);
	world_pass(&w, 10 * MS);
	work_submit(&w, &k[2], m, COST_READ, MIB, 3);
	w.clock.now += 45 * MS; /* k[1] is late, and nobody has stepped the gate yet */
	ck_assert(gate_cancel(w.gate, &k[2].job));
	ck_assert_int_eq(k[1].fate, PENDING);
	world_pass(&w, MS);
	ck_assert_int_eq(k[1].fate, REFUSED);
	ck_assert_int_eq(k[1].why, GRANT_TIMED_OUT);
	ck_assert_uint_eq(k[1].ends, 1);
	world_fini(&w, fs, m);
}
END_TEST

UNIT_MAIN("gate: cancel", a_cancel_refuses_nobody_else)
