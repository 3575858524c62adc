/* SPDX-License-Identifier: MIT */
/* Statistics of a scope as JSON with stable names. */
#ifndef DAEMON_STATS_OUT_H
#define DAEMON_STATS_OUT_H

#include "daemon/target.h"
#include "proto/json_out.h"
#include "sched/stats.h"

#define STATS_TOP_KEYS 10 /* unless asked for more */
#define STATS_MAX_KEYS 8192

/* With the `top` keys that waited longest, and those that moved most. */
void put_stats(struct json_out o, struct registry *r, const struct target *t, unsigned top);

/* "KEY":{"scope":"class","of":"backup","name":"bps"}; a limit of each key is "each.bps".  The object, to be added to. */
struct json_out put_waited_limit(struct json_out o, const char *key, const struct waited_limit *l);
/* The parts of it that need no daemon. */
void put_scope_stats(struct json_out o, const struct scope_stats *s);
/* Merges equal keys in place; returns how many are left. */
unsigned stats_merge_keys(struct key_stats *k, unsigned n);

#endif
