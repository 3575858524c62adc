/* SPDX-License-Identifier: MIT */
/* Limits for each key of a mount, or of a class around a class, hold for the requests that classes take. */
#include <stdlib.h>

#include "unit/gate_check.h"
#include "unit/world.h"

static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;
static struct gate_mount_config cfg;

static void up(void)
{
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
}

static void check_unpinned(struct key *key, void *arg)
{
	must(atomic_load(&key->pins) == 0);
	must(key->parked_below == 0);
}

static void leaf_unpinned(struct leaf *f, void *arg)
{
	keys_each(&f->keys, check_unpinned, NULL);
}

static void down(void)
{
	gate_check_empty(w.gate);
	leaves_each(&m->leaf.node, leaf_unpinned, NULL);
	world_fini(&w, fs, m);
}

/* A caller that submits its next request as soon as the previous one is done. */
struct greedy {
	struct work k;
	struct caller who;
	struct cost cost;
	uint64_t got; /* bytes, or ops if it moves no bytes */
	bool stop;
};

static void greedy_ask(struct greedy *g)
{
	g->k.job.ops = &work_ops;
	g->k.job.cost = g->cost;
	g->k.job.caller = g->who;
	g->k.job.memory_bytes = 100;
	g->k.world = &w;
	g->k.fate = PENDING;
	enum gate_verdict v = gate_try(m, &g->cost, &g->who, &g->k.job.grant);
	if (v == GATE_WOULD_BLOCK)
		v = gate_park(m, &g->k.job);
	if (v == GATE_GO)
		work_run(&g->k.job);
}

static void greedy_next(struct work *k)
{
	struct greedy *g = k->owner;
	if (k->fate != RAN)
		return;
	g->got += g->cost.bytes ? k->job.grant.cost.bytes : k->job.grant.cost.ops;
	gate_done(&k->job.grant, OUTCOME_OK, k->job.grant.cost.bytes);
	if (!g->stop)
		greedy_ask(g);
}

static void greedy_start(struct greedy *g, uint32_t uid, uint32_t tid, enum cost_class cls,
			 uint64_t bytes)
{
	*g = (struct greedy){.who = {.uid = uid, .tid = tid}, .cost = {cls, 1, bytes}};
	g->k.owner = g;
	g->k.on_end = greedy_next;
	greedy_ask(g);
}

static void greedy_end(struct greedy *g, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!g[i].stop && g[i].k.fate == PENDING)
			ck_assert(gate_cancel(w.gate, &g[i].k.job));
		g[i].stop = true;
	}
}

static struct rule *rule(const char *text)
{
	struct error err = ERROR_INIT;
	struct rule *r = rule_parse(text, NULL, &err);
	ck_assert_msg(r != NULL, "%s", err.text);
	return r;
}

static void near(double is, double want, double percent)
{
	ck_assert_msg(is >= want * (1 - percent / 100) && is <= want * (1 + percent / 100),
		      "%.0f is not within %.2f %% of %.0f", is, percent, want);
}

/* A mount with a limit for each user; writes belong to a class whose keys are processes. */
static struct rule *writes;
static struct gate_class_config by_op(void)
{
	writes = rule("op:write");
	return (struct gate_class_config){.name = "writes", .match = writes, .fair = FAIR_PROCESS};
}

static void capped_mount(enum limit_kind kind, uint64_t rate)
{
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.each, kind, rate);
	up();
}

START_TEST(a_class_does_not_take_its_callers_past_the_cap_of_the_mount)
{
	struct greedy g[6];
	capped_mount(LIMIT_BPS, MIB);
	struct gate_class_config c = by_op();
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 6; i++) /* two users with three processes each, one of which reads */
		greedy_start(&g[i], i / 3, i, i % 3 ? COST_WRITE : COST_READ, 4 * KIB);
	world_pass(&w, 100 * SEC);
	gate_check(w.gate);
	for (unsigned u = 0; u < 2; u++) {
		near((double)(g[3 * u].got + g[3 * u + 1].got + g[3 * u + 2].got), 100 * MIB, 0.2);
		for (unsigned i = 0; i < 3; i++) /* who waits for the same bucket takes turns */
			near((double)g[3 * u + i].got, 100 * MIB / 3.0, 3);
	}
	greedy_end(g, 6);
	rule_free(writes);
	down();
}
END_TEST

START_TEST(limits_for_each_key_hold_at_every_level)
{
	struct greedy g[4];
	struct rule *staff = rule("uid:1,uid:2"), *w1 = rule("op:write");
	capped_mount(LIMIT_BPS, 8 * MIB);
	struct gate_class_config c[] = {
		{.name = "inner", .parent = "outer", .match = w1, .fair = FAIR_PROCESS},
		{.name = "outer", .match = staff, .fair = FAIR_GID},
	};
	set_limit(&c[0].each, LIMIT_BPS, MIB);
	set_limit(&c[1].each, LIMIT_BPS, 3 * MIB);
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	/* All are of group 0: processes 1 and 2 write (1M each), user 1 reads: 3M together. */
	greedy_start(&g[0], 1, 1, COST_WRITE, 4 * KIB);
	greedy_start(&g[1], 2, 2, COST_WRITE, 4 * KIB);
	greedy_start(&g[2], 1, 3, COST_READ, 4 * KIB);
	/* User 3 is in no class, except when it writes: 8M. */
	greedy_start(&g[3], 3, 4, COST_READ, 4 * KIB);
	world_pass(&w, 50 * SEC);
	gate_check(w.gate);
	near((double)(g[0].got + g[1].got + g[2].got), 150 * MIB, 0.3);
	ck_assert_uint_le(g[0].got, 50 * MIB + MIB);
	ck_assert_uint_le(g[1].got, 50 * MIB + MIB);
	ck_assert_uint_ge(g[0].got, 48 * MIB);
	near((double)g[3].got, 400 * MIB, 0.3);
	/* The inner class alone: its own limit. */
	greedy_end(g + 2, 1);
	g[0].got = g[1].got = 0;
	world_pass(&w, 50 * SEC);
	near((double)g[0].got, 50 * MIB, 0.5);
	near((double)g[1].got, 50 * MIB, 0.5);
	greedy_end(g, 4);
	rule_free(staff);
	rule_free(w1);
	down();
}
END_TEST

/* Opens under one class, reads and writes under two others, with new processes and handles all the time, and pauses. */
START_TEST(neither_classes_nor_processes_nor_pauses_beat_the_cap_of_the_mount)
{
	struct rule *o = rule("op:open"), *r = rule("op:read"), *wr = rule("op:write");
	struct gate_class_config c[] = {{.name = "o", .match = o, .fair = FAIR_HANDLE},
					{.name = "r", .match = r, .fair = FAIR_PROCESS},
					{.name = "w", .match = wr, .fair = FAIR_HANDLE}};
	const enum cost_class does[] = {COST_OPENCLOSE, COST_READ, COST_WRITE, COST_META};
	uint64_t ops = 0;
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	cfg.max_keys = 4;
	set_limit(&cfg.each, LIMIT_IOPS, 100);
	up();
	ck_assert_int_eq(gate_set_classes(m, c, 3), 0);
	for (unsigned i = 0; i < 100000; i++) { /* 100 s */
		struct caller who = {.tid = 1000 + i, .uid = 7, .handle = 100 + i};
		struct cost cost = {does[i % 4], 1, 0};
		struct grant g;
		if (i % 1000 < 500 && gate_try(m, &cost, &who, &g) == GATE_GO) {
			ops++;
			gate_done(&g, OUTCOME_OK, 0);
		}
		if (i % 1000 == 700) /* others come, for whom idle keys are forgotten */
			for (uint32_t u = 0; u < 10; u++) {
				struct caller other = {.uid = 100 + u, .tid = i + u};
				if (gate_try(m, &cost, &other, &g) == GATE_GO)
					gate_done(&g, OUTCOME_OK, 0);
			}
		world_pass(&w, MS);
	}
	/* 50 of every 100 ops per second, plus what the window of 100 ms saves up in each pause */
	ck_assert_uint_le(ops, 100 * 61);
	ck_assert_uint_ge(ops, 100 * 50);
	rule_free(o);
	rule_free(r);
	rule_free(wr);
	down();
}
END_TEST

/* One large request in a class leaves its user's key in the mount in debt.  Idle keys make room for others, but not this
 * one. */
START_TEST(a_debt_in_an_outer_key_is_not_forgotten)
{
	struct grant g;
	const struct cost large = {COST_WRITE, 1, 100 * KIB}, small = {COST_READ, 1, 1};
	const struct caller debtor = {.uid = 7, .tid = 7};
	capped_mount(LIMIT_BPS, KIB);
	struct gate_class_config c = by_op();
	cfg.max_keys = 2;
	c.max_keys = 2;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	ck_assert_int_eq(gate_try(m, &large, &debtor, &g), GATE_GO);
	gate_done(&g, OUTCOME_OK, large.bytes);
	for (uint32_t i = 0; i < 90; i++) {
		struct caller other = {.uid = 100 + i, .tid = 100 + i};
		const struct cost write = {COST_WRITE, 1, 1};
		if (gate_try(m, &write, &other, &g) == GATE_GO)
			gate_done(&g, OUTCOME_OK, 1);
		ck_assert_int_eq(gate_try(m, &small, &debtor, &g), GATE_WOULD_BLOCK);
		world_pass(&w, SEC);
	}
	world_pass(&w, 11 * SEC);
	ck_assert_int_eq(gate_try(m, &small, &debtor, &g), GATE_GO);
	gate_done(&g, OUTCOME_OK, 1);
	rule_free(writes);
	down();
}
END_TEST

START_TEST(past_the_last_outer_key_callers_share_a_cap_and_get_less)
{
	static struct greedy g[64];
	uint64_t all = 0;
	capped_mount(LIMIT_BPS, MIB);
	struct gate_class_config c = by_op();
	cfg.max_keys = 8;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 64; i++)
		greedy_start(&g[i], i, i, COST_WRITE, 4 * KIB);
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < 64; i++) {
		all += g[i].got;
		ck_assert_uint_le(g[i].got, 10 * MIB + 2 * 110 * KIB);
		ck_assert_uint_ge(g[i].got, 10 * MIB / 16);
	}
	ck_assert_uint_le(all, 24 * 11 * MIB); /* 8 keys of their own, and 16 shared ones */
	greedy_end(g, 64);
	rule_free(writes);
	down();
}
END_TEST

/* Users 1 and 2 share a class of 10 ops/s.  User 1 also reads all that its cap of the mount allows: its ops in the class
 * must find tokens of that cap when it is their turn. */
static void share_a_slow_class(enum limit_kind each, uint64_t rate, uint64_t bytes)
{
	struct greedy g[6];
	capped_mount(each, rate);
	struct gate_class_config c = by_op();
	set_limit(&c.limits, LIMIT_WRITE_IOPS, 10);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 2; i < 6; i++)
		greedy_start(&g[i], 1, 10 + i, COST_READ, bytes);
	world_pass(&w, SEC);
	greedy_start(&g[0], 1, 1, COST_WRITE, bytes);
	greedy_start(&g[1], 2, 2, COST_WRITE, bytes);
	world_pass(&w, 100 * SEC);
	near((double)g[0].got, 500.0 * (double)max_u64(bytes, 1), 2);
	near((double)g[1].got, 500.0 * (double)max_u64(bytes, 1), 2);
	uint64_t all = g[0].got;
	for (unsigned i = 2; i < 6; i++)
		all += g[i].got;
	near((double)all, 101.0 * (double)rate, 1);
	greedy_end(g, 6);
	rule_free(writes);
	down();
}

START_TEST(a_turn_in_a_class_is_not_lost_for_want_of_the_outer_keys_bytes)
{
	share_a_slow_class(LIMIT_BPS, MIB, 32 * KIB);
}
END_TEST

START_TEST(a_turn_in_a_class_is_not_lost_for_want_of_the_outer_keys_ops)
{
	share_a_slow_class(LIMIT_IOPS, 40, 0);
}
END_TEST

START_TEST(caps_of_the_mount_come_and_go_while_requests_of_classes_wait)
{
	struct greedy g[4];
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	up();
	struct gate_class_config c = by_op();
	set_limit(&c.limits, LIMIT_BPS, 8 * MIB);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 4; i++)
		greedy_start(&g[i], i / 2, i, COST_WRITE, 4 * KIB);
	const struct { uint64_t cap, each_gets; } step[] = {
		{0, 2 * MIB}, {2 * MIB, MIB}, {MIB, MIB / 2}, {100 * MIB, 2 * MIB}, {0, 2 * MIB}};
	for (unsigned s = 0; s < 5; s++) {
		cfg.each = (struct limiter_config){0};
		if (step[s].cap)
			set_limit(&cfg.each, LIMIT_BPS, step[s].cap);
		ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
		gate_check(w.gate);
		world_pass(&w, SEC);
		for (unsigned i = 0; i < 4; i++)
			g[i].got = 0;
		world_pass(&w, 20 * SEC);
		gate_check(w.gate);
		for (unsigned i = 0; i < 4; i++)
			near((double)g[i].got, 20.0 * (double)step[s].each_gets, 2);
	}
	greedy_end(g, 4);
	rule_free(writes);
	down();
}
END_TEST

/* The class of a waiting request gets a parent with a limit for each key, and loses it again. */
START_TEST(a_class_that_moves_comes_under_the_caps_of_its_new_parent)
{
	struct greedy g[2];
	struct rule *all = rule("all"), *wr = rule("op:write");
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_BPS, 4 * MIB);
	up();
	struct gate_class_config c[] = {{.name = "in", .match = wr, .fair = FAIR_PROCESS},
					{.name = "out", .match = all, .fair = FAIR_UID}};
	set_limit(&c[1].each, LIMIT_BPS, MIB);
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	for (unsigned i = 0; i < 2; i++)
		greedy_start(&g[i], 5, i, COST_WRITE, 4 * KIB);
	for (unsigned s = 0; s < 4; s++) {
		c[0].parent = s & 1 ? "out" : NULL;
		ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
		world_pass(&w, SEC);
		g[0].got = g[1].got = 0;
		world_pass(&w, 20 * SEC);
		gate_check(w.gate);
		near((double)(g[0].got + g[1].got), (s & 1 ? 20.0 : 80.0) * MIB, 1);
	}
	greedy_end(g, 2);
	rule_free(all);
	rule_free(wr);
	down();
}
END_TEST

/* Closes do not wait, but their user pays for them, in whatever class it asks next; for at most 10 s of its cap. */
START_TEST(what_may_not_wait_in_a_class_is_paid_by_the_outer_key)
{
	struct grant g;
	const struct caller who = {.uid = 7, .tid = 7};
	const struct cost op = {COST_META, 1, 0}, write = {COST_WRITE, 1, 0};
	capped_mount(LIMIT_IOPS, 100);
	struct rule *meta = rule("op:meta");
	struct gate_class_config c = {.name = "meta", .match = meta, .fair = FAIR_PROCESS};
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 100000; i++) {
		gate_take(m, &op, &who, &g);
		gate_done(&g, OUTCOME_OK, 0);
	}
	world_pass(&w, 9 * SEC);
	ck_assert_int_eq(gate_try(m, &write, &who, &g), GATE_WOULD_BLOCK);
	ck_assert_int_eq(gate_try(m, &op, &who, &g), GATE_WOULD_BLOCK);
	world_pass(&w, 2 * SEC);
	ck_assert_int_eq(gate_try(m, &write, &who, &g), GATE_GO);
	gate_done(&g, OUTCOME_OK, 0);
	rule_free(meta);
	down();
}
END_TEST

/* A program that retries non-blocking writes in a class, beside a reader of the same user that waits. */
START_TEST(a_nonblocking_caller_in_a_class_gets_its_turns_at_the_cap_of_the_mount)
{
	struct greedy g;
	uint64_t got = 0;
	const struct caller who = {.uid = 1, .tid = 2};
	const struct cost piece = {COST_WRITE, 1, 4 * KIB};
	capped_mount(LIMIT_BPS, MIB);
	struct gate_class_config c = by_op();
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	greedy_start(&g, 1, 1, COST_READ, 4 * KIB);
	for (unsigned i = 0; i < 20000; i++) { /* 20 s */
		struct grant gr;
		if (gate_try_nonblocking(m, &piece, &who, 4 * KIB, &gr) == GATE_GO) {
			got += gr.cost.bytes;
			gate_done(&gr, OUTCOME_OK, gr.cost.bytes);
		}
		gate_check(w.gate);
		world_pass(&w, MS);
	}
	near((double)(got + g.got), 20 * MIB, 2);
	ck_assert_uint_ge(got, 6 * MIB);
	greedy_end(&g, 1);
	world_pass(&w, SEC);
	rule_free(writes);
	down();
}
END_TEST

START_TEST(a_wait_for_an_outer_key_is_named_after_the_scope_that_has_the_limit)
{
	struct greedy g[2];
	struct key_stats key[4];
	struct limit_wait waits[8];
	struct scope_limits now[CHAIN_SCOPES_MAX];
	capped_mount(LIMIT_BPS, MIB);
	struct gate_class_config c = by_op();
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 2; i++)
		greedy_start(&g[i], 1, i, COST_WRITE, 256 * KIB);
	world_pass(&w, 10 * SEC);
	ck_assert_uint_eq(gate_stats_keys(m, "writes", key, 4), 2);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(key[i].limit.known && key[i].limit.each);
		ck_assert_int_eq(key[i].limit.scope, SCOPE_MOUNT);
		ck_assert_str_eq(key[i].limit.name, "bps");
		ck_assert(key[i].waits_for.known && key[i].waits_for.each);
		ck_assert_int_eq(key[i].waits_for.scope, SCOPE_MOUNT);
	}
	ck_assert_uint_eq(gate_stats_waits(m, "writes", waits, 8), 1);
	ck_assert(waits[0].limit.each);
	ck_assert_int_eq(waits[0].limit.scope, SCOPE_MOUNT);
	ck_assert_uint_eq(gate_limits_class(m, "writes", now), 4);
	ck_assert(!now[0].each[LIMIT_BPS].enabled);
	near((double)now[1].each[LIMIT_BPS].blocking_ns, 10.0 * SEC, 3);
	greedy_end(g, 2);
	rule_free(writes);
	down();
}
END_TEST

START_TEST(a_dry_run_names_the_outer_key_and_leaves_no_debt)
{
	struct grant g;
	struct scope_limits now[CHAIN_SCOPES_MAX];
	struct key_stats key[4];
	const struct caller who = {.uid = 1, .tid = 1};
	const struct cost piece = {COST_WRITE, 1, 4 * KIB};
	capped_mount(LIMIT_BPS, 40 * KIB);
	struct gate_class_config c = by_op();
	cfg.dry_run = true;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 10; i++) {
		ck_assert_int_eq(gate_try(m, &piece, &who, &g), GATE_GO);
		gate_done(&g, OUTCOME_OK, piece.bytes);
	}
	gate_limits_class(m, "writes", now);
	ck_assert_uint_eq(now[1].each[LIMIT_BPS].would_wait, 9);
	ck_assert_uint_eq(gate_stats_keys(m, "writes", key, 4), 1);
	ck_assert(key[0].limit.each);
	ck_assert_int_eq(key[0].limit.scope, SCOPE_MOUNT);
	cfg.dry_run = false;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	world_pass(&w, 100 * MS);
	ck_assert_int_eq(gate_try(m, &piece, &who, &g), GATE_GO);
	gate_done(&g, OUTCOME_OK, piece.bytes);
	rule_free(writes);
	down();
}
END_TEST

START_TEST(a_limit_of_rate_0_in_an_outer_key_refuses)
{
	struct greedy g;
	capped_mount(LIMIT_BPS, KIB);
	struct gate_class_config c = by_op();
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	greedy_start(&g, 1, 1, COST_WRITE, 64 * KIB);
	ck_assert_int_eq(g.k.fate, PENDING); /* the second one waits */
	cfg.each.limit[LIMIT_BPS].rate_per_sec = 0;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(g.k.fate, REFUSED);
	ck_assert_int_eq(g.k.why, GRANT_MISCONFIGURED);
	rule_free(writes);
	down();
}
END_TEST

UNIT_MAIN("gate_outer", a_class_does_not_take_its_callers_past_the_cap_of_the_mount,
	  limits_for_each_key_hold_at_every_level,
	  neither_classes_nor_processes_nor_pauses_beat_the_cap_of_the_mount,
	  a_debt_in_an_outer_key_is_not_forgotten,
	  past_the_last_outer_key_callers_share_a_cap_and_get_less,
	  a_turn_in_a_class_is_not_lost_for_want_of_the_outer_keys_bytes,
	  a_turn_in_a_class_is_not_lost_for_want_of_the_outer_keys_ops,
	  caps_of_the_mount_come_and_go_while_requests_of_classes_wait,
	  a_class_that_moves_comes_under_the_caps_of_its_new_parent,
	  what_may_not_wait_in_a_class_is_paid_by_the_outer_key,
	  a_nonblocking_caller_in_a_class_gets_its_turns_at_the_cap_of_the_mount,
	  a_wait_for_an_outer_key_is_named_after_the_scope_that_has_the_limit,
	  a_dry_run_names_the_outer_key_and_leaves_no_debt, a_limit_of_rate_0_in_an_outer_key_refuses)
