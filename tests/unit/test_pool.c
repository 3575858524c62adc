/* SPDX-License-Identifier: MIT */
/* Members and server of a pool on a fake clock, with a network in between that delays, loses and
 * repeats messages.  The server is the one in memory; tests/mount/pool_script.sh compares pool.lua
 * with it call by call. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pool/divide.h"
#include "pool/member.h"
#include "pool/server.h"
#include "unit/unit.h"

#define MS		NSEC_PER_MSEC
#define LEASE_MS	500
#define LEASE		(LEASE_MS * MS)
#define MEMBERS		16
#define RANDOM		8 /* members that take part in random schedules */
#define MESSAGES	80
#define LOOKS_PER_LEASE 16 /* as in the daemon */
#define RATE		(1000000 * POOL_MILLI)

static uint64_t seed;

static uint64_t below(uint64_t n)
{
	return unit_random(&seed) % n;
}

/* --- a world --- */

struct message {
	uint64_t at_ns; /* 0: free */
	enum { CALL, ANSWER, FAILURE } kind;
	unsigned to;  /* of an answer or a failure: the member … */
	unsigned who; /* … and which life of it: a member may die and join again */
	uint64_t seq; /* of the call */
	union {
		struct pool_call call;
		struct pool_answer answer;
	};
};

struct user { /* of a member's rate */
	struct pool_member m;
	bool alive;
	bool cut; /* its connection is broken */
	unsigned life;
	uint64_t wants; /* 1/1000 token per second */
	double used;	/* tokens, in total */
	struct pool_use use;
	struct pool_rates now;
	uint64_t since_ns; /* up to when `used` has been computed */
	uint64_t look_ns;  /* when pool_member_look is called next */
	/* A load of requests in place of `wants`; size 0: none. */
	struct {
		uint64_t size;	   /* tokens of a request */
		uint64_t every_ns; /* one arrives in this interval; 0: two are always there */
		uint64_t next_ns, waits,
			first_ns;    /* the next; how many wait; since when the first */
		uint64_t longest_ns; /* that one has waited */
		double level;	     /* of the bucket */
	} load;
};

struct world {
	uint64_t now_ns;
	int64_t clock_us, drift_ppm; /* of the server's clock, relative to now_ns */
	uint64_t rate;		     /* of the pool */
	struct pool_server server, replica;
	bool doubtful;
	enum pool_on_lost on_lost; /* of members that join */
	struct user user[MEMBERS];
	struct message msg[MESSAGES];
	unsigned lives;
	/* the network */
	unsigned loss, repeat, cut;  /* per cent of messages; `cut`: lost, but the member is told */
	uint64_t least_ns, delay_ns; /* of a message: minimum, and at most this much more */
	double granted;		     /* tokens, by leases, to all */
	double lost;		     /* tokens that were left in the leases of members that died */
};

static struct pool_member_config config_of(struct world *w, unsigned weight)
{
	struct pool_member_config c = {
		.who = "host", .lease_ms = LEASE_MS, .weight = weight, .on_lost = w->on_lost};
	snprintf(c.id, sizeof(c.id), "%032u", ++w->lives);
	c.limits.rate[0] = w->rate;
	c.limits.capacity[0] = w->rate / POOL_MILLI / 10;
	return c;
}

/* One millisecond of a load of requests.  Like a real bucket, this one admits a request larger than its capacity once it is
 * full, and is then in debt. */
static void serve_load(struct user *u, uint64_t now_ns)
{
	double capacity = (double)u->now.capacity[0], size = (double)u->load.size;
	if (now_ns < u->now.until_ns)
		u->load.level += (double)u->now.rate[0] / POOL_MILLI / 1000;
	u->load.level = fmin(u->load.level, capacity);
	if (u->use.waiting[0])
		u->use.blocking_ns[0] += MS;
	for (; u->load.every_ns && u->load.next_ns <= now_ns; u->load.next_ns += u->load.every_ns)
		if (!u->load.waits++)
			u->load.first_ns = u->load.next_ns;
	if (!u->load.every_ns)
		u->load.waits = 2;
	while (u->load.waits && u->load.level >= fmin(size, capacity)) {
		u->load.level -= size;
		u->used += size;
		if (!u->load.every_ns)
			continue;
		u->load.longest_ns = max_u64(u->load.longest_ns, now_ns - u->load.first_ns);
		u->load.waits--;
		u->load.first_ns += u->load.every_ns;
	}
	u->use.waiting[0] = u->load.waits;
	u->use.need[0] = (uint64_t)fmax((u->load.waits ? capacity : 0) - u->load.level, 0);
}

static void load(struct world *w, unsigned i, uint64_t size, uint64_t every_ns)
{
	struct user *u = &w->user[i];
	u->wants = 0;
	u->load.size = size;
	u->load.every_ns = every_ns;
	u->load.next_ns = w->now_ns + (every_ns ? below(every_ns) : 0);
	u->load.waits = u->load.longest_ns = 0;
	u->use.waiting[0] = false;
}

static void spend(struct user *u, uint64_t now_ns)
{
	if (u->load.size) {
		for (; u->since_ns + MS <= now_ns; u->since_ns += MS)
			serve_load(u, u->since_ns + MS);
		u->use.tokens[0] = (uint64_t)u->used;
		return;
	}
	uint64_t end = min_u64(now_ns, u->now.until_ns);
	if (end > u->since_ns) {
		uint64_t rate = min_u64(u->wants, u->now.rate[0]);
		u->used += (double)rate / POOL_MILLI * (double)(end - u->since_ns) / 1e9;
		u->use.tokens[0] = (uint64_t)u->used;
	}
	if (u->use.waiting[0])
		u->use.blocking_ns[0] += now_ns - u->since_ns;
	u->use.waiting[0] = u->wants > u->now.rate[0];
	u->since_ns = now_ns;
}

static void apply(struct user *u, uint64_t now_ns)
{
	spend(u, now_ns);
	pool_member_rates(&u->m, now_ns, &u->now);
	if (!u->load.size)
		u->use.waiting[0] = u->wants > u->now.rate[0];
}

static void join(struct world *w, struct user *u, unsigned weight)
{
	struct pool_member_config c = config_of(w, weight);
	memset(u, 0, sizeof(*u));
	u->alive = true;
	u->life = w->lives;
	u->wants = POOL_DEMAND_ALL;
	u->since_ns = w->now_ns;
	pool_member_init(&u->m, &c, w->now_ns);
	apply(u, w->now_ns);
}

static void post(struct world *w, const struct message *m)
{
	if (below(100) < w->loss)
		return;
	unsigned copies = 1 + (below(100) < w->repeat);
	bool cut = m->kind != FAILURE && below(100) < w->cut;
	for (unsigned i = 0; i < MESSAGES && copies; i++) {
		if (w->msg[i].at_ns)
			continue;
		w->msg[i] = *m;
		w->msg[i].kind = cut ? FAILURE : m->kind;
		w->msg[i].at_ns = w->now_ns + 1 + w->least_ns + below(w->delay_ns + 1);
		if (m->kind == CALL && w->user[m->to].cut)
			w->msg[i].at_ns += 2 * w->least_ns;
		copies--;
	}
	w->user[m->to].cut = cut;
}

static void post_call(struct world *w, unsigned i, bool leave)
{
	struct message m = {.to = i, .who = w->user[i].life};
	struct user *u = &w->user[i];
	spend(u, w->now_ns);
	if (leave)
		pool_member_leave(&u->m, w->now_ns, &m.call);
	else
		pool_member_call(&u->m, &u->use, w->now_ns, &m.call);
	apply(u, w->now_ns);
	m.seq = m.call.seq;
	post(w, &m);
}

/* The server's clock, which drifts. */
static int64_t server_us(const struct world *w)
{
	int64_t us = (int64_t)(w->now_ns / 1000);
	return us + us % 1000000000000 * w->drift_ppm / 1000000 + w->clock_us;
}

static void serve(struct world *w, const struct message *m)
{
	struct message answer = {.kind = ANSWER, .to = m->to, .who = m->who, .seq = m->seq};
	pool_serve(&w->server, &m->call, server_us(w), w->doubtful, &answer.answer);
	w->doubtful = false;
	post(w, &answer);
}

static void receive(struct world *w, const struct message *m)
{
	struct user *u = &w->user[m->to];
	if (!u->alive || u->life != m->who)
		return;
	spend(u, w->now_ns);
	if (m->kind == ANSWER)
		pool_member_answer(&u->m, &m->answer, w->now_ns);
	else
		pool_member_failed(&u->m, m->seq, w->now_ns);
	apply(u, w->now_ns);
}

static uint64_t leased_sum(const struct world *w)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < MEMBERS; i++)
		if (w->user[i].alive && w->user[i].now.mode == POOL_MODE_LEASED &&
		    w->now_ns < w->user[i].now.until_ns)
			sum += w->user[i].now.rate[0];
	return sum;
}

static double used_sum(const struct world *w)
{
	double sum = 0;
	for (unsigned i = 0; i < MEMBERS; i++)
		sum += w->user[i].used;
	return sum;
}

/* Advances the time, and checks the pool's promise: what all members together may use never
 * exceeds its rate.  Dead members use nothing; those without a server use their fallback,
 * which other tests check. */
static void step(struct world *w, uint64_t ns)
{
	w->now_ns += ns;
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct message m = w->msg[i];
		if (!m.at_ns || m.at_ns > w->now_ns)
			continue;
		w->msg[i].at_ns = 0;
		if (m.kind == CALL)
			serve(w, &m);
		else
			receive(w, &m);
	}
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct user *u = &w->user[i];
		if (!u->alive)
			continue;
		apply(u, w->now_ns);
		if (w->now_ns >= u->look_ns || w->now_ns >= pool_member_due_ns(&u->m)) {
			pool_member_look(&u->m, &u->use, w->now_ns);
			u->look_ns = w->now_ns + LEASE / LOOKS_PER_LEASE;
		}
		if (w->now_ns >= pool_member_due_ns(&u->m))
			post_call(w, i, false);
	}
	UNIT_REQUIRE(leased_sum(w) <= w->rate);
}

static void run(struct world *w, uint64_t ns)
{
	for (uint64_t end = w->now_ns + ns; w->now_ns < end;)
		step(w, min_u64(5 * MS, end - w->now_ns));
}

static struct world *world_new(unsigned members)
{
	struct world *w = calloc(1, sizeof(*w));
	ck_assert_ptr_nonnull(w);
	w->now_ns = 3600 * NSEC_PER_SEC;
	w->clock_us = 1700000000LL * 1000000;
	w->delay_ns = 2 * MS;
	w->rate = RATE;
	for (unsigned i = 0; i < members; i++)
		join(w, &w->user[i], 1);
	return w;
}

static void world_free(struct world *w)
{
	pool_server_free(&w->server);
	pool_server_free(&w->replica);
	free(w);
}

/* --- random schedules --- */

static void copy_server(struct pool_server *to, const struct pool_server *from)
{
	pool_server_free(to);
	*to = *from;
	to->member = malloc((from->room + 1) * sizeof(*to->member));
	to->wish = malloc((from->room + 1) * sizeof(*to->wish));
	ck_assert(to->member && to->wish);
	if (from->n)
		memcpy(to->member, from->member, from->n * sizeof(*to->member));
}

static void random_event(struct world *w)
{
	struct user *u = &w->user[below(RANDOM)];
	switch (below(14)) {
	case 0:
		if (u->alive)
			break;
		join(w, u, 1 + (unsigned)below(4));
		break;
	case 1: /* dies */
		u->alive = false;
		break;
	case 2:
		if (u->alive)
			post_call(w, (unsigned)(u - w->user), true);
		u->alive = false;
		break;
	case 3:
		u->wants = below(2) ? POOL_DEMAND_ALL : below(RATE);
		break;
	case 4:
		u->wants = 0;
		break;
	case 5:
		w->loss = below(4) ? 0 : (unsigned)below(100);
		w->repeat = (unsigned)below(50);
		break;
	case 6:
		w->delay_ns = 1 + below(below(3) ? 20 * MS : 2 * LEASE);
		break;
	case 7: /* the server restarts without its data */
		pool_server_free(&w->server);
		break;
	case 8:
		copy_server(&w->replica, &w->server);
		break;
	case 9: /* a replica that missed the last calls takes over */
		copy_server(&w->server, &w->replica);
		w->doubtful = true;
		break;
	case 10: /* its clock is set back */
		w->clock_us -= (int64_t)below(10000000);
		break;
	case 11: /* a long silence: messages are lost, and time passes */
		if (below(4) == 0) {
			for (unsigned i = 0; i < MESSAGES; i++)
				w->msg[i].at_ns = 0;
			w->now_ns += LEASE + below(30 * LEASE);
		}
		break;
	default:
		break;
	}
}

static bool somebody_wants_more(const struct world *w)
{
	for (unsigned i = 0; i < MEMBERS; i++)
		if (w->user[i].alive && w->user[i].wants == POOL_DEMAND_ALL)
			return true;
	return false;
}

/* Those who want more than they get have the same per weight, and nobody gets less than it wants and less than others. */
static void check_fairness(const struct world *w)
{
	uint64_t level = 0;
	for (unsigned i = 0; i < MEMBERS; i++) {
		const struct user *u = &w->user[i];
		if (!u->alive || u->wants != POOL_DEMAND_ALL)
			continue;
		uint64_t mine = u->now.rate[0] / u->m.cfg.weight;
		UNIT_REQUIRE(!level || (mine > level - level / 50 && mine < level + level / 50));
		level = mine;
	}
	for (unsigned i = 0; i < MEMBERS; i++) {
		const struct user *u = &w->user[i];
		UNIT_REQUIRE(!u->alive || u->now.rate[0] / u->m.cfg.weight >= level - level / 50 ||
			     u->now.rate[0] >= u->wants);
	}
}

static uint64_t rates_sum(const struct world *w)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < MEMBERS; i++)
		sum += w->user[i].alive ? w->user[i].now.rate[0] : 0;
	return sum;
}

/* The network and the server are well again, and demands stay as they are: after two leases the whole rate is leased where it is
 * wanted (on average over a lease: a share that moves is leased to nobody for a moment), and after three it is divided
 * fairly. */
static void check_conservation_and_fairness(struct world *w)
{
	w->loss = w->repeat = 0;
	w->delay_ns = MS;
	run(w, 4 * LEASE); /* what is on its way, learning, members that died */
	w->user[below(RANDOM)].wants = below(2) ? POOL_DEMAND_ALL : below(RATE / 2);
	run(w, 2 * LEASE);
	if (!somebody_wants_more(w))
		return;
	double mean = 0;
	for (unsigned i = 0; i < 50; i++) {
		run(w, LEASE / 50);
		mean += (double)rates_sum(w) / 50;
	}
	UNIT_REQUIRE(mean > RATE * 0.98);
	check_fairness(w);
}

START_TEST(leases_never_add_up_to_more_than_the_rate)
{
	const char *text = getenv("POOL_SCHEDULES");
	unsigned schedules = text ? (unsigned)atoi(text) : 100000;
	seed = unit_seed();
	for (unsigned n = 0; n < schedules; n++) {
		struct world *w = world_new(1 + (unsigned)below(4));
		w->on_lost = POOL_LOST_STOP; /* no fallback: check leases only */
		w->drift_ppm = (int64_t)below(20001) - 10000;
		for (unsigned i = 0; i < MEMBERS; i++)
			w->user[i].m.cfg.on_lost = POOL_LOST_STOP;
		for (unsigned i = 0; i < 12; i++) {
			random_event(w);
			for (unsigned k = (unsigned)below(12); k > 0; k--)
				step(w, below(60 * MS));
		}
		if (n % 16 == 0)
			check_conservation_and_fairness(w);
		world_free(w);
	}
}
END_TEST

START_TEST(what_is_used_stays_below_rate_and_time_under_constant_trouble)
{
	seed = unit_seed();
	struct world *w = world_new(4);
	w->loss = 20;
	w->repeat = 20;
	for (unsigned i = 0; i < 400; i++) {
		uint64_t from = w->now_ns;
		double before = used_sum(w);
		struct user *u = &w->user[below(4)];
		if (i % 3 == 0)
			u->wants = below(3) ? POOL_DEMAND_ALL : below(RATE);
		w->delay_ns = below(100 * MS);
		for (unsigned k = 0; k < 4; k++)
			w->user[k].m.cfg.on_lost = POOL_LOST_STOP;
		run(w, 1000 * MS);
		double most = (double)(w->now_ns - from) / 1e9 * (double)RATE / POOL_MILLI;
		ck_assert(used_sum(w) - before <= most * 1.000001);
	}
	world_free(w);
}
END_TEST

/* 60 ms each way; one message in twelve breaks its connection, so that the next call must open
 * another one first.  A host that loses its lease for a moment must not use its fallback in
 * addition to what others lease. */
START_TEST(a_bad_line_makes_no_tokens)
{
	seed = unit_seed();
	double mean = 0;
	for (unsigned i = 0; i < 1000; i++) {
		struct world *w = world_new(2);
		w->least_ns = 60 * MS;
		w->cut = 8;
		run(w, 2000 * MS);
		double before = used_sum(w);
		run(w, 5000 * MS);
		double used = (used_sum(w) - before) / 5 * POOL_MILLI / (double)RATE;
		ck_assert_msg(used < 1.01, "schedule %u: %f of the rate", i, used);
		mean += used / 1000;
		world_free(w);
	}
	ck_assert_msg(mean > 0.85, "%f of the rate on average", mean);
}
END_TEST

/* The server is lost to all hosts, for a while, with or without its data; their demands change. */
START_TEST(leases_and_fallbacks_together_stay_below_the_rate_when_a_server_dies)
{
	seed = unit_seed();
	for (unsigned i = 0; i < 3000; i++) {
		unsigned n = 2 + (unsigned)below(RANDOM - 1);
		struct world *w = world_new(n);
		for (unsigned k = 0; k < n; k++)
			w->user[k].wants = below(2) ? POOL_DEMAND_ALL : below(RATE / 4);
		run(w, 3 * LEASE);
		for (unsigned k = 0; k < 400; k++) {
			if (k == 10)
				w->loss = 100;
			if (k == 20 + i % 200)
				w->loss = 0;
			if (k == 20 + i % 200 && i % 2)
				pool_server_free(&w->server);
			if (below(10) == 0)
				w->user[below(n)].wants =
					below(2) ? POOL_DEMAND_ALL : below(RATE / 4);
			step(w, below(20 * MS));
			UNIT_REQUIRE(rates_sum(w) <= RATE);
		}
		world_free(w);
	}
}
END_TEST

START_TEST(a_share_is_divided_by_the_members_of_the_last_leases)
{
	struct world *w = world_new(2);
	run(w, 4 * LEASE);
	w->user[1].alive = false; /* cut off: to the server, dead */
	run(w, 2 * LEASE);
	ck_assert_uint_eq(w->user[0].m.members, 1);
	w->loss = 100;
	run(w, 3 * LEASE);
	ck_assert_uint_eq(w->user[0].now.rate[0], RATE / 2);
	w->loss = 0;
	run(w, 30 * LEASE);
	w->loss = 100;
	run(w, 3 * LEASE);
	ck_assert_uint_eq(w->user[0].now.rate[0], RATE);
	world_free(w);
}
END_TEST

START_TEST(a_failed_call_is_repeated_immediately_but_once)
{
	struct world *w = world_new(1);
	struct pool_member *m = &w->user[0].m;
	struct pool_call call;
	const struct pool_use use = {0};
	run(w, 4 * LEASE);
	pool_member_call(m, &use, w->now_ns, &call);
	pool_member_failed(m, call.seq - 1, w->now_ns + 30 * MS);
	ck_assert_uint_eq(pool_member_due_ns(m), w->now_ns + LEASE / 2);
	pool_member_failed(m, call.seq, w->now_ns + 30 * MS);
	ck_assert_uint_eq(pool_member_due_ns(m), w->now_ns + 30 * MS);
	pool_member_call(m, &use, w->now_ns + 30 * MS, &call);
	pool_member_failed(m, call.seq, w->now_ns + 60 * MS);
	ck_assert_uint_eq(pool_member_due_ns(m), w->now_ns + 30 * MS + LEASE / 2);
	world_free(w);
}
END_TEST

/* --- loads of requests --- */

#define BLOCK 16384
#define FARM  (1024 * BLOCK * POOL_MILLI) /* 16 MiB/s */

static struct world *farm_new(unsigned n)
{
	struct world *w = world_new(0);
	w->rate = FARM;
	for (unsigned i = 0; i < n; i++) {
		join(w, &w->user[i], 1);
		w->user[i].wants = 0;
	}
	return w;
}

/* Runs for `seconds`; returns the sum in relation to the rate, and in *most that of the worst second. */
static double farm_run(struct world *w, unsigned seconds, double *most)
{
	double before = used_sum(w);
	for (unsigned i = 0; i < seconds; i++) {
		double from = used_sum(w);
		run(w, 1000 * MS);
		*most = fmax(*most, (used_sum(w) - from) * POOL_MILLI / FARM);
	}
	return (used_sum(w) - before) / seconds * POOL_MILLI / FARM;
}

static void busy(struct world *w, unsigned i)
{
	load(w, i, BLOCK, 0);
}

static void idle(struct world *w, unsigned i)
{
	load(w, i, BLOCK, 3600 * NSEC_PER_SEC);
	w->user[i].load.next_ns = NEVER;
}

/* The bars that bench_pool.sh measures with real mounts: the sum within 1 % of the rate, no second more than 2 % above. */
static void check_bars(double sum, double most, const char *what, unsigned n)
{
	ck_assert_msg(sum > 0.99 && sum < 1.001, "%s, %u hosts: sum %f", what, n, sum);
	ck_assert_msg(most < 1.02, "%s, %u hosts: %f in a second", what, n, most);
}

/* A third of the hosts is busy, a third reads 0.3/n of the rate each, a third is idle. */
static void check_uneven(unsigned n)
{
	struct world *w = farm_new(n);
	double most = 0;
	for (unsigned i = 0; i < n; i++)
		if (i % 3 == 0)
			busy(w, i);
		else if (i % 3 == 1)
			load(w, i, BLOCK, (uint64_t)(n / 0.3 * BLOCK * POOL_MILLI / FARM * 1e9));
	run(w, 3000 * MS);
	double sum = farm_run(w, 20, &most);
	check_bars(sum, most, "uneven", n);
	world_free(w);
}

/* Every five seconds another third of the hosts is idle, and in the last five none, as in bench_pool.sh. */
static void check_changing(unsigned n)
{
	static const struct {
		unsigned from, to;
	} pause[] = {{8, 13}, {13, 18}, {0, 8}}; /* seconds in which a host does nothing */
	struct world *w = farm_new(n);
	double most = 0, sum = 0;
	for (unsigned s = 0; s < 23; s++) {
		for (unsigned i = 0; i < n; i++)
			if (s == pause[i % 3].from)
				idle(w, i);
			else if (s == pause[i % 3].to || s == 0)
				busy(w, i);
		double before = used_sum(w), one = 0;
		farm_run(w, 1, &one);
		if (s < 3)
			continue;
		most = fmax(most, one);
		sum += (used_sum(w) - before) / 20 * POOL_MILLI / FARM;
	}
	check_bars(sum, most, "changing", n);
	world_free(w);
}

START_TEST(the_sum_is_within_one_per_cent_with_changing_demand)
{
	seed = unit_seed();
	for (unsigned round = 0; round < 10; round++) {
		check_changing(3);
		check_changing(16);
	}
}
END_TEST

START_TEST(the_sum_is_within_one_per_cent_with_uneven_demand)
{
	seed = unit_seed();
	for (unsigned round = 0; round < 10; round++) {
		check_uneven(3);
		check_uneven(16);
	}
}
END_TEST

/* Every other host has one request now and then; the rest is busy. */
static void check_few(unsigned n, uint64_t every_ns, unsigned size, double least)
{
	struct world *w = farm_new(n);
	double most = 0;
	uint64_t longest_ns = 0;
	for (unsigned i = 0; i < n; i++)
		if (i % 2)
			busy(w, i);
		else
			load(w, i, size, every_ns);
	run(w, 3000 * MS);
	for (unsigned i = 0; i < n; i++)
		w->user[i].load.longest_ns = 0;
	double sum = farm_run(w, 20, &most);
	for (unsigned i = 0; i < n; i++)
		longest_ns = max_u64(longest_ns, w->user[i].load.longest_ns);
	/* The debt of a request is paid within half a lease, and then once more by what the request adds to the measured use. */
	ck_assert_msg(sum > least, "%u hosts, %llu ms: sum %f", n,
		      (unsigned long long)(every_ns / MS), sum);
	ck_assert_msg(longest_ns < LEASE, "%u hosts, %llu ms: a request waited %llu ms", n,
		      (unsigned long long)(every_ns / MS), (unsigned long long)(longest_ns / MS));
	world_free(w);
}

START_TEST(hosts_with_few_requests_take_little_from_busy_ones_and_do_not_wait_long)
{
	seed = unit_seed();
	for (unsigned round = 0; round < 5; round++) {
		check_few(4, 1000 * MS, BLOCK, 0.98);
		check_few(4, 200 * MS, BLOCK, 0.98);
		check_few(16, 3000 * MS, BLOCK, 0.98);
		check_few(16, 1000 * MS, BLOCK, 0.98);
		check_few(16, 200 * MS, BLOCK, 0.98);
		check_few(16, 300 * MS, BLOCK / 4, 0.98);
		check_few(16, 2000 * MS, 8 * BLOCK, 0.95);
	}
}
END_TEST

/* A member calls; its lease ends before the call arrives, and others get its share.  A server that has lost its data answers
 * the call and believes that the member still holds the share. */
START_TEST(a_lease_that_has_ended_does_not_come_back_from_a_server_that_learns)
{
	struct world *w = world_new(1);
	struct pool_member *m = &w->user[0].m;
	struct pool_call call;
	struct pool_rates rates;
	w->user[0].m.cfg.on_lost = POOL_LOST_STOP;
	run(w, 4 * LEASE);
	struct pool_use use = w->user[0].use;
	uint64_t now_ns = m->ends_ns - 10 * MS;
	use.blocking_ns[0] += now_ns - w->now_ns;
	pool_member_call(m, &use, now_ns, &call);
	ck_assert_uint_gt(call.hold[0], RATE / 2);
	struct pool_answer answer = {.seq = call.seq,
				     .status = POOL_LEARNING,
				     .members = 1,
				     .limits = call.limits,
				     .version = 1};
	answer.grant[0] = call.hold[0];
	now_ns = m->ends_ns + 10 * MS;
	pool_member_answer(m, &answer, now_ns);
	pool_member_rates(m, now_ns, &rates);
	ck_assert_uint_eq(rates.rate[0], 0);
	world_free(w);
}
END_TEST

/* --- shares in typical situations --- */

static double rate_over(struct world *w, unsigned i, uint64_t ns)
{
	double before = w->user[i].used;
	run(w, ns);
	return (w->user[i].used - before) * 1e9 / (double)ns * POOL_MILLI / (double)RATE;
}

START_TEST(a_lone_member_gets_everything_after_one_lease)
{
	struct world *w = world_new(1);
	run(w, LEASE + LEASE / 8 + 10 * MS);
	ck_assert_uint_eq(w->user[0].now.rate[0], RATE);
	double share = rate_over(w, 0, 10000 * MS);
	ck_assert(share > 0.999 && share < 1.0001);
	world_free(w);
}
END_TEST

START_TEST(shares_follow_weights)
{
	struct world *w = world_new(0);
	join(w, &w->user[0], 1);
	join(w, &w->user[1], 2);
	join(w, &w->user[2], 5);
	run(w, 4 * LEASE);
	double before[3], sum = 0;
	for (unsigned i = 0; i < 3; i++)
		before[i] = w->user[i].used;
	run(w, 10000 * MS);
	for (unsigned i = 0; i < 3; i++) {
		double share = (w->user[i].used - before[i]) / 10 / (double)(RATE / POOL_MILLI);
		static const double fair[] = {1 / 8.0, 2 / 8.0, 5 / 8.0};
		ck_assert(share > fair[i] * 0.99 && share < fair[i] * 1.01);
		sum += share;
	}
	ck_assert(sum > 0.99);
	world_free(w);
}
END_TEST

START_TEST(what_a_member_does_not_need_is_used_by_others_within_two_leases)
{
	struct world *w = world_new(3);
	run(w, 4 * LEASE);
	w->user[0].wants = 0;
	w->user[1].wants = RATE / 10;
	run(w, 2 * LEASE);
	double share = rate_over(w, 2, 5000 * MS);
	ck_assert_msg(share > 0.89 && share <= 0.9, "%f", share);
	/* and back */
	w->user[0].wants = POOL_DEMAND_ALL;
	run(w, 2 * LEASE);
	share = rate_over(w, 0, 5000 * MS);
	ck_assert_msg(share > 0.445 && share <= 0.45, "%f", share);
	world_free(w);
}
END_TEST

START_TEST(a_newcomer_has_its_share_within_a_second_and_nobody_stops_meanwhile)
{
	struct world *w = world_new(3);
	run(w, 4 * LEASE);
	join(w, &w->user[3], 1);
	uint64_t from = w->now_ns;
	double before = used_sum(w);
	run(w, 1000 * MS);
	ck_assert_uint_ge(w->user[3].now.rate[0], RATE / 4 * 99 / 100);
	double used = (used_sum(w) - before) * 1e9 / (double)(w->now_ns - from);
	ck_assert(used > 0.97 * RATE / POOL_MILLI);
	world_free(w);
}
END_TEST

START_TEST(one_who_leaves_frees_its_share_at_once_one_who_dies_after_a_lease)
{
	struct world *w = world_new(3);
	run(w, 4 * LEASE);
	post_call(w, 0, true);
	w->user[0].alive = false;
	run(w, LEASE / 2 + 60 * MS);
	ck_assert_uint_ge(w->user[1].now.rate[0], RATE / 2 * 99 / 100);
	w->user[1].alive = false; /* dies */
	run(w, LEASE / 2);
	ck_assert_uint_le(w->user[2].now.rate[0], RATE / 2);
	run(w, LEASE + 50 * MS);
	ck_assert_uint_eq(w->user[2].now.rate[0], RATE);
	world_free(w);
}
END_TEST

START_TEST(without_a_server_a_lease_runs_out_and_then_the_fallback_holds)
{
	struct world *w = world_new(4);
	w->user[1].m.cfg.on_lost = POOL_LOST_STOP;
	w->user[2].m.cfg.on_lost = POOL_LOST_OPEN;
	run(w, 4 * LEASE);
	w->loss = 100;
	run(w, LEASE / 4);
	ck_assert_int_eq(w->user[0].now.mode, POOL_MODE_LEASED);
	run(w, LEASE);
	ck_assert_int_eq(w->user[0].now.mode, POOL_MODE_WAITING);
	ck_assert_uint_eq(w->user[0].now.rate[0], 0);
	ck_assert_uint_gt(w->user[0].m.lost_ns, 0);
	run(w, LEASE);
	ck_assert_int_eq(w->user[0].now.mode, POOL_MODE_SHARE);
	ck_assert_uint_eq(w->user[0].now.rate[0], RATE / 4);
	ck_assert_int_eq(w->user[1].now.mode, POOL_MODE_STOP);
	ck_assert_uint_eq(w->user[1].now.rate[0], 0);
	ck_assert_uint_eq(w->user[2].now.rate[0], POOL_DEMAND_ALL);
	ck_assert_uint_gt(w->user[0].m.lost_ns, 0);
	w->loss = 0;
	run(w, 3 * LEASE);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(w->user[i].now.mode, POOL_MODE_LEASED);
		ck_assert_uint_eq(w->user[i].m.lost_ns, 0);
	}
	world_free(w);
}
END_TEST

START_TEST(a_member_that_never_reached_the_server_has_no_share)
{
	struct world *w = world_new(1);
	w->loss = 100;
	run(w, 3 * LEASE);
	ck_assert_int_eq(w->user[0].now.mode, POOL_MODE_STOP);
	world_free(w);
}
END_TEST

START_TEST(new_limits_reach_all_within_a_lease)
{
	struct world *w = world_new(3);
	struct pool_limits half = w->user[0].m.cfg.limits;
	run(w, 4 * LEASE);
	half.rate[0] = RATE / 2;
	pool_member_set(&w->user[1].m, &half, w->now_ns);
	run(w, LEASE);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 2);
	run(w, LEASE);
	ck_assert_uint_le(leased_sum(w), RATE / 2);
	ck_assert_uint_eq(w->user[1].m.set[0], 0);
	world_free(w);
}
END_TEST

/* Another member has set new limits; this one sets those that it began with. */
START_TEST(a_member_can_set_the_limits_of_its_own_configuration_again)
{
	struct world *w = world_new(2);
	const struct pool_limits first = w->user[0].m.cfg.limits;
	struct pool_limits half = first;
	half.rate[0] = RATE / 2;
	run(w, 4 * LEASE);
	pool_member_set(&w->user[1].m, &half, w->now_ns);
	run(w, LEASE);
	ck_assert_uint_eq(w->user[0].m.limits.rate[0], RATE / 2);
	pool_member_configure(&w->user[0].m, &w->user[0].m.cfg,
			      w->now_ns); /* an unchanged reload */
	run(w, LEASE);
	ck_assert_uint_eq(w->user[1].m.limits.rate[0], RATE / 2);
	pool_member_set(&w->user[0].m, &half, w->now_ns);
	ck_assert_uint_eq(w->user[0].m.set[0],
			  0); /* in force already: an older set must not be repeated */
	pool_member_set(&w->user[0].m, &first, w->now_ns);
	run(w, LEASE);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE);
	world_free(w);
}
END_TEST

START_TEST(two_members_change_two_limits_at_the_same_time)
{
	struct world *w = world_new(3);
	struct pool_limits first = w->user[0].m.cfg.limits, second = first;
	run(w, 4 * LEASE);
	first.rate[0] = RATE / 2;
	second.rate[1] = RATE / 10;
	second.capacity[1] = 10;
	pool_member_set(&w->user[0].m, &first, w->now_ns);
	pool_member_set(&w->user[1].m, &second, w->now_ns);
	run(w, LEASE);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 2);
		ck_assert_uint_eq(w->user[i].m.limits.rate[1], RATE / 10);
	}
	world_free(w);
}
END_TEST

/* The answer to the first call that sets a limit is lost, another member sets the same limit, and then the first member
 * repeats its call. */
START_TEST(a_repeated_change_does_not_undo_a_later_one)
{
	struct world *w = world_new(2);
	struct pool_limits first = w->user[0].m.cfg.limits, later = first;
	struct pool_call call;
	struct pool_answer lost;
	run(w, 4 * LEASE);
	first.rate[0] = RATE / 2;
	later.rate[0] = RATE / 4;
	pool_member_set(&w->user[0].m, &first, w->now_ns);
	pool_member_call(&w->user[0].m, &w->user[0].use, w->now_ns, &call);
	pool_serve(&w->server, &call, server_us(w), false, &lost);
	ck_assert_uint_eq(lost.limits.rate[0], RATE / 2);
	pool_member_set(&w->user[1].m, &later, w->now_ns);
	run(w, 2 * LEASE);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 4);
	world_free(w);
}
END_TEST

/* The server has lost its data, and a member that has just started calls it first. */
START_TEST(limits_in_force_return_to_a_server_that_has_lost_its_data)
{
	struct world *w = world_new(2);
	struct pool_limits half = w->user[0].m.cfg.limits;
	run(w, 4 * LEASE);
	half.rate[0] = RATE / 2;
	pool_member_set(&w->user[0].m, &half, w->now_ns);
	run(w, 2 * LEASE);
	pool_server_free(&w->server);
	join(w, &w->user[2], 1);
	post_call(w, 2, false);
	run(w, 2 * LEASE);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE / 2);
	world_free(w);
}
END_TEST

/* The same, but nobody has changed them: they are as the first member configured them. */
START_TEST(a_newcomer_does_not_replace_the_limits_when_the_server_has_lost_its_data)
{
	struct world *w = world_new(2);
	run(w, 4 * LEASE);
	pool_server_free(&w->server);
	w->rate = 2 * RATE;
	join(w, &w->user[2], 1);
	w->rate = RATE;
	post_call(w, 2, false);
	run(w, 2 * LEASE);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(w->user[i].m.limits.rate[0], RATE);
	world_free(w);
}
END_TEST

START_TEST(a_late_or_repeated_answer_changes_nothing)
{
	struct world *w = world_new(1);
	struct pool_member *m = &w->user[0].m;
	struct pool_call call;
	struct pool_answer answer = {.status = POOL_GRANTED, .members = 1, .version = 1};
	run(w, 2 * LEASE);
	struct pool_use use = {.waiting = {true}};
	pool_member_call(m, &use, w->now_ns, &call);
	answer.limits = call.limits;
	answer.grant[0] = RATE;
	answer.seq = call.seq - 1;
	ck_assert(!pool_member_answer(m, &answer, w->now_ns));
	answer.seq = call.seq;
	ck_assert(pool_member_answer(m, &answer, w->now_ns + MS));
	uint64_t ends_ns = m->ends_ns;
	ck_assert(!pool_member_answer(m, &answer, w->now_ns + 2 * MS));
	ck_assert_uint_eq(m->ends_ns, ends_ns);
	ck_assert_uint_lt(ends_ns, w->now_ns + LEASE);
	pool_member_call(m, &use, w->now_ns + 3 * MS, &call);
	answer.seq = call.seq;
	ck_assert(!pool_member_answer(m, &answer, w->now_ns + 3 * MS + LEASE));
	ck_assert_uint_eq(m->ends_ns, ends_ns);
	world_free(w);
}
END_TEST

START_TEST(a_thousand_members_share_ten_operations)
{
	struct pool_server s;
	struct pool_answer a;
	uint64_t sum = 0;
	pool_server_init(&s);
	for (unsigned round = 0; round < 4; round++) {
		sum = 0;
		for (unsigned i = 0; i < 1000; i++) {
			struct pool_call c = {.seq = round + 1, .lease_ms = LEASE_MS, .weight = 1};
			c.limits.rate[0] = 10 * POOL_MILLI;
			c.demand[0] = POOL_DEMAND_ALL;
			snprintf(c.id, sizeof(c.id), "%u", i);
			pool_serve(&s, &c, 1000000 + round * 400000 + i * 100, false, &a);
			sum += a.grant[0];
		}
	}
	ck_assert_uint_eq(sum, 10 * POOL_MILLI);
	ck_assert_uint_eq(a.members, 1000);
	pool_server_free(&s);
}
END_TEST

/* All hosts lose power and return, with new ids, before the server has dropped any of the old ones. */
START_TEST(a_full_pool_takes_new_members_when_the_old_ones_are_dead)
{
	struct pool_server s;
	struct pool_answer a;
	struct pool_call c = {.seq = 1, .lease_ms = LEASE_MS, .weight = 1};
	int64_t now_us = 1000000;
	pool_server_init(&s);
	c.limits.rate[0] = RATE;
	for (unsigned i = 0; i < POOL_MEMBERS_MAX; i++) {
		snprintf(c.id, sizeof(c.id), "%u", i);
		pool_serve(&s, &c, now_us, false, &a);
		ck_assert_int_ne(a.status, POOL_FULL);
	}
	snprintf(c.id, sizeof(c.id), "new");
	pool_serve(&s, &c, now_us + LEASE_MS * 900, false, &a);
	ck_assert_int_eq(a.status, POOL_FULL);
	pool_serve(&s, &c, now_us + LEASE_MS * 1500, false, &a);
	ck_assert_int_ne(a.status, POOL_FULL);
	ck_assert_uint_eq(a.members, 1);
	pool_server_free(&s);
}
END_TEST

START_TEST(max_min_meets_small_demands_and_levels_the_rest)
{
	struct pool_wish wish[] = {
		{10, 1, false}, {1000, 1, false}, {40, 1, false}, {1000, 2, false}};
	struct pool_level l = pool_divide(350, wish, 4);
	static const double share[] = {10, 100, 40, 200};
	for (unsigned i = 0; i < 4; i++)
		ck_assert(pool_share(&l, 350, wish[i].demand, wish[i].weight) == share[i]);
	/* what is left over is divided by weight */
	wish[1].demand = wish[3].demand = 0;
	l = pool_divide(350, wish, 4);
	ck_assert(pool_share(&l, 350, 0, 2) == 120);
	ck_assert(pool_share(&l, 350, 10, 1) == 70);
}
END_TEST

START_TEST(a_host_divides_its_lease_between_its_scopes)
{
	uint64_t demand[] = {POOL_DEMAND_ALL, 100, POOL_DEMAND_ALL}, share[3];
	uint64_t weight[] = {1, 1, 1};
	struct pool_wish scratch[3];
	pool_split(1100, demand, weight, 3, scratch, share);
	ck_assert_uint_eq(share[0], 500);
	ck_assert_uint_eq(share[1], 100);
	ck_assert_uint_eq(share[2], 500);
	weight[2] = 4;
	pool_split(1100, demand, weight, 3, scratch, share);
	ck_assert_uint_eq(share[0], 200);
	ck_assert_uint_eq(share[1], 100);
	ck_assert_uint_eq(share[2], 800);
}
END_TEST

UNIT_MAIN("pool", the_sum_is_within_one_per_cent_with_uneven_demand,
	  the_sum_is_within_one_per_cent_with_changing_demand,
	  hosts_with_few_requests_take_little_from_busy_ones_and_do_not_wait_long,
	  a_lease_that_has_ended_does_not_come_back_from_a_server_that_learns,
	  max_min_meets_small_demands_and_levels_the_rest,
	  a_host_divides_its_lease_between_its_scopes,
	  a_lone_member_gets_everything_after_one_lease, shares_follow_weights,
	  what_a_member_does_not_need_is_used_by_others_within_two_leases,
	  a_newcomer_has_its_share_within_a_second_and_nobody_stops_meanwhile,
	  one_who_leaves_frees_its_share_at_once_one_who_dies_after_a_lease,
	  without_a_server_a_lease_runs_out_and_then_the_fallback_holds,
	  a_member_that_never_reached_the_server_has_no_share, new_limits_reach_all_within_a_lease,
	  a_member_can_set_the_limits_of_its_own_configuration_again,
	  two_members_change_two_limits_at_the_same_time,
	  a_repeated_change_does_not_undo_a_later_one,
	  limits_in_force_return_to_a_server_that_has_lost_its_data,
	  a_newcomer_does_not_replace_the_limits_when_the_server_has_lost_its_data,
	  a_late_or_repeated_answer_changes_nothing, a_thousand_members_share_ten_operations,
	  a_full_pool_takes_new_members_when_the_old_ones_are_dead,
	  a_failed_call_is_repeated_immediately_but_once,
	  a_share_is_divided_by_the_members_of_the_last_leases,
	  leases_and_fallbacks_together_stay_below_the_rate_when_a_server_dies,
	  a_bad_line_makes_no_tokens, what_is_used_stays_below_rate_and_time_under_constant_trouble,
	  leases_never_add_up_to_more_than_the_rate)
