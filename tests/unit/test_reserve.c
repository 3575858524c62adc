/* SPDX-License-Identifier: MIT */
/* Reservations in trees of scopes: what is reserved is granted first, and weights divide the rest. */
#include <stdio.h>

#include "unit/gate_check.h"
#include "unit/world.h"

#define MOUNTS	3
#define CLASSES 3
#define CALLERS (MOUNTS * (CLASSES + 1))
#define RATE	(10 * MIB)
#define PIECE	(16 * KIB)

static struct world w;
static struct gate_fs *fs[2];
static struct gate_mount *mount[MOUNTS];
static struct gate_mount_config cfg;
static uint64_t rng;

static uint64_t pick(uint64_t n)
{
	return unit_random(&rng) % n;
}

/* A caller that always has two requests waiting. */
struct caller_of {
	struct work k[2];
	struct gate_mount *m;
	uint64_t uid, got;
	bool stop;
};
static struct caller_of who[CALLERS];
static unsigned callers;
static bool lanes; /* callers read and write, in lanes of their own */

static void ask(struct work *k)
{
	struct caller_of *c = k->owner;
	work_submit(&w, k, c->m, lanes && k == &c->k[1] ? COST_WRITE : COST_READ, PIECE, c->uid);
}

static void next(struct work *k)
{
	struct caller_of *c = k->owner;
	if (k->fate != RAN)
		return;
	c->got += PIECE;
	gate_done(&k->job.grant, OUTCOME_OK, PIECE);
	if (!c->stop)
		ask(k);
}

static struct caller_of *start(struct gate_mount *m, uint64_t uid)
{
	struct caller_of *c = &who[callers++];
	*c = (struct caller_of){.m = m, .uid = uid};
	for (unsigned i = 0; i < 2; i++) {
		c->k[i].owner = c;
		c->k[i].on_end = next;
		ask(&c->k[i]);
	}
	return c;
}

static void pass(uint64_t ns)
{
	world_pass(&w, SEC);
	for (unsigned i = 0; i < callers; i++)
		who[i].got = 0;
	world_pass(&w, ns);
	gate_check(w.gate);
}

static void up(unsigned mounts)
{
	cfg = mount_config();
	cfg.fair = FAIR_UID;
	callers = 0;
	world_init(&w);
	for (unsigned i = 0; i < 2; i++)
		fs[i] = gate_fs_new(w.gate, "fs", &(struct limiter_config){0});
	for (unsigned i = 0; i < MOUNTS; i++)
		mount[i] = i < mounts ? gate_mount_new(fs[i == 2], "m", &cfg) : NULL;
}

static void down(void)
{
	for (unsigned i = 0; i < callers; i++) {
		who[i].stop = true;
		for (unsigned k = 0; k < 2; k++)
			if (who[i].k[k].fate == PENDING)
				ck_assert(gate_cancel(w.gate, &who[i].k[k].job));
	}
	gate_check_empty(w.gate);
	for (unsigned i = 0; i < MOUNTS; i++)
		if (mount[i])
			gate_mount_free(mount[i]);
	for (unsigned i = 0; i < 2; i++)
		gate_fs_free(fs[i]);
	gate_free(w.gate);
}

static struct limiter_config limits(void)
{
	struct limiter_config c = {0};
	set_limit(&c, LIMIT_BPS, RATE);
	return c;
}

/* Two mounts share an fs.  In the first, a class has a reservation, and its neighbour has none. */
static void one_reservation(uint64_t reserve_bps)
{
	struct rule *r = rule("uid:1"), *s = rule("uid:2");
	struct gate_class_config c[] = {
		{.name = "reserved", .match = r, .fair = FAIR_UID, .reserve_bps = reserve_bps},
		{.name = "neighbour", .match = s, .fair = FAIR_UID}};
	struct limiter_config l = limits();
	up(2);
	ck_assert_int_eq(gate_set_fs(fs[0], &l), 0);
	ck_assert_int_eq(gate_set_classes(mount[0], c, 2), 0);
	start(mount[0], 1);
	start(mount[0], 2);
	start(mount[1], 3);
	pass(100 * SEC);
	down();
	rule_free(r);
	rule_free(s);
}

START_TEST(a_reservation_above_the_share_of_its_mount_leaves_the_rest_to_weights)
{
	one_reservation(6 * MIB);
	near(who[0].got, 600 * MIB, 1);
	near(who[1].got, 200 * MIB, 1);
	near(who[2].got, 200 * MIB, 1);
	one_reservation(9 * MIB);
	near(who[0].got, 900 * MIB, 1);
	near(who[1].got, 50 * MIB, 1);
	near(who[2].got, 50 * MIB, 1);
}
END_TEST

/* With 2 of 10 MiB/s reserved, the shares by weight are enough.  With 3, some of its requests are served by the reservation,
 * and the share of its mount is that of the rest. */
START_TEST(a_reservation_below_the_share_of_its_mount_takes_from_others_only_what_it_lacks)
{
	one_reservation(2 * MIB);
	near(who[0].got, 250 * MIB, 1);
	near(who[1].got, 250 * MIB, 1);
	near(who[2].got, 500 * MIB, 1);
	one_reservation(3 * MIB);
	near(who[0].got, 310 * MIB, 3);
	near(who[1].got, who[0].got, 1);
	near(who[2].got, 380 * MIB, 3);
}
END_TEST

/* Otherwise the class would be owed everything that it did not get meanwhile, and take all until it is paid. */
START_TEST(after_a_pause_a_reserved_class_is_not_owed_the_time_of_the_pause)
{
	struct rule *r = rule("uid:1");
	struct gate_class_config c = {
		.name = "reserved", .match = r, .fair = FAIR_UID, .reserve_bps = 6 * MIB};
	struct limiter_config l = limits();
	up(2);
	ck_assert_int_eq(gate_set_fs(fs[0], &l), 0);
	ck_assert_int_eq(gate_set_classes(mount[0], &c, 1), 0);
	start(mount[0], 1);
	start(mount[0], 2);
	start(mount[1], 3);
	world_pass(&w, SEC);
	gate_pause_mount(mount[0], true);
	world_pass(&w, 600 * SEC);
	gate_pause_mount(mount[0], false);
	world_pass(&w, 4 * SEC);
	pass(20 * SEC);
	near(who[0].got, 120 * MIB, 1);
	near(who[1].got, 40 * MIB, 1);
	near(who[2].got, 40 * MIB, 1);
	down();
	rule_free(r);
}
END_TEST

/* --- at random --- */

/* What the test knows of a scope.  Node 0 is the one with the limit. */
struct scope {
	int up;
	unsigned weight;
	uint64_t reserve; /* of its own and of those below it */
	uint64_t own_reserve;
	const struct caller_of *caller; /* of a leaf */
	double got;
};
/* The limit's, two fs; of each mount itself, its classes, and callers outside the classes and beside nested ones. */
static struct scope scope[1 + 2 + MOUNTS * (1 + CLASSES + 2)];
static unsigned scopes;

static int scope_add(int up, unsigned weight, uint64_t reserve, const struct caller_of *c)
{
	ck_assert_uint_lt(scopes, ARRAY_SIZE(scope));
	scope[scopes] = (struct scope){up, weight, 0, reserve, c, 0};
	return (int)scopes++;
}

static void add_up(void)
{
	for (unsigned i = 0; i < scopes; i++)
		for (int at = (int)i; at >= 0; at = scope[at].up) {
			scope[at].reserve += scope[i].own_reserve;
			scope[at].got += scope[i].caller ? (double)scope[i].caller->got : 0;
		}
}

static unsigned siblings_weight(int up)
{
	unsigned sum = 0;
	for (unsigned i = 1; i < scopes; i++)
		sum += scope[i].up == up ? scope[i].weight : 0;
	return sum;
}

/* Of what is not reserved, at least its share by weight at every level. */
static double least_share(int at)
{
	double share = 1;
	for (; at > 0; at = scope[at].up)
		share *= (double)scope[at].weight / siblings_weight(scope[at].up);
	return share;
}

static void check_shares(double seconds)
{
	double all = RATE * seconds;
	double rest = all - (double)scope[0].reserve * seconds;
	near(scope[0].got, all, 1);
	for (unsigned i = 1; i < scopes; i++) {
		const struct scope *s = &scope[i];
		if (s->caller && s->own_reserve)
			ck_assert_double_ge(s->got, (double)s->own_reserve * seconds - PIECE);
		if (s->caller)
			ck_assert_msg(s->got >= 0.99 * rest * least_share((int)i) - 2 * PIECE,
				      "scope %u got %.0f, less than %.0f", i, s->got,
				      rest * least_share((int)i));
		for (unsigned k = 1; k < i && !s->reserve; k++)
			if (scope[k].up == s->up && !scope[k].reserve)
				near(s->got / s->weight, scope[k].got / scope[k].weight, 1);
	}
}

/* Classes of one mount: some with reservations, some of them below the first.  `left`: what may still be reserved. */
static void random_classes(unsigned m, int at, uint64_t *left)
{
	static const char *const name[CLASSES] = {"a", "b", "c"};
	struct rule *r[CLASSES];
	struct gate_class_config c[CLASSES];
	int node[CLASSES];
	unsigned n = (unsigned)pick(CLASSES + 1);
	bool nested = n > 1 && pick(3) == 0;
	for (unsigned i = 0; i < n; i++) {
		char text[16];
		snprintf(text, sizeof(text), "uid:%u", i + 1);
		r[i] = rule(text);
		uint64_t reserve = pick(2) ? pick(*left / 2) : 0;
		bool parent = nested && i == 0;
		reserve = parent || reserve < 2 * PIECE ? 0 : reserve;
		*left -= reserve;
		c[i] = (struct gate_class_config){
			.name = name[i],
			.match = r[i],
			.fair = FAIR_UID,
			.weight = 1 + (uint32_t)pick(4),
			.reserve_bps = reserve,
			.parent = nested && i ? "a" : NULL,
		};
		node[i] = scope_add(nested && i ? node[0] : at, c[i].weight, reserve, NULL);
	}
	ck_assert_int_eq(gate_set_classes(mount[m], c, n), 0);
	for (unsigned i = 0; i < n; i++) {
		const struct caller_of *caller = start(mount[m], i + 1);
		if (nested && i == 0) /* beside the classes below it */
			scope_add(node[0], 1, 0, caller);
		else
			scope[node[i]].caller = caller;
		rule_free(r[i]);
	}
	if (!n || pick(2))
		scope_add(at, 1, 0, start(mount[m], 100));
}

/* The limit is in a mount, an fs or global; requests that are not subject to it do not compete, so there are none. */
static void random_tree(void)
{
	struct limiter_config l = limits();
	uint64_t left = RATE * 9 / 10;
	unsigned level = (unsigned)pick(3), n = level == 2 ? 1 : level == 1 ? 2 : MOUNTS;
	up(MOUNTS);
	scopes = 0;
	if (lanes)
		set_limit(&l, LIMIT_READ_BPS, 100 * RATE);
	int top = scope_add(-1, 1, 0, NULL);
	if (level == 0)
		ck_assert_int_eq(gate_set_global(w.gate, &l), 0);
	else if (level == 1)
		ck_assert_int_eq(gate_set_fs(fs[0], &l), 0);
	cfg.weight = 1;
	int first_fs = level == 0 ? scope_add(top, 2, 0, NULL) : top;
	int second_fs = level == 0 ? scope_add(top, 1, 0, NULL) : top;
	for (unsigned i = 0; i < n; i++) {
		if (level == 2) {
			cfg.limits = l;
			ck_assert_int_eq(gate_set_mount(mount[0], &cfg), 0);
		}
		int at = level == 2 ? top : scope_add(i == 2 ? second_fs : first_fs, 1, 0, NULL);
		random_classes(i, at, &left);
	}
	pass(100 * SEC);
	add_up();
	check_shares(100);
	down();
}

START_TEST(reservations_hold_and_weights_divide_the_rest_wherever_the_limit_is)
{
	rng = unit_sched_seed();
	for (unsigned i = 0; i < 20; i++) {
		lanes = i % 2;
		random_tree();
	}
}
END_TEST

UNIT_MAIN("reserve", a_reservation_above_the_share_of_its_mount_leaves_the_rest_to_weights,
	  a_reservation_below_the_share_of_its_mount_takes_from_others_only_what_it_lacks,
	  after_a_pause_a_reserved_class_is_not_owed_the_time_of_the_pause,
	  reservations_hold_and_weights_divide_the_rest_wherever_the_limit_is)
