/* SPDX-License-Identifier: MIT */
/* The statistics that the daemon of `ratefs run` sends to the wrapper: plain data, since both are
 * the same program. */
#ifndef DAEMON_RUN_STATS_H
#define DAEMON_RUN_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/units.h"
#include "daemon/run_command.h"
#include "limit/cost.h"

#define RUN_LIMITS_MAX 48

struct run_class_stats {
	uint64_t ops, bytes;
	uint64_t waited, wait_ns;	    /* requests; the sum of their waits */
	uint64_t would_wait, would_wait_ns; /* the same in a dry run */
	uint64_t failed, refused;	    /* by the filesystem; by ratefs */
	uint64_t device,
		device_ns; /* requests in the simulated device; the sum of their times there */
};

struct run_limit_stats {
	char name[32]; /* "iops"; "mount.iops", "fs.iops" */
	char of[96];   /* the end of the directory's name; "" for the command as a whole */
	char value[UNITS_TEXT_MAX];
	uint64_t blocking_ns; /* time during which requests waited for it */
	uint64_t would_wait;  /* requests, in a dry run */
};

/* Per second: the highest rate of any second. */
struct run_rates {
	double iops, read_iops, write_iops, meta_iops, read_bps, write_bps;
};

struct run_stats {
	struct run_class_stats cls[COST_CLASSES_SHOWN];
	struct run_limit_stats limit[RUN_LIMITS_MAX];
	unsigned n_limits;
	struct run_rates peak; /* in a dry run */
};

/* Messages from the wrapper to the daemon, one byte each: here are the connections; the command
 * starts; send your statistics. */
enum { RUN_SAYS_MOUNTED = 'm', RUN_SAYS_STARTED = 's', RUN_ASKS = 'r' };

/* --- the report (run_report.c) -------------------------------------------------------------- */

struct run;
struct run_report {
	const struct run *run;
	const struct run_result *result, *plain; /* with ratefs, without (NULL: not run) */
	const struct run_stats *stats;		 /* NULL: the daemon did not answer */
};
void run_report_text(const struct run_report *r, FILE *out);
void run_report_json(const struct run_report *r, FILE *out);

#endif
