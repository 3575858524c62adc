/* SPDX-License-Identifier: MIT */
#include "limit/limiter.h"

#include <stdlib.h>
#include <string.h>

#define BIT(kind) (1U << (kind))

const char *limit_kind_name(enum limit_kind kind)
{
	static const char *const names[LIMIT_KINDS] = {
		[LIMIT_IOPS] = "iops",
		[LIMIT_META_IOPS] = "meta_iops",
		[LIMIT_READ_IOPS] = "read_iops",
		[LIMIT_WRITE_IOPS] = "write_iops",
		[LIMIT_BPS] = "bps",
		[LIMIT_READ_BPS] = "read_bps",
		[LIMIT_WRITE_BPS] = "write_bps",
	};
	return names[kind];
}

const char *scope_kind_name(enum scope_kind scope)
{
	static const char *const names[SCOPE_KINDS] = {
		[SCOPE_GLOBAL] = "global", [SCOPE_FS] = "fs",	[SCOPE_MOUNT] = "mount",
		[SCOPE_CLASS] = "class",   [SCOPE_KEY] = "key", [SCOPE_POOL] = "pool",
	};
	return names[scope];
}

bool limit_kind_is_bytes(enum limit_kind kind)
{
	return kind == LIMIT_BPS || kind == LIMIT_READ_BPS || kind == LIMIT_WRITE_BPS;
}

uint64_t limit_capacity(const struct limit_config *cfg, uint64_t window_ns)
{
	u128 steady = (u128)cfg->rate_per_sec * (window_ns ? window_ns : LIMITER_WINDOW_DEFAULT_NS);
	u128 capacity = steady / NSEC_PER_SEC + cfg->burst;
	if (capacity > BUCKET_CAPACITY_MAX)
		return BUCKET_CAPACITY_MAX;
	return capacity ? (uint64_t)capacity : 1;
}

/* The configuration of one bucket of a limit.  A peak of rate 0 is off. */
static struct bucket_config bucket_config_of(const struct limit_config *cfg, enum bucket_role role,
					     uint64_t window_ns)
{
	const struct limit_config peak = {.rate_per_sec = cfg->peak_per_sec};
	return role == BUCKET_PEAK
		       ? (struct bucket_config){.rate_per_sec = cfg->peak_per_sec,
						.capacity = limit_capacity(&peak, window_ns)}
		       : (struct bucket_config){.rate_per_sec = cfg->rate_per_sec,
						.capacity = limit_capacity(cfg, window_ns),
						.once = cfg->once};
}

static bool has_bucket(const struct limit_config *cfg, enum bucket_role role)
{
	if (role == BUCKET_POOL)
		return cfg->pool_per_sec;
	return cfg->enabled && (role == BUCKET_STEADY || cfg->peak_per_sec);
}

static int64_t permits_limit(uint64_t configured)
{
	return configured && configured < PERMITS_UNLIMITED ? (int64_t)configured
							    : PERMITS_UNLIMITED;
}

uint32_t limiter_config_kinds(const struct limiter_config *cfg)
{
	uint32_t kinds = 0;
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		if (cfg->limit[k].enabled)
			kinds |= BIT(k);
		if (cfg->limit[k].pool_per_sec)
			kinds |= BIT(LIMIT_KINDS + k);
	}
	return kinds;
}

bool limiter_prepare(struct limiter *l, const struct limiter_config *cfg, uint64_t now_ns)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		for (unsigned role = 0; role < BUCKET_ROLES; role++) {
			if (l->bucket[k][role] || !has_bucket(&cfg->limit[k], role))
				continue;
			struct bucket *b = aligned_alloc(CACHE_LINE, sizeof(*b));
			if (!b)
				return false;
			struct bucket_config bc =
				bucket_config_of(&cfg->limit[k], role, cfg->window_ns);
			memset(b, 0, sizeof(*b)); /* tests compare the padding, too */
			if (role == BUCKET_POOL)
				bucket_init_leased(b, now_ns);
			else
				bucket_init(b, &bc, now_ns);
			l->bucket[k][role] = b;
		}
	return true;
}

bool limiter_init(struct limiter *l, enum scope_kind scope, const struct limiter_config *cfg,
		  uint64_t now_ns)
{
	memset(l, 0, sizeof(*l));
	l->scope = scope;
	permits_init(&l->inflight, permits_limit(cfg->max_inflight));
	permits_init(&l->open, permits_limit(cfg->max_open));
	l->config = *cfg;
	return limiter_prepare(l, cfg, now_ns);
}

void limiter_fini(struct limiter *l)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		for (unsigned role = 0; role < BUCKET_ROLES; role++)
			free(l->bucket[k][role]);
}

static bool same_bucket(const struct bucket_config *a, const struct bucket_config *b)
{
	return a->rate_per_sec == b->rate_per_sec && a->capacity == b->capacity &&
	       a->once == b->once;
}

static void configure_bucket(struct limiter *l, unsigned k, enum bucket_role role,
			     const struct limiter_config *cfg, uint64_t now_ns)
{
	struct bucket_config old = bucket_config_of(&l->config.limit[k], role, l->config.window_ns);
	struct bucket_config new = bucket_config_of(&cfg->limit[k], role, cfg->window_ns);
	if (!has_bucket(&cfg->limit[k], role))
		return; /* an existing bucket stays: admitted requests may refund tokens to it */
	if (role == BUCKET_POOL) {
		static const struct bucket_lease none = {.capacity = 1, .until_ns = NEVER};
		if (!has_bucket(&l->config.limit[k], role))
			bucket_lease(l->bucket[k][role], &none, now_ns);
	} else if (!has_bucket(&l->config.limit[k], role))
		bucket_restart(l->bucket[k][role], &new, now_ns);
	else if (!same_bucket(&old, &new))
		bucket_reconfigure(l->bucket[k][role], &new, now_ns);
}

void limiter_configure(struct limiter *l, const struct limiter_config *cfg, uint64_t now_ns)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		for (unsigned role = 0; role < BUCKET_ROLES; role++)
			configure_bucket(l, k, role, cfg, now_ns);
	permits_set_limit(&l->inflight, permits_limit(cfg->max_inflight));
	permits_set_limit(&l->open, permits_limit(cfg->max_open));
	l->config = *cfg;
}

static uint32_t kinds_for(uint32_t enabled, enum cost_class cls)
{
	static const uint32_t charged[COST_CLASSES] = {
		[COST_META] = BIT(LIMIT_META_IOPS),
		[COST_OPENCLOSE] = BIT(LIMIT_META_IOPS),
		[COST_READDIR] = BIT(LIMIT_IOPS) | BIT(LIMIT_READ_BPS),
		[COST_READ] = BIT(LIMIT_IOPS) | BIT(LIMIT_READ_IOPS) | BIT(LIMIT_BPS) |
			      BIT(LIMIT_READ_BPS),
		[COST_WRITE] = BIT(LIMIT_IOPS) | BIT(LIMIT_WRITE_IOPS) | BIT(LIMIT_BPS) |
			       BIT(LIMIT_WRITE_BPS),
		[COST_COPY] = BIT(LIMIT_IOPS) | BIT(LIMIT_READ_IOPS) | BIT(LIMIT_WRITE_IOPS) |
			      BIT(LIMIT_BPS) | BIT(LIMIT_READ_BPS) | BIT(LIMIT_WRITE_BPS),
		[COST_META_READ] = BIT(LIMIT_META_IOPS) | BIT(LIMIT_BPS) | BIT(LIMIT_READ_BPS),
		[COST_META_WRITE] = BIT(LIMIT_META_IOPS) | BIT(LIMIT_BPS) | BIT(LIMIT_WRITE_BPS),
	};
	uint32_t kinds = charged[cls];
	if (kinds & ~enabled & BIT(LIMIT_META_IOPS))
		kinds |= BIT(LIMIT_IOPS); /* in place of meta_iops */
	return kinds & enabled;
}

uint32_t limiter_kinds_for(const struct limiter *l, enum cost_class cls)
{
	return kinds_for(limiter_config_kinds(&l->config) & (BIT(LIMIT_KINDS) - 1), cls);
}

uint32_t limiter_pool_kinds_for(const struct limiter *l, enum cost_class cls)
{
	return kinds_for(limiter_config_kinds(&l->config) >> LIMIT_KINDS, cls);
}
