/* SPDX-License-Identifier: MIT */
/* The limits of one scope: global, an fs, a mount, a class of callers, or one caller (a key).
 * Each limit has up to three buckets in series (enum bucket_role); a limit that was never enabled
 * has none.  A limiter must not move or be freed while a chain refers to it.
 * Locking  limiter_prepare and limiter_configure: one caller at a time.  Everything else may run
 *          concurrently with them. */
#ifndef LIMIT_LIMITER_H
#define LIMIT_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#include "limit/bucket.h"
#include "limit/cost.h"
#include "limit/permits.h"

enum limit_kind {
	LIMIT_IOPS,
	LIMIT_META_IOPS,
	LIMIT_READ_IOPS,
	LIMIT_WRITE_IOPS,
	LIMIT_BPS,
	LIMIT_READ_BPS,
	LIMIT_WRITE_BPS,
	LIMIT_KINDS
};

/* Wide to narrow: the tree of scopes is global → fs → mount → class → … → key. */
enum scope_kind {
	SCOPE_GLOBAL,
	SCOPE_FS,
	SCOPE_MOUNT,
	SCOPE_CLASS,
	SCOPE_KEY,
	SCOPE_POOL, /* shared by many hosts: not in the tree; its members have a BUCKET_POOL each */
	SCOPE_KINDS
};

/* The buckets of a limit, in series: all must grant. */
enum bucket_role {
	BUCKET_STEADY, /* rate, window, burst */
	BUCKET_PEAK,   /* <limit>_peak: how fast saved-up tokens may be spent */
	BUCKET_POOL,   /* this host's lease of a limit that many hosts share */
	BUCKET_ROLES
};

struct limit_config {
	bool enabled; /* false: unlimited.  Enabled with rate 0: requests get GRANT_MISCONFIGURED */
	uint64_t rate_per_sec;
	uint64_t burst;	       /* tokens beyond the steady window */
	uint64_t once;	       /* extra tokens at start that never come back */
	uint64_t peak_per_sec; /* 0: saved-up tokens may be spent at any speed */
	/* The rate, for all hosts together, of the pool that the scope belongs to; 0: it belongs to
	 * none.  This host's share is leased (bucket_lease), and is nothing until the first
	 * lease. */
	uint64_t pool_per_sec;
};

#define LIMITER_WINDOW_DEFAULT_NS (100 * NSEC_PER_MSEC)
#define SCOPE_NAME_MAX		  72 /* the longest name of a class or pool fits */

struct limiter_config {
	struct limit_config limit[LIMIT_KINDS];
	uint64_t window_ns;	   /* capacity = rate × window + burst, at least 1; 0: default */
	uint64_t max_inflight;	   /* 0: unlimited */
	uint64_t max_open;	   /* 0: unlimited */
	char pool[SCOPE_NAME_MAX]; /* which pool pool_per_sec is of; for statistics */
};

struct limiter {
	enum scope_kind scope;
	void *owner; /* for the layer above */
	struct limiter_config
		config; /* guarded by the configurer's lock; chains are compiled by it */
	struct bucket *bucket[LIMIT_KINDS][BUCKET_ROLES]; /* NULL: never enabled */
	struct permits inflight, open;
};

/* "iops", "meta_iops", …: the option's name. */
const char *limit_kind_name(enum limit_kind kind);
/* "global", "fs", "mount", "class", "key", "pool". */
const char *scope_kind_name(enum scope_kind scope);
/* True where the limit counts bytes, false where it counts ops. */
bool limit_kind_is_bytes(enum limit_kind kind);

/* rate × window + burst, at least 1; saturates at BUCKET_CAPACITY_MAX. */
uint64_t limit_capacity(const struct limit_config *cfg, uint64_t window_ns);

/* False: out of memory; call limiter_fini even then. */
bool limiter_init(struct limiter *l, enum scope_kind scope, const struct limiter_config *cfg,
		  uint64_t now_ns);
void limiter_fini(struct limiter *l);

/* Allocates what limiter_configure will need for this configuration, and changes nothing else.  False: out
 * of memory. */
bool limiter_prepare(struct limiter *l, const struct limiter_config *cfg, uint64_t now_ns);

/* Sets new limits from now_ns on; call limiter_prepare first.  A limit that stays enabled keeps its level; a
 * newly enabled one starts full.  Recompile all chains afterwards. */
void limiter_configure(struct limiter *l, const struct limiter_config *cfg, uint64_t now_ns);

/* Which limits of this scope apply to a class of operations, as a bit mask of limit_kind.  Metadata
 * operations, opens and closes are limited by meta_iops if the scope has it, otherwise by iops. */
uint32_t limiter_kinds_for(const struct limiter *l, enum cost_class cls);

/* The same for the limits of the scope's pool. */
uint32_t limiter_pool_kinds_for(const struct limiter *l, enum cost_class cls);

/* The limits that the configuration enables, as a bit mask of limit_kind; those of its pool from bit
 * LIMIT_KINDS on. */
uint32_t limiter_config_kinds(const struct limiter_config *cfg);

#endif
