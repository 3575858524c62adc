/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "base/units.h"
#include "daemon/pools_internal.h"

#define TELL_AGAIN_NS	     (60 * NSEC_PER_SEC) /* interval of messages about the same problem */
#define LONG_LEARNING_LEASES 5 /* with short leases, for LONG_LEARNING_NS at least */
#define LONG_LEARNING_NS     (5 * NSEC_PER_SEC)

void pool_tell_mode(struct pool *p)
{
	static const char *const meanwhile[] = {
		[POOL_MODE_SHARE] = "this host keeps to its share",
		[POOL_MODE_STOP] = "nothing is admitted until it answers",
		[POOL_MODE_OPEN] = "the pool's limits are off until it answers",
	};
	bool lost = p->rates.mode > POOL_MODE_WAITING;
	uint64_t now_ns = monotonic_ns();
	if (p->rates.mode == POOL_MODE_LEASED && p->told_lost) {
		log_info("pool '%s': %s leases again", p->s.name, p->s.server);
		p->told_lost = false;
		p->told_pause_ns = 0;
	}
	/* A server that is learning has answered: there is no error, and a lease will follow. */
	bool new = *p->error &&strcmp(p->told, p->error) != 0 &&
		   now_ns - p->told_ns > p->told_pause_ns;
	bool told = p->told_lost && p->told_mode == p->rates.mode &&
		    now_ns - p->told_ns < TELL_AGAIN_NS;
	/* The helper will say why, or has hung. */
	bool unexplained = !*p->error && now_ns - p->member.lost_ns < NSEC_PER_SEC;
	/* A lease that comes and goes is told less and less often. */
	bool same = strcmp(p->told, p->error) == 0 && now_ns - p->told_ns < TELL_AGAIN_NS;
	bool flaps = !p->told_lost && same && now_ns - p->told_ns < p->flap_pause_ns;
	if (!lost || (told && !new) || unexplained || flaps)
		return;
	log_warning("pool '%s': %s; %s", p->s.name,
		    *p->error ? p->error : "no answer from the server", meanwhile[p->rates.mode]);
	memcpy(p->told, p->error, sizeof(p->told));
	if (!p->told_lost)
		p->flap_pause_ns =
			same ? min_u64(2 * p->flap_pause_ns, TELL_AGAIN_NS) : 2 * NSEC_PER_SEC;
	p->told_lost = true;
	p->told_ns = now_ns;
	/* Errors that take turns are told less and less often. */
	p->told_pause_ns = min_u64(max_u64(4 * p->told_pause_ns, NSEC_PER_SEC), TELL_AGAIN_NS);
	p->told_mode = p->rates.mode;
}

/* A server learns for one lease.  One that goes on grants nothing to a host that has just started, and nobody else would say
 * why: it answers. */
static void tell_long_learning(struct pool *p, uint64_t now_ns)
{
	if (!p->member.learning) {
		p->learning_ns = 0;
		return;
	}
	if (!p->learning_ns)
		p->learning_ns = now_ns;
	if (now_ns <
	    p->learning_ns + max_u64(LONG_LEARNING_LEASES * p->s.lease_ns, LONG_LEARNING_NS))
		return;
	log_warning(
		"pool '%s': %s loses data or has its clock set again and again, or several servers answer in turn: no host is granted more than it holds",
		p->s.name, p->s.server);
	p->learning_ns = now_ns + TELL_AGAIN_NS;
}

/* Every server learns when it starts.  If it learns again later, it has lost its data or its clock, or no call of any
 * member reached it for a lease. */
void pool_tell_learning(struct pool *p, bool before)
{
	uint64_t now_ns = monotonic_ns();
	tell_long_learning(p, now_ns);
	if (!p->member.learning || before || !p->was_leased ||
	    (p->told_learning_ns && now_ns - p->told_learning_ns < TELL_AGAIN_NS))
		return;
	log_info(
		"pool '%s': %s has lost data, its clock was set, or no call reached it in time; shares stay as they are for one lease",
		p->s.name, p->s.server);
	p->told_learning_ns = now_ns;
}

static const char *rate_text(enum limit_kind kind, uint64_t rate, char buf[UNITS_TEXT_MAX])
{
	return !rate			   ? "off"
	       : limit_kind_is_bytes(kind) ? units_format_bytes(rate, buf)
					   : units_format_count(rate, buf);
}

static void tell_limit(const struct pool *p, enum limit_kind kind)
{
	const struct pool_member *m = &p->member;
	const char *where = p->told_answer ? "" : " on the server, not as configured here";
	char text[UNITS_TEXT_MAX];
	if (m->limits.rate[kind] != p->told_limits.rate[kind])
		log_info("pool '%s': %s=%s%s, set by %s", p->s.name, limit_kind_name(kind),
			 rate_text(kind, m->limits.rate[kind] / POOL_MILLI, text), where,
			 m->set_by);
	else if (m->limits.rate[kind] && m->limits.capacity[kind] != p->told_limits.capacity[kind])
		log_info("pool '%s': another burst or window of %s%s, set by %s", p->s.name,
			 limit_kind_name(kind), where, m->set_by);
}

void pool_tell_limits(struct pool *p)
{
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		tell_limit(p, k);
	p->told_limits = p->member.limits;
	p->told_answer = true;
}
