/* SPDX-License-Identifier: MIT */
/* Asks daemons for the statistics of all their scopes. */
#ifndef CTL_COLLECT_H
#define CTL_COLLECT_H

#include "base/error.h"
#include "ctl/snapshot.h"

#define COLLECT_AGAIN_MS 200 /* how long to wait for daemons that did not answer the last time */

struct collect_options {
	const char *which; /* the daemon's process ID or socket; NULL: all of this user */
	const char *mount; /* only this mount and its classes; NULL: all */
	unsigned keys;	   /* at most this many of each mount */
	bool watch;	   /* also those that have not waited, and what all of their requests did */
	int patience_ms;   /* how long to wait for a daemon that does not answer */
};

/* A daemon that does not answer in time is left out and counted in daemons_failed.  A snapshot without
 * daemons comes with the reason in err.  NULL: out of memory. */
struct snapshot *collect(const struct collect_options *o, struct error *err);

#endif
