/* SPDX-License-Identifier: MIT */
#include "pool/member.h"

#include <string.h>

#include "base/util.h"

/* Calls per lease: CALLS usually, and in pools of more than FEW members never more.  In smaller ones, CALLS_BUSY while the load
 * is limited, so that what others release is soon used; CALLS_SHORT while others still hold a part of this member's share;
 * and CALLS_MOST at most. */
#define CALLS	    2
#define CALLS_BUSY  6
#define FEW	    32
#define CALLS_SHORT 16
#define CALLS_MOST  64
/* Demand is computed at most LOOKS times per lease.  A load that uses whatever it is granted asks for GROW times its
 * grant, and at first for GROW/START of an equal share.  (Without a lease: for as much as it can get.) */
#define LOOKS 16
#define GROW  4
#define START 16
/* The clocks of member and server drift apart by at most 1/DRIFT of a lease per lease. */
#define DRIFT 64
/* For this many leases, the fallback still counts members that have disappeared: they may have lost
 * the server, too, and use their own shares. */
#define REMEMBER 20

static uint64_t lease_ns(const struct pool_member *m)
{
	return m->cfg.lease_ms * NSEC_PER_MSEC;
}

/* Use is measured from now on. */
static void restart_marks(struct pool_member *m, unsigned k, uint64_t tokens, uint64_t now_ns)
{
	m->young[k] = m->mid[k] = m->older[k] = (struct pool_mark){tokens, now_ns};
}

void pool_member_init(struct pool_member *m, const struct pool_member_config *cfg, uint64_t now_ns)
{
	memset(m, 0, sizeof(*m));
	m->cfg = *cfg;
	m->limits = cfg->limits;
	m->began_ns = m->next_ns = m->called_ns = now_ns;
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		restart_marks(m, k, 0, now_ns);
}

/* --- limits --- */

static void copy_limit(struct pool_limits *to, const struct pool_limits *from, unsigned k)
{
	to->rate[k] = from->rate[k];
	to->capacity[k] = from->capacity[k];
}

static bool same_limit(const struct pool_limits *a, const struct pool_limits *b, unsigned k)
{
	return a->rate[k] == b->rate[k] && a->capacity[k] == b->capacity[k];
}

void pool_member_limits(const struct pool_member *m, struct pool_limits *out)
{
	*out = m->limits;
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		if (m->set[k] || !m->version)
			copy_limit(out, &m->cfg.limits, k);
}

void pool_member_set(struct pool_member *m, const struct pool_limits *limits, uint64_t now_ns)
{
	struct pool_limits known;
	pool_member_limits(m, &known);
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		if (same_limit(limits, &known, k))
			continue;
		m->set[k] = m->seq + 1;
		copy_limit(&m->cfg.limits, limits, k);
	}
	m->next_ns = now_ns;
}

void pool_member_configure(struct pool_member *m, const struct pool_member_config *cfg,
			   uint64_t now_ns)
{
	struct pool_limits limits;
	pool_member_limits(m, &limits);
	bool changed = false;
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		if (same_limit(&m->cfg.limits, &cfg->limits, k))
			continue;
		copy_limit(&limits, &cfg->limits, k);
		changed = true;
	}
	if (changed)
		pool_member_set(m, &limits, now_ns);
	m->cfg = *cfg;
	m->next_ns = now_ns;
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

/* While a call is neither answered nor has failed, the next one, which would make the member ignore the answer, has to wait
 * for this long.  A server that returns soon must get a call before share_ns, even if two calls in a row were lost. */
static uint64_t patience_ns(const struct pool_member *m)
{
	return lease_ns(m) / 8 * 5;
}

/* Makes the next call due at at_ns at the latest. */
static void call_by(struct pool_member *m, uint64_t at_ns)
{
	uint64_t earliest_ns =
		m->sent_ns + (m->pending ? patience_ns(m)
					 : lease_ns(m) / (m->members > FEW ? CALLS : CALLS_MOST));
	m->next_ns = min_u64(m->next_ns, max_u64(at_ns, m->sent_ns ? earliest_ns : 0));
}

/* --- demand --- */

static uint64_t per_sec(uint64_t tokens, uint64_t ns)
{
	u128 rate = (u128)tokens * POOL_MILLI * NSEC_PER_SEC / max_u64(ns, 1);
	return rate < POOL_DEMAND_ALL ? (uint64_t)rate : POOL_DEMAND_ALL;
}

/* The rate at which a steady load uses tokens, over the last one to two leases.  A request that comes after a lease without any
 * is not a steady load: it was admitted on credit, `need` asks for its tokens, and those that this would ask for in addition
 * would be lost. */
static uint64_t use_rate(const struct pool_member *m, const struct pool_use *use, unsigned k,
			 uint64_t now_ns)
{
	const struct pool_mark *from = &m->mid[k], *before = &m->older[k];
	bool is_new = before->at_ns != from->at_ns && before->tokens == from->tokens;
	uint64_t used = use->tokens[k] - from->tokens;
	if (is_new || used > POOL_RATE_MAX) /* more was refunded than used */
		used = 0;
	return per_sec(used, now_ns - from->at_ns);
}

static uint64_t equal_share(const struct pool_member *m, unsigned k)
{
	return m->limits.rate[k] / max_u64(m->members, 1);
}

static uint64_t blocked_ns(const struct pool_member *m, const struct pool_use *use, unsigned k)
{
	return use->blocking_ns[k] - m->before.blocking_ns[k];
}

/* For how long requests have waited nearly all the time, until now; 0: they have not, since the last call. */
static uint64_t waited_ns(const struct pool_member *m, const struct pool_use *use, unsigned k,
			  uint64_t now_ns)
{
	uint64_t since_ns = blocked_ns(m, use, k);
	return since_ns > (now_ns - m->called_ns) / 5 * 4 ? m->waited_ns[k] + since_ns : 0;
}

/* Whether the load uses whatever it is granted.  Single requests also wait for a while, so a load that was not limited must
 * have waited for longer, and must wait now. */
static bool is_limited(const struct pool_member *m, const struct pool_use *use, unsigned k,
		       uint64_t now_ns)
{
	uint64_t waited = waited_ns(m, use, k, now_ns);
	return waited && (m->limited[k] || (use->waiting[k] && waited > lease_ns(m) / 10));
}

/* What was used, a little more, so that the load can grow, and until the next regular call what the bucket lacks.  In
 * addition:
 *  - A limited load asks for a multiple of its grant until it is not limited any more, or has its fair share.
 *  - A load whose requests waited now and then returns nothing: the measured rate is that of few, large requests, and may
 *    be too low by one of them. */
static uint64_t demand_of(const struct pool_member *m, const struct pool_use *use, unsigned k,
			  uint64_t now_ns)
{
	uint64_t rate = use_rate(m, use, k, now_ns), equal = equal_share(m, k);
	uint64_t demand =
		rate + rate / 32 + equal / 1024 + 1 + per_sec(use->need[k], lease_ns(m) / CALLS);
	if (is_limited(m, use, k, now_ns))
		demand = max_u64(demand, GROW * (lease_holds(m, now_ns)
							 ? max_u64(m->grant[k], equal / START)
							 : equal));
	else if (!m->limited[k] && blocked_ns(m, use, k) > (now_ns - m->called_ns) / 8)
		demand = max_u64(demand, min_u64(m->grant[k], m->demand[k]));
	return min_u64(demand, POOL_DEMAND_ALL);
}

/* Use is measured over one to two leases, because it comes in requests, which can be large and have pauses between
 * them, and compared with the lease before: three marks move at this distance. */
static void move_marks(struct pool_member *m, const struct pool_use *use, unsigned k,
		       uint64_t now_ns)
{
	if (now_ns - m->young[k].at_ns < lease_ns(m))
		return;
	m->older[k] = m->mid[k];
	m->mid[k] = m->young[k];
	m->young[k] = (struct pool_mark){use->tokens[k], now_ns};
}

static void look_at_use(struct pool_member *m, const struct pool_use *use, uint64_t now_ns)
{
	if (m->seq && now_ns - m->called_ns < lease_ns(m) / LOOKS)
		return; /* too short to tell */
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		bool limited = is_limited(m, use, k, now_ns);
		uint64_t waited = waited_ns(m, use, k, now_ns);
		uint64_t demand = m->limits.rate[k] ? demand_of(m, use, k, now_ns) : 0;
		/* What a limited load uses says nothing about what it needs afterwards: the measurement begins anew at
		 * each call, until the load is not limited any more. */
		if (m->limited[k])
			restart_marks(m, k, use->tokens[k], now_ns);
		m->limited[k] = limited;
		m->waited_ns[k] = waited;
		m->demand[k] = demand;
	}
	m->before = *use;
	m->called_ns = now_ns;
}

/* Whether the demand has changed so much that the server should know soon. */
static bool demand_changed(const struct pool_member *m, const struct pool_use *use, unsigned k,
			   uint64_t now_ns)
{
	uint64_t small = equal_share(m, k) / 64 + 1, was = m->demand[k];
	uint64_t demand = demand_of(m, use, k, now_ns);
	bool more = demand > m->grant[k] && demand > was + was / 16 + small;
	bool less = demand + demand / 4 + small < min_u64(m->grant[k], was);
	return more || less;
}

void pool_member_look(struct pool_member *m, const struct pool_use *use, uint64_t now_ns)
{
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		move_marks(m, use, k, now_ns);
	if (now_ns - m->called_ns < lease_ns(m) / LOOKS)
		return; /* too short to tell */
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		if (m->limits.rate[k] && demand_changed(m, use, k, now_ns))
			call_by(m, now_ns);
}

/* --- calls --- */

static unsigned calls_per_lease(const struct pool_member *m)
{
	bool busy = false;
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		busy |= m->limited[k];
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
	out->version = m->version;
	pool_member_limits(m, &out->limits);
	m->sent_ns = now_ns;
	m->next_ns = now_ns + patience_ns(m);
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
	memcpy(out->set, m->set, sizeof(out->set));
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		m->grant[k] = hold_of(m, mode, k);
		out->hold[k] = m->grant[k];
		out->demand[k] = m->demand[k];
	}
	if (mode == POOL_MODE_WAITING)
		m->next_ns = min_u64(m->next_ns, share_ns(m)); /* that call reports the share */
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
	/* The call had these; what was set since goes with the next one. */
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		if (m->set[k] <= a->seq)
			m->set[k] = 0;
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
	else if (a->wants_more)
		call_by(m, now_ns + lease_ns(m) / CALLS_SHORT);
	return true;
}

void pool_member_failed(struct pool_member *m, uint64_t seq, uint64_t now_ns)
{
	if (seq != m->seq || !m->pending)
		return;
	m->pending = false;
	call_by(m, m->sent_ns + lease_ns(m) / CALLS);
	if (!m->retried)
		m->next_ns =
			min_u64(m->next_ns, max_u64(now_ns, m->sent_ns + lease_ns(m) / CALLS_MOST));
	m->retried = true;
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
	if (!m->limits.rate[k] && (mode == POOL_MODE_LEASED || mode == POOL_MODE_SHARE))
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

void pool_split(uint64_t rate, const uint64_t *demand, const uint64_t *weight, unsigned n,
		struct pool_wish *scratch, uint64_t *share)
{
	for (unsigned i = 0; i < n; i++)
		scratch[i] = (struct pool_wish){.demand = (double)min_u64(demand[i], rate),
						.weight = (double)weight[i]};
	struct pool_level l = pool_divide((double)rate, scratch, n);
	uint64_t left = rate;
	for (unsigned i = 0; i < n; i++) {
		double mine = pool_share(&l, (double)rate, scratch[i].demand, scratch[i].weight);
		share[i] = min_u64((uint64_t)mine, left);
		left -= share[i];
	}
}
