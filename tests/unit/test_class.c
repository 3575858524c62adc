/* SPDX-License-Identifier: MIT */
/* Limits for each key, classes, reservations: on a clock that moves only when told. */
#include <errno.h>
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

static void down(void)
{
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}

/* A caller that submits its next transfer as soon as the previous one is done. */
struct greedy {
	struct work k;
	uint64_t bytes, got, uid;
	enum cost_class cls;
	bool stop;
};

static void greedy_ask(struct greedy *g)
{
	work_submit(&w, &g->k, m, g->cls, g->bytes, g->uid);
}

static void greedy_next(struct work *k)
{
	struct greedy *g = k->owner;
	if (k->fate != RAN)
		return;
	g->got += k->job.grant.cost.bytes + k->job.grant.cost.ops;
	gate_done(&k->job.grant, OUTCOME_OK, k->job.grant.cost.bytes);
	if (!g->stop)
		greedy_ask(g);
}

static void greedy_start(struct greedy *g, uint64_t uid, uint64_t bytes)
{
	*g = (struct greedy){.uid = uid, .bytes = bytes, .cls = COST_READ};
	g->k.owner = g;
	g->k.on_end = greedy_next;
	greedy_ask(g);
}

static void greedy_end(struct greedy *g, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		g[i].stop = true;
		if (g[i].k.fate == PENDING)
			ck_assert(gate_cancel(w.gate, &g[i].k.job));
	}
}

/* --- each --- */

START_TEST(each_key_has_a_limit_of_its_own)
{
	struct greedy g[8];
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.each, LIMIT_BPS, MIB);
	up();
	ck_assert(!gate_unlimited(m, COST_READ));
	ck_assert(gate_unlimited(m, COST_META));
	for (unsigned i = 0; i < 8; i++)
		greedy_start(&g[i], i, 4 * KIB);
	world_pass(&w, 100 * SEC);
	gate_check(w.gate);
	for (unsigned i = 0; i < 8; i++)
		near(g[i].got, 100 * MIB, 0.2);
	greedy_end(g, 8);
	down();
}
END_TEST

/* Users 1 and 2 are in classes of their own.  User 2 reads with new processes all the time, through handles of its own
 * and through one that user 1 has opened for it: in its class it has its cap, and leaves that of user 1 alone. */
START_TEST(neither_new_processes_nor_handles_of_another_class_beat_the_limit_of_a_key)
{
	struct rule *one = rule("uid:1"), *two = rule("uid:2");
	struct gate_class_config c[] = {{.name = "one", .match = one, .fair = FAIR_UID},
					{.name = "two", .match = two, .fair = FAIR_UID}};
	const struct cost piece = {COST_READ, 1, 4 * KIB};
	uint64_t got[3] = {0};
	set_limit(&c[0].each, LIMIT_BPS, MIB);
	set_limit(&c[1].each, LIMIT_BPS, MIB);
	cfg = mount_config();
	up();
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	const struct scope_way *opened =
		gate_open_try(m, &(struct caller){.tid = 1, .uid = 1, .handle = 7});
	ck_assert_ptr_nonnull(opened);
	for (unsigned i = 0; i < 100000; i++) { /* 10 s */
		struct grant g;
		struct caller who = {.tid = 1000 + i, .uid = 2, .handle = i & 1 ? 7 : 100 + i};
		if (i % 1000 > 900)
			who = (struct caller){.tid = 1, .uid = 1, .handle = 7};
		if (gate_try(m, &piece, &who, &g) == GATE_GO) {
			got[who.uid] += g.cost.bytes;
			gate_done(&g, OUTCOME_OK, g.cost.bytes);
		}
		world_pass(&w, MS / 10);
	}
	/* the cap for 10 s and a window of 100 ms; user 1 tries only 10 ms of every 100 ms */
	ck_assert_uint_le(got[2], 10 * MIB + MIB / 10 + 4 * KIB);
	ck_assert_uint_ge(got[2], 9 * MIB);
	ck_assert_uint_ge(got[1], 3 * MIB);
	gate_open_release(opened);
	rule_free(one);
	rule_free(two);
	down();
}
END_TEST

START_TEST(a_pause_does_not_beat_the_limit_of_a_key)
{
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	cfg.max_keys = 4;
	set_limit(&cfg.each, LIMIT_BPS, KIB);
	up();
	/* one request far above the capacity: a debt of 100 s */
	struct work k = {0}, other[100] = {0}, again = {0};
	ck_assert_int_eq(work_submit(&w, &k, m, COST_READ, 100 * KIB, 7), GATE_GO);
	for (unsigned i = 0; i < 100;
	     i++) { /* others would evict it from a table that forgets debtors */
		world_pass(&w, 10 * MS);
		work_submit(&w, &other[i], m, COST_READ, 10, 100 + i);
	}
	ck_assert_int_eq(work_submit(&w, &again, m, COST_READ, 1, 7), GATE_PARKED);
	world_pass(&w, 50 * SEC);
	ck_assert_int_eq(again.fate, PENDING);
	world_pass(&w, 60 * SEC);
	ck_assert_int_eq(again.fate, RAN);
	down();
}
END_TEST

START_TEST(past_the_last_key_callers_share_a_limit_and_get_less)
{
	static struct greedy g[64];
	uint64_t all = 0;
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	cfg.max_keys = 8;
	set_limit(&cfg.each, LIMIT_BPS, MIB);
	up();
	for (unsigned i = 0; i < 64; i++)
		greedy_start(&g[i], i, 4 * KIB);
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < 64; i++) {
		all += g[i].got;
		ck_assert_uint_le(g[i].got, 10 * MIB + 2 * 110 * KIB);
	}
	/* 8 keys of their own, and 16 shared ones */
	ck_assert_uint_le(all, 24 * 11 * MIB);
	greedy_end(g, 64);
	down();
}
END_TEST

/* User 2 finds no room, so it uses a shared key.  Then room appears, and it gets a key of its own. */
static void use_shared_key(struct work *one, struct work *two, uint64_t bytes)
{
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	cfg.max_keys = 1;
	set_limit(&cfg.each, LIMIT_BPS, KIB);
	cfg.each.limit[LIMIT_BPS].burst = 100 * KIB;
	up();
	ck_assert_int_eq(work_submit(&w, one, m, COST_READ, 10, 1), GATE_GO);
	ck_assert_int_eq(work_submit(&w, two, m, COST_READ, bytes, 2), GATE_GO);
	world_pass(&w, SEC); /* user 1 owes nothing any more: its key can be evicted */
}

START_TEST(a_key_of_ones_own_after_a_shared_one_is_no_second_burst)
{
	struct work one = {0}, two = {0}, again = {0};
	use_shared_key(&one, &two, 100 * KIB);
	ck_assert_int_eq(work_submit(&w, &again, m, COST_READ, 10 * KIB, 2), GATE_PARKED);
	world_pass(&w, 8 * SEC);
	ck_assert_int_eq(again.fate, PENDING);
	world_pass(&w, 2 * SEC);
	ck_assert_int_eq(again.fate, RAN);
	down();
}
END_TEST

START_TEST(a_debt_in_a_shared_key_is_not_forgiven)
{
	struct work one = {0}, two = {0}, again = {0};
	use_shared_key(&one, &two, 200 * KIB); /* a debt of about 100 s */
	ck_assert_int_eq(work_submit(&w, &again, m, COST_READ, 1, 2), GATE_PARKED);
	world_pass(&w, 90 * SEC);
	ck_assert_int_eq(again.fate, PENDING);
	world_pass(&w, 12 * SEC);
	ck_assert_int_eq(again.fate, RAN);
	down();
}
END_TEST

START_TEST(a_debt_in_a_shared_key_does_not_bind_callers_that_never_used_it)
{
	static struct work k[100];
	struct work one = {0}, two = {0};
	unsigned parked = 0;
	use_shared_key(&one, &two, 200 * KIB);
	memset(k, 0, sizeof(k));
	for (unsigned i = 0; i < 100; i++) {
		parked += work_submit(&w, &k[i], m, COST_READ, 1, 100 + i) == GATE_PARKED;
		world_pass(&w, SEC);
	}
	/* of 16 shared keys one is in debt, and one of 64 callers is taken for user 2 */
	ck_assert_uint_le(parked, 2);
	world_pass(&w, 200 * SEC);
	down();
}
END_TEST

START_TEST(limits_for_each_come_and_go_while_requests_wait)
{
	struct greedy g[4];
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	up();
	set_limit(&cfg.limits, LIMIT_BPS, 8 * MIB);
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	for (unsigned i = 0; i < 4; i++)
		greedy_start(&g[i], i, 4 * KIB);
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < 4; i++)
		near(g[i].got, 20 * MIB, 5); /* one of them found the bucket full */
	set_limit(&cfg.each, LIMIT_BPS, MIB);
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	for (unsigned i = 0; i < 4; i++)
		g[i].got = 0;
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < 4; i++)
		near(g[i].got, 10 * MIB, 2);
	gate_check(w.gate);
	cfg.each.limit[LIMIT_BPS].rate_per_sec = 100 * MIB;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	for (unsigned i = 0; i < 4; i++)
		g[i].got = 0;
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < 4; i++)
		near(g[i].got, 20 * MIB, 2);
	cfg.each.limit[LIMIT_BPS].enabled = false;
	ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	greedy_end(g, 4);
	down();
}
END_TEST

START_TEST(a_wait_for_the_limit_of_a_key_is_seen_at_its_leaf)
{
	struct scope_limits now[CHAIN_SCOPES_MAX];
	struct key_stats key[4];
	struct greedy g[2];
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.each, LIMIT_BPS, MIB);
	up();
	for (unsigned i = 0; i < 2; i++)
		greedy_start(&g[i], i, 256 * KIB);
	world_pass(&w, 10 * SEC);
	ck_assert_uint_eq(gate_limits_mount(m, now), 3);
	ck_assert(now[0].each[LIMIT_BPS].enabled);
	ck_assert_uint_eq(now[0].each[LIMIT_BPS].rate_per_sec, MIB);
	/* of both keys together, counted once */
	near((double)now[0].each[LIMIT_BPS].blocking_ns, 10.0 * SEC, 3);
	ck_assert_uint_eq(now[0].limit[LIMIT_BPS].blocking_ns, 0);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, key, 4), 2);
	ck_assert_uint_eq(key[0].capped, 1U << LIMIT_BPS);
	ck_assert_int_lt(key[0].level[LIMIT_BPS], 110 * KIB);
	greedy_end(g, 2);
	uint64_t before = now[0].each[LIMIT_BPS].blocking_ns;
	world_pass(&w, 10 * SEC);
	gate_limits_mount(m, now);
	near((double)now[0].each[LIMIT_BPS].blocking_ns, (double)before, 1);
	gate_stats_reset(w.gate);
	gate_limits_mount(m, now);
	ck_assert_uint_eq(now[0].each[LIMIT_BPS].blocking_ns, 0);
	down();
}
END_TEST

/* --- classes --- */

static struct gate_class_config class_config(const char *name, const struct rule *match)
{
	return (struct gate_class_config){
		.name = name, .match = match, .fair = FAIR_UID, .weight = 1};
}

START_TEST(the_first_class_that_matches_takes_the_request)
{
	struct rule *r[] = {rule("uid:1"), rule("uid:1,uid:2"), rule("op:write")};
	struct gate_class_config c[] = {class_config("one", r[0]), class_config("two", r[1]),
					class_config("writes", r[2])};
	cfg = mount_config();
	up();
	for (unsigned i = 0; i < 3; i++)
		set_limit(&c[i].limits, LIMIT_IOPS, 1000);
	ck_assert_int_eq(gate_set_classes(m, c, 3), 0);
	struct work k[4] = {0};
	work_submit(&w, &k[0], m, COST_READ, 1, 1);
	work_submit(&w, &k[1], m, COST_WRITE, 1, 2);
	work_submit(&w, &k[2], m, COST_WRITE, 1, 3);
	work_submit(&w, &k[3], m, COST_READ, 1, 3);
	static struct scope_stats st;
	ck_assert(gate_stats_class(m, "one", &st));
	ck_assert_uint_eq(st.cls[COST_READ].ops, 1);
	ck_assert(gate_stats_class(m, "two", &st));
	ck_assert_uint_eq(st.cls[COST_WRITE].ops, 1);
	ck_assert(gate_stats_class(m, "writes", &st));
	ck_assert_uint_eq(st.cls[COST_WRITE].ops, 1);
	gate_stats_mount(m, &st); /* includes all classes */
	ck_assert_uint_eq(st.cls[COST_READ].ops, 2);
	ck_assert_uint_eq(st.cls[COST_WRITE].ops, 2);
	ck_assert(!gate_stats_class(m, "none", &st));
	down();
	for (unsigned i = 0; i < 3; i++)
		rule_free(r[i]);
}
END_TEST

START_TEST(a_class_has_its_limit_and_shares_the_mounts_by_weight)
{
	struct rule *r[] = {rule("uid:1"), rule("uid:2"), rule("uid:3")};
	struct gate_class_config c[] = {class_config("capped", r[0]), class_config("heavy", r[1]),
					class_config("light", r[2])};
	struct greedy g[3];
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_BPS, 10 * MIB);
	up();
	set_limit(&c[0].limits, LIMIT_BPS, MIB);
	c[1].weight = 2;
	ck_assert_int_eq(gate_set_classes(m, c, 3), 0);
	for (unsigned i = 0; i < 3; i++)
		greedy_start(&g[i], i + 1, 4 * KIB);
	world_pass(&w, 100 * SEC);
	gate_check(w.gate);
	near(g[0].got, 100 * MIB, 1);
	near(g[1].got, 600 * MIB, 1);
	near(g[2].got, 300 * MIB, 1);
	greedy_end(g, 3);
	down();
	for (unsigned i = 0; i < 3; i++)
		rule_free(r[i]);
}
END_TEST

START_TEST(a_parent_bounds_all_its_children)
{
	struct rule *r[] = {rule("uid:1"), rule("uid:2")};
	struct gate_class_config c[] = {class_config("a", r[0]), class_config("b", r[1]),
					class_config("both", NULL)};
	struct greedy g[3];
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_BPS, 100 * MIB);
	up();
	c[0].parent = c[1].parent = "both"; /* which comes later in the list */
	set_limit(&c[2].limits, LIMIT_BPS, 4 * MIB);
	c[1].weight = 3;
	ck_assert_int_eq(gate_set_classes(m, c, 3), 0);
	for (unsigned i = 0; i < 3; i++)
		greedy_start(&g[i], i + 1, 4 * KIB);
	world_pass(&w, 20 * SEC);
	gate_check(w.gate);
	near(g[0].got, 20 * MIB, 3); /* it found the bucket full */
	near(g[1].got, 60 * MIB, 1);
	near(g[2].got, 1920 * MIB, 1);
	greedy_end(g, 3);
	down();
	rule_free(r[0]);
	rule_free(r[1]);
}
END_TEST

START_TEST(parents_that_cannot_be_are_refused_and_nothing_changes)
{
	struct gate_class_config c[] = {class_config("a", NULL), class_config("b", NULL)};
	cfg = mount_config();
	up();
	c[0].parent = "c";
	ck_assert_int_eq(gate_set_classes(m, c, 2), -EINVAL);
	c[0].parent = "b";
	c[1].parent = "a";
	ck_assert_int_eq(gate_set_classes(m, c, 2), -EINVAL);
	static struct scope_stats st;
	ck_assert(!gate_stats_class(m, "a", &st));
	down();
}
END_TEST

START_TEST(waiting_requests_move_to_their_new_class_in_the_order_in_which_they_came)
{
	struct rule *r = rule("uid:1,uid:2");
	struct gate_class_config c = class_config("both", r);
	struct work k[6] = {0};
	cfg = mount_config();
	cfg.fair = FAIR_NONE;
	set_limit(&cfg.limits, LIMIT_IOPS, 1);
	up();
	for (unsigned i = 0; i < 6; i++)
		work_submit(&w, &k[i], m, COST_META, 0, i % 3);
	c.fair = FAIR_NONE;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	gate_check(w.gate);
	ck_assert_int_eq(gate_set_classes(m, NULL, 0), 0);
	gate_check(w.gate);
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < 6; i++) {
		ck_assert_uint_eq(k[i].ends, 1);
		ck_assert_uint_eq(k[i].order, i);
	}
	down();
	rule_free(r);
}
END_TEST

/* While classes change, somebody asks who is in no class yet: 10 s pass, in which tokens become available, and a newcomer
 * tries to take them. */
static struct {
	bool on;
	enum gate_verdict verdict;
} newcomer;

static uint64_t cgroup_of(const struct caller *c, uint64_t now_ns)
{
	const struct cost read = {COST_READ, 1, 1};
	struct grant g;
	if (newcomer.on) {
		newcomer.on = false;
		w.clock.now += 10 * SEC;
		newcomer.verdict = gate_try(m, &read, &(struct caller){.tid = 1, .uid = 9}, &g);
	}
	return 1;
}

static void path_of(uint64_t cgroup, char *buf, size_t size)
{
	snprintf(buf, size, "/%u", (unsigned)cgroup);
}

static void name_of(const struct caller *c, char buf[CALLER_NAME_MAX])
{
	snprintf(buf, CALLER_NAME_MAX, "program");
}

START_TEST(nobody_overtakes_requests_that_move_to_another_class)
{
	static const struct caller_ops ops = {
		.cgroup = cgroup_of, .cgroup_path = path_of, .name = name_of};
	struct rule *one = rule("cgroup:/1"), *user = rule("uid:9");
	struct gate_class_config c[] = {class_config("nine", user), class_config("one", one)};
	struct work k[8] = {0};
	cfg = mount_config();
	cfg.fair = FAIR_NONE;
	set_limit(&cfg.limits, LIMIT_IOPS, 1);
	c[0].fair = c[1].fair = FAIR_NONE;
	up();
	gate_set_caller_ops(w.gate, &ops);
	for (unsigned i = 0; i < 8; i++)
		work_submit(&w, &k[i], m, COST_READ, 1, i);
	/* The newcomer's class is new; then it is removed, and the newcomer is in the class of the others; and again. */
	for (unsigned i = 0; i < 4; i++) {
		newcomer.on = true;
		newcomer.verdict = GATE_GO;
		ck_assert_int_eq(gate_set_classes(m, &c[i & 1], 2 - (i & 1)), 0);
		ck_assert_int_eq(newcomer.verdict, GATE_WOULD_BLOCK);
		ck_assert(!newcomer.on);
		world_pass(&w, 0);
		gate_check(w.gate);
	}
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < 8; i++) {
		ck_assert_uint_eq(k[i].ends, 1);
		ck_assert_uint_eq(k[i].order, i);
	}
	down();
	rule_free(one);
	rule_free(user);
}
END_TEST

START_TEST(a_wait_is_counted_for_the_key_where_it_ends)
{
	struct rule *r = rule("uid:1");
	struct gate_class_config c = class_config("one", r);
	struct key_stats key[4];
	struct work k[4] = {0};
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.limits, LIMIT_IOPS, 1);
	up();
	for (unsigned i = 0; i < 4; i++)
		work_submit(&w, &k[i], m, COST_META, 0, 1);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	world_pass(&w, 10 * SEC);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, key, 4), 1);
	ck_assert_str_eq(key[0].leaf, "one");
	ck_assert_uint_eq(key[0].parked, 3); /* the first was admitted immediately */
	ck_assert_uint_eq(key[0].ops, 3);
	ck_assert_uint_eq(key[0].uid, 1);
	down();
	rule_free(r);
}
END_TEST

START_TEST(what_a_removed_class_still_counts_is_the_mounts)
{
	struct grant grant;
	struct scope_stats s;
	const struct cost c = {.cls = COST_READ, .ops = 1, .bytes = 100};
	const struct caller caller = {.tid = 1, .uid = 1};
	struct rule *r = rule("uid:1");
	const struct gate_class_config one = {.name = "one", .match = r},
				       two = {.name = "two", .match = r};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_BPS, MIB);
	up();
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(gate_set_classes(m, i & 1 ? &two : &one, 1), 0);
		ck_assert_int_eq(gate_try(m, &c, &caller, &grant), GATE_GO);
		ck_assert_int_eq(gate_set_classes(m, NULL, 0), 0);
		gate_done(&grant, OUTCOME_OK, 40);
		gate_stats_mount(m, &s);
		ck_assert_uint_eq(s.cls[COST_READ].ops, i + 1);
		ck_assert_uint_eq(s.cls[COST_READ].ok, i + 1);
		ck_assert_uint_eq(s.cls[COST_READ].bytes, 40 * (i + 1));
	}
	rule_free(r);
	down();
}
END_TEST

START_TEST(a_class_that_stays_keeps_what_was_spent)
{
	struct rule *r = rule("uid:1");
	struct gate_class_config c[] = {class_config("x", r), class_config("y", NULL)};
	struct work k[2] = {0};
	cfg = mount_config();
	up();
	set_limit(&c[0].limits, LIMIT_IOPS, 1);
	ck_assert_int_eq(gate_set_classes(m, c, 1), 0);
	ck_assert_int_eq(work_submit(&w, &k[0], m, COST_META, 0, 1), GATE_GO);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(gate_set_classes(m, c, 1 + i % 2), 0);
	ck_assert_int_eq(work_submit(&w, &k[1], m, COST_META, 0, 1), GATE_PARKED);
	world_pass(&w, SEC);
	ck_assert_int_eq(k[1].fate, RAN);
	down();
	rule_free(r);
}
END_TEST

/* --- reservations --- */

/* Removes all classes between the moment at which a request finds its class and the moment at which it enters it; a request
 * reads the clock in between. */
static uint64_t (*plain_now)(const struct clock *c);
static uint64_t now_and_remove_classes(const struct clock *c)
{
	w.clock.clk.now_ns = plain_now;
	ck_assert_int_eq(gate_set_classes(m, NULL, 0), 0);
	return plain_now(c);
}
static void remove_classes_meanwhile(void)
{
	plain_now = w.clock.clk.now_ns;
	w.clock.clk.now_ns = now_and_remove_classes;
}

/* A class of user 1, and a mount whose tokens are spent. */
static struct rule *class_of_user_1(void)
{
	struct rule *r = rule("uid:1");
	struct gate_class_config c = class_config("one", r);
	struct work first = {0};
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.limits, LIMIT_IOPS, 10);
	up();
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	work_submit(&w, &first, m, COST_READ, 1, 3);
	return r;
}

START_TEST(a_debt_is_not_left_in_a_class_that_was_removed)
{
	struct rule *r = class_of_user_1();
	struct gate_class_config c = class_config("another", r);
	const struct caller one = {.tid = 1, .uid = 1};
	const struct cost cost = {COST_READ, 20, 0};
	struct work mine = {0}, other = {0};
	struct grant grant;
	remove_classes_meanwhile();
	ck_assert(!gate_take(m, &cost, &one, &grant));
	gate_done(&grant, OUTCOME_OK, 0);
	ck_assert(w.clock.clk.now_ns == plain_now);
	work_submit(&w, &mine, m, COST_READ, 1, 1);
	work_submit(&w, &other, m, COST_READ, 1, 2);
	world_pass(&w, SEC);
	ck_assert_int_eq(other.fate, RAN);
	ck_assert_int_eq(mine.fate, PENDING); /* waits behind the debt of its user */
	gate_check(w.gate);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	gate_check(w.gate);
	world_pass(&w, 10 * SEC);
	ck_assert_int_eq(mine.fate, RAN);
	rule_free(r);
	down();
}
END_TEST

START_TEST(a_place_is_not_left_in_a_class_that_was_removed)
{
	struct rule *r = class_of_user_1();
	struct gate_class_config c = class_config("another", r);
	const struct caller one = {.tid = 1, .uid = 1};
	const struct cost cost = {COST_READ, 1, 1};
	struct grant grant;
	remove_classes_meanwhile();
	ck_assert_int_eq(gate_try_nonblocking(m, &cost, &one, 1, &grant), GATE_WOULD_BLOCK);
	ck_assert(w.clock.clk.now_ns == plain_now);
	ck_assert_ptr_eq(grant.leaf, &m->leaf);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	gate_check(w.gate);
	world_pass(&w, SEC);
	rule_free(r);
	down();
}
END_TEST

START_TEST(handles_are_counted_where_they_were_opened_though_their_class_moves)
{
	struct rule *r = rule("uid:1"), *s = rule("uid:2");
	struct gate_class_config c[] = {class_config("child", r), class_config("parent", s)};
	const struct caller one = {.tid = 1, .uid = 1}, two = {.tid = 2, .uid = 2};
	cfg = mount_config();
	c[1].limits.max_open = 2;
	up();
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	const struct scope_way *before[2], *own[2];
	for (unsigned i = 0; i < 2; i++) {
		before[i] = gate_open_try(m, &one);
		own[i] = gate_open_try(m, &two);
		ck_assert(before[i] && own[i]);
	}
	c[0].parent = "parent";
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	for (unsigned i = 0; i < 2; i++)
		gate_open_release(before[i]);
	ck_assert_ptr_null(gate_open_try(m, &two)); /* none of its own files was closed */
	ck_assert_ptr_null(gate_open_try(m, &one));
	gate_open_release(own[0]);
	before[0] = gate_open_try(m, &one);
	ck_assert_ptr_nonnull(before[0]);
	c[0].parent = NULL; /* and back */
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	ck_assert_ptr_null(gate_open_try(m, &two));
	gate_open_release(before[0]);
	own[0] = gate_open_try(m, &two);
	ck_assert_ptr_nonnull(own[0]);
	for (unsigned i = 0; i < 2; i++)
		gate_open_release(own[i]);
	rule_free(r);
	rule_free(s);
	down();
}
END_TEST

START_TEST(weights_within_a_class_change_at_once)
{
	struct greedy g[2];
	struct rule *r = rule("uid:1,uid:2");
	struct weight_rule weight = {.key = {FAIR_UID, 1}, .weight = 3};
	struct gate_class_config c = class_config("both", r);
	cfg = mount_config();
	up();
	set_limit(&c.limits, LIMIT_BPS, MIB);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 2; i++)
		greedy_start(&g[i], i + 1, 4 * KIB);
	world_pass(&w, 10 * SEC);
	near(g[0].got, g[1].got, 2);
	c.weights = &weight;
	c.n_weights = 1;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	uint64_t before[] = {g[0].got, g[1].got};
	world_pass(&w, 100 * SEC);
	near(g[0].got - before[0], 3 * (g[1].got - before[1]), 2);
	greedy_end(g, 2);
	rule_free(r);
	down();
}
END_TEST

START_TEST(a_reservation_holds_beside_many_greedy_callers)
{
	static struct greedy g[65];
	struct rule *r = rule("uid:1000");
	struct gate_class_config c = class_config("reserved", r);
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.limits, LIMIT_BPS, 100 * MIB);
	up();
	c.reserve_bps = 30 * MIB;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	greedy_start(&g[64], 1000, 64 * KIB);
	for (unsigned i = 0; i < 64; i++)
		greedy_start(&g[i], i, 64 * KIB);
	world_pass(&w, SEC);
	for (unsigned i = 0; i < 65; i++)
		g[i].got = 0;
	world_pass(&w, 60 * SEC);
	gate_check(w.gate);
	near(g[64].got, 60 * 30 * MIB, 0.5);
	for (unsigned i = 0; i < 64; i++) /* what is left is divided equally */
		near(g[i].got, 60.0 * 70 * MIB / 64, 2);
	greedy_end(g, 65);
	down();
	rule_free(r);
}
END_TEST

START_TEST(a_class_owes_nothing_to_one_that_was_removed_before_it_came)
{
	struct rule *r = rule("uid:1");
	struct gate_class_config old = class_config("old", r), new = class_config("new", r);
	struct key_stats key[4];
	struct greedy g[2];
	struct work k[2] = {0};
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.limits, LIMIT_BPS, 10 * MIB);
	up();
	old.reserve_bps = KIB;
	ck_assert_int_eq(gate_set_classes(m, &old, 1), 0);
	for (unsigned i = 0; i < 2; i++)
		work_submit(&w, &k[i], m, COST_READ, MIB, 1); /* the next one is due in 1000 s */
	world_pass(&w, 2 * SEC);
	ck_assert_int_eq(k[1].fate, RAN);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, key, 4), 1);

	ck_assert_int_eq(gate_set_classes(m, NULL, 0), 0);
	new.reserve_bps = 8 * MIB;
	ck_assert_int_eq(gate_set_classes(m, &new, 1), 0);
	ck_assert_uint_eq(gate_stats_keys(m, NULL, key, 4), 0);
	for (unsigned i = 0; i < 2; i++)
		greedy_start(&g[i], i, 64 * KIB);
	world_pass(&w, 10 * SEC);
	near(g[1].got, 80 * MIB, 2);
	greedy_end(g, 2);
	down();
	rule_free(r);
}
END_TEST

START_TEST(a_reservation_below_the_share_changes_nothing)
{
	struct greedy g[2];
	struct rule *r = rule("uid:1");
	struct gate_class_config c = class_config("reserved", r);
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.limits, LIMIT_BPS, 10 * MIB);
	up();
	c.reserve_bps = MIB;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	greedy_start(&g[0], 1, 4 * KIB);
	greedy_start(&g[1], 2, 4 * KIB);
	world_pass(&w, 100 * SEC);
	near(g[0].got, 500 * MIB, 1);
	near(g[1].got, 500 * MIB, 1);
	greedy_end(g, 2);
	down();
	rule_free(r);
}
END_TEST

START_TEST(a_reservation_holds_in_every_interval_and_under_a_wider_limit)
{
	static struct greedy g[9];
	struct rule *r = rule("uid:1000");
	struct gate_class_config c[] = {class_config("inner", r), class_config("outer", NULL)};
	struct limiter_config global = {.window_ns = 0};
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	up();
	set_limit(&global, LIMIT_BPS, 10 * MIB); /* the bottleneck is global */
	ck_assert_int_eq(gate_set_global(w.gate, &global), 0);
	c[0].parent = "outer";
	c[0].reserve_bps = 4 * MIB;
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	greedy_start(&g[8], 1000, 64 * KIB);
	world_pass(&w,
		   5 * SEC); /* alone, it gets everything; that must not count against it later */
	for (unsigned i = 0; i < 8; i++)
		greedy_start(&g[i], i, 256 * KIB);
	for (unsigned i = 0; i < 50; i++) {
		uint64_t before = g[8].got;
		world_pass(&w, 700 * MS);
		uint64_t got = g[8].got - before;
		ck_assert_msg(got + 64 * KIB + 256 * KIB >= 4 * MIB * 7 / 10, "interval %u: %llu",
			      i, (unsigned long long)got);
	}
	greedy_end(g, 9);
	down();
	rule_free(r);
}
END_TEST

START_TEST(a_reservation_holds_against_another_kind_of_operation)
{
	static struct greedy g[9];
	struct rule *r = rule("uid:1000");
	struct gate_class_config c = class_config("reserved", r);
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.limits, LIMIT_BPS, 10 * MIB);
	set_limit(&cfg.limits, LIMIT_READ_IOPS,
		  100000); /* so that reads have a lane of their own */
	up();
	c.reserve_bps = 7 * MIB;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	greedy_start(&g[8], 1000, 16 * KIB);
	for (unsigned i = 0; i < 8; i++) {
		g[i] = (struct greedy){.uid = i, .bytes = 16 * KIB, .cls = COST_WRITE};
		g[i].k.owner = &g[i];
		g[i].k.on_end = greedy_next;
		greedy_ask(&g[i]);
	}
	world_pass(&w, 60 * SEC);
	gate_check(w.gate);
	ck_assert_uint_ge(g[8].got, 60 * 7 * MIB * 99 / 100);
	greedy_end(g, 9);
	down();
	rule_free(r);
}
END_TEST

START_TEST(a_paused_class_holds_its_requests_and_those_of_classes_in_it)
{
	struct rule *r[] = {rule("uid:1"), rule("uid:2")};
	struct gate_class_config c[] = {class_config("outer", r[0]), class_config("inner", r[1])};
	struct work k[3] = {0};
	bool within;
	c[1].parent = "outer";
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	up();
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	ck_assert_int_eq(gate_pause_class(m, "nobody", true), -ENOENT);
	ck_assert_int_eq(gate_pause_class(m, "outer", true), 0);
	ck_assert(gate_class_paused(m, "outer", &within) && within);
	ck_assert(!gate_class_paused(m, "inner", &within) && within);
	ck_assert_int_eq(work_submit(&w, &k[0], m, COST_READ, KIB, 1), GATE_PARKED);
	ck_assert_int_eq(work_submit(&w, &k[1], m, COST_META, 0, 2), GATE_PARKED);
	ck_assert_int_eq(work_submit(&w, &k[2], m, COST_READ, KIB, 3), GATE_GO);
	c[0].weight = 7; /* a change ends no pause */
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	world_pass(&w, SEC);
	gate_check(w.gate);
	ck_assert_int_eq(k[0].fate, PENDING);
	ck_assert_int_eq(k[1].fate, PENDING);
	ck_assert_int_eq(gate_pause_class(m, "outer", false), 0);
	ck_assert_int_eq(k[0].fate, RAN);
	ck_assert_int_eq(k[1].fate, RAN);

	ck_assert_int_eq(gate_pause_class(m, "inner", true), 0);
	ck_assert_int_eq(work_submit(&w, &k[1], m, COST_META, 0, 2), GATE_PARKED);
	ck_assert_int_eq(gate_set_classes(m, c, 1), 0); /* without the class that is paused */
	ck_assert_int_eq(k[1].fate, RAN);
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	ck_assert(!gate_class_paused(m, "inner", &within) && !within);
	ck_assert_int_eq(work_submit(&w, &k[1], m, COST_META, 0, 2), GATE_GO);
	down();
	rule_free(r[0]);
	rule_free(r[1]);
}
END_TEST

/* --- requests while classes change --- */

static void (*on_name)(void);
static unsigned looked_up;

static uint64_t thread_is_process(const struct caller *c, uint64_t now_ns)
{
	looked_up++;
	return c->tid;
}

static uint64_t no_cgroup(const struct caller *c, uint64_t now_ns)
{
	return 0;
}

static void no_path(uint64_t cgroup, char *buf, size_t size)
{
	buf[0] = '\0';
}

static void name_program(const struct caller *c, char buf[CALLER_NAME_MAX])
{
	snprintf(buf, CALLER_NAME_MAX, "program");
	if (on_name)
		on_name();
}

static const struct caller_ops named = {thread_is_process, no_cgroup, no_path, name_program};

static const struct scope_way *opened;
static enum gate_verdict verdict[2];

/* The capacity of the mount is less than one such request. */
static void ask_meanwhile(void)
{
	const struct caller who = {.tid = 1, .uid = 1};
	const struct cost c = {COST_READ, 1, MIB};
	on_name = NULL;
	opened = gate_open_try(m, &who);
	for (unsigned i = 0; i < 2; i++) {
		struct grant g;
		verdict[i] = gate_try(m, &c, &who, &g);
		if (verdict[i] == GATE_GO)
			gate_done(&g, OUTCOME_OK, MIB);
	}
}

/* The change also sets weights of another mount, for which it looks up a name; requests that need no lock go on meanwhile. */
START_TEST(requests_find_a_new_class_only_when_its_limits_hold)
{
	struct rule *r = rule("uid:1");
	const struct gate_class_config c = class_config("new", r);
	const struct weight_rule weight = {{FAIR_PROCESS, 0}, "prog*", 2};
	struct work k[2] = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_BPS, MIB);
	up();
	gate_set_caller_ops(w.gate, &named);
	struct gate_mount *other = gate_mount_new(fs, "other", &cfg);
	for (unsigned i = 0; i < 2; i++)
		work_submit(&w, &k[i], other, COST_READ, MIB, 7);
	cfg.weights = &weight;
	cfg.n_weights = 1;
	const struct gate_change changes[] = {
		{.mount = m, .sets_classes = true, .classes = &c, .n_classes = 1},
		{.mount = other, .config = &cfg}};
	opened = NULL;
	on_name = ask_meanwhile;
	ck_assert_int_eq(gate_apply(w.gate, changes, 2), 0);
	ck_assert_ptr_null(on_name);
	ck_assert_ptr_nonnull(opened);
	ck_assert_int_eq(verdict[0], GATE_GO);
	ck_assert_int_eq(verdict[1], GATE_WOULD_BLOCK);
	gate_open_release(opened);
	world_pass(&w, 10 * SEC);
	ck_assert_int_eq(k[1].fate, RAN);
	struct scope_stats *st = malloc(sizeof(*st));
	ck_assert_int_eq(work_submit(&w, &k[0], m, COST_READ, MIB, 1), GATE_GO);
	ck_assert(gate_stats_class(m, "new", st));
	ck_assert_uint_eq(st->cls[COST_READ].ops, 1);
	free(st);
	gate_mount_free(other);
	down();
	rule_free(r);
}
END_TEST

/* Looking up a process reads /proc, and all requests of the daemon would wait until that is done for thousands. */
START_TEST(requests_that_move_keep_their_keys_without_another_look_at_their_processes)
{
	struct rule *r = rule("uid:1,uid:2,uid:3");
	struct gate_class_config c = class_config("c", r);
	struct work k[40] = {0};
	cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_BPS, 100 * KIB);
	c.fair = FAIR_PROCESS;
	up();
	gate_set_caller_ops(w.gate, &named);
	for (unsigned i = 0; i < 40; i++)
		work_submit(&w, &k[i], m, COST_READ, 10 * KIB, i % 8);
	unsigned keys = gate_count_keys(m);
	looked_up = 0;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	ck_assert_uint_eq(looked_up, 0);
	ck_assert_uint_eq(gate_count_keys(m), keys + OVERFLOW_KEYS + 3);
	c.fair = FAIR_UID;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	ck_assert_uint_eq(looked_up, 0);
	c.fair = FAIR_HANDLE; /* requests without a handle count as their process */
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	ck_assert_uint_gt(looked_up, 0);
	world_pass(&w, 10 * SEC);
	for (unsigned i = 0; i < 40; i++)
		ck_assert_int_eq(k[i].fate, RAN);
	down();
	rule_free(r);
}
END_TEST

/* Otherwise write-back of a program that has exited would belong to no cgroup, and not count against its limit. */
START_TEST(openers_are_remembered_if_any_class_has_keys_by_cgroup)
{
	struct rule *r = rule("op:write");
	struct gate_class_config c[] = {class_config("a", r), class_config("b", NULL)};
	cfg = mount_config();
	up();
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	ck_assert(!gate_asks_for_openers(m));
	c[0].fair = FAIR_CGROUP;
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	ck_assert(gate_asks_for_openers(m));
	ck_assert_int_eq(gate_set_classes(m, NULL, 0), 0);
	ck_assert(!gate_asks_for_openers(m));
	down();
	rule_free(r);
}
END_TEST

/* --- everything at random --- */

#define CLASSES 5
#define WORKS	200

static const char *const class_names[CLASSES] = {"a", "b", "c", "d", "e"};
static uint64_t rng;

/* The order in which requests came, and the last that was admitted, by caller and kind of operation. */
#define USERS 8
static uint64_t came, came_as[WORKS], admitted[USERS][COST_CLASSES];
static struct work random_work[WORKS];

static void check_order(struct work *k)
{
	uint64_t *last = &admitted[k->job.caller.uid][k->job.cost.cls];
	uint64_t now = came_as[k - random_work];
	if (k->fate != RAN)
		return;
	ck_assert_msg(now > *last, "request %llu was admitted after %llu", (unsigned long long)now,
		      (unsigned long long)*last);
	*last = now;
	gate_done(&k->job.grant, OUTCOME_OK, k->job.grant.cost.bytes);
}

static uint64_t pick(uint64_t n)
{
	return unit_random(&rng) % n;
}

static void random_limits(struct limiter_config *c, unsigned percent)
{
	*c = (struct limiter_config){0};
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		if (pick(100) < percent) {
			set_limit(c, k, limit_kind_is_bytes(k) ? MIB : 200);
			if (pick(3) == 0)
				c->limit[k].peak_per_sec = 2 * c->limit[k].rate_per_sec;
			if (pick(3) == 0)
				c->limit[k].burst = c->limit[k].rate_per_sec;
		}
	c->max_inflight = pick(5) ? 0 : 1 + pick(3);
}

static void random_classes(struct rule *const rules[CLASSES])
{
	struct gate_class_config c[CLASSES];
	unsigned n = 0, order = (unsigned)pick(CLASSES);
	for (unsigned i = 0; i < CLASSES; i++) {
		unsigned k = (i + order) % CLASSES;
		if (pick(3) == 0)
			continue;
		c[n] = class_config(class_names[k], rules[k]);
		random_limits(&c[n].limits, 15);
		random_limits(&c[n].each, pick(3) ? 0 : 20);
		c[n].each.max_inflight = 0;
		c[n].weight = (uint32_t)(1 + pick(4));
		c[n].fair = pick(2) ? FAIR_UID : FAIR_NONE;
		c[n].reserve_bps = pick(3) ? 0 : 100 * KIB;
		c[n].max_wait_ns = pick(6) ? 0 : 300 * MS;
		if (n && pick(2))
			c[n].parent = c[pick(n)].name;
		n++;
	}
	ck_assert_int_eq(gate_set_classes(m, c, n), 0);
}

static void random_step(struct work k[WORKS], struct rule *const rules[CLASSES])
{
	struct work *one = &k[pick(WORKS)];
	switch (pick(12)) {
	case 0:
		random_classes(rules);
		break;
	case 1:
		random_limits(&cfg.limits, 20);
		random_limits(&cfg.each, pick(3) ? 0 : 20);
		cfg.each.max_inflight = 0;
		ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
		break;
	case 2:
		if (pick(2)) /* there may be no such class */
			gate_pause_class(m, class_names[pick(CLASSES)], pick(3) == 0);
		else
			ck_assert_int_eq(gate_pause_mount(m, pick(4) == 0), 0);
		break;
	case 3:
		if (one->fate == PENDING && one->ends == 0 && one->mount &&
		    gate_cancel(w.gate, &one->job)) {
			one->fate = CANCELLED;
			one->ends++;
		}
		break;
	case 4:
	case 5:
		world_pass(&w, pick(200 * MS));
		break;
	default:
		if (one->mount && one->fate == PENDING)
			break;
		ck_assert(!one->mount || one->ends == 1);
		*one = (struct work){.on_end = check_order};
		came_as[one - random_work] = ++came;
		work_submit(&w, one, m, (enum cost_class)pick(COST_CLASSES),
			    pick(3) ? pick(64 * KIB) : 0, pick(USERS));
		if (one->fate == PENDING && one->job.state != JOB_PARKED)
			one->mount = NULL; /* was refused */
	}
}

START_TEST(nobody_is_lost_or_overtaken_or_let_through_twice_whatever_changes)
{
	struct work *const k = random_work;
	struct rule *rules[CLASSES] = {rule("uid:1,uid:2"), rule("op:write"), rule("uid:3&op:read"),
				       rule("gid:0"), rule("uid:4")};
	rng = unit_sched_seed();
	for (uint64_t run = 0, runs = unit_rounds(60); run < runs; run++) {
		cfg = mount_config();
		cfg.fair = pick(2) ? FAIR_UID : FAIR_PROCESS;
		cfg.max_keys = pick(2) ? 3 : 0;
		memset(random_work, 0, sizeof(random_work));
		up();
		for (unsigned i = 0; i < 600; i++) {
			random_step(k, rules);
			if (i % 16 == 0)
				gate_check(w.gate);
		}
		ck_assert_int_eq(gate_pause_mount(m, false), 0);
		ck_assert_int_eq(gate_set_classes(m, NULL, 0), 0);
		cfg.limits = cfg.each = (struct limiter_config){0};
		ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
		world_pass(&w, SEC);
		for (unsigned i = 0; i < WORKS; i++)
			ck_assert(!k[i].mount || k[i].ends == 1);
		down();
	}
	for (unsigned i = 0; i < CLASSES; i++)
		rule_free(rules[i]);
}
END_TEST

UNIT_MAIN("class", each_key_has_a_limit_of_its_own,
	  a_wait_for_the_limit_of_a_key_is_seen_at_its_leaf,
	  neither_new_processes_nor_handles_of_another_class_beat_the_limit_of_a_key,
	  a_pause_does_not_beat_the_limit_of_a_key,
	  past_the_last_key_callers_share_a_limit_and_get_less,
	  a_key_of_ones_own_after_a_shared_one_is_no_second_burst,
	  a_debt_in_a_shared_key_is_not_forgiven,
	  a_debt_in_a_shared_key_does_not_bind_callers_that_never_used_it,
	  limits_for_each_come_and_go_while_requests_wait,
	  the_first_class_that_matches_takes_the_request,
	  a_class_has_its_limit_and_shares_the_mounts_by_weight, a_parent_bounds_all_its_children,
	  parents_that_cannot_be_are_refused_and_nothing_changes,
	  waiting_requests_move_to_their_new_class_in_the_order_in_which_they_came,
	  nobody_overtakes_requests_that_move_to_another_class,
	  a_wait_is_counted_for_the_key_where_it_ends, a_class_that_stays_keeps_what_was_spent,
	  what_a_removed_class_still_counts_is_the_mounts,
	  a_debt_is_not_left_in_a_class_that_was_removed,
	  a_place_is_not_left_in_a_class_that_was_removed, weights_within_a_class_change_at_once,
	  handles_are_counted_where_they_were_opened_though_their_class_moves,
	  a_reservation_holds_beside_many_greedy_callers,
	  a_class_owes_nothing_to_one_that_was_removed_before_it_came,
	  a_reservation_below_the_share_changes_nothing,
	  a_reservation_holds_in_every_interval_and_under_a_wider_limit,
	  a_reservation_holds_against_another_kind_of_operation,
	  a_paused_class_holds_its_requests_and_those_of_classes_in_it,
	  openers_are_remembered_if_any_class_has_keys_by_cgroup,
	  requests_find_a_new_class_only_when_its_limits_hold,
	  requests_that_move_keep_their_keys_without_another_look_at_their_processes,
	  nobody_is_lost_or_overtaken_or_let_through_twice_whatever_changes)
