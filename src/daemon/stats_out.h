/* SPDX-License-Identifier: MIT */
/* Statistics of a scope as JSON with stable names. */
#ifndef DAEMON_STATS_OUT_H
#define DAEMON_STATS_OUT_H

#include "daemon/target.h"
#include "proto/json_out.h"
#include "sched/stats.h"

#define STATS_TOP_KEYS 10 /* unless asked for more */
#define STATS_MAX_KEYS 8192

/* How keys are shown. */
struct stats_keys {
	unsigned most; /* how many to show, those that waited longest first; 0: none */
	bool table; /* as rows of "key_table", in the order of their ids; else as two lists of objects: those that
			* waited longest, and those that moved most */
	bool watch; /* with `table`: also keys that have not waited, and what all of their requests did */
};
void put_stats(struct json_out o, struct registry *r, const struct target *t,
	       const struct stats_keys *keys);

/* Puts "KEY":{"scope":"class","of":"backup","name":"bps"}; a limit of each key is "each.bps".
 * Returns the object, to which the caller may add members. */
struct json_out put_waited_limit(struct json_out o, const char *key, const struct waited_limit *l);
/* Puts "limit", the first of n, and "limits", all of them, with "wait_ns" where it is known.  Nothing if the first limit is
 * not known. */
void put_waited_limits(struct json_out o, const struct waited_limit *l, unsigned n);
/* The part of put_stats that needs only the gate's numbers, not the registry. */
void put_scope_stats(struct json_out o, const struct scope_stats *s);
/* The name of a key's program, or the path of its cgroup: the gate keeps only the end of that path,
 * so the rest is looked up. */
#define STATS_NAME_MAX 4096
const char *stats_key_name(const struct key_stats *k, char path[STATS_NAME_MAX]);
/* key_table.c: {"columns":[…],"rows":[[…],…],"text":[…],"limits":[…]}; kind, name and class are indexes into "text", the limit
 * (that the key waits for, or waited for longest) into "limits". */
void put_key_table(struct json_out o, const struct key_stats *k, unsigned n, bool watched);
/* What the key stands for: "uid", "process", …; "shared" past max_keys. */
const char *key_kind(const struct key_stats *k);
/* Merges equal keys in place, which also sorts them by id; returns how many are left. */
unsigned stats_merge_keys(struct key_stats *k, unsigned n);

#endif
