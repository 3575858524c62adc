/* SPDX-License-Identifier: MIT */
#include "unit/pool_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

uint64_t seed;

uint64_t below(uint64_t n)
{
	return unit_random(&seed) % n;
}

static struct pool_member_config config_of(struct world *w, unsigned weight)
{
	struct pool_member_config c = {.who = "host",
				       .lease_ms = LEASE_MS *
						   (w->mixed ? 1 + (unsigned)below(w->mixed) : 1),
				       .weight = weight,
				       .on_lost = w->on_lost};
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

void load(struct world *w, unsigned i, uint64_t size, uint64_t every_ns)
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

void join(struct world *w, struct user *u, unsigned weight)
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

void post_call(struct world *w, unsigned i, bool leave)
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
int64_t server_us(const struct world *w)
{
	int64_t us = (int64_t)(w->now_ns / 1000);
	return us + us % 1000000000000 * w->drift_ppm / 1000000 + w->clock_us;
}

static void serve(struct world *w, const struct message *m)
{
	struct message answer = {.kind = ANSWER, .to = m->to, .who = m->who, .seq = m->seq};
	pool_serve(&w->server, &m->call, server_us(w), w->doubtful, &answer.answer);
	w->doubtful = false;
	w->served_us = w->clock_us;
	post(w, &answer);
}

static void receive(struct world *w, const struct message *m)
{
	struct user *u = &w->user[m->to];
	if (!u->alive || u->paused || u->life != m->who)
		return;
	spend(u, w->now_ns);
	if (m->kind == ANSWER)
		pool_member_answer(&u->m, &m->answer, w->now_ns);
	else
		pool_member_failed(&u->m, m->seq, w->now_ns);
	apply(u, w->now_ns);
}

uint64_t leased_sum(const struct world *w)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < MEMBERS; i++)
		if (w->user[i].alive && w->user[i].now.mode == POOL_MODE_LEASED &&
		    w->now_ns < w->user[i].now.until_ns)
			sum += w->user[i].now.rate[0];
	return sum;
}

double used_sum(const struct world *w)
{
	double sum = 0;
	for (unsigned i = 0; i < MEMBERS; i++)
		sum += w->user[i].used;
	return sum;
}

uint64_t rates_sum(const struct world *w)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < MEMBERS; i++)
		sum += w->user[i].alive ? w->user[i].now.rate[0] : 0;
	return sum;
}

void step(struct world *w, uint64_t ns)
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
		if (!u->alive || u->paused)
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

void run(struct world *w, uint64_t ns)
{
	for (uint64_t end = w->now_ns + ns; w->now_ns < end;)
		step(w, min_u64(5 * MS, end - w->now_ns));
}

struct world *world_new(unsigned members)
{
	struct world *w = calloc(1, sizeof(*w));
	ck_assert_ptr_nonnull(w);
	w->now_ns = 3600 * NSEC_PER_SEC;
	w->clock_us = w->served_us = 1700000000LL * 1000000;
	w->delay_ns = 2 * MS;
	w->rate = RATE;
	for (unsigned i = 0; i < members; i++)
		join(w, &w->user[i], 1);
	return w;
}

void world_free(struct world *w)
{
	pool_server_free(&w->server);
	pool_server_free(&w->replica);
	free(w);
}
