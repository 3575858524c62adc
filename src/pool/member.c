/* SPDX-License-Identifier: MIT */
#include "pool/member.h"

#include <string.h>

#include "base/util.h"

/* Calls per lease: CALLS usually; CALLS_BUSY while requests wait, in pools of at most FEW members,
 * so that what others release is soon used; CALLS_SHORT while others still hold a part of this
 * member's share; and CALLS_MOST at most. */
#define CALLS	    2
#define CALLS_BUSY  4
#define FEW	    32
#define CALLS_SHORT 8
#define CALLS_MOST  32
/* The clocks of member and server drift apart by at most 1/DRIFT of a lease per lease. */
#define DRIFT 64
/* For this many leases, the fallback still counts members that have disappeared: they may have lost
 * the server, too, and use their own shares. */
#define REMEMBER 20

static uint64_t lease_ns(const struct pool_member *m)
{
	return m->cfg.lease_ms * NSEC_PER_MSEC;
}

void pool_member_init(struct pool_member *m, const struct pool_member_config *cfg, uint64_t now_ns)
{
	memset(m, 0, sizeof(*m));
	m->cfg = *cfg;
	m->limits = cfg->limits;
	m->began_ns = m->next_ns = m->called_ns = now_ns;
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		m->mid[k].at_ns = m->older[k].at_ns = now_ns;
}

static bool same_limits(const struct pool_limits *a, const struct pool_limits *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

void pool_member_set(struct pool_member *m, const struct pool_limits *limits, uint64_t now_ns)
{
	m->cfg.limits = *limits;
	m->set = !m->version || !same_limits(limits, &m->limits);
	m->next_ns = now_ns;
}

void pool_member_configure(struct pool_member *m, const struct pool_member_config *cfg,
			   uint64_t now_ns)
{
	bool changed = !same_limits(&m->cfg.limits, &cfg->limits);
	m->cfg = *cfg;
	m->next_ns = now_ns;
	if (changed)
		pool_member_set(m, &cfg->limits, now_ns);
}

uint64_t pool_member_due_ns(const struct pool_member *m)
{
	return m->next_ns;
}

/* When the fallback may begin, if no answer arrives: one lease after the end of the member's own
 * lease, and one lease after the last answer of a server that is learning, which knows that the
 * member holds nothing. */
static uint64_t share_ns(const struct pool_member *m)
{
	return max_u64(m->ends_ns, m->answered_ns) + lease_ns(m);
}

static bool lease_holds(const struct pool_member *m, uint64_t now_ns)
{
	return m->leased && now_ns < m->ends_ns;
}

uint64_t pool_member_ends_ns(const struct pool_member *m)
{
	return m->leased ? m->ends_ns : NEVER;
}

/* Makes the next call due at at_ns at the latest.  While a call is not answered, half a lease must
 * pass before the next one, which would make the member ignore the answer. */
static void call_by(struct pool_member *m, uint64_t at_ns)
{
	uint64_t earliest_ns = m->sent_ns + lease_ns(m) / (m->pending ? CALLS : CALLS_MOST);
	m->next_ns = min_u64(m->next_ns, max_u64(at_ns, m->sent_ns ? earliest_ns : 0));
}

/* --- demand --- */

/* The rate at which tokens were used, 1/1000 token per second. */
static uint64_t rate_since(uint64_t then, const struct pool_use *use, unsigned k, uint64_t dt_ns)
{
	uint64_t used = use->tokens[k] - then;
	if (used > POOL_RATE_MAX) /* more was refunded than used */
		used = 0;
	u128 rate = (u128)used * POOL_MILLI * NSEC_PER_SEC / max_u64(dt_ns, 1);
	return rate < POOL_DEMAND_ALL ? (uint64_t)rate : POOL_DEMAND_ALL;
}

/* An equal share of the rate. */
static uint64_t equal_share(const struct pool_member *m, unsigned k)
{
	return m->limits.rate[k] / max_u64(m->members, 1);
}

static bool was_blocked(const struct pool_member *m, const struct pool_use *use, unsigned k,
			uint64_t more_than_ns)
{
	return use->blocking_ns[k] - m->before.blocking_ns[k] > more_than_ns;
}

/* How long ago it wanted as much as it could get. */
static uint64_t greedy_ago_ns(const struct pool_member *m, unsigned k, uint64_t now_ns)
{
	return m->greedy_to_ns[k] ? now_ns - m->greedy_to_ns[k] : NEVER;
}

/* Whether it did so for a lease or more, until recently. */
static bool was_greedy(const struct pool_member *m, unsigned k, uint64_t now_ns)
{
	return m->greedy_to_ns[k] - m->greedy_from_ns[k] >= lease_ns(m) &&
	       greedy_ago_ns(m, k, now_ns) < 2 * lease_ns(m);
}

/* At its last call. */
static bool was_idle(const struct pool_member *m, unsigned k)
{
	return m->demand[k] <= equal_share(m, k) / 64 + 1;
}

/* Whether the load has ended.  A load that had requests waiting all the time is believed to have ended after a short
 * pause.  Others may have pauses between their requests: nothing was used for a lease or more. */
static bool is_idle(const struct pool_member *m, const struct pool_use *use, unsigned k,
		    uint64_t now_ns)
{
	if (use->waiting[k])
		return false;
	if (was_greedy(m, k, now_ns))
		return use->tokens[k] == m->before.tokens[k] &&
		       now_ns - m->called_ns >= lease_ns(m) / CALLS_SHORT;
	return use->tokens[k] == m->older[k].tokens && now_ns - m->older[k].at_ns >= lease_ns(m);
}

/* Whether requests wait, have waited most of the time since the last call, and for more than a moment. */
static bool is_short(const struct pool_member *m, const struct pool_use *use, unsigned k,
		     uint64_t now_ns)
{
	return use->waiting[k] &&
	       was_blocked(m, use, k,
			   max_u64((now_ns - m->called_ns) / 2, lease_ns(m) / (2 * CALLS_SHORT)));
}

/* The rate at which the member uses tokens.  It is measured over a lease, because use comes in requests, which can be
 * large and have pauses between them; after greedy times, over the time since the last call if that is more. */
static uint64_t use_rate(const struct pool_member *m, const struct pool_use *use, unsigned k,
			 uint64_t now_ns)
{
	uint64_t dt_ns = now_ns - m->called_ns;
	uint64_t rate = rate_since(m->older[k].tokens, use, k, now_ns - m->older[k].at_ns);
	if (greedy_ago_ns(m, k, now_ns) < 2 * lease_ns(m) && dt_ns >= lease_ns(m) / CALLS_SHORT)
		rate = max_u64(rate, rate_since(m->before.tokens[k], use, k, dt_ns));
	return rate;
}

/* What a member asks for that is short of tokens: half as much again, because that may be enough, and what it does not
 * use is lost to others; but as much as it can get if it has half of an equal share already, or asked for more than twice
 * its use before. */
static uint64_t more_than(const struct pool_member *m, unsigned k, uint64_t rate, uint64_t least)
{
	uint64_t has = max_u64(rate, m->grant[k]);
	bool asked = m->demand[k] > max_u64(2 * rate, least);
	return asked || has >= equal_share(m, k) / 2 ? POOL_DEMAND_ALL : has + has / 2 + least;
}

/* A member that had nothing to do begins with a quarter of an equal share.  If its requests wait now and then, slightly
 * more than it uses is enough.  Without waiting requests, it wants what it uses, and a little more, so that it can grow;
 * and after greedy times, what it used since its last call, so that others get the difference soon. */
static uint64_t demand_of(const struct pool_member *m, const struct pool_use *use, unsigned k,
			  uint64_t now_ns)
{
	uint64_t dt_ns = now_ns - m->called_ns, equal = equal_share(m, k), least = equal / 1024 + 1;
	uint64_t rate = use_rate(m, use, k, now_ns);
	if (is_idle(m, use, k, now_ns))
		return least;
	if (use->waiting[k] && was_idle(m, k))
		return equal / 4 + 1;
	if (is_short(m, use, k, now_ns))
		return more_than(m, k, rate, least);
	if (use->waiting[k] && m->demand[k] == POOL_DEMAND_ALL)
		return POOL_DEMAND_ALL;
	if (!use->waiting[k] && was_greedy(m, k, now_ns) && dt_ns >= lease_ns(m) / CALLS_SHORT)
		rate = rate_since(m->before.tokens[k], use, k, dt_ns);
	else if (use->waiting[k] || was_blocked(m, use, k, dt_ns / 10))
		return min_u64(max_u64(rate + rate / 8, m->grant[k]), POOL_DEMAND_ALL);
	return min_u64(rate + rate / 32 + least, POOL_DEMAND_ALL);
}

static void note_greed(struct pool_member *m, unsigned k, uint64_t now_ns)
{
	if (m->demand[k] != POOL_DEMAND_ALL)
		return;
	if (now_ns - m->greedy_to_ns[k] > lease_ns(m) / CALLS)
		m->greedy_from_ns[k] = now_ns;
	m->greedy_to_ns[k] = now_ns;
}

/* Moves the beginning of the time over which use is measured. */
static void mark_use(struct pool_member *m, const struct pool_use *use, unsigned k, uint64_t now_ns)
{
	const struct pool_mark mark = {use->tokens[k], now_ns};
	if (use->waiting[k] && was_idle(m, k)) { /* the load begins */
		m->older[k] = m->mid[k] = mark;
	} else if (now_ns - m->mid[k].at_ns >= lease_ns(m) * 2 / 3) {
		m->older[k] = m->mid[k];
		m->mid[k] = mark;
	}
}

static void look_at_use(struct pool_member *m, const struct pool_use *use, uint64_t now_ns)
{
	if (m->seq && now_ns - m->called_ns < lease_ns(m) / (2 * CALLS_SHORT))
		return; /* too short to tell */
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		uint64_t demand = m->cfg.limits.rate[k] ? demand_of(m, use, k, now_ns) : 0;
		mark_use(m, use, k, now_ns);
		m->demand[k] = demand;
		note_greed(m, k, now_ns);
	}
	m->before = *use;
	m->called_ns = now_ns;
}

/* True: much of the grant, made for requests that waited or for a load that has
 * ended, is no longer needed. */
static bool holds_too_much(const struct pool_member *m, const struct pool_use *use, unsigned k,
			   uint64_t now_ns)
{
	uint64_t dt_ns = now_ns - m->called_ns;
	if (!m->grant[k] || use->waiting[k] || dt_ns < lease_ns(m) / CALLS_SHORT)
		return false;
	if (is_idle(m, use, k, now_ns))
		return m->demand[k] > equal_share(m, k) / 64;
	return m->demand[k] >= m->grant[k] && !was_blocked(m, use, k, dt_ns / 10) &&
	       rate_since(m->before.tokens[k], use, k, dt_ns) < m->grant[k] - m->grant[k] / 4;
}

/* Whether requests wait that more might help: of a member that had nothing to do, or that is short of tokens. */
static bool needs_more(const struct pool_member *m, const struct pool_use *use, unsigned k,
		       uint64_t now_ns)
{
	return m->demand[k] != POOL_DEMAND_ALL &&
	       ((use->waiting[k] && was_idle(m, k)) || is_short(m, use, k, now_ns));
}

void pool_member_look(struct pool_member *m, const struct pool_use *use, uint64_t now_ns)
{
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		if (needs_more(m, use, k, now_ns) || holds_too_much(m, use, k, now_ns))
			call_by(m, now_ns);
}

/* --- calls --- */

static unsigned calls_per_lease(const struct pool_member *m)
{
	bool busy = false;
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		busy |= m->demand[k] == POOL_DEMAND_ALL;
	return busy && m->members <= FEW ? CALLS_BUSY : CALLS;
}

static void begin_call(struct pool_member *m, uint64_t now_ns, struct pool_call *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->id, m->cfg.id, sizeof(out->id));
	memcpy(out->who, m->cfg.who, sizeof(out->who));
	out->seq = ++m->seq;
	out->lease_ms = m->cfg.lease_ms;
	out->weight = m->cfg.weight;
	out->limits = m->cfg.limits;
	m->sent_ns = now_ns;
	m->next_ns = now_ns + lease_ns(m) / CALLS;
	m->pending = true;
}

static enum pool_mode mode_of(const struct pool_member *m, uint64_t now_ns);

/* The rate that may be used until the call is answered.  It excludes what the member does not need,
 * and which it stops using before the call is sent. */
static uint64_t hold_of(const struct pool_member *m, enum pool_mode mode, unsigned k)
{
	uint64_t hold = mode == POOL_MODE_LEASED  ? m->grant[k]
			: mode == POOL_MODE_SHARE ? m->limits.rate[k] / max_u64(m->most_members, 1)
						  : 0;
	return min_u64(hold, m->demand[k]);
}

void pool_member_call(struct pool_member *m, const struct pool_use *use, uint64_t now_ns,
		      struct pool_call *out)
{
	enum pool_mode mode = mode_of(m, now_ns);
	look_at_use(m, use, now_ns);
	begin_call(m, now_ns, out);
	out->set = m->set;
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		m->grant[k] = hold_of(m, mode, k);
		out->hold[k] = m->grant[k];
		out->demand[k] = m->demand[k];
	}
	if (mode == POOL_MODE_WAITING)
		call_by(m, share_ns(m)); /* the next call reports the share */
}

void pool_member_leave(struct pool_member *m, uint64_t now_ns, struct pool_call *out)
{
	begin_call(m, now_ns, out);
	out->leave = true;
	m->leased = false;
}

static void take_note(struct pool_member *m, const struct pool_answer *a, uint64_t now_ns)
{
	m->answered = a->seq;
	m->answered_ns = now_ns;
	m->limits = a->limits;
	m->version = a->version;
	m->members = a->members;
	if (a->members >= m->most_members || now_ns - m->most_ns > REMEMBER * lease_ns(m)) {
		m->most_members = a->members;
		m->most_ns = now_ns;
	}
	m->retried = m->pending = false;
	memcpy(m->set_by, a->who, sizeof(m->set_by));
	m->learning = a->status == POOL_LEARNING;
	if (m->set && same_limits(&a->limits, &m->cfg.limits))
		m->set = false;
}

bool pool_member_answer(struct pool_member *m, const struct pool_answer *a, uint64_t now_ns)
{
	uint64_t ends_ns = m->sent_ns + lease_ns(m) - lease_ns(m) / DRIFT;
	if (a->seq != m->seq || a->seq == m->answered || a->status > POOL_LEARNING ||
	    now_ns >= ends_ns)
		return false;
	enum pool_mode mode = mode_of(m, now_ns);
	bool shrunk = false, any = false;
	take_note(m, a, now_ns);
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		any |= a->grant[k] || m->grant[k];
		shrunk |= a->grant[k] + a->grant[k] / 16 < m->grant[k];
	}
	/* A server that is learning grants what the member held when it called.  If that was nothing, or the lease has ended
	 * since, nothing changes. */
	bool holds = mode == POOL_MODE_LEASED || (mode == POOL_MODE_SHARE && any);
	if (m->learning && !holds) {
		call_by(m, now_ns + lease_ns(m) / CALLS_SHORT);
		return true;
	}
	memcpy(m->grant, a->grant, sizeof(m->grant));
	m->leased = true;
	m->ends_ns = ends_ns;
	call_by(m, m->sent_ns + lease_ns(m) / calls_per_lease(m));
	if (shrunk) /* confirm the smaller grant soon: others wait for the difference */
		call_by(m, now_ns);
	else if (a->wants_more || m->set)
		call_by(m, now_ns + lease_ns(m) / CALLS_SHORT);
	return true;
}

void pool_member_failed(struct pool_member *m, uint64_t seq, uint64_t now_ns)
{
	if (seq != m->seq || !m->pending)
		return;
	m->pending = false;
	if (m->retried)
		return;
	m->retried = true;
	call_by(m, now_ns);
}

/* --- what may be used --- */

static enum pool_mode mode_of(const struct pool_member *m, uint64_t now_ns)
{
	if (lease_holds(m, now_ns))
		return POOL_MODE_LEASED;
	/* Before the first lease, the member waits two leases for a server that does not answer, and longer for one
	 * that answers but learns. */
	uint64_t heard_ns = m->answered_ns ? m->answered_ns : m->began_ns + lease_ns(m);
	if (!m->leased && now_ns < heard_ns + lease_ns(m))
		return POOL_MODE_STARTING;
	if (m->cfg.on_lost == POOL_LOST_OPEN)
		return POOL_MODE_OPEN;
	/* Without any answer from the server, the number of members is unknown. */
	if (m->cfg.on_lost != POOL_LOST_SHARE || !m->members)
		return POOL_MODE_STOP;
	return m->leased && now_ns < share_ns(m) ? POOL_MODE_WAITING : POOL_MODE_SHARE;
}

static uint64_t rate_of(const struct pool_member *m, enum pool_mode mode, unsigned k)
{
	if (!m->limits.rate[k] && mode == POOL_MODE_LEASED)
		return POOL_DEMAND_ALL; /* the pool does not limit it */
	switch (mode) {
	case POOL_MODE_LEASED:
	case POOL_MODE_SHARE:
		return m->grant[k];
	case POOL_MODE_OPEN:
		return POOL_DEMAND_ALL;
	default:
		return 0;
	}
}

/* The member's part of the pool's capacity, in proportion to its rate, so that all parts together do not exceed it. */
static uint64_t capacity_of(const struct pool_member *m, uint64_t rate, unsigned k)
{
	if (rate >= POOL_DEMAND_ALL || !m->limits.rate[k])
		return POOL_CAPACITY_MAX;
	return max_u64(1, (uint64_t)((u128)m->limits.capacity[k] *
				     min_u64(rate, m->limits.rate[k]) / m->limits.rate[k]));
}

static void count_lost(struct pool_member *m, enum pool_mode mode, uint64_t now_ns)
{
	if (mode <= POOL_MODE_LEASED) {
		m->lost_sum_ns += m->lost_ns ? now_ns - m->lost_ns : 0;
		m->lost_ns = 0;
	} else if (!m->lost_ns) {
		m->lost_ns = max_u64(m->leased ? m->ends_ns : now_ns, 1);
	}
}

void pool_member_rates(struct pool_member *m, uint64_t now_ns, struct pool_rates *out)
{
	out->mode = mode_of(m, now_ns);
	count_lost(m, out->mode, now_ns);
	out->until_ns = out->mode == POOL_MODE_LEASED ? m->ends_ns : NEVER;
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		out->rate[k] = rate_of(m, out->mode, k);
		out->capacity[k] = capacity_of(m, out->rate[k], k);
	}
}

void pool_split(uint64_t rate, const uint64_t *demand, unsigned n, struct pool_wish *scratch,
		uint64_t *share)
{
	for (unsigned i = 0; i < n; i++)
		scratch[i] =
			(struct pool_wish){.demand = (double)min_u64(demand[i], rate), .weight = 1};
	struct pool_level l = pool_divide((double)rate, scratch, n);
	uint64_t left = rate;
	for (unsigned i = 0; i < n; i++) {
		double mine = pool_share(&l, (double)rate, scratch[i].demand, 1);
		share[i] = min_u64((uint64_t)mine, left);
		left -= share[i];
	}
}
