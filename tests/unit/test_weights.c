/* SPDX-License-Identifier: MIT */
/* Weights divide a limit exactly at every level of the tree of scopes, wherever in the tree the limit is. */
#include <stdio.h>

#include "unit/gate_check.h"
#include "unit/world.h"

#define CLASSES 14
#define DEPTH	6
#define CALLERS 64
#define PLACES	(CLASSES + 1) /* the mount is place 0 */
#define RATE	(4 * MIB)
#define USER	1

static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;
static uint64_t rng;

static uint64_t pick(uint64_t n)
{
	return unit_random(&rng) % n;
}

/* A process that asks again as soon as it is served. */
static struct process {
	struct work k;
	struct caller who;
	unsigned place; /* the class, or the mount, that it belongs to */
	uint32_t weight;
	bool writes;
	uint64_t bytes, got;
	bool stop;
} process[CALLERS];
static unsigned processes;

static void ask(struct process *p)
{
	p->k.job = (struct job){.ops = &work_ops,
				.cost = {p->writes ? COST_WRITE : COST_READ, 1, p->bytes},
				.caller = p->who,
				.memory_bytes = 100};
	p->k.world = &w;
	p->k.fate = PENDING;
	enum gate_verdict v = gate_try(m, &p->k.job.cost, &p->who, &p->k.job.grant);
	if (v == GATE_WOULD_BLOCK)
		v = gate_park(m, &p->k.job);
	if (v == GATE_GO)
		work_run(&p->k.job);
}

static void next(struct work *k)
{
	struct process *p = k->owner;
	if (k->fate != RAN)
		return;
	p->got += p->bytes;
	gate_done(&k->job.grant, OUTCOME_OK, p->bytes);
	if (!p->stop)
		ask(p);
}

/* Rules tell classes apart by the group of the caller.  All processes belong to one user. */
static struct process *process_add(unsigned place, uint32_t weight, uint64_t bytes)
{
	struct process *p = &process[processes];
	*p = (struct process){.who = {.uid = USER, .gid = place, .tid = 100 + processes},
			      .place = place,
			      .weight = weight,
			      .bytes = bytes};
	p->k.owner = p;
	p->k.on_end = next;
	processes++;
	return p;
}

static void compete(uint64_t ns)
{
	for (unsigned i = 0; i < processes; i++)
		if (process[i].k.fate != PENDING || !process[i].k.world)
			ask(&process[i]);
	world_pass(&w, SEC);
	for (unsigned i = 0; i < processes; i++)
		process[i].got = 0;
	world_pass(&w, ns);
	gate_check(w.gate);
}

static void down(void)
{
	for (unsigned i = 0; i < processes; i++) {
		process[i].stop = true;
		if (process[i].k.fate == PENDING)
			ck_assert(gate_cancel(w.gate, &process[i].k.job));
	}
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}

/* Where the limit is: in a scope, or for the user in the mount or in the outermost class. */
enum where { GLOBAL, FS, MOUNT, EACH, EACH_IN_CLASS, WHERES };

static void up(enum where where)
{
	struct gate_mount_config cfg = mount_config();
	struct limiter_config l = {0};
	set_limit(&l, LIMIT_BPS, RATE);
	processes = 0;
	if (where == MOUNT)
		cfg.limits = l;
	if (where == EACH) {
		cfg.each = l;
		cfg.fair = FAIR_UID;
	}
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	if (where == GLOBAL)
		ck_assert_int_eq(gate_set_global(w.gate, &l), 0);
	if (where == FS)
		ck_assert_int_eq(gate_set_fs(fs, &l), 0);
}

/* --- an example --- */

static double got_in(unsigned place)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < processes; i++)
		sum += process[i].place == place ? process[i].got : 0;
	return (double)sum;
}

/* mount ┬ outer (2) ┬ inner ┬ a        one third of the limit belongs to no class; of the rest, inner gets one third,
 *       │           │       └ b (3)    and of this a gets a quarter, which one process with weight 3 and seven with
 *       │           └ c (2)            weight 1 divide
 *       └ no class */
static void example(enum where where)
{
	struct rule *a = rule("gid:1"), *b = rule("gid:2"), *c = rule("gid:3");
	const struct weight_rule heavy = {{FAIR_PROCESS, 100}, NULL, 3};
	const struct gate_class_config cfg[] = {
		{.name = "outer", .weight = 2, .fair = FAIR_PROCESS},
		{.name = "inner", .parent = "outer", .fair = FAIR_PROCESS},
		{.name = "a",
		 .parent = "inner",
		 .match = a,
		 .fair = FAIR_PROCESS,
		 .weights = &heavy,
		 .n_weights = 1},
		{.name = "b", .parent = "inner", .match = b, .weight = 3, .fair = FAIR_PROCESS},
		{.name = "c", .parent = "outer", .match = c, .weight = 2, .fair = FAIR_PROCESS}};
	up(where);
	ck_assert_int_eq(gate_set_classes(m, cfg, 5), 0);
	for (unsigned i = 0; i < 8; i++)
		process_add(1, i ? 1 : 3, 4 * KIB);
	process_add(2, 1, 64 * KIB);
	process_add(3, 1, 4 * KIB);
	process_add(3, 1, 32 * KIB);
	process_add(0, 1, 16 * KIB);
	compete(360 * SEC);
	double all = 360.0 * RATE;
	near(got_in(0), all / 3, 0.1);
	near(got_in(3), all * 2 / 3 * 2 / 3, 0.1);
	near(got_in(2), all * 2 / 9 * 3 / 4, 0.1);
	near(got_in(1), all * 2 / 9 / 4, 0.1);
	near((double)process[0].got, all / 18 * 3 / 10, 0.3);
	for (unsigned i = 1; i < 8; i++)
		near((double)process[i].got, all / 18 / 10, 0.3);
	near((double)process[9].got, all * 2 / 9, 0.3); /* whatever the size of its requests */
	near((double)process[10].got, all * 2 / 9, 0.3);
	down();
	rule_free(a);
	rule_free(b);
	rule_free(c);
}

START_TEST(weights_divide_the_limit_of_a_scope_at_every_level)
{
	example(GLOBAL);
	example(FS);
	example(MOUNT);
}
END_TEST

START_TEST(weights_divide_the_limit_of_a_user_at_every_level)
{
	example(EACH);
}
END_TEST

/* --- at random --- */

static struct place {
	unsigned up;
	uint32_t weight;
	double got;
	bool used;
} place[PLACES];
static uint64_t checks;

static unsigned depth_of(unsigned i)
{
	unsigned depth = 0;
	for (; i; i = place[i].up)
		depth++;
	return depth;
}

/* Returns the place whose children compete for the limit.  `lanes`: some processes read and others write, in lanes of their
 * own. */
static unsigned random_tree(enum where where, bool lanes)
{
	static char name[PLACES][16];
	static struct weight_rule weights[PLACES][4];
	struct gate_class_config cfg[CLASSES];
	struct rule *rules[CLASSES];
	unsigned n = 1 + (unsigned)pick(CLASSES), root = where == EACH_IN_CLASS;
	place[0] = (struct place){.weight = 1};
	for (unsigned i = 1; i <= n; i++) {
		struct place *p = &place[i];
		char text[16];
		*p = (struct place){.up = pick(3) ? i - 1 : (unsigned)pick(i),
				    .weight = 1 + (uint32_t)pick(5)};
		while (depth_of(i) > DEPTH)
			p->up = place[p->up].up;
		if (root && i > 1 && p->up == 0)
			p->up = 1;
		snprintf(text, sizeof(text), "gid:%u", i);
		snprintf(name[i], sizeof(name[i]), "c%u", i);
		rules[i - 1] = rule(text);
		cfg[i - 1] =
			(struct gate_class_config){.name = name[i],
						   .parent = p->up ? name[p->up] : NULL,
						   .match = rules[i - 1],
						   .weight = p->weight,
						   .fair = root && i == 1 ? FAIR_UID : FAIR_PROCESS,
						   .weights = weights[i]};
	}
	if (root)
		set_limit(&cfg[0].each, LIMIT_BPS, RATE);
	if (lanes)
		set_limit(&cfg[0].limits, LIMIT_READ_BPS, 1000 * RATE);
	for (unsigned i = root; i <= n; i++) {
		/* several processes of the scope with the user's limit have one key */
		unsigned max = (where == EACH && i == 0) || (root && i == 1) ? 1 : 4;
		for (unsigned k = (unsigned)pick(max + 1); k > 0; k--) {
			struct process *p = process_add(i, 1, (1 + pick(16)) * 4 * KIB);
			p->writes = lanes && pick(2);
			if (i == 0 || max == 1)
				continue;
			p->weight = 1 + (uint32_t)pick(4);
			weights[i][cfg[i - 1].n_weights++] =
				(struct weight_rule){{FAIR_PROCESS, p->who.tid}, NULL, p->weight};
		}
	}
	if (!processes)
		process_add(n, 1, 4 * KIB);
	ck_assert_int_eq(gate_set_classes(m, cfg, n), 0);
	for (unsigned i = 0; i < n; i++)
		rule_free(rules[i]);
	return root;
}

/* Whatever competes below one place: classes, and processes that belong to no class below it. */
struct member {
	double got;
	uint32_t weight;
};

static unsigned members_of(unsigned at, struct member out[CLASSES + CALLERS])
{
	unsigned n = 0;
	for (unsigned i = 1; i < PLACES; i++)
		if (place[i].used && place[i].up == at)
			out[n++] = (struct member){place[i].got, place[i].weight};
	for (unsigned i = 0; i < processes; i++)
		if (process[i].place == at)
			out[n++] = (struct member){(double)process[i].got, process[i].weight};
	return n;
}

/* Two members that wait all the time differ by at most two of the largest requests of each, per weight. */
static void check_members(unsigned at, enum where where)
{
	static struct member one[CLASSES + CALLERS];
	unsigned n = members_of(at, one);
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < i; k++) {
			const struct member *a = &one[i], *b = &one[k];
			double diff = a->got / a->weight - b->got / b->weight;
			double most = 2 * 64.0 * KIB / a->weight + 2 * 64.0 * KIB / b->weight;
			must_say(diff <= most && -diff <= most,
				 "limit %d, place %u: %.0f for weight %u, %.0f for weight %u",
				 where, at, a->got, a->weight, b->got, b->weight);
			checks++;
		}
}

START_TEST(siblings_of_random_trees_differ_by_at_most_two_requests)
{
	rng = unit_sched_seed();
	checks = 0;
	for (unsigned run = 0; run < 60; run++) {
		enum where where = run % WHERES;
		memset(place, 0, sizeof(place));
		up(where);
		unsigned root = random_tree(where, run / WHERES % 2);
		compete(60 * SEC);
		for (unsigned i = 0; i < processes; i++)
			for (unsigned at = process[i].place;; at = place[at].up) {
				place[at].got += (double)process[i].got;
				place[at].used = true;
				if (at == 0)
					break;
			}
		near(place[root].got, 60.0 * RATE, 1);
		for (unsigned i = root; i < PLACES; i++)
			check_members(i, where);
		down();
	}
	printf("# %llu pairs of siblings\n", (unsigned long long)checks);
	ck_assert_uint_gt(checks, 500);
}
END_TEST

/* --- processes that come and go --- */

static uint32_t next_tid;

/* The process ends, and another one makes the next request. */
static void next_process(struct work *k)
{
	struct process *p = k->owner;
	p->who.tid = next_tid++;
	next(k);
}

static size_t shares_now(void);

START_TEST(processes_that_make_one_request_each_do_not_starve_the_others_of_their_user)
{
	struct rule *one = rule("gid:1");
	const struct gate_class_config c = {.name = "one", .match = one, .fair = FAIR_PROCESS};
	next_tid = 100000;
	for (unsigned streams = 1; streams <= 8; streams *= 2) {
		up(EACH);
		ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
		process_add(1, 1, 4 * KIB);
		for (unsigned i = 0; i < streams; i++)
			process_add(1, 1, 4 * KIB)->k.on_end = next_process;
		compete(30 * SEC);
		for (unsigned i = 0; i <= streams; i++)
			near((double)process[i].got, 30.0 * RATE / (streams + 1), 1);
		ck_assert_uint_lt(shares_now(), 100);
		down();
	}
	rule_free(one);
}
END_TEST

/* --- two outer keys --- */

static const uint64_t sizes_kib[][3] = {
	{16, 16, 16}, {64, 64, 32}, {16, 12, 20}, {4, 64, 16}, {64, 4, 16}};

/* mount, 4 MiB/s for a user ┬ outer, 1 MiB/s for a user ┬ a
 *                           └ no class                  └ b */
START_TEST(classes_share_two_limits_of_their_user)
{
	struct rule *a = rule("gid:1"), *b = rule("gid:2");
	struct gate_class_config c[] = {
		{.name = "outer", .fair = FAIR_UID},
		{.name = "a", .parent = "outer", .match = a, .fair = FAIR_PROCESS},
		{.name = "b", .parent = "outer", .match = b, .fair = FAIR_PROCESS}};
	set_limit(&c[0].each, LIMIT_BPS, MIB);
	for (unsigned i = 0; i < 5; i++) {
		up(EACH);
		ck_assert_int_eq(gate_set_classes(m, c, 3), 0);
		process_add(1, 1, sizes_kib[i][0] * KIB);
		process_add(2, 1, sizes_kib[i][1] * KIB);
		process_add(0, 1, sizes_kib[i][2] * KIB);
		compete(100 * SEC);
		near((double)process[0].got, 50.0 * MIB, 1);
		near((double)process[1].got, 50.0 * MIB, 1);
		near((double)process[2].got, 300.0 * MIB, 1);
		down();
	}
	rule_free(a);
	rule_free(b);
}
END_TEST

/* The same, with a class "middle" in outer that has a and b, and 256 KiB/s for a user; c and d are in outer.  Shares are exact if
 * requests are of the same size, and nobody starves if they are not. */
START_TEST(no_class_starves_at_three_limits_of_its_user)
{
	static const double share[] = {25, 25, 75, 75, 600};
	struct rule *match[] = {rule("gid:1"), rule("gid:2"), rule("gid:3"), rule("gid:4")};
	struct gate_class_config c[] = {
		{.name = "outer", .fair = FAIR_UID},
		{.name = "middle", .parent = "outer", .fair = FAIR_UID},
		{.name = "a", .parent = "middle", .match = match[0], .fair = FAIR_PROCESS},
		{.name = "b", .parent = "middle", .match = match[1], .fair = FAIR_PROCESS},
		{.name = "c", .parent = "outer", .match = match[2], .fair = FAIR_PROCESS},
		{.name = "d", .parent = "outer", .match = match[3], .fair = FAIR_PROCESS}};
	set_limit(&c[0].each, LIMIT_BPS, MIB);
	set_limit(&c[1].each, LIMIT_BPS, MIB / 4);
	for (unsigned i = 0; i < 5; i++) {
		const uint64_t *kib = sizes_kib[i];
		up(EACH);
		ck_assert_int_eq(gate_set_classes(m, c, 6), 0);
		for (unsigned k = 1; k <= 4; k++)
			process_add(k, 1, kib[(k - 1) % 2] * KIB);
		process_add(0, 1, kib[2] * KIB);
		compete(200 * SEC);
		for (unsigned k = 0; k < 5; k++) {
			if (kib[0] == kib[1])
				near((double)process[k].got, share[k] * MIB, 1);
			ck_assert_double_gt((double)process[k].got, share[k] * MIB / 4);
		}
		down();
	}
	for (unsigned i = 0; i < 4; i++)
		rule_free(match[i]);
}
END_TEST

/* --- memory --- */

static size_t shares_now(void)
{
	return w.gate->shares.n;
}

START_TEST(a_line_does_not_remember_processes_that_ended)
{
	struct rule *one = rule("gid:1");
	const struct gate_class_config c = {
		.name = "one", .match = one, .fair = FAIR_PROCESS, .max_keys = 100000};
	up(EACH);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	process_add(1, 1, 4 * KIB);
	process_add(0, 1, 4 * KIB);
	compete(SEC);
	size_t most = 0;
	for (unsigned i = 0; i < 20000; i++) { /* each process makes one request and ends */
		struct work *k = calloc(1, sizeof(*k));
		k->world = &w;
		k->job = (struct job){.ops = &work_ops,
				      .cost = {COST_READ, 1, 4 * KIB},
				      .caller = {.uid = USER, .gid = 1, .tid = 1000 + i},
				      .memory_bytes = 100};
		if (gate_park(m, &k->job) == GATE_GO)
			work_run(&k->job);
		world_pass(&w, 5 * MS);
		ck_assert_int_eq(k->fate, RAN);
		free(k);
		most = shares_now() > most ? shares_now() : most;
	}
	ck_assert_uint_lt(most, 50);
	down();
	rule_free(one);
}
END_TEST

START_TEST(lines_in_which_nothing_waits_are_bounded)
{
	struct rule *one = rule("gid:1");
	const struct gate_class_config c = {.name = "one", .match = one, .fair = FAIR_PROCESS};
	static struct work k[2000][3];
	up(EACH);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	memset(k, 0, sizeof(k));
	for (unsigned i = 0; i < 2000; i++)
		for (unsigned t = 0; t < 3; t++) {
			k[i][t].world = &w;
			k[i][t].job = (struct job){.ops = &work_ops,
						   .cost = {COST_READ, 1, MIB},
						   .caller = {.uid = i, .gid = 1, .tid = 3 * i + t},
						   .memory_bytes = 100};
			if (gate_park(m, &k[i][t].job) == GATE_GO)
				work_run(&k[i][t].job);
		}
	ck_assert_uint_ge(shares_now(), 2000);
	world_pass(&w, 10 * SEC);
	ck_assert_int_eq(k[1999][2].fate, RAN);
	ck_assert_uint_le(w.gate->shares.n_empty, 64);
	ck_assert_uint_le(shares_now(), 64 * 3);
	down();
	rule_free(one);
}
END_TEST

/* --- lanes --- */

/* A limit on reads makes reads and writes wait in lanes of their own.  They still share bps by weight and bytes. */
static void up_with_lanes(const struct weight_rule *heavy)
{
	struct gate_mount_config cfg = mount_config();
	cfg.weights = heavy;
	cfg.n_weights = heavy ? 1 : 0;
	set_limit(&cfg.limits, LIMIT_BPS, RATE);
	set_limit(&cfg.limits, LIMIT_READ_BPS, 100 * RATE);
	processes = 0;
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
}

static struct process *writer_add(uint64_t bytes)
{
	struct process *p = process_add(0, 1, bytes);
	p->writes = true;
	return p;
}

START_TEST(small_writes_get_as_many_bytes_as_large_reads)
{
	up_with_lanes(NULL);
	process_add(0, 1, 64 * KIB);
	writer_add(4 * KIB);
	compete(100 * SEC);
	near(process[0].got, 50.0 * RATE, 0.1);
	near(process[1].got, 50.0 * RATE, 0.1);
	down();
}
END_TEST

START_TEST(a_large_read_of_an_hour_ago_delays_no_read)
{
	up_with_lanes(NULL);
	struct process *reader = process_add(0, 1, 64 * MIB);
	writer_add(4 * KIB);
	compete(60 * SEC);
	reader->stop = process[1].stop = true;
	world_pass(&w, 3600 * SEC);
	gate_check_empty(w.gate);
	process[1].stop = false;
	ask(&process[1]);
	world_pass(&w, SEC);
	reader->bytes = 4 * KIB;
	ask(reader);
	world_pass(&w, 20 * MS);
	ck_assert_int_eq(reader->k.fate, RAN);
	down();
}
END_TEST

START_TEST(weights_hold_between_a_reader_and_a_writer)
{
	const struct weight_rule heavy = {{FAIR_PROCESS, 100}, NULL, 3};
	up_with_lanes(&heavy);
	process_add(0, 3, 16 * KIB);
	writer_add(16 * KIB);
	compete(100 * SEC);
	near(process[0].got, 75.0 * RATE, 0.1);
	near(process[1].got, 25.0 * RATE, 0.1);
	down();
}
END_TEST

START_TEST(a_writer_gets_the_share_of_one_reader_among_many)
{
	up_with_lanes(NULL);
	for (unsigned i = 0; i < 5; i++)
		process_add(0, 1, 16 * KIB);
	writer_add(16 * KIB);
	compete(100 * SEC);
	for (unsigned i = 0; i < 6; i++)
		near(process[i].got, 100.0 * RATE / 6, 0.2);
	down();
}
END_TEST

/* mount ┬ a (2) ┬ a1: reads and writes
 *       │       └ a2: reads
 *       ├ b: reads
 *       └ no class: writes */
static void read_and_write(enum where where)
{
	struct rule *a1 = rule("gid:2"), *a2 = rule("gid:3"), *b = rule("gid:4");
	struct gate_class_config c[] = {
		{.name = "a", .weight = 2, .fair = FAIR_PROCESS},
		{.name = "a1", .parent = "a", .match = a1, .fair = FAIR_PROCESS},
		{.name = "a2", .parent = "a", .match = a2, .fair = FAIR_PROCESS},
		{.name = "b", .match = b, .fair = FAIR_PROCESS}};
	set_limit(&c[3].limits, LIMIT_READ_BPS, 100 * RATE);
	up(where);
	ck_assert_int_eq(gate_set_classes(m, c, 4), 0);
	process_add(2, 1, 16 * KIB);
	process_add(2, 1, 4 * KIB)->writes = true;
	process_add(2, 1, 64 * KIB)->writes = true;
	process_add(3, 1, 32 * KIB);
	process_add(4, 1, 64 * KIB);
	process_add(0, 1, 16 * KIB)->writes = true;
	compete(200 * SEC);
	near(got_in(2), 50.0 * RATE, 0.5);
	near(got_in(3), 50.0 * RATE, 0.5);
	near(got_in(4), 50.0 * RATE, 0.5);
	near(got_in(0), 50.0 * RATE, 0.5);
	down();
	rule_free(a1);
	rule_free(a2);
	rule_free(b);
}

START_TEST(a_class_that_reads_and_writes_gets_one_share)
{
	read_and_write(GLOBAL);
	read_and_write(FS);
	read_and_write(MOUNT);
}
END_TEST

/* In bytes; with a limit of operations, requests are of the same size, so that it does not matter what is counted. */
static void user_reads_and_writes(enum limit_kind kind, uint64_t rate, const uint64_t bytes[3])
{
	struct gate_mount_config cfg = mount_config();
	double got[3] = {0}, all = 0;
	cfg.fair = FAIR_UID;
	set_limit(&cfg.limits, kind, rate);
	set_limit(&cfg.limits, LIMIT_READ_BPS, 100 * RATE);
	processes = 0;
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < 4; i++) {
		process_add(0, 1, bytes[0]);
		writer_add(bytes[1]);
		process_add(0, 1, bytes[2])->who.uid = 2;
	}
	compete(100 * SEC);
	for (unsigned i = 0; i < processes; i++) {
		got[i % 3] += (double)process[i].got;
		all += (double)process[i].got;
	}
	near(got[0] + got[1], all / 2, 0.2);
	near(got[2], all / 2, 0.2);
	down();
}

START_TEST(a_user_who_reads_and_writes_gets_one_share)
{
	user_reads_and_writes(LIMIT_BPS, RATE, (const uint64_t[]){16 * KIB, 4 * KIB, 64 * KIB});
	user_reads_and_writes(LIMIT_IOPS, 200, (const uint64_t[]){4 * KIB, 4 * KIB, 4 * KIB});
}
END_TEST

/* Reads and writes have limits of their own: whoever writes, too, is no worse a reader. */
START_TEST(a_user_who_reads_and_writes_gets_a_share_of_each_limit)
{
	struct gate_mount_config cfg = mount_config();
	cfg.fair = FAIR_UID;
	set_limit(&cfg.limits, LIMIT_BPS, 100 * RATE);
	set_limit(&cfg.limits, LIMIT_READ_BPS, RATE);
	set_limit(&cfg.limits, LIMIT_WRITE_BPS, RATE);
	processes = 0;
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	process_add(0, 1, 16 * KIB);
	writer_add(16 * KIB);
	process_add(0, 1, 16 * KIB)->who.uid = 2;
	compete(100 * SEC);
	near((double)process[0].got, 50.0 * RATE, 0.2);
	near((double)process[1].got, 100.0 * RATE, 0.2);
	near((double)process[2].got, 50.0 * RATE, 0.2);
	down();
}
END_TEST

static struct process *in_source;

static void enter_source(struct work *k)
{
	if (k->fate == RAN)
		in_source = k->owner;
}

/* Only one request may be in the source.  Requests of a user who reads and writes have two lanes, but one share. */
START_TEST(permits_are_shared_by_weight_between_readers_and_writers)
{
	struct gate_mount_config cfg = mount_config();
	cfg.fair = FAIR_UID;
	cfg.limits.max_inflight = 1;
	set_limit(&cfg.limits, LIMIT_READ_BPS, 1000 * RATE);
	processes = 0;
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	for (unsigned i = 0; i < 6; i++)
		process_add(0, 1, 16 * KIB)->who.uid = 10 + i % 5;
	process[5].writes = true; /* of the user who reads, too */
	writer_add(16 * KIB)->who.uid = 20;
	for (unsigned i = 0; i < processes; i++) {
		process[i].k.on_end = enter_source;
		ask(&process[i]);
	}
	for (unsigned i = 0; i < 6000; i++) {
		struct process *p = in_source;
		ck_assert_ptr_nonnull(p);
		const struct grant grant = p->k.job.grant;
		in_source = NULL;
		p->got++;
		world_pass(&w, MS);
		ask(p); /* everybody waits all the time */
		gate_done(&grant, OUTCOME_OK, p->bytes);
	}
	near((double)(process[0].got + process[5].got), 1000, 1);
	for (unsigned i = 1; i < 5; i++)
		near((double)process[i].got, 1000, 1);
	near((double)process[6].got, 1000, 1);
	for (unsigned i = 0; i < processes; i++)
		if (process[i].k.fate == PENDING && gate_cancel(w.gate, &process[i].k.job))
			process[i].k.fate = CANCELLED;
	gate_done(&in_source->k.job.grant, OUTCOME_OK, in_source->bytes);
	down();
}
END_TEST

/* Idleness earns no credit: a writer that comes later is not served alone first. */
START_TEST(a_lane_that_was_idle_does_not_catch_up)
{
	up_with_lanes(NULL);
	process_add(0, 1, 16 * KIB);
	compete(50 * SEC);
	writer_add(16 * KIB);
	compete(10 * SEC);
	near(process[0].got, 5.0 * RATE, 1);
	near(process[1].got, 5.0 * RATE, 1);
	down();
}
END_TEST

/* --- names --- */

static const char *program_of[2];

static uint64_t thread_is_process(const struct caller *c, uint64_t now_ns)
{
	return c->tid;
}

static void look_up_name(const struct caller *c, char buf[CALLER_NAME_MAX])
{
	snprintf(buf, CALLER_NAME_MAX, "%s", program_of[c->tid - 100]);
}

/* A shell has opened files for it before. */
START_TEST(a_program_gets_its_weight_though_its_process_ran_another_one_before)
{
	static const struct caller_ops ops = {.process = thread_is_process, .name = look_up_name};
	const struct weight_rule heavy = {{FAIR_PROCESS, 0}, "tar*", 3};
	up_with_lanes(&heavy);
	gate_set_caller_ops(w.gate, &ops);
	process_add(0, 1, 16 * KIB);
	process_add(0, 1, 16 * KIB);
	program_of[0] = program_of[1] = "sh";
	compete(100 * SEC);
	near(process[0].got, 50.0 * RATE, 0.1);
	program_of[0] = "tar";
	compete(10 * SEC);
	compete(100 * SEC);
	near(process[0].got, 75.0 * RATE, 0.1);
	near(process[1].got, 25.0 * RATE, 0.1);
	program_of[0] = ""; /* it has exited, but not all that it wrote has been written back */
	compete(10 * SEC);
	compete(100 * SEC);
	near(process[0].got, 75.0 * RATE, 0.1);
	program_of[0] = "sh"; /* another process, with the same number */
	compete(10 * SEC);
	compete(100 * SEC);
	near(process[0].got, 50.0 * RATE, 0.1);
	down();
}
END_TEST

UNIT_MAIN("weights", weights_divide_the_limit_of_a_scope_at_every_level,
	  weights_divide_the_limit_of_a_user_at_every_level,
	  siblings_of_random_trees_differ_by_at_most_two_requests,
	  processes_that_make_one_request_each_do_not_starve_the_others_of_their_user,
	  classes_share_two_limits_of_their_user, no_class_starves_at_three_limits_of_its_user,
	  a_large_read_of_an_hour_ago_delays_no_read, a_line_does_not_remember_processes_that_ended,
	  lines_in_which_nothing_waits_are_bounded, small_writes_get_as_many_bytes_as_large_reads,
	  weights_hold_between_a_reader_and_a_writer,
	  a_writer_gets_the_share_of_one_reader_among_many,
	  a_class_that_reads_and_writes_gets_one_share, a_user_who_reads_and_writes_gets_one_share,
	  a_user_who_reads_and_writes_gets_a_share_of_each_limit,
	  permits_are_shared_by_weight_between_readers_and_writers,
	  a_program_gets_its_weight_though_its_process_ran_another_one_before,
	  a_lane_that_was_idle_does_not_catch_up)
