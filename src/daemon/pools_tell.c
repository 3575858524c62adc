/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "daemon/pools_internal.h"

#define TELL_AGAIN_NS (60 * NSEC_PER_SEC) /* interval of messages about the same problem */

void pool_tell_mode(struct pool *p)
{
	static const char *const meanwhile[] = {
		[POOL_MODE_SHARE] = "this host keeps to its share",
		[POOL_MODE_STOP] = "nothing is admitted until it answers",
		[POOL_MODE_OPEN] = "the pool's limits are off until it answers",
	};
	bool lost = p->rates.mode > POOL_MODE_WAITING;
	uint64_t now_ns = monotonic_ns();
	if (p->rates.mode == POOL_MODE_LEASED && p->told_ns) {
		log_info("pool '%s': %s leases again", p->s.name, p->s.server);
		p->told_ns = 0;
	}
	/* A server that is learning has answered: there is no error, and a lease will follow. */
	bool new = *p->error &&strcmp(p->told, p->error) != 0 && now_ns - p->told_ns > NSEC_PER_SEC;
	bool told =
		p->told_ns && p->told_mode == p->rates.mode && now_ns - p->told_ns < TELL_AGAIN_NS;
	if (!lost || (told && !new))
		return;
	log_warning("pool '%s': %s; %s", p->s.name,
		    *p->error ? p->error : "no answer from the server", meanwhile[p->rates.mode]);
	memcpy(p->told, p->error, sizeof(p->told));
	p->told_ns = now_ns;
	p->told_mode = p->rates.mode;
}

/* Every server learns when it starts.  If it learns again later, it has lost
 * its data or its clock. */
void pool_tell_learning(struct pool *p, bool before)
{
	uint64_t now_ns = monotonic_ns();
	if (!p->member.learning || before || !p->was_leased ||
	    (p->told_learning_ns && now_ns - p->told_learning_ns < TELL_AGAIN_NS))
		return;
	log_info(
		"pool '%s': %s has lost data, or its clock was set; shares stay as they are for one lease",
		p->s.name, p->s.server);
	p->told_learning_ns = now_ns;
}

void pool_tell_limits(struct pool *p)
{
	const struct pool_member *m = &p->member;
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		uint64_t rate = m->limits.rate[k] / POOL_MILLI;
		if (m->limits.rate[k] == p->told_limits.rate[k])
			continue;
		log_info("pool '%s': %s=%llu%s, set by %s", p->s.name, limit_kind_name(k),
			 (unsigned long long)rate,
			 p->told_answer ? "" : " on the server, not as configured here", m->set_by);
	}
	p->told_limits = m->limits;
	p->told_answer = true;
}
