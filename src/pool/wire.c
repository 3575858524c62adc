/* SPDX-License-Identifier: MIT */
#include "pool/wire.h"

/* A bool from another process can have any value, and then must not be read as one. */
static bool is_bool(const bool *b)
{
	return *(const unsigned char *)b <= 1;
}

/* The name of a host. */
static bool is_name(const char who[POOL_WHO_MAX])
{
	for (unsigned i = 0; i < POOL_WHO_MAX; i++) {
		if (!who[i])
			return true;
		if (who[i] < ' ' || who[i] > '~')
			return false;
	}
	return false;
}

/* A limit is off, or at least one token per second: the options of a scope cannot express less. */
static bool are_limits(const struct pool_limits *l)
{
	bool ok = true;
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		ok = ok && (!l->rate[k] || l->rate[k] >= POOL_MILLI) &&
		     l->rate[k] <= POOL_DEMAND_ALL && l->capacity[k] <= POOL_CAPACITY_MAX;
	return ok;
}

bool pool_call_is_sound(const struct pool_call *c)
{
	bool ok = c->id[POOL_ID_MAX - 1] == '\0' && is_name(c->who) && is_bool(&c->leave) &&
		  c->weight >= 1 && c->weight <= POOL_WEIGHT_MAX &&
		  c->lease_ms >= POOL_LEASE_MIN_MS && c->lease_ms <= POOL_LEASE_MAX_MS &&
		  c->version <= POOL_VERSION_MAX && are_limits(&c->limits);
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		ok = ok && c->hold[k] <= POOL_DEMAND_ALL && c->demand[k] <= POOL_DEMAND_ALL;
	return ok;
}

bool pool_answer_is_sound(const struct pool_answer *a)
{
	bool ok = (unsigned)a->status <= POOL_FULL && is_bool(&a->wants_more) &&
		  a->version <= POOL_VERSION_MAX && are_limits(&a->limits) && is_name(a->who);
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		ok = ok && a->grant[k] <= a->limits.rate[k];
	return ok;
}

bool pool_report_is_sound(const struct pool_report *r)
{
	return r->version == POOL_WIRE_VERSION && is_bool(&r->answered) && is_bool(&r->listed) &&
	       (!r->answered || pool_answer_is_sound(&r->answer));
}
