/* SPDX-License-Identifier: MIT */
/* Limits for each key of a mount, or of a class around a class, hold for the requests that classes take. */
#include <malloc.h>
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
	uint64_t got;	      /* bytes, or ops if it moves no bytes */
	uint64_t now, now_ns; /* number of requests at this moment */
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
	g->now = g->now_ns == w.clock.now ? g->now + 1 : 0;
	g->now_ns = w.clock.now;
	ck_assert_msg(g->now < 5000, "nothing limits it");
	g->got += g->cost.bytes ? k->job.grant.cost.bytes : k->job.grant.cost.ops;
	gate_done(&k->job.grant, OUTCOME_OK, k->job.grant.cost.bytes);
	if (!g->stop)
		greedy_ask(g);
}

static void greedy_start_in(struct greedy *g, uint32_t gid, uint32_t uid, uint32_t tid,
			    enum cost_class cls, uint64_t bytes)
{
	*g = (struct greedy){.who = {.gid = gid, .uid = uid, .tid = tid}, .cost = {cls, 1, bytes}};
	g->k.owner = g;
	g->k.on_end = greedy_next;
	greedy_ask(g);
}

static void greedy_start(struct greedy *g, uint32_t uid, uint32_t tid, enum cost_class cls,
			 uint64_t bytes)
{
	greedy_start_in(g, 0, uid, tid, cls, bytes);
}

static void greedy_end(struct greedy *g, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!g[i].stop && g[i].k.fate == PENDING)
			ck_assert(gate_cancel(w.gate, &g[i].k.job));
		g[i].stop = true;
	}
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
	for (unsigned i = 0; i < 6;
	     i++) /* two users with three processes each, one of which reads */
		greedy_start(&g[i], i / 3, i, i % 3 ? COST_WRITE : COST_READ, 4 * KIB);
	world_pass(&w, 100 * SEC);
	gate_check(w.gate);
	for (unsigned u = 0; u < 2; u++) {
		near((double)(g[3 * u].got + g[3 * u + 1].got + g[3 * u + 2].got), 100 * MIB, 0.2);
		/* the class and the user's other requests share the cap, and processes share what the class gets */
		near((double)g[3 * u].got, 50 * MIB, 3);
		near((double)g[3 * u + 1].got, 25 * MIB, 3);
		near((double)g[3 * u + 2].got, 25 * MIB, 3);
	}
	greedy_end(g, 6);
	rule_free(writes);
	down();
}
END_TEST

/* User 1 has `n` processes in class "many" and one in class "one"; the mount caps each user at 1 MiB/s. */
static struct greedy of_class[65];
static void many_and_one(unsigned n, uint32_t weight, uint64_t bytes, uint64_t bytes_of_one)
{
	struct rule *many = rule("gid:1"), *one = rule("gid:2");
	const struct gate_class_config c[] = {
		{.name = "many", .match = many, .fair = FAIR_PROCESS, .weight = weight},
		{.name = "one", .match = one, .fair = FAIR_PROCESS}};
	capped_mount(LIMIT_BPS, MIB);
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	for (unsigned i = 0; i < n; i++)
		greedy_start_in(&of_class[i], 1, 1, 10 + i, COST_READ, bytes);
	if (bytes_of_one)
		greedy_start_in(&of_class[n], 2, 1, 9, COST_READ, bytes_of_one);
	rule_free(many);
	rule_free(one);
}

static void end_many(unsigned n, bool one)
{
	gate_check(w.gate);
	greedy_end(of_class, n + one);
	down();
}

static double got_by_many(unsigned n)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < n; i++)
		sum += of_class[i].got;
	return (double)sum;
}

START_TEST(classes_share_the_cap_of_a_user_whatever_the_number_of_their_processes)
{
	many_and_one(64, 1, 4 * KIB, 4 * KIB);
	of_class[0].got = 0; /* it found the limit full */
	world_pass(&w, 100 * SEC);
	near(got_by_many(64), 50 * MIB, 2);
	near((double)of_class[64].got, 50 * MIB, 2);
	for (unsigned i = 0; i < 64; i++)
		near((double)of_class[i].got, 50.0 * MIB / 64, 5);
	end_many(64, true);
}
END_TEST

START_TEST(weights_of_classes_divide_the_cap_of_a_user)
{
	many_and_one(8, 3, 4 * KIB, 4 * KIB);
	world_pass(&w, 100 * SEC);
	near(got_by_many(8), 75 * MIB, 2);
	near((double)of_class[8].got, 25 * MIB, 2);
	end_many(8, true);
}
END_TEST

START_TEST(large_requests_of_a_class_have_no_advantage_at_the_cap_of_a_user)
{
	many_and_one(4, 1, 64 * KIB, 4 * KIB);
	world_pass(&w, 100 * SEC);
	near(got_by_many(4), 50 * MIB, 3);
	near((double)of_class[4].got, 50 * MIB, 3);
	end_many(4, true);
}
END_TEST

START_TEST(a_light_class_waits_one_turn_at_the_cap_of_a_user)
{
	struct work k = {.job = {.memory_bytes = 100}};
	many_and_one(64, 1, 64 * KIB, 0); /* a turn takes 62.5 ms */
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < 20; i++) {
		k = (struct work){
			.world = &w, .mount = m, .job = {.ops = &work_ops, .memory_bytes = 100}};
		k.job.cost = (struct cost){COST_READ, 1, 4 * KIB};
		k.job.caller = (struct caller){.gid = 2, .uid = 1, .tid = 9};
		uint64_t came_ns = w.clock.now;
		if (gate_park(m, &k.job) == GATE_GO)
			work_run(&k.job);
		world_pass(&w, 500 * MS);
		ck_assert_int_eq(k.fate, RAN);
		ck_assert_uint_le(k.end_ns - came_ns, 65 * MS);
	}
	end_many(64, false);
}
END_TEST

START_TEST(those_who_give_up_cost_their_class_no_share_of_a_cap)
{
	many_and_one(64, 1, 4 * KIB, 4 * KIB);
	world_pass(&w, 10 * SEC);
	greedy_end(of_class + 1, 63);
	of_class[0].got = of_class[64].got = 0;
	world_pass(&w, 10 * SEC);
	near((double)of_class[0].got, 5 * MIB, 2);
	near((double)of_class[64].got, 5 * MIB, 2);
	gate_check(w.gate);
	greedy_end(of_class, 1);
	greedy_end(of_class + 64, 1);
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
	/* All are of group 0: processes 1 and 2 write (at most 1M each), user 1 reads: 3M together. */
	greedy_start(&g[0], 1, 1, COST_WRITE, 4 * KIB);
	greedy_start(&g[1], 2, 2, COST_WRITE, 4 * KIB);
	greedy_start(&g[2], 1, 3, COST_READ, 4 * KIB);
	/* User 3 is in no class, except when it writes: 8M. */
	greedy_start(&g[3], 3, 4, COST_READ, 4 * KIB);
	world_pass(&w, 50 * SEC);
	gate_check(w.gate);
	near((double)(g[0].got + g[1].got + g[2].got), 150 * MIB, 0.3);
	near((double)g[0].got, 37.5 * MIB, 2); /* the inner class gets half of it */
	near((double)g[1].got, 37.5 * MIB, 2);
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
	struct rule *group = rule("gid:1");
	struct gate_class_config c = {.name = "slow", .match = group, .fair = FAIR_PROCESS};
	set_limit(&c.limits, LIMIT_IOPS, 10);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 2; i < 6; i++)
		greedy_start(&g[i], 1, 10 + i, COST_READ, bytes);
	world_pass(&w, SEC);
	greedy_start_in(&g[0], 1, 1, 1, COST_READ, bytes);
	greedy_start_in(&g[1], 1, 2, 2, COST_READ, bytes);
	world_pass(&w, 100 * SEC);
	near((double)g[0].got, 500.0 * (double)max_u64(bytes, 1), 2);
	near((double)g[1].got, 500.0 * (double)max_u64(bytes, 1), 2);
	uint64_t all = g[0].got;
	for (unsigned i = 2; i < 6; i++)
		all += g[i].got;
	near((double)all, 101.0 * (double)rate, 1);
	greedy_end(g, 6);
	rule_free(group);
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

/* A class whose key is everybody, or a process that serves several users: who is at the cap delays only itself. */
static void users_in_one_key(enum fair_kind fair)
{
	struct greedy g[8];
	capped_mount(LIMIT_BPS, MIB);
	struct gate_class_config c = by_op();
	c.fair = fair;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 6; i++) /* user 1 asks five times as much as user 2 */
		greedy_start(&g[i], 1 + i / 5, 9, COST_WRITE, 4 * KIB);
	for (unsigned i = 6; i < 8; i++) /* users 3 and 4 ask seldom */
		g[i] = (struct greedy){.stop = true, .k = {.owner = &g[i], .on_end = greedy_next}};
	for (unsigned i = 0; i < 200; i++) {
		struct greedy *seldom = &g[6 + i % 2];
		seldom->who = (struct caller){.uid = 3 + i % 2, .tid = 9};
		seldom->cost = (struct cost){COST_WRITE, 1, 4 * KIB};
		greedy_ask(seldom);
		ck_assert_int_eq(seldom->k.fate, RAN);
		world_pass(&w, SEC / 10);
		gate_check(w.gate);
		if (i == 99)
			ck_assert_int_eq(gate_set_mount(m, &cfg), 0); /* all queues anew */
	}
	near((double)(g[0].got + g[1].got + g[2].got + g[3].got + g[4].got), 20 * MIB, 1);
	near((double)g[5].got, 20 * MIB, 1);
	greedy_end(g, 6);
	/* When it is empty, the queue is one again. */
	struct work k = {0};
	ck_assert_int_eq(work_submit(&w, &k, m, COST_WRITE, 4 * MIB, 9), GATE_GO);
	struct work next = {0};
	ck_assert_int_eq(work_submit(&w, &next, m, COST_WRITE, KIB, 9), GATE_PARKED);
	ck_assert(!lane_is_part(next.job.lane));
	world_pass(&w, 10 * SEC);
	ck_assert_int_eq(next.fate, RAN);
	rule_free(writes);
	down();
}

START_TEST(who_is_at_the_cap_delays_nobody_else_in_the_same_queue)
{
	users_in_one_key(FAIR_NONE);
	users_in_one_key(FAIR_PROCESS);
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
	const struct {
		uint64_t cap, each_gets;
	} step[] = {
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
		ck_assert(key[i].limit[0].known && key[i].limit[0].each);
		ck_assert_int_eq(key[i].limit[0].scope, SCOPE_MOUNT);
		ck_assert_str_eq(key[i].limit[0].name, "bps");
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

static void submit(struct work *k, uint32_t uid)
{
	const struct caller who = {.uid = uid, .tid = uid};
	k->job.ops = &work_ops;
	k->job.cost = (struct cost){COST_WRITE, 1, 0};
	k->job.caller = who;
	k->world = &w;
	enum gate_verdict v = gate_try(m, &k->job.cost, &who, &k->job.grant);
	if (v == GATE_WOULD_BLOCK)
		v = gate_park(m, &k->job);
	if (v == GATE_GO)
		work_run(&k->job);
}

static const struct limit_wait *waited_for(const struct limit_wait *waits, unsigned n, bool each)
{
	for (unsigned i = 0; i < n; i++)
		if (waits[i].limit.each == each)
			return &waits[i];
	ck_abort_msg("nobody waited");
	return NULL;
}

/* Two users share a queue of a class with 5 operations per second; each user has 10 in the mount.  At 0 ms, user 1 makes two
 * requests and user 2 one.  The first request of user 1 proceeds.  Its second waits for its user's limit until 100 ms, then
 * for the class until 400 ms, because user 2, whose request waits for the class only, has its turn at 200 ms. */
static void check_shares_of_a_wait(bool change)
{
	struct work k[3] = {0};
	struct limit_wait waits[8];
	capped_mount(LIMIT_IOPS, 10);
	struct gate_class_config c = by_op();
	c.fair = FAIR_NONE;
	set_limit(&c.limits, LIMIT_IOPS, 5);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	submit(&k[0], 1);
	submit(&k[1], 1);
	submit(&k[2], 2);
	world_pass(&w, 50 * MS);
	if (change) { /* queues are joined and divided again */
		cfg.weight = 7;
		ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	}
	world_pass(&w, SEC);
	unsigned n = gate_stats_waits(m, "writes", waits, 8);
	ck_assert_uint_eq(n, 2);
	ck_assert_uint_eq(waited_for(waits, n, true)->times.sum_ns, 100 * MS);
	ck_assert_uint_eq(waited_for(waits, n, false)->times.sum_ns, 500 * MS);
	rule_free(writes);
	down();
}

START_TEST(a_wait_in_a_divided_queue_is_divided_between_the_outer_key_and_the_class)
{
	check_shares_of_a_wait(false);
	check_shares_of_a_wait(true);
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
	ck_assert(key[0].would_limit.each);
	ck_assert_int_eq(key[0].would_limit.scope, SCOPE_MOUNT);
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

/* --- everything at random --- */

/* What each key of each scope was granted, by a model of its own: the largest of (granted − given back − rate × length) over
 * all intervals that end now.  It may be at most rate × 5 ms + max(capacity, largest request). */
#define DEPTH  6
#define USERS  3
#define TIDS   6
#define WORKS  120
#define SCOPES (DEPTH + 1) /* the mount is 0, class i is i + 1 */

struct excess {
	double tokens, largest;
	uint64_t at_ns, highest_rate;
};

static struct model {
	struct limiter_config each[SCOPES];
	enum fair_kind fair[SCOPES];
	unsigned n; /* classes */
	unsigned parent[SCOPES];
	struct excess excess[SCOPES][FAIR_KINDS][TIDS][LIMIT_KINDS];
} model;

static uint64_t rng, checks;

static uint64_t pick(uint64_t n)
{
	return unit_random(&rng) % n;
}

static const char *const class_rules[DEPTH] = {"uid:2&op:read", "op:write", "op:read",
					       "op:meta",	"op:open",  "op:readdir"};

/* The scope that a request belongs to, by class_rules. */
static unsigned scope_of(const struct caller *c, enum cost_class cls)
{
	static const enum cost_class takes[DEPTH] = {COST_READ, COST_WRITE,	COST_READ,
						     COST_META, COST_OPENCLOSE, COST_READDIR};
	for (unsigned i = 0; i < model.n; i++)
		if (takes[i] == cls && (i > 0 || c->uid == 2))
			return i + 1;
	return 0;
}

static uint64_t id_of(enum fair_kind kind, const struct caller *c)
{
	return kind == FAIR_UID ? c->uid : kind == FAIR_PROCESS ? c->tid : 0;
}

static void drain(struct excess *x, uint64_t rate)
{
	x->tokens -= (double)rate * (double)(w.clock.now - x->at_ns) / 1e9;
	x->tokens = x->tokens < 0 ? 0 : x->tokens;
	x->at_ns = w.clock.now;
}

static double tokens_of(unsigned kind, uint64_t ops, uint64_t bytes)
{
	return (double)(limit_kind_is_bytes(kind) ? bytes : ops);
}

static void grant_in(unsigned scope, const struct caller *who, const struct cost *cost)
{
	const struct limiter_config *c = &model.each[scope];
	const struct limiter like = {.config = *c};
	enum fair_kind fair = model.fair[scope];
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		if (!(limiter_kinds_for(&like, cost->cls) & 1U << k))
			continue;
		struct excess *x = &model.excess[scope][fair][id_of(fair, who)][k];
		double n = tokens_of(k, cost->ops, cost->bytes);
		double capacity = (double)limit_capacity(&c->limit[k], c->window_ns);
		drain(x, c->limit[k].rate_per_sec);
		x->highest_rate = max_u64(x->highest_rate, c->limit[k].rate_per_sec);
		x->tokens += n;
		x->largest = n > x->largest ? n : x->largest;
		/* some ops may have been taken in advance, and rounding */
		double room = (x->largest > capacity ? x->largest : capacity) +
			      (double)x->highest_rate * 0.005 +
			      (limit_kind_is_bytes(k) ? 2 : LANES + 1);
		must_say(x->tokens <= room,
			 "scope %u, key %u by %s, %s: %.0f beyond the rate, of %.0f", scope,
			 (unsigned)id_of(fair, who), fair_kind_name(fair), limit_kind_name(k),
			 x->tokens, room);
		checks++;
	}
}

/* Ends a request of which only some bytes were moved; these alone count. */
static void granted(const struct grant *g, const struct caller *who)
{
	uint64_t moved = pick(3) ? g->cost.bytes : pick(g->cost.bytes + 1);
	for (unsigned scope = scope_of(who, g->cost.cls);; scope = model.parent[scope]) {
		grant_in(scope, who, &g->cost);
		for (unsigned k = LIMIT_BPS; k < LIMIT_KINDS; k++) {
			enum fair_kind fair = model.fair[scope];
			struct excess *x = &model.excess[scope][fair][id_of(fair, who)][k];
			x->tokens -= tokens_of(k, 0, g->cost.bytes - moved);
			x->tokens = x->tokens < 0 ? 0 : x->tokens;
		}
		if (scope == 0)
			break;
	}
	gate_done(g, OUTCOME_OK, moved);
}

static void random_end(struct work *k)
{
	if (k->fate == RAN && !k->job.probe)
		granted(&k->job.grant, &k->job.caller);
}

/* A limit that stays keeps its level; a larger capacity starts as empty as the smaller one was. */
static void random_each(unsigned scope, struct limiter_config *out)
{
	struct limiter_config was = model.each[scope], now = {.window_ns = pick(3) ? 0 : SEC};
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		bool is_bytes = limit_kind_is_bytes(k);
		if (pick(100) < 20)
			set_limit(&now, k, is_bytes ? 64 * KIB + pick(4 * MIB) : 20 + pick(400));
		if (pick(3) == 0)
			now.limit[k].burst = is_bytes ? pick(MIB) : pick(20);
		for (unsigned i = 0; i < FAIR_KINDS * TIDS; i++) {
			struct excess *x = &model.excess[scope][i / TIDS][i % TIDS][k];
			drain(x, was.limit[k].rate_per_sec);
			if (!was.limit[k].enabled || !now.limit[k].enabled)
				*x = (struct excess){.at_ns = w.clock.now};
			else if (x->tokens > 0) /* otherwise the key may be new */
				x->tokens += (double)limit_capacity(&now.limit[k], now.window_ns) -
					     (double)limit_capacity(&was.limit[k], was.window_ns);
			x->tokens = x->tokens < 0 ? 0 : x->tokens;
		}
	}
	*out = model.each[scope] = now;
}

/* A class below a class below a class …; each takes another kind of operation. */
static void random_classes(struct rule *const rules[DEPTH])
{
	static const char *const names[DEPTH] = {"a", "b", "c", "d", "e", "f"};
	struct gate_class_config c[DEPTH];
	unsigned had = model.n;
	model.n = (unsigned)pick(DEPTH + 1);
	for (unsigned i = 0; i < model.n; i++) {
		unsigned scope = i + 1, parent = pick(4) ? i : (unsigned)pick(scope);
		if (i >= had) {
			model.each[scope] = (struct limiter_config){0};
			model.fair[scope] = pick(3) ? FAIR_UID : pick(2) ? FAIR_PROCESS : FAIR_NONE;
		}
		c[i] = (struct gate_class_config){.name = names[i],
						  .match = rules[i],
						  .parent = parent ? names[parent - 1] : NULL,
						  .fair = model.fair[scope],
						  .weight = (uint32_t)(1 + pick(3))};
		if (pick(4) == 0)
			set_limit(&c[i].limits, LIMIT_IOPS, 10 + pick(200));
		model.parent[scope] = parent;
		random_each(scope, &c[i].each);
	}
	ck_assert_int_eq(gate_set_classes(m, c, model.n), 0);
}

static struct caller random_caller(void)
{
	return (struct caller){.uid = (uint32_t)pick(USERS), .tid = (uint32_t)pick(TIDS)};
}

static struct cost random_cost(void)
{
	static const enum cost_class classes[] = {COST_READ, COST_WRITE, COST_READDIR, COST_META,
						  COST_OPENCLOSE};
	struct cost c = {classes[pick(5)], 1, 0};
	if (c.cls != COST_META && c.cls != COST_OPENCLOSE)
		c.bytes = 1 + pick(pick(4) ? 64 * KIB : MIB);
	return c;
}

static void random_submit(struct work *k)
{
	if (k->mount && k->fate == PENDING)
		return;
	bool probe = pick(20) == 0;
	*k = (struct work){.world = &w, .mount = m, .on_end = random_end};
	k->job = (struct job){.ops = &work_ops,
			      .cost = random_cost(),
			      .caller = random_caller(),
			      .memory_bytes = 100,
			      .probe = probe};
	enum gate_verdict v =
		probe ? GATE_WOULD_BLOCK : gate_try(m, &k->job.cost, &k->job.caller, &k->job.grant);
	if (v == GATE_WOULD_BLOCK)
		v = gate_park(m, &k->job);
	if (v == GATE_GO && !probe)
		work_run(&k->job);
	if (v == GATE_GO && probe)
		k->mount = NULL;
	ck_assert(v == GATE_GO || v == GATE_PARKED);
}

static void random_nonblocking(void)
{
	struct caller who = random_caller();
	struct cost c = {pick(2) ? COST_READ : COST_WRITE, 1, 1 + pick(64 * KIB)};
	struct grant g;
	if (gate_try_nonblocking(m, &c, &who, GATE_PARTIAL_BYTES, &g) == GATE_GO)
		granted(&g, &who);
}

/* What is paid later, and what the outer keys pay in advance, the model does not know: it is more lenient. */
static void random_unwaiting(void)
{
	struct caller who = random_caller();
	struct cost c = random_cost();
	struct grant g;
	if (gate_take(m, &c, &who, &g))
		granted(&g, &who);
	else
		gate_done(&g, OUTCOME_OK, c.bytes);
}

static void random_step(struct work k[WORKS], struct rule *const rules[DEPTH])
{
	struct work *one = &k[pick(WORKS)];
	switch (pick(40)) {
	case 0:
		gate_step(w.gate, w.clock.now);
		random_classes(rules);
		break;
	case 1:
		gate_step(w.gate, w.clock.now);
		random_each(0, &cfg.each);
		ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
		break;
	case 2:
		ck_assert_int_eq(gate_pause_mount(m, pick(4) == 0), 0);
		break;
	case 3:
	case 4:
		if (one->mount && one->fate == PENDING && gate_cancel(w.gate, &one->job)) {
			one->fate = CANCELLED;
			one->ends++;
		}
		break;
	case 5:
		random_nonblocking();
		break;
	case 6:
		random_unwaiting();
		break;
	case 7:
	case 8:
	case 9:
	case 10:
	case 11:
		world_pass(&w, pick(pick(4) ? 20 * MS : SEC));
		break;
	default:
		random_submit(one);
	}
	gate_check(w.gate);
}

START_TEST(no_key_of_any_scope_gets_more_than_its_rate_whatever_changes)
{
	static struct work k[WORKS];
	struct rule *rules[DEPTH];
	for (unsigned i = 0; i < DEPTH; i++)
		rules[i] = rule(class_rules[i]);
	rng = unit_sched_seed();
	checks = 0;
	for (uint64_t run = unit_rounds(150); run > 0; run--) {
		memset(&model, 0, sizeof(model));
		memset(k, 0, sizeof(k));
		cfg = mount_config();
		cfg.fair = model.fair[0] = pick(4) ? FAIR_UID : FAIR_PROCESS;
		up();
		for (unsigned i = 0; i < 600; i++)
			random_step(k, rules);
		ck_assert_int_eq(gate_pause_mount(m, false), 0);
		for (unsigned i = 0; i < 10000 && w.clock.armed_ns != NEVER; i++)
			world_until(&w, w.clock.armed_ns);
		for (unsigned i = 0; i < WORKS; i++)
			must_say(!k[i].mount || k[i].ends == 1, "a job was forgotten");
		down();
	}
	printf("# %llu grants of keys\n", (unsigned long long)checks);
	ck_assert_uint_gt(checks, 1000);
	for (unsigned i = 0; i < DEPTH; i++)
		rule_free(rules[i]);
}
END_TEST

/* --- memory --- */

/* What ratefs(8) promises: 4 KiB for a key with two limits, in each scope that has them. */
START_TEST(a_caller_takes_at_most_4_kib_in_every_scope_with_limits_for_each_key)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	printf("# not measured with a sanitizer\n");
#else
	enum { CALLERS = 10000 };
	capped_mount(LIMIT_BPS, MIB);
	struct gate_class_config c = by_op();
	cfg.max_keys = c.max_keys = CALLERS;
	set_limit(&cfg.each, LIMIT_IOPS, 1000);
	c.each = cfg.each;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	size_t before = mallinfo2().uordblks;
	for (uint32_t i = 0; i < CALLERS; i++) {
		const struct caller who = {.uid = i, .tid = i};
		const struct cost one = {COST_WRITE, 1, 1};
		struct grant g;
		ck_assert_int_eq(gate_try(m, &one, &who, &g), GATE_GO);
		gate_done(&g, OUTCOME_OK, 1);
	}
	struct scope_stats now;
	gate_stats_mount(m, &now);
	ck_assert_uint_eq(now.keys_now, 2 * CALLERS);
	size_t each = (mallinfo2().uordblks - before) / CALLERS;
	printf("# %zu bytes for a caller with two keys\n", each);
	ck_assert_uint_le(each, 2 * 4096);
	rule_free(writes);
	down();
#endif
}
END_TEST

UNIT_MAIN("gate_outer", a_class_does_not_take_its_callers_past_the_cap_of_the_mount,
	  classes_share_the_cap_of_a_user_whatever_the_number_of_their_processes,
	  weights_of_classes_divide_the_cap_of_a_user,
	  large_requests_of_a_class_have_no_advantage_at_the_cap_of_a_user,
	  a_light_class_waits_one_turn_at_the_cap_of_a_user,
	  those_who_give_up_cost_their_class_no_share_of_a_cap,
	  limits_for_each_key_hold_at_every_level,
	  neither_classes_nor_processes_nor_pauses_beat_the_cap_of_the_mount,
	  a_debt_in_an_outer_key_is_not_forgotten,
	  past_the_last_outer_key_callers_share_a_cap_and_get_less,
	  a_turn_in_a_class_is_not_lost_for_want_of_the_outer_keys_bytes,
	  a_turn_in_a_class_is_not_lost_for_want_of_the_outer_keys_ops,
	  who_is_at_the_cap_delays_nobody_else_in_the_same_queue,
	  caps_of_the_mount_come_and_go_while_requests_of_classes_wait,
	  a_class_that_moves_comes_under_the_caps_of_its_new_parent,
	  what_may_not_wait_in_a_class_is_paid_by_the_outer_key,
	  a_nonblocking_caller_in_a_class_gets_its_turns_at_the_cap_of_the_mount,
	  a_wait_for_an_outer_key_is_named_after_the_scope_that_has_the_limit,
	  a_wait_in_a_divided_queue_is_divided_between_the_outer_key_and_the_class,
	  a_dry_run_names_the_outer_key_and_leaves_no_debt,
	  a_limit_of_rate_0_in_an_outer_key_refuses,
	  no_key_of_any_scope_gets_more_than_its_rate_whatever_changes,
	  a_caller_takes_at_most_4_kib_in_every_scope_with_limits_for_each_key)
