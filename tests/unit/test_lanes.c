/* SPDX-License-Identifier: MIT */
/* Reads, writes, copies and metadata wait in lanes of their own where limits tell them apart.  Reservations hold and nobody starves
 * where such lanes compete. */
#include "unit/gate_check.h"
#include "unit/world.h"

#define CALLERS 80

static struct world w;
static struct gate_fs *fs;
static struct gate_mount *m;
static struct gate_mount_config cfg;

/* A caller that asks again as soon as it is served.  Rules tell classes apart by the group. */
static struct client {
	struct work k;
	struct caller who;
	enum cost_class cls;
	uint64_t bytes, got, ops;
	bool stop;
} client[CALLERS];
static unsigned clients;

static void ask(struct client *c)
{
	c->k.job = (struct job){.ops = &work_ops,
				.cost = {c->cls, 1, c->bytes},
				.caller = c->who,
				.memory_bytes = 100};
	c->k.world = &w;
	c->k.fate = PENDING;
	enum gate_verdict v = gate_try(m, &c->k.job.cost, &c->who, &c->k.job.grant);
	if (v == GATE_WOULD_BLOCK)
		v = gate_park(m, &c->k.job);
	if (v == GATE_GO)
		work_run(&c->k.job);
}

static void next(struct work *k)
{
	struct client *c = k->owner;
	if (k->fate != RAN)
		return;
	c->got += c->bytes;
	c->ops++;
	gate_done(&k->job.grant, OUTCOME_OK, c->bytes);
	if (!c->stop)
		ask(c);
}

static struct client *start(unsigned gid, enum cost_class cls, uint64_t bytes)
{
	struct client *c = &client[clients];
	*c = (struct client){
		.who = {.uid = 1, .gid = gid, .tid = 100 + clients}, .cls = cls, .bytes = bytes};
	c->k.owner = c;
	c->k.on_end = next;
	clients++;
	ask(c);
	return c;
}

static void config(uint64_t bps)
{
	cfg = mount_config();
	if (bps)
		set_limit(&cfg.limits, LIMIT_BPS, bps);
}

static void up(void)
{
	clients = 0;
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
}

static void down(void)
{
	for (unsigned i = 0; i < clients; i++) {
		client[i].stop = true;
		if (client[i].k.fate == PENDING)
			ck_assert(gate_cancel(w.gate, &client[i].k.job));
	}
	gate_check_empty(w.gate);
	world_fini(&w, fs, m);
}

/* --- reservations --- */

/* In any time t, at least rate × t, minus one request and what others that were ahead take. */
static void check_intervals(const struct client *c, uint64_t rate, uint64_t slack)
{
	for (unsigned i = 0; i < 60; i++) {
		uint64_t before = c->got;
		world_pass(&w, SEC);
		ck_assert_msg(c->got - before + slack >= rate, "second %u: %llu of %llu", i,
			      (unsigned long long)(c->got - before), (unsigned long long)rate);
	}
	gate_check(w.gate);
}

static struct gate_class_config class_of(const char *name, const struct rule *match)
{
	return (struct gate_class_config){
		.name = name, .match = match, .weight = 1, .fair = FAIR_PROCESS};
}

START_TEST(a_reservation_holds_in_every_second_against_many_writers)
{
	struct rule *r = rule("gid:1");
	struct gate_class_config c = class_of("reserved", r);
	config(256 * KIB);
	set_limit(&cfg.limits, LIMIT_READ_IOPS, 100000); /* reads have a lane of their own */
	up();
	c.reserve_bps = 128 * KIB;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	start(1, COST_READ, 16 * KIB);
	for (unsigned i = 0; i < 64; i++)
		start(2, COST_WRITE, 16 * KIB);
	world_pass(&w, SEC);
	check_intervals(&client[0], 128 * KIB, 3 * 16 * KIB);
	down();
	rule_free(r);
}
END_TEST

START_TEST(a_reservation_holds_in_every_second_against_a_heavy_writer)
{
	struct rule *r = rule("gid:1"), *s = rule("gid:2");
	struct gate_class_config c[] = {class_of("reserved", r), class_of("batch", s)};
	config(100 * MIB);
	set_limit(&cfg.limits, LIMIT_READ_BPS, 1000 * MIB);
	up();
	c[0].reserve_bps = 30 * MIB;
	c[1].weight = 10000;
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	start(1, COST_READ, 128 * KIB);
	start(2, COST_WRITE, 128 * KIB);
	world_pass(&w, SEC);
	check_intervals(&client[0], 30 * MIB, 3 * 128 * KIB);
	ck_assert_uint_ge(client[1].got, 60 * 69 * MIB);
	down();
	rule_free(r);
	rule_free(s);
}
END_TEST

START_TEST(reserved_operations_hold_in_every_second_against_many_writers)
{
	struct rule *r = rule("gid:1");
	struct gate_class_config c = class_of("reserved", r);
	config(0);
	set_limit(&cfg.limits, LIMIT_IOPS, 100);
	set_limit(&cfg.limits, LIMIT_READ_BPS, 100 * MIB);
	up();
	c.reserve_iops = 40;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	struct client *reader = start(1, COST_READ, 4 * KIB);
	for (unsigned i = 0; i < 64; i++)
		start(2, COST_WRITE, 4 * KIB);
	world_pass(&w, SEC);
	for (unsigned i = 0; i < 60; i++) {
		uint64_t before = reader->ops;
		world_pass(&w, SEC);
		ck_assert_uint_ge(reader->ops - before + 3, 40);
	}
	down();
	rule_free(r);
}
END_TEST

/* More is reserved than there is, as may happen with the lease of a pool: nobody's reservation is ignored. */
START_TEST(reservations_that_cannot_be_met_are_late_alike)
{
	struct rule *r = rule("gid:1"), *s = rule("gid:2");
	struct gate_class_config c[] = {class_of("a", r), class_of("b", s)};
	config(10 * MIB);
	set_limit(&cfg.limits, LIMIT_READ_BPS, 1000 * MIB);
	up();
	c[0].reserve_bps = c[1].reserve_bps = 20 * MIB;
	ck_assert_int_eq(gate_set_classes(m, c, 2), 0);
	for (unsigned i = 0; i < 4; i++)
		start(1, COST_READ, 16 * KIB);
	for (unsigned i = 0; i < 4; i++)
		start(2, COST_WRITE, 16 * KIB);
	world_pass(&w, 60 * SEC);
	for (unsigned i = 0; i < 8; i++)
		near(client[i].got, 75 * MIB, 2);
	down();
	rule_free(r);
	rule_free(s);
}
END_TEST

static uint64_t got_by(unsigned first)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < first; i++)
		sum += client[i].got;
	return sum;
}

START_TEST(a_change_of_settings_forgives_no_reservation)
{
	struct rule *r = rule("gid:1");
	struct gate_class_config c = class_of("reserved", r);
	config(10 * MIB);
	up();
	c.reserve_bps = 4 * MIB;
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 4; i++)
		start(1, COST_READ, 64 * KIB);
	for (unsigned i = 0; i < 8; i++)
		start(2, COST_READ, MIB);
	world_pass(&w, SEC);
	uint64_t before = got_by(4);
	for (unsigned i = 0; i < 6000; i++) {
		world_pass(&w, 10 * MS);
		ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
	}
	ck_assert_uint_ge(got_by(4) - before, 60 * 4 * MIB * 99 / 100);
	down();
	rule_free(r);
}
END_TEST

/* Each of its requests waits for the limit of its class before it waits for that of the mount. */
START_TEST(a_reserved_class_that_waits_for_its_own_limit_loses_nothing)
{
	struct rule *r = rule("gid:1");
	struct gate_class_config c = class_of("reserved", r);
	config(10 * MIB);
	up();
	c.reserve_bps = 4 * MIB;
	c.limits.window_ns = MS;
	set_limit(&c.limits, LIMIT_BPS, 8 * MIB);
	ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
	for (unsigned i = 0; i < 4; i++)
		start(1, COST_READ, 64 * KIB);
	for (unsigned i = 0; i < 8; i++)
		start(2, COST_READ, 128 * KIB);
	world_pass(&w, SEC);
	uint64_t before = got_by(4);
	world_pass(&w, 60 * SEC);
	ck_assert_uint_ge(got_by(4) - before, 60 * 4 * MIB * 99 / 100);
	down();
	rule_free(r);
}
END_TEST

/* --- requests that need two limits of one scope --- */

static void copy_beside_both(const struct gate_class_config *c, unsigned n, uint64_t piece)
{
	up();
	ck_assert_int_eq(gate_set_classes(m, c, n), 0);
	start(1, COST_READ, 128 * KIB);
	start(1, COST_WRITE, 128 * KIB);
	start(1, COST_COPY, piece);
	world_pass(&w, 2 * SEC);
	client[2].got = 0;
	world_pass(&w, 60 * SEC);
	gate_check(w.gate);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_msg(client[i].got > 60 * MIB, "client %u got %llu, piece %llu", i,
			      (unsigned long long)client[i].got, (unsigned long long)piece);
	down();
}

static const uint64_t pieces[] = {MIB, 64 * KIB, 4 * MIB};

START_TEST(a_copy_does_not_starve_between_a_reader_and_a_writer)
{
	config(0);
	set_limit(&cfg.limits, LIMIT_READ_BPS, 10 * MIB);
	set_limit(&cfg.limits, LIMIT_WRITE_BPS, 10 * MIB);
	for (unsigned i = 0; i < 3; i++)
		copy_beside_both(NULL, 0, pieces[i]);
}
END_TEST

START_TEST(a_copy_does_not_starve_at_the_limits_of_its_user)
{
	config(0);
	cfg.fair = FAIR_UID;
	set_limit(&cfg.each, LIMIT_READ_BPS, 10 * MIB);
	set_limit(&cfg.each, LIMIT_WRITE_BPS, 10 * MIB);
	for (unsigned i = 0; i < 3; i++)
		copy_beside_both(NULL, 0, pieces[i]);
}
END_TEST

START_TEST(a_copy_of_a_class_does_not_starve_at_the_limits_of_its_user)
{
	struct rule *r = rule("gid:1");
	const struct gate_class_config c = class_of("one", r);
	config(0);
	cfg.fair = FAIR_UID;
	set_limit(&cfg.each, LIMIT_READ_BPS, 10 * MIB);
	set_limit(&cfg.each, LIMIT_WRITE_BPS, 10 * MIB);
	for (unsigned i = 0; i < 3; i++)
		copy_beside_both(&c, 1, pieces[i]);
	rule_free(r);
}
END_TEST

/* A write needs an operation of its class and bytes of the mount.  Whenever it has had its turn for the operation and waits for
 * the bytes, metadata requests want the operation, and a reader that needs no operation wants the bytes. */
START_TEST(a_write_does_not_starve_between_metadata_and_a_reader_outside_its_class)
{
	struct rule *r = rule("gid:1");
	for (unsigned i = 0; i < 4; i++) {
		struct gate_class_config c = class_of("one", r);
		config(3 * MIB);
		/* reads have a lane of their own */
		set_limit(&cfg.limits, LIMIT_READ_BPS, 1000 * MIB);
		set_limit(&c.limits, LIMIT_IOPS, 180);
		up();
		ck_assert_int_eq(gate_set_classes(m, &c, 1), 0);
		for (unsigned k = 0; k < (i & 1 ? 1 : 4); k++)
			start(1, COST_META, 0);
		if (i & 2)
			start(2, COST_READ, 64 * KIB);
		const struct client *writer = start(1, COST_WRITE, 120 * KIB);
		if (!(i & 2))
			start(2, COST_READ, 64 * KIB);
		world_pass(&w, 60 * SEC);
		gate_check(w.gate);
		ck_assert_msg(writer->got > 60 * MIB, "case %u: %llu", i,
			      (unsigned long long)writer->got);
		down();
	}
	rule_free(r);
}
END_TEST

static void set_peak(struct limiter_config *l, enum limit_kind kind, uint64_t peak)
{
	l->limit[kind].peak_per_sec = peak;
}

/* What was saved up suffices for the whole time, so only the peaks make them wait.  A peak that is set while the mount is in use
 * is no different from one that it began with. */
START_TEST(a_copy_does_not_starve_at_peaks_that_are_set_later)
{
	static const enum scope { IN_MOUNT, EACH, SCOPES } scopes[] = {IN_MOUNT, EACH};
	for (unsigned i = 0; i < SCOPES; i++) {
		config(0);
		cfg.fair = FAIR_UID;
		struct limiter_config *l = scopes[i] == EACH ? &cfg.each : &cfg.limits;
		set_limit(l, LIMIT_READ_BPS, 10 * MIB);
		set_limit(l, LIMIT_WRITE_BPS, 10 * MIB);
		l->limit[LIMIT_READ_BPS].burst = l->limit[LIMIT_WRITE_BPS].burst = 4096 * MIB;
		up();
		struct work first = {0};
		work_submit(&w, &first, m, COST_READ, 1, 1); /* the user has a key before */
		set_peak(l, LIMIT_READ_BPS, 10 * MIB);
		set_peak(l, LIMIT_WRITE_BPS, 10 * MIB);
		ck_assert_int_eq(gate_set_mount(m, &cfg), 0);
		start(1, COST_READ, 128 * KIB);
		start(1, COST_WRITE, 128 * KIB);
		start(1, COST_COPY, MIB);
		world_pass(&w, 2 * SEC);
		client[2].got = 0;
		world_pass(&w, 60 * SEC);
		gate_check(w.gate);
		for (unsigned k = 0; k < 3; k++)
			ck_assert_msg(client[k].got > 60 * MIB, "scope %u, client %u got %llu", i,
				      k, (unsigned long long)client[k].got);
		down();
	}
}
END_TEST

/* A read needs read_bps and bps; directories use up the one, writes the other.  The lanes of one key take turns request by
 * request, so small requests get few bytes there. */
START_TEST(a_read_does_not_starve_between_directories_and_writes)
{
	static const enum scope { IN_MOUNT, EACH, SCOPES } scopes[] = {IN_MOUNT, EACH};
	for (unsigned i = 0; i < SCOPES; i++) {
		struct limiter_config l = {0};
		set_limit(&l, LIMIT_READ_BPS, 4 * MIB);
		set_limit(&l, LIMIT_BPS, 8 * MIB);
		config(0);
		cfg.fair = FAIR_UID;
		*(scopes[i] == EACH ? &cfg.each : &cfg.limits) = l;
		up();
		start(1, COST_READ, MIB);
		start(1, COST_READDIR, 16 * KIB);
		start(1, COST_WRITE, 128 * KIB);
		world_pass(&w, 60 * SEC);
		gate_check(w.gate);
		for (unsigned k = 0; k < 3; k++)
			ck_assert_msg(client[k].got > (k == 1 ? 2 : 24) * MIB,
				      "scope %u, client %u got %llu", i, k,
				      (unsigned long long)client[k].got);
		down();
	}
}
END_TEST

/* --- limits of all scopes of random trees --- */

#define DEPTH	6
#define CLASSES 12
#define WATCHED (CLASSES + 3)

static uint64_t rng;

static uint64_t pick(uint64_t n)
{
	return unit_random(&rng) % n;
}

/* For each bucket of each scope: by how much what was granted exceeds rate × time in the worst interval so far, and the largest
 * request. */
static struct watch {
	const struct node *node;
	struct excess {
		double tokens;
		uint64_t at_ns, largest;
	} of[LIMIT_KINDS][BUCKET_ROLES];
} watch[WATCHED];
static uint64_t grants_checked;

static struct watch *watch_of(const struct node *n)
{
	struct watch *x = watch;
	while (x->node && x->node != n)
		x++;
	x->node = n;
	return x;
}

/* granted − given back ≤ rate × (t + 5 ms) + max(capacity, largest request), in every interval.  Each lane may have taken one
 * operation before, for a request that was admitted later. */
static void check_excess(struct excess *e, const struct bucket *b, bool bytes, uint64_t asked,
			 uint64_t moved)
{
	double rate = (double)bucket_rate(b),
	       leaked = rate * (double)(w.clock.now - e->at_ns) / 1e9;
	e->tokens = e->tokens > leaked ? e->tokens - leaked : 0;
	e->tokens += (double)moved;
	e->at_ns = w.clock.now;
	e->largest = max_u64(e->largest, asked);
	double most = rate * 0.005 + (double)max_u64(bucket_capacity(b), e->largest) +
		      (bytes ? 1 : LANES);
	must_say(e->tokens <= most, "%.3f tokens, not %.3f; rate %.0f, capacity %llu", e->tokens,
		 most, rate, (unsigned long long)bucket_capacity(b));
	grants_checked++;
}

static void check_grant(const struct grant *g, uint64_t moved)
{
	struct cost did = {g->cost.cls, g->cost.ops, moved};
	for (const struct node *n = &g->leaf->node; n; n = n->parent) {
		const struct chain *own = n->own[did.cls];
		for (unsigned i = 0; own && i < own->links; i++) {
			const struct chain_link *l = &own->link[i];
			check_excess(&watch_of(n)->of[l->kind][l->role], l->bucket,
				     limit_kind_is_bytes(l->kind), chain_tokens(l, &g->cost),
				     chain_tokens(l, &did));
		}
	}
}

/* Half of the requests move only a part of what they asked for. */
static void next_checked(struct work *k)
{
	struct client *c = k->owner;
	if (k->fate != RAN)
		return;
	uint64_t moved = pick(2) ? c->bytes : pick(c->bytes + 1);
	check_grant(&k->job.grant, moved);
	gate_done(&k->job.grant, OUTCOME_OK, moved);
	if (c->stop)
		return;
	if (c->bytes)
		c->bytes = 1 + pick(pick(4) ? 16 * KIB : 256 * KIB);
	ask(c);
}

static void random_limits(struct limiter_config *l)
{
	*l = (struct limiter_config){.window_ns = pick(2) ? 0 : 20 * MS};
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		if (pick(5))
			continue;
		set_limit(l, k, limit_kind_is_bytes(k) ? 64 * KIB + pick(4 * MIB) : 10 + pick(500));
		if (pick(2))
			l->limit[k].burst = pick(2 * l->limit[k].rate_per_sec);
		if (pick(2))
			l->limit[k].peak_per_sec = l->limit[k].rate_per_sec * (1 + pick(4)) + 1;
	}
}

static void random_tree(void)
{
	static char names[CLASSES][8];
	struct gate_class_config c[CLASSES];
	struct rule *rules[CLASSES];
	unsigned depth[CLASSES];
	for (unsigned i = 0; i < CLASSES; i++) {
		char text[16];
		snprintf(text, sizeof(text), "gid:%u", i + 1);
		snprintf(names[i], sizeof(names[i]), "c%u", i);
		rules[i] = rule(text);
		c[i] = class_of(names[i], rules[i]);
		c[i].weight = 1 + (uint32_t)pick(4);
		c[i].reserve_bps = pick(4) ? 0 : 32 * KIB;
		random_limits(&c[i].limits);
		unsigned above = i && pick(5) ? (unsigned)pick(i) : CLASSES;
		depth[i] = above < CLASSES ? depth[above] + 1 : 1;
		if (above < CLASSES && depth[i] <= DEPTH)
			c[i].parent = names[above];
		else
			depth[i] = 1;
	}
	ck_assert_int_eq(gate_set_classes(m, c, CLASSES), 0);
	for (unsigned i = 0; i < CLASSES; i++)
		rule_free(rules[i]);
}

START_TEST(no_scope_of_a_random_tree_gets_more_than_its_limits)
{
	rng = unit_sched_seed();
	grants_checked = 0;
	for (uint64_t run = 0, runs = unit_rounds(40); run < runs; run++) {
		struct limiter_config wide;
		memset(watch, 0, sizeof(watch));
		config(0);
		random_limits(&cfg.limits);
		up();
		random_limits(&wide);
		ck_assert_int_eq(gate_set_fs(fs, &wide), 0);
		random_limits(&wide);
		ck_assert_int_eq(gate_set_global(w.gate, &wide), 0);
		random_tree();
		/* in one of these, nothing may be limited */
		set_limit(&wide, LIMIT_IOPS, 1000);
		set_limit(&wide, LIMIT_BPS, 16 * MIB);
		ck_assert_int_eq(gate_set_global(w.gate, &wide), 0);
		for (unsigned i = 0; i < 40; i++) {
			struct client *one = &client[clients++];
			*one = (struct client){
				.who = {.gid = (uint32_t)pick(CLASSES + 1), .tid = i},
				.cls = (enum cost_class)pick(COST_CLASSES)};
			one->bytes = one->cls == COST_META || one->cls == COST_OPENCLOSE ? 0 : 1;
			one->k.owner = one;
			one->k.on_end = next_checked;
			ask(one);
			world_pass(&w, pick(100 * MS));
		}
		for (unsigned i = 0; i < 20; i++) {
			world_pass(&w, SEC / 2);
			gate_check(w.gate);
		}
		down();
	}
	printf("# %llu grants checked\n", (unsigned long long)grants_checked);
	ck_assert_uint_gt(grants_checked, 1000);
}
END_TEST

/* --- callers with little to do --- */

/* 64 processes read, and one lists metadata as fast as it can.  The first stat of another one does not wait for the whole round that
 * the lister has to wait. */
START_TEST(a_newcomer_does_not_pay_in_full_for_others_of_its_lane)
{
	config(0);
	set_limit(&cfg.limits, LIMIT_IOPS, 1000);
	set_limit(&cfg.limits, LIMIT_READ_BPS, 1000 * MIB);
	up();
	for (unsigned i = 0; i < 64; i++)
		start(1, COST_READ, 4 * KIB);
	const struct client *lister = start(1, COST_META, 0);
	world_pass(&w, 10 * SEC);
	uint64_t most = 0;
	for (unsigned i = 0; i < 200; i++) {
		struct work k = {0};
		work_submit(&w, &k, m, COST_META, 0, 5000);
		world_pass(&w, 100 * MS + i * 997 * 1000);
		ck_assert_int_eq(k.fate, RAN);
		most = max_u64(most, k.end_ns - k.came_ns);
	}
	ck_assert_msg(most <= 70 * MS, "%llu ns", (unsigned long long)most);
	ck_assert_uint_ge(lister->ops, 10 * 1000 / 65);
	down();
}
END_TEST

UNIT_MAIN("lanes", no_scope_of_a_random_tree_gets_more_than_its_limits,
	  a_newcomer_does_not_pay_in_full_for_others_of_its_lane,
	  a_reservation_holds_in_every_second_against_many_writers,
	  a_reservation_holds_in_every_second_against_a_heavy_writer,
	  reserved_operations_hold_in_every_second_against_many_writers,
	  reservations_that_cannot_be_met_are_late_alike,
	  a_change_of_settings_forgives_no_reservation,
	  a_reserved_class_that_waits_for_its_own_limit_loses_nothing,
	  a_copy_does_not_starve_between_a_reader_and_a_writer,
	  a_copy_does_not_starve_at_the_limits_of_its_user,
	  a_copy_of_a_class_does_not_starve_at_the_limits_of_its_user,
	  a_copy_does_not_starve_at_peaks_that_are_set_later,
	  a_write_does_not_starve_between_metadata_and_a_reader_outside_its_class,
	  a_read_does_not_starve_between_directories_and_writes)
