/* SPDX-License-Identifier: MIT */
/* A snapshot in the text format of Prometheus.
 *
 * Names follow its conventions: base units (seconds, bytes), _total for what only grows.  Labels are names of
 * configuration (daemon, mount, class, limit) and fixed words (op, reason, outcome), never process ids or
 * commands: the number of series does not grow with the number of callers.  Of the users, only the few that waited most
 * are exported. */
#ifndef CTL_METRICS_H
#define CTL_METRICS_H

#include <stdio.h>

#include "ctl/snapshot.h"

#define METRICS_USERS_DEFAULT 5

struct metrics_options {
	const char *version; /* of this program */
	unsigned users;	     /* of each mount, that waited most; 0: none */
	const char *(*user_name)(uint64_t uid);
};

void metrics_write_pools(const struct snapshot *s, FILE *out); /* its part of it */
void metrics_write(const struct snapshot *s, const struct metrics_options *o, FILE *out);

#endif
