/* SPDX-License-Identifier: MIT */
#include "pool/wire.h"

/* A bool from another process can have any value, and then must not be read as one. */
static bool is_bool(const bool *b)
{
	return *(const unsigned char *)b <= 1;
}

bool pool_answer_is_sound(const struct pool_answer *a)
{
	bool ok = (unsigned)a->status <= POOL_FULL && is_bool(&a->wants_more) &&
		  a->version <= POOL_VERSION_MAX;
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		ok = ok && a->limits.rate[k] <= POOL_DEMAND_ALL &&
		     a->limits.capacity[k] <= POOL_CAPACITY_MAX && a->grant[k] <= a->limits.rate[k];
	bool ends = false;
	for (unsigned i = 0; i < POOL_WHO_MAX && !ends; i++) {
		unsigned char c = (unsigned char)a->who[i];
		ends = !c;
		ok = ok && (ends || (c >= ' ' && c <= '~'));
	}
	return ok && ends;
}

bool pool_report_is_sound(const struct pool_report *r)
{
	return r->version == POOL_WIRE_VERSION && is_bool(&r->answered) && is_bool(&r->listed) &&
	       (!r->answered || pool_answer_is_sound(&r->answer));
}
