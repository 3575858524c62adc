/* SPDX-License-Identifier: MIT */
/* A snapshot in the text format of Prometheus.
 *
 * Names follow its conventions: base units (seconds, bytes), and _total for counters.  Labels are
 * names from the configuration (daemon, mount, class, limit) and fixed words (op, reason, outcome),
 * never process IDs or commands, so that the number of series does not grow with the number of
 * callers.  Of the users, only the few that waited most are exported. */
#ifndef CTL_METRICS_H
#define CTL_METRICS_H

#include <stdio.h>

#include "ctl/snapshot.h"

#define METRICS_USERS_DEFAULT 5

struct metrics_options {
	const char *version; /* of this program */
	unsigned users;	     /* how many of each mount, those that waited most; 0: none */
	const char *(*user_name)(uint64_t uid);
};

void metrics_write_pools(const struct snapshot *s, FILE *out); /* for metrics_write */
void metrics_write(const struct snapshot *s, const struct metrics_options *o, FILE *out);

#endif
