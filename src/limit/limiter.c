/* SPDX-License-Identifier: MIT */
#include "limit/limiter.h"

__extension__ typedef unsigned __int128 u128;

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

const char *limiter_scope_name(enum limiter_scope scope)
{
	static const char *const names[SCOPES] = {
		[SCOPE_GLOBAL] = "global",
		[SCOPE_MOUNT] = "mount",
		[SCOPE_FS] = "fs",
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

static struct bucket_config bucket_config_of(const struct limit_config *cfg, uint64_t window_ns)
{
	return (struct bucket_config){
		.rate_per_sec = cfg->rate_per_sec,
		.capacity = limit_capacity(cfg, window_ns),
		.once = cfg->once,
	};
}

static int64_t permits_limit(uint64_t configured)
{
	return configured && configured < PERMITS_UNLIMITED ? (int64_t)configured
							    : PERMITS_UNLIMITED;
}

static uint32_t enabled_mask(const struct limiter_config *cfg)
{
	uint32_t mask = 0;
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		if (cfg->limit[k].enabled)
			mask |= BIT(k);
	return mask;
}

void limiter_init(struct limiter *l, enum limiter_scope scope, const struct limiter_config *cfg,
		  uint64_t now_ns)
{
	l->scope = scope;
	l->config = *cfg;
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		struct bucket_config bc = bucket_config_of(&cfg->limit[k], cfg->window_ns);
		bucket_init(&l->bucket[k], &bc, now_ns);
	}
	permits_init(&l->inflight, permits_limit(cfg->max_inflight));
	permits_init(&l->open, permits_limit(cfg->max_open));
	atomic_init(&l->enabled, enabled_mask(cfg));
}

static bool same_bucket(const struct bucket_config *a, const struct bucket_config *b)
{
	return a->rate_per_sec == b->rate_per_sec && a->capacity == b->capacity &&
	       a->once == b->once;
}

void limiter_configure(struct limiter *l, const struct limiter_config *cfg, uint64_t now_ns)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		struct bucket_config old =
			bucket_config_of(&l->config.limit[k], l->config.window_ns);
		struct bucket_config new = bucket_config_of(&cfg->limit[k], cfg->window_ns);
		if (!cfg->limit[k].enabled)
			continue; /* jobs that were granted may still refund into it */
		if (!l->config.limit[k].enabled)
			bucket_restart(&l->bucket[k], &new, now_ns);
		else if (!same_bucket(&old, &new))
			bucket_reconfigure(&l->bucket[k], &new, now_ns);
	}
	permits_set_limit(&l->inflight, permits_limit(cfg->max_inflight));
	permits_set_limit(&l->open, permits_limit(cfg->max_open));
	l->config = *cfg;
	atomic_store(&l->enabled, enabled_mask(cfg));
}

uint32_t limiter_kinds_for(const struct limiter *l, enum cost_class cls)
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
	};
	uint32_t enabled = atomic_load(&l->enabled);
	uint32_t kinds = charged[cls];
	if (kinds == BIT(LIMIT_META_IOPS) && !(enabled & kinds))
		kinds = BIT(LIMIT_IOPS);
	return kinds & enabled;
}
