/* SPDX-License-Identifier: MIT */
#include "daemon/key_watch.h"

#include "daemon/registry.h"
#include "sched/gate.h"

#define KEPT_S 5

void key_watch_look(struct registry *r, const struct target *t)
{
	r->watch_left_s = KEPT_S;
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->gate_mount && target_covers(t, m))
			gate_watch_keys(m->gate_mount, true);
	}
}

void key_watch_tick(struct registry *r)
{
	if (!r->watch_left_s || --r->watch_left_s)
		return;
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->gate_mount)
			gate_watch_keys(m->gate_mount, false);
	}
}

bool key_watch_is_on(const struct registry *r)
{
	return r->watch_left_s;
}
