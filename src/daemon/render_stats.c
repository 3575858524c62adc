/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/render.h"
#include "limit/cost.h"
#include "limit/limiter.h"

static void head(const struct records *r, FILE *out)
{
	AUTO_FREE char *scope = records_line(r, "scope"), *name = records_line(r, "name");
	AUTO_FREE char *source = records_line(r, "source"), *at = records_line(r, "mountpoint");
	char buf[RENDER_MAX];
	fprintf(out, "%s", scope);
	if (strcmp(scope, "global") != 0)
		fprintf(out, " %s", name);
	if (*at)
		fprintf(out, ": %s at %s", source, at);
	AUTO_FREE char *by = records_line(r, "paused_by");
	bool above = *by && strcmp(by, scope) != 0;
	fprintf(out, ", %.1f s%s%s%s%s%s\n", records_real(r, "seconds"),
		above || records_true(r, "paused") ? ", PAUSED" : "", above ? " (" : "",
		above ? by : "", above ? ")" : "",
		records_true(r, "dry_run") ? ", dry run: nothing waits" : "");
	fprintf(out, "waiting %" PRIu64 " (%s), in flight %" PRId64 ", open %" PRId64 "",
		records_u64(r, "parked_now"),
		render_amount(records_u64(r, "parked_bytes_now"), 1024, buf),
		records_i64(r, "inflight.now"), records_i64(r, "open.now"));
	if (records_u64(r, "device_now"))
		fprintf(out, ", in the device %" PRIu64, records_u64(r, "device_now"));
	if (records_u64(r, "passthrough_handles"))
		fprintf(out, ", %" PRIu64 " handles bypass the daemon until they are closed",
			records_u64(r, "passthrough_handles"));
	if (records_u64(r, "passthrough_maps"))
		fprintf(out, ", %" PRIu64 " handles bypass it where they are mapped into memory",
			records_u64(r, "passthrough_maps"));
	fputc('\n', out);
}

/* What hangs below: nothing here can make it go on. */
static void stuck(const struct records *r, FILE *out)
{
	char age[RENDER_MAX];
	uint64_t queued = records_u64(r, "in_source.queued");
	if (!records_u64(r, "in_source.stuck"))
		return;
	fprintf(out, "STUCK in the source %" PRIu64, records_u64(r, "in_source.stuck"));
	for (unsigned i = 0; records_have(r, "in_source.ops.%u.name", i); i++) {
		AUTO_FREE char *name = records_line(r, "in_source.ops.%u.name", i);
		fprintf(out, "%s%" PRIu64 " %s for %s", i ? ", " : ": ",
			records_u64(r, "in_source.ops.%u.requests", i), name,
			render_ns(records_u64(r, "in_source.ops.%u.oldest_ns", i), age));
	}
	if (queued)
		fprintf(out, "; %" PRIu64 " wait for a free thread", queued);
	fputc('\n', out);
}

static void space(const struct records *r, FILE *out)
{
	char used[RENDER_MAX], size[RENDER_MAX];
	AUTO_FREE char *state = records_line(r, "space.state");
	if (!*state)
		return;
	fprintf(out, "space used %s", render_amount(records_u64(r, "space.used"), 1024, used));
	if (records_have(r, "space.size"))
		fprintf(out, " of %s", render_amount(records_u64(r, "space.size"), 1024, size));
	fprintf(out, ", inodes %" PRIu64, records_u64(r, "space.inodes_used"));
	if (records_have(r, "space.inodes"))
		fprintf(out, " of %" PRIu64, records_u64(r, "space.inodes"));
	if (records_u64(r, "space.refused"))
		fprintf(out, ", refused %" PRIu64, records_u64(r, "space.refused"));
	if (strcmp(state, "failed") == 0)
		fputs(", NOT ENFORCED: the source cannot be counted", out);
	if (strcmp(state, "counting") == 0)
		fprintf(out, ", not enforced yet: counting, %" PRIu64 " files so far",
			records_u64(r, "space.scanned"));
	else if (records_true(r, "space.rescanning"))
		fprintf(out, ", counting again: %" PRIu64 " files so far",
			records_u64(r, "space.scanned"));
	fputc('\n', out);
}

static void rate_columns(const struct records *r, unsigned i, FILE *out)
{
	char rate[RENDER_MAX], level[RENDER_MAX], room[RENDER_MAX];
	AUTO_FREE char *unit = records_line(r, "limits_met.%u.unit", i);
	double base = strcmp(unit, "bytes") == 0 ? 1024 : 1000;
	bool one = records_have(r, "limits_met.%u.level", i); /* not one for each key */
	fprintf(out, " %9s/s %10s %10s",
		render_amount(records_u64(r, "limits_met.%u.rate", i), base, rate),
		one ? render_amount(records_i64(r, "limits_met.%u.level", i), base, level) : "",
		render_amount(records_u64(r, "limits_met.%u.capacity", i), base, room));
}

static void limit_row(const struct records *r, unsigned i, bool dry_run, FILE *out)
{
	char name[RENDER_NAME_MAX];
	fprintf(out, "  %-24s", render_limit_name(r, "limits_met", i, name));
	if (records_have(r, "limits_met.%u.rate", i))
		rate_columns(r, i, out);
	else
		fprintf(out, " %11" PRId64 " %10" PRId64 " %10s",
			records_i64(r, "limits_met.%u.limit", i),
			records_i64(r, "limits_met.%u.now", i), "");
	if (dry_run)
		fprintf(out, " %10" PRIu64, records_u64(r, "limits_met.%u.would_wait", i));
	else
		fprintf(out, " %9.1f%%", 100 * records_real(r, "limits_met.%u.blocking_share", i));
	fprintf(out, "%s\n",
		!records_true(r, "limits_met.%u.bottleneck", i) ? ""
		: dry_run ? "  <- requests would wait for this one"
			  : "  <- requests wait for this one");
}

static void limits(const struct records *r, FILE *out)
{
	bool dry_run = records_true(r, "dry_run");
	if (!records_have(r, "limits_met.0.name"))
		return;
	fprintf(out, "\n  %-24s %11s %10s %10s %10s\n", "LIMIT", "RATE", "LEVEL", "CAPACITY",
		dry_run ? "WOULD WAIT" : "BLOCKING");
	for (unsigned i = 0; records_have(r, "limits_met.%u.name", i); i++)
		limit_row(r, i, dry_run, out);
}

static uint64_t of_class(const struct records *r, const char *cls, const char *what)
{
	return records_u64(r, "classes.%s.%s", cls, what);
}

static uint64_t refused(const struct records *r, const char *cls)
{
	return of_class(r, cls, "would_block") + of_class(r, cls, "full") +
	       of_class(r, cls, "timed_out") + of_class(r, cls, "misconfigured");
}

/* Since the counters began, or per second since `before`. */
static double amount(const struct records *r, const struct records *before, const char *cls,
		     const char *what)
{
	double n = of_class(r, cls, what);
	double seconds = before ? records_real(r, "seconds") - records_real(before, "seconds") : 1;
	if (before && seconds > 0)
		n = (n - of_class(before, cls, what)) / seconds;
	return n < 0 ? 0 : n;
}

static void class_row(const struct records *r, const struct records *before, const char *c,
		      FILE *out)
{
	char ops[RENDER_MAX], bytes[RENDER_MAX], t[4][RENDER_MAX];
	if (!of_class(r, c, "ops") && !of_class(r, c, "parked_total") && !refused(r, c))
		return;
	fprintf(out,
		"  %-10s %9s %9s %9" PRIu64 " %10" PRIu64 " %6" PRIu64 " %8" PRIu64 " %8" PRIu64
		" %7" PRIu64 " %8s %8s %8s %8s\n",
		c, render_amount(amount(r, before, c, "ops"), 1000, ops),
		render_amount(amount(r, before, c, "bytes"), 1024, bytes),
		of_class(r, c, "at_once"), of_class(r, c, "parked_total"),
		of_class(r, c, "parked_now"), refused(r, c), of_class(r, c, "cancelled"),
		of_class(r, c, "failed"), render_ns(of_class(r, c, "wait.p50_ns"), t[0]),
		render_ns(of_class(r, c, "wait.p90_ns"), t[1]),
		render_ns(of_class(r, c, "wait.p99_ns"), t[2]),
		render_ns(of_class(r, c, "wait.max_ns"), t[3]));
}

static void classes(const struct records *r, const struct records *before, FILE *out)
{
	fprintf(out, "\n  %-10s %9s %9s %9s %10s %6s %8s %8s %7s %8s %8s %8s %8s\n", "CLASS",
		before ? "OPS/S" : "OPS", before ? "BYTES/S" : "BYTES", "AT ONCE",
		records_true(r, "dry_run") ? "WOULD WAIT" : "WAITED", "NOW", "REFUSED", "CANCEL",
		"FAILED", "P50", "P90", "P99", "MAX");
	for (int c = 0; c < COST_CLASSES_SHOWN; c++)
		class_row(r, before, cost_class_name(c), out);
}

static void device_row(const struct records *r, const char *c, FILE *out)
{
	char t[6][RENDER_MAX];
	uint64_t n = of_class(r, c, "device.count"), sum = of_class(r, c, "device.sum_ns");
	if (!n && !of_class(r, c, "device_now"))
		return;
	fprintf(out, "  %-10s %9" PRIu64 " %6" PRIu64 " %9s %8s %8s %8s %8s %8s\n", c, n,
		of_class(r, c, "device_now"), render_ns(sum, t[0]),
		render_ns(n ? sum / n : 0, t[1]), render_ns(of_class(r, c, "device.p50_ns"), t[2]),
		render_ns(of_class(r, c, "device.p90_ns"), t[3]),
		render_ns(of_class(r, c, "device.p99_ns"), t[4]),
		render_ns(of_class(r, c, "device.max_ns"), t[5]));
}

/* The time that the device model added, beside the waiting for limits. */
static void device(const struct records *r, FILE *out)
{
	bool any = false;
	for (int c = 0; c < COST_CLASSES_SHOWN; c++)
		any |= of_class(r, cost_class_name(c), "device.count") ||
		       of_class(r, cost_class_name(c), "device_now");
	if (!any)
		return;
	fprintf(out, "\n  %-10s %9s %6s %9s %8s %8s %8s %8s %8s\n", "IN DEVICE", "REQUESTS", "NOW",
		"TIME", "MEAN", "P50", "P90", "P99", "MAX");
	for (int c = 0; c < COST_CLASSES_SHOWN; c++)
		device_row(r, cost_class_name(c), out);
}

static void key_row(const struct records *r, const char *list, unsigned i, FILE *out)
{
	char who[64], wait[RENDER_MAX], max[RENDER_MAX], bytes[RENDER_MAX];
	AUTO_FREE char *kind = records_line(r, "%s.%u.kind", list, i);
	AUTO_FREE char *name = records_line(r, "%s.%u.name", list, i);
	snprintf(who, sizeof(who), "%s %" PRIu64 " %s", kind, records_u64(r, "%s.%u.id", list, i),
		 name);
	if (strcmp(kind, "none") == 0 || strcmp(kind, "cgroup") == 0)
		snprintf(who, sizeof(who), "%s %s", kind, name);
	fprintf(out, "  %-32s %8s %8s %8" PRIu64 " %6" PRIu64 " %8" PRIu64 " %9s\n", who,
		render_ns(records_u64(r, "%s.%u.wait_ns", list, i), wait),
		render_ns(records_u64(r, "%s.%u.max_wait_ns", list, i), max),
		records_u64(r, "%s.%u.parked_total", list, i),
		records_u64(r, "%s.%u.parked_now", list, i), records_u64(r, "%s.%u.ops", list, i),
		render_amount(records_u64(r, "%s.%u.bytes", list, i), 1024, bytes));
}

static void keys(const struct records *r, const char *list, const char *title, FILE *out)
{
	if (!records_have(r, "%s.0.kind", list))
		return;
	fprintf(out, "\n  %-32s %8s %8s %8s %6s %8s %9s\n", title, "WAIT", "MAX", "WAITED", "NOW",
		"OPS", "BYTES");
	for (unsigned i = 0; records_have(r, "%s.%u.kind", list, i); i++)
		key_row(r, list, i, out);
}

void render_stats(const struct records *r, const struct records *before, FILE *out)
{
	head(r, out);
	space(r, out);
	stuck(r, out);
	limits(r, out);
	classes(r, before, out);
	device(r, out);
	bool dry_run = records_true(r, "dry_run");
	keys(r, "keys_by_wait", dry_run ? "WOULD WAIT MOST" : "WAITED MOST", out);
	keys(r, "keys_by_use", dry_run ? "MOVED MOST PAST A LIMIT" : "USED MOST WHILE WAITING",
	     out);
}
