/* SPDX-License-Identifier: MIT */
/* One scope (global, a mount, an fs): its set of limits.
 * Lives at a fixed address as long as any chain names it.  limiter_configure is for one caller at
 * a time; everything else may run beside it. */
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

enum limiter_scope { SCOPE_GLOBAL, SCOPE_MOUNT, SCOPE_FS, SCOPES };

struct limit_config {
	bool enabled; /* false: unlimited.  Enabled with rate 0: misconfigured for who meets it */
	uint64_t rate_per_sec;
	uint64_t burst; /* tokens beyond the steady window */
	uint64_t once;	/* extra tokens at start that never come back */
};

#define LIMITER_WINDOW_DEFAULT_NS (100 * NSEC_PER_MSEC)

struct limiter_config {
	struct limit_config limit[LIMIT_KINDS];
	uint64_t window_ns;    /* capacity = rate × window + burst, at least 1; 0: default */
	uint64_t max_inflight; /* 0: unlimited */
	uint64_t max_open;     /* 0: unlimited */
};

struct limiter {
	enum limiter_scope scope;
	struct limiter_config config; /* as last configured; read under the configurer's lock */
	_Atomic uint32_t enabled;     /* bit per limit_kind */
	struct bucket bucket[LIMIT_KINDS];
	struct permits inflight, open;
};

/* "iops", "meta_iops", …: the option's name. */
const char *limit_kind_name(enum limit_kind kind);
/* "global", "mount", "fs". */
const char *limiter_scope_name(enum limiter_scope scope);
/* True where the limit counts bytes, false where it counts ops. */
bool limit_kind_is_bytes(enum limit_kind kind);

/* The capacity that DESIGN's formula gives; saturates at BUCKET_CAPACITY_MAX. */
uint64_t limit_capacity(const struct limit_config *cfg, uint64_t window_ns);

void limiter_init(struct limiter *l, enum limiter_scope scope, const struct limiter_config *cfg,
		  uint64_t now_ns);

/* New limits from now_ns on.  A limit that stays enabled keeps what was spent; one that is newly
 * enabled starts full.  Chains must be compiled anew after it when `enabled` has changed. */
void limiter_configure(struct limiter *l, const struct limiter_config *cfg, uint64_t now_ns);

/* Which limits a class is charged by here, as a bit mask of limit_kind: Meta and OpenClose go by
 * meta_iops where the scope has it, else by iops. */
uint32_t limiter_kinds_for(const struct limiter *l, enum cost_class cls);

#endif
