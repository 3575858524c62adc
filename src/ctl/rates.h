/* SPDX-License-Identifier: MIT */
/* What happened between two snapshots, per second.  Pure arithmetic.
 *
 * A counter that has become smaller was reset, or its daemon was restarted: then its
 * value is what happened since.  Without an earlier snapshot (NULL), or if it lacks the
 * scope, all rates are 0. */
#ifndef CTL_RATES_H
#define CTL_RATES_H

#include "ctl/snapshot.h"

/* Seconds between the two snapshots; 0 without `before`. */
double snapshot_seconds(const struct snapshot *now, const struct snapshot *before);

struct scope_rates {
	double ops_per_sec, bytes_per_sec, refused_per_sec;
};
struct scope_rates scope_rates(const struct snap_scope *now, const struct snap_scope *before,
			       double seconds);

/* A limit in the scope that it belongs to. */
struct limit_rates {
	const struct snap_limit *limit;
	const struct snap_scope *seen_from; /* the mount whose answer contains the limit */
	double used;	      /* per second; permits: in use now; each key: by the busiest */
	double refused_share; /* share of the time in which it held requests back, 0 to 1 */
};

bool limit_is_of_pool(const struct snap_limit *l);

struct key_rates {
	const struct snap_key *key;
	const struct snap_scope *mount;
	double ops_per_sec, bytes_per_sec;
	double waiting; /* share of the time, 0 to 1 */
};

/* Every key of every mount; and every limit, once even if several mounts share it.  limit_rates
 * needs the keys for limits of each key.  To be freed; NULL: out of memory. */
struct key_rates *key_rates(const struct snapshot *now, const struct snapshot *before, unsigned *n);
struct limit_rates *limit_rates(const struct snapshot *now, const struct snapshot *before,
				const struct key_rates *keys, unsigned n_keys, unsigned *n);

/* The target for `set` of the scope that has the limit: "data", "data/backup", "fs:data", "global". */
#define RATES_TARGET_MAX 600
const char *limit_target(const struct limit_rates *l, char buf[RATES_TARGET_MAX]);

#endif
