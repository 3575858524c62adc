/* SPDX-License-Identifier: MIT */
/* Who waited for which limit, and the stream of events. */
#include "sched/events.h"
#include "unit/world.h"

static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;
static struct gate_mount_config cfg;
static struct work work[EVENTS_MAX + 100];
static struct key_stats keys[16];
static struct event events[EVENTS_MAX];
static unsigned woken;

static void setup(enum limit_kind kind, uint64_t rate)
{
	cfg = mount_config();
	if (rate)
		set_limit(&cfg.limits, kind, rate);
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	woken = 0;
}

static void finish(void)
{
	gate_mount_drain(m, true);
	world_fini(&w, fs, m);
}

static void set_global(enum limit_kind kind, uint64_t rate)
{
	struct limiter_config global = {0};
	set_limit(&global, kind, rate);
	ck_assert_int_eq(gate_set_global(w.gate, &global), 0);
}

static void wake(void *ctx)
{
	woken++;
}

static const struct key_stats *key_of(uint64_t id)
{
	unsigned n = gate_stats_keys(m, NULL, keys, ARRAY_SIZE(keys));
	for (unsigned i = 0; i < n; i++)
		if (keys[i].key.id == id)
			return &keys[i];
	ck_abort_msg("no such key");
}

START_TEST(a_key_remembers_the_limit_that_it_waited_for_longest)
{
	setup(LIMIT_IOPS, 10);
	for (unsigned i = 0; i < 5; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 7);
	world_pass(&w, SEC);
	const struct key_stats *k = key_of(7);
	ck_assert(k->limit[0].known && !k->limit[0].each);
	ck_assert_int_eq(k->limit[0].scope, SCOPE_MOUNT);
	ck_assert_str_eq(k->limit[0].name, "iops");
	ck_assert_uint_eq(k->limit[0].wait_ns, k->wait_ns);
	ck_assert_uint_eq(k->uid, 7);
	ck_assert(!k->waits_for.known); /* not any more */
	ck_assert_uint_eq(k->oldest_ns, 0);
	/* another limit, in a wider scope, for longer */
	set_global(LIMIT_READ_BPS, 1000);
	for (unsigned i = 10; i < 15; i++)
		work_submit(&w, &work[i], m, COST_READ, 4000, 7);
	world_pass(&w, 60 * SEC);
	k = key_of(7);
	ck_assert_int_eq(k->limit[0].scope, SCOPE_GLOBAL);
	ck_assert_str_eq(k->limit[0].name, "read_bps");
	ck_assert_uint_lt(k->limit[0].wait_ns, k->wait_ns);
	finish();
}
END_TEST

START_TEST(a_key_that_waits_says_for_what_and_since_when)
{
	setup(LIMIT_WRITE_BPS, 1000);
	work_submit(&w, &work[0], m, COST_WRITE, 100000, 1);
	world_pass(&w, SEC);
	work_submit(&w, &work[1], m, COST_WRITE, 100000, 2);
	world_pass(&w, 2 * SEC);
	const struct key_stats *k = key_of(2);
	ck_assert_uint_eq(k->oldest_ns, 2 * SEC);
	ck_assert_str_eq(k->waits_for.name, "write_bps");
	ck_assert_int_eq(k->waits_for.scope, SCOPE_MOUNT);
	gate_pause_mount(m, true);
	world_pass(&w, SEC);
	k = key_of(2);
	ck_assert_uint_eq(k->oldest_ns, 3 * SEC);
	ck_assert(k->waits_for.known);
	gate_pause_mount(m, false);
	finish();
}
END_TEST

START_TEST(a_limit_of_each_key_is_told_from_those_of_all)
{
	cfg = mount_config();
	set_limit(&cfg.each, LIMIT_IOPS, 10);
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < 4; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 3);
	world_pass(&w, SEC);
	const struct key_stats *k = key_of(3);
	ck_assert(k->limit[0].known && k->limit[0].each);
	ck_assert_int_eq(k->limit[0].scope, SCOPE_MOUNT);
	ck_assert_str_eq(k->limit[0].name, "iops");
	finish();
}
END_TEST

START_TEST(a_dry_run_names_the_limit_that_would_have_been_waited_for)
{
	setup(LIMIT_IOPS, 10);
	cfg.dry_run = true;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(work_submit(&w, &work[i], m, COST_META, 0, 9), GATE_GO);
	const struct key_stats *k = key_of(9);
	ck_assert_str_eq(k->would_limit.name, "iops");
	ck_assert_uint_gt(k->would_limit.wait_ns, 0);
	ck_assert_uint_eq(k->uid, 9);
	finish();
}
END_TEST

/* As after a short read: its key has not used what a request did not move. */
START_TEST(a_key_has_used_what_its_requests_have_moved)
{
	setup(LIMIT_READ_BPS, 10000);
	w.keep = true;
	for (unsigned i = 0; i < 3; i++) /* the first does not wait */
		work_submit(&w, &work[i], m, COST_READ, 1000, 7);
	world_pass(&w, SEC);
	ck_assert_uint_eq(key_of(7)->bytes, 2000);
	gate_done(&work[0].job.grant, OUTCOME_OK, 10);
	gate_done(&work[1].job.grant, OUTCOME_OK, 10);
	gate_done(&work[2].job.grant, OUTCOME_ERROR, 0);
	ck_assert_uint_eq(key_of(7)->bytes, 10);
	/* what would have waited in a dry run */
	cfg.dry_run = true;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	world_pass(&w, SEC);
	for (unsigned i = 3; i < 6; i++)
		ck_assert_int_eq(work_submit(&w, &work[i], m, COST_READ, 1000, 7), GATE_GO);
	ck_assert_uint_eq(key_of(7)->bytes, 2010);
	gate_done(&work[3].job.grant, OUTCOME_OK, 5);
	gate_done(&work[4].job.grant, OUTCOME_OK, 5);
	ck_assert_uint_eq(key_of(7)->bytes, 1015);
	/* a reset in between */
	gate_stats_reset(w.gate);
	gate_done(&work[5].job.grant, OUTCOME_OK, 5);
	ck_assert_int_eq(work_submit(&w, &work[6], m, COST_READ, 1000, 7), GATE_GO);
	ck_assert_uint_eq(key_of(7)->bytes, 1000);
	gate_done(&work[6].job.grant, OUTCOME_OK, 1000);
	finish();
}
END_TEST

START_TEST(a_reset_forgets_waits_and_limits)
{
	setup(LIMIT_IOPS, 10);
	for (unsigned i = 0; i < 5; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 7);
	world_pass(&w, SEC);
	gate_stats_reset(w.gate);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, keys, ARRAY_SIZE(keys)), 0);
	finish();
}
END_TEST

START_TEST(events_tell_what_became_of_requests_that_had_to_wait)
{
	uint64_t dropped;
	setup(LIMIT_IOPS, 10);
	cfg.max_wait_ns = 250 * MS;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(gate_events_start(w.gate, wake, NULL), 0);
	for (unsigned i = 0; i < 5; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 7);
	ck_assert_uint_eq(woken, 0); /* nothing has happened yet */
	ck_assert(gate_cancel(w.gate, &work[4].job));
	world_pass(&w, SEC);
	ck_assert_uint_eq(woken, 1);
	unsigned n = gate_events_take(w.gate, events, EVENTS_MAX, &dropped);
	ck_assert_uint_eq(n, 4); /* the first one did not wait */
	ck_assert_uint_eq(dropped, 0);
	ck_assert_int_eq(events[0].kind, EVENT_CANCELLED);
	ck_assert_int_eq(events[1].kind, EVENT_ADMITTED);
	ck_assert_uint_eq(events[1].wait_ns, 100 * MS);
	ck_assert_str_eq(events[1].limit[0].name, "iops");
	ck_assert_uint_eq(events[1].key.id, 7);
	ck_assert_ptr_eq(events[1].mount, m);
	ck_assert_int_eq(events[3].kind, EVENT_TIMED_OUT);
	ck_assert_uint_eq(events[3].wait_ns, 250 * MS);
	gate_events_stop(w.gate);
	finish();
}
END_TEST

START_TEST(a_full_ring_drops_the_newest_and_counts_them)
{
	uint64_t dropped;
	setup(LIMIT_IOPS, 1000);
	ck_assert_int_eq(gate_events_start(w.gate, wake, NULL), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(work); i++)
		work_submit(&w, &work[i], m, COST_META, 0, i % 8);
	world_pass(&w, 60 * SEC);
	struct scope_stats st;
	gate_stats_mount(m, &st);
	uint64_t waited = st.cls[COST_META].parked;
	ck_assert_uint_gt(waited, 0);
	unsigned n = gate_events_take(w.gate, events, EVENTS_MAX, &dropped);
	ck_assert_uint_eq(n + dropped, waited);
	ck_assert_uint_eq(n, min_u64(waited, EVENTS_MAX));
	ck_assert_uint_eq(gate_events_take(w.gate, events, EVENTS_MAX, &dropped), 0);
	ck_assert_uint_eq(dropped, 0);
	gate_events_stop(w.gate);
	/* without a listener nothing is kept */
	work_submit(&w, &work[0], m, COST_META, 0, 1);
	ck_assert_uint_eq(gate_events_take(w.gate, events, EVENTS_MAX, &dropped), 0);
	finish();
}
END_TEST

START_TEST(what_is_refused_without_waiting_is_told_apart)
{
	uint64_t dropped;
	struct scope_stats st;
	setup(LIMIT_IOPS, 1);
	cfg.max_parked = 1;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(gate_events_start(w.gate, wake, NULL), 0);
	work_submit(&w, &work[0], m, COST_META, 0, 1);
	ck_assert_int_eq(work_submit(&w, &work[1], m, COST_META, 0, 1), GATE_PARKED);
	ck_assert_int_eq(work_submit(&w, &work[2], m, COST_META, 0, 1), GATE_NO_ROOM);
	gate_stats_mount(m, &st);
	ck_assert_uint_eq(st.cls[COST_META].no_room, 1);
	ck_assert_uint_eq(st.cls[COST_META].full, 0);
	ck_assert_uint_eq(gate_events_take(w.gate, events, EVENTS_MAX, &dropped), 1);
	ck_assert_int_eq(events[0].kind, EVENT_NO_ROOM);
	gate_events_stop(w.gate);
	finish();
}
END_TEST

static struct waited_limit limit_of_refusal(enum event_kind kind)
{
	uint64_t dropped;
	ck_assert_uint_eq(gate_events_take(w.gate, events, EVENTS_MAX, &dropped), 1);
	ck_assert_int_eq(events[0].kind, kind);
	return events[0].limit[0];
}

/* A request that is refused immediately has waited for nothing, but something has refused it. */
START_TEST(a_refusal_names_the_limit_that_refused)
{
	struct cost c = {COST_READ, 1, 1000};
	struct grant g;
	setup(LIMIT_READ_BPS, 10000);
	set_global(LIMIT_IOPS, 100000);
	ck_assert_int_eq(gate_events_start(w.gate, wake, NULL), 0);
	ck_assert_int_eq(gate_try_nonblocking(m, &c, &nobody, 1000, &g), GATE_GO);
	gate_done(&g, OUTCOME_OK, 1000);
	ck_assert_int_eq(gate_try_nonblocking(m, &c, &nobody, 1000, &g), GATE_WOULD_BLOCK);
	struct waited_limit l = limit_of_refusal(EVENT_WOULD_BLOCK);
	ck_assert(l.known && !l.each);
	ck_assert_int_eq(l.scope, SCOPE_MOUNT);
	ck_assert_str_eq(l.name, "read_bps");
	gate_events_stop(w.gate);
	finish();
}
END_TEST

START_TEST(a_refusal_names_a_limit_of_each_key)
{
	struct cost c = {COST_READ, 1, 1000};
	struct grant g;
	cfg = mount_config();
	set_limit(&cfg.each, LIMIT_READ_BPS, 10000);
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	ck_assert_int_eq(gate_events_start(w.gate, wake, NULL), 0);
	ck_assert_int_eq(gate_try_nonblocking(m, &c, &nobody, 1000, &g), GATE_GO);
	gate_done(&g, OUTCOME_OK, 1000);
	ck_assert_int_eq(gate_try_nonblocking(m, &c, &nobody, 1000, &g), GATE_WOULD_BLOCK);
	struct waited_limit l = limit_of_refusal(EVENT_WOULD_BLOCK);
	ck_assert(l.known && l.each);
	ck_assert_str_eq(l.name, "read_bps");
	gate_events_stop(w.gate);
	finish();
}
END_TEST

START_TEST(a_full_bulkhead_names_its_scope)
{
	setup(LIMIT_READ_BPS, 1000000);
	cfg.limits.max_inflight = 1;
	cfg.full_rejects = true;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(gate_events_start(w.gate, wake, NULL), 0);
	w.keep = true;
	ck_assert_int_eq(work_submit(&w, &work[0], m, COST_READ, 10, 1), GATE_GO);
	ck_assert_int_eq(work_submit(&w, &work[1], m, COST_READ, 10, 1), GATE_FULL);
	struct waited_limit l = limit_of_refusal(EVENT_FULL);
	ck_assert(l.known);
	ck_assert_int_eq(l.scope, SCOPE_MOUNT);
	ck_assert_str_eq(l.name, "max_inflight");
	gate_done(&work[0].job.grant, OUTCOME_OK, 10);
	gate_events_stop(w.gate);
	finish();
}
END_TEST

/* Refused after it was admitted, by what is not a rate. */
START_TEST(too_many_open_files_and_no_space_are_events_like_other_refusals)
{
	struct cost c = {COST_OPENCLOSE, 1, 0};
	struct grant g;
	setup(LIMIT_READ_BPS, 1000000);
	cfg.limits.max_open = 1;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	const struct scope_way *way = gate_open_try(m, &nobody);
	ck_assert_int_eq(gate_events_start(w.gate, wake, NULL), 0);
	ck_assert_int_eq(gate_try(m, &c, &nobody, &g), GATE_GO);
	ck_assert_ptr_null(gate_open_try(m, &nobody));
	gate_refused(&g, &nobody, OUTCOME_TOO_MANY_OPEN);
	gate_done(&g, OUTCOME_TOO_MANY_OPEN, 0);
	struct waited_limit l = limit_of_refusal(EVENT_TOO_MANY_OPEN);
	ck_assert(l.known && !l.each);
	ck_assert_int_eq(l.scope, SCOPE_MOUNT);
	ck_assert_str_eq(l.name, "max_open");
	ck_assert_int_eq(gate_try(m, &c, &nobody, &g), GATE_GO);
	gate_refused(&g, &nobody, OUTCOME_NO_SPACE);
	gate_done(&g, OUTCOME_NO_SPACE, 0);
	ck_assert(!limit_of_refusal(EVENT_NO_SPACE).known);
	gate_events_stop(w.gate);
	gate_open_release(way);
	finish();
}
END_TEST

/* --- names --- */

static const char *program;
static unsigned looked_up;

static void name_of(const struct caller *c, char buf[CALLER_NAME_MAX])
{
	looked_up++;
	snprintf(buf, CALLER_NAME_MAX, "%s", program);
}

static uint64_t process_of(const struct caller *c, uint64_t now_ns)
{
	return c->tid;
}

static const struct caller_ops named = {.process = process_of, .name = name_of};

static void wait_as(enum fair_kind fair, const char *name)
{
	program = name;
	for (unsigned i = 0; i < 3; i++)
		work_submit(&w, &work[i], m, COST_META, 0, 7);
	world_pass(&w, SEC);
	ck_assert_int_eq(key_of(7)->key.kind, fair);
}

START_TEST(a_key_is_called_as_the_program_that_waited_last)
{
	setup(LIMIT_IOPS, 10);
	gate_set_caller_ops(w.gate, &named);
	looked_up = 0;
	wait_as(cfg.fair, "sh");
	ck_assert_str_eq(key_of(7)->name, "sh");
	wait_as(cfg.fair, "rsync"); /* not again so soon: reading /proc takes time */
	ck_assert_str_eq(key_of(7)->name, "sh");
	ck_assert_uint_eq(looked_up, 1);
	world_pass(&w, 10 * SEC);
	wait_as(cfg.fair, "rsync");
	ck_assert_str_eq(key_of(7)->name, "rsync");
	world_pass(&w, 10 * SEC);
	wait_as(cfg.fair, ""); /* is gone */
	ck_assert_str_eq(key_of(7)->name, "rsync");
	finish();
}
END_TEST

START_TEST(a_user_has_the_name_of_the_program_that_waited_last)
{
	setup(LIMIT_IOPS, 10);
	gate_set_caller_ops(w.gate, &named);
	cfg.fair = FAIR_UID;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	wait_as(FAIR_UID, "make");
	ck_assert_str_eq(key_of(7)->name, "make");
	finish();
}
END_TEST

UNIT_MAIN("gate_waits", a_key_remembers_the_limit_that_it_waited_for_longest,
	  a_key_that_waits_says_for_what_and_since_when,
	  a_limit_of_each_key_is_told_from_those_of_all,
	  a_dry_run_names_the_limit_that_would_have_been_waited_for,
	  a_key_has_used_what_its_requests_have_moved, a_reset_forgets_waits_and_limits,
	  events_tell_what_became_of_requests_that_had_to_wait,
	  a_full_ring_drops_the_newest_and_counts_them,
	  what_is_refused_without_waiting_is_told_apart, a_refusal_names_the_limit_that_refused,
	  a_refusal_names_a_limit_of_each_key, a_full_bulkhead_names_its_scope,
	  too_many_open_files_and_no_space_are_events_like_other_refusals,
	  a_key_is_called_as_the_program_that_waited_last,
	  a_user_has_the_name_of_the_program_that_waited_last)
