/* SPDX-License-Identifier: MIT */
/* Statistics of a scope as records (daemon/proto.h) with stable names. */
#ifndef DAEMON_STATS_OUT_H
#define DAEMON_STATS_OUT_H

#include <stdio.h>

#include "daemon/target.h"
#include "sched/stats.h"

#define STATS_TOP_KEYS 10

/* False: out of memory, some are missing. */
bool stats_records(struct registry *r, const struct target *t, FILE *out);

/* The parts of it that need no daemon. */
void stats_scope_records(const struct scope_stats *s, FILE *out);
/* Merges equal keys in place; returns how many are left. */
unsigned stats_merge_keys(struct key_stats *k, unsigned n);

#endif
