/* SPDX-License-Identifier: MIT */
/* pool.lua has the same steps in the same order; tests/mount/pool_script.sh compares the two call
 * by call. */
#include "pool/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

void pool_server_init(struct pool_server *s)
{
	memset(s, 0, sizeof(*s));
}

void pool_server_free(struct pool_server *s)
{
	free(s->member);
	free(s->wish);
	pool_server_init(s);
}

/* --- members --- */

static struct pool_record *find(struct pool_server *s, const char *id)
{
	for (unsigned i = 0; i < s->n; i++)
		if (strcmp(s->member[i].id, id) == 0)
			return &s->member[i];
	return NULL;
}

static bool make_room(struct pool_server *s)
{
	if (s->n < s->room)
		return true;
	unsigned room = s->room ? 2 * s->room : 8;
	if (room > POOL_MEMBERS_MAX)
		return false;
	struct pool_record *member = realloc(s->member, room * sizeof(*member));
	if (member)
		s->member = member;
	struct pool_wish *wish = realloc(s->wish, room * sizeof(*wish));
	if (wish)
		s->wish = wish;
	if (!member || !wish)
		return false;
	s->room = room;
	return true;
}

static struct pool_record *add(struct pool_server *s, const char *id)
{
	if (!make_room(s))
		return NULL;
	struct pool_record *m = &s->member[s->n++];
	memset(m, 0, sizeof(*m));
	memcpy(m->id, id, sizeof(m->id));
	return m;
}

static void drop(struct pool_server *s, struct pool_record *m)
{
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		s->charged[k] -= m->charged[k];
	*m = s->member[--s->n];
}

static void drop_expired(struct pool_server *s)
{
	for (unsigned i = s->n; i-- > 0;)
		if (s->member[i].expires_us <= s->last_us)
			drop(s, &s->member[i]);
}

/* --- time --- */

/* Advances the time.  Starts learning if there may be leases that this server does not know about:
 * it has no data, its data may be old, the clock was set back, or no call came for a lease (then
 * all leases should have ended, but the clock may have been set forward). */
static void tell_time(struct pool_server *s, int64_t now_us, int64_t lease_us, bool doubtful)
{
	int64_t t = now_us + s->offset_us;
	s->lease_us = lease_us > s->lease_us ? lease_us : s->lease_us;
	bool learn = doubtful || !s->last_us || t - s->last_us > s->lease_us;
	if (t - s->last_us > POOL_FORGET * s->lease_us) {
		s->version = 0;
		s->lease_us = lease_us;
	}
	if (t < s->last_us) {
		s->offset_us += s->last_us - t;
		t = s->last_us;
		learn = true;
	}
	s->last_us = t;
	if (learn)
		s->learn_until_us = t + s->lease_us;
}

static bool is_learning(const struct pool_server *s)
{
	return s->last_us < s->learn_until_us;
}

/* --- the levels --- */

/* Of those that are members now: one that has left or died must not make the others wait for its lease for ever. */
static void find_longest_lease(struct pool_server *s)
{
	int64_t longest_us = 0;
	for (unsigned i = 0; i < s->n; i++) {
		int64_t lease_us = s->member[i].expires_us - s->member[i].called_us;
		longest_us = lease_us > longest_us ? lease_us : longest_us;
	}
	if (longest_us)
		s->lease_us = longest_us;
}

static void compute_levels(struct pool_server *s)
{
	drop_expired(s);
	find_longest_lease(s);
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		if (!s->limits.rate[k])
			continue;
		for (unsigned i = 0; i < s->n; i++)
			s->wish[i] =
				(struct pool_wish){.demand = (double)min_u64(s->member[i].demand[k],
									     s->limits.rate[k]),
						   .weight = s->member[i].weight};
		s->level[k] = pool_divide((double)s->limits.rate[k], s->wish, s->n);
	}
	s->computed_us = s->last_us;
}

static bool is_outdated(const struct pool_server *s)
{
	return s->last_us - s->computed_us >= s->lease_us / 4;
}

/* --- a call --- */

/* Without limits of its own, or with older ones, the server adopts those of the call.  Limits from the configuration of a
 * member have version 1 while the server learns: members that know those in force, which were lost, have a higher one. */
static bool adopt_limits(struct pool_server *s, const struct pool_call *c)
{
	bool adopts = !s->version || c->version > s->version;
	if (adopts) {
		s->limits = c->limits;
		s->version = max_u64(c->version, 1);
	}
	if (s->version == 1 && !is_learning(s))
		s->version = 2;
	return adopts;
}

/* Changes the limits that the member sets with this call for the first time; `seq` is its last call that arrived. */
static bool set_limits(struct pool_server *s, const struct pool_call *c, uint64_t seq)
{
	bool changed = false;
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		if (c->set[k] <= seq || (s->limits.rate[k] == c->limits.rate[k] &&
					 s->limits.capacity[k] == c->limits.capacity[k]))
			continue;
		s->limits.rate[k] = c->limits.rate[k];
		s->limits.capacity[k] = c->limits.capacity[k];
		changed = true;
	}
	s->version = min_u64(s->version + changed, POOL_VERSION_MAX);
	return changed;
}

static void take_note(struct pool_server *s, struct pool_record *m, const struct pool_call *c)
{
	m->seq = c->seq;
	m->weight = c->weight;
	m->called_us = s->last_us;
	m->expires_us = s->last_us + (int64_t)c->lease_ms * 1000;
	memcpy(m->who, c->who, sizeof(m->who));
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		s->charged[k] += c->hold[k] - m->charged[k];
		m->charged[k] = c->hold[k];
		m->demand[k] = c->demand[k];
	}
}

static uint64_t grant_of(struct pool_server *s, struct pool_record *m, unsigned k, bool *wants_more)
{
	uint64_t rate = s->limits.rate[k], hold = m->charged[k];
	uint64_t others = s->charged[k] - hold, room = rate > others ? rate - others : 0;
	double demand = (double)min_u64(m->demand[k], rate);
	uint64_t want = is_learning(s) ? hold
				       : (uint64_t)pool_share(&s->level[k], (double)rate, demand,
							      m->weight);
	uint64_t grant = min_u64(want, room);
	*wants_more |= want > room;
	m->charged[k] = max_u64(hold, grant);
	s->charged[k] = others + m->charged[k];
	return grant;
}

static void grant_all(struct pool_server *s, struct pool_record *m, struct pool_answer *out)
{
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		out->grant[k] = s->limits.rate[k] ? grant_of(s, m, k, &out->wants_more) : 0;
	out->status = is_learning(s) ? POOL_LEARNING : POOL_GRANTED;
}

static enum pool_status serve_member(struct pool_server *s, struct pool_record *m,
				     const struct pool_call *c, struct pool_answer *out)
{
	bool changed = adopt_limits(s, c);
	changed = set_limits(s, c, m ? m->seq : 0) || changed;
	if (changed)
		memcpy(s->who, c->who, sizeof(s->who));
	if (!m && s->n >= POOL_MEMBERS_MAX && is_outdated(s)) /* most of them may have gone */
		compute_levels(s);
	if (!m && !(m = add(s, c->id)))
		return POOL_FULL;
	take_note(s, m, c);
	if (changed || s->n <= POOL_FEW || is_outdated(s)) {
		compute_levels(s);
		m = find(s, c->id); /* compute_levels drops expired members, which moves others */
	}
	grant_all(s, m, out);
	return out->status;
}

void pool_serve(struct pool_server *s, const struct pool_call *c, int64_t now_us, bool doubtful,
		struct pool_answer *out)
{
	memset(out, 0, sizeof(*out));
	out->seq = c->seq;
	tell_time(s, now_us, (int64_t)c->lease_ms * 1000, doubtful);
	struct pool_record *m = find(s, c->id);
	if (m && c->seq <= m->seq)
		out->status = POOL_STALE;
	else if (c->leave && m)
		drop(s, m);
	else if (!c->leave)
		out->status = serve_member(s, m, c, out);
	out->members = s->n;
	out->limits = s->limits;
	out->version = s->version;
	memcpy(out->who, s->who, sizeof(out->who));
}
