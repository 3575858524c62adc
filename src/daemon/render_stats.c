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
	fprintf(out, ", %.1f s%s%s\n", records_real(r, "seconds"),
		records_true(r, "paused") ? ", PAUSED" : "",
		records_true(r, "dry_run") ? ", dry run: nothing waits" : "");
	fprintf(out, "waiting %" PRIu64 " (%s), in flight %" PRId64 ", open %" PRId64 "",
		records_u64(r, "parked_now"),
		render_amount(records_u64(r, "parked_bytes_now"), 1024, buf),
		records_i64(r, "inflight.now"), records_i64(r, "open.now"));
	if (records_u64(r, "passthrough_handles"))
		fprintf(out, ", %" PRIu64 " handles bypass the daemon until they are closed",
			records_u64(r, "passthrough_handles"));
	fputc('\n', out);
}

static void limit_row(const struct records *r, const char *name, FILE *out)
{
	char rate[RENDER_MAX], level[RENDER_MAX], room[RENDER_MAX];
	if (!records_have(r, "limits.%s.rate", name))
		return;
	AUTO_FREE char *unit = records_line(r, "limits.%s.unit", name);
	double base = strcmp(unit, "bytes") == 0 ? 1024 : 1000;
	fprintf(out, "  %-12s %9s/s %10s %10s %8.1f%%\n", name,
		render_amount(records_u64(r, "limits.%s.rate", name), base, rate),
		render_amount(records_i64(r, "limits.%s.level", name), base, level),
		render_amount(records_u64(r, "limits.%s.capacity", name), base, room),
		100 * records_real(r, "limits.%s.refused_share", name));
}

static void limits(const struct records *r, FILE *out)
{
	bool any = records_have(r, "inflight.limit");
	for (int k = 0; k < LIMIT_KINDS; k++)
		any = any || records_have(r, "limits.%s.rate", limit_kind_name(k));
	if (!any)
		return;
	fprintf(out, "\n  %-12s %11s %10s %10s %9s\n", "LIMIT", "RATE", "LEVEL", "CAPACITY",
		"REFUSED");
	for (int k = 0; k < LIMIT_KINDS; k++)
		limit_row(r, limit_kind_name(k), out);
	if (records_have(r, "inflight.limit"))
		fprintf(out, "  %-12s %11" PRId64 " %10s %10s %8.1f%%\n", "max_inflight",
			records_i64(r, "inflight.limit"), "", "",
			100 * records_real(r, "inflight.refused_share"));
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
		"  %-10s %9s %9s %9" PRIu64 " %8" PRIu64 " %6" PRIu64 " %8" PRIu64 " %8" PRIu64
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
	fprintf(out, "\n  %-10s %9s %9s %9s %8s %6s %8s %8s %7s %8s %8s %8s %8s\n", "CLASS",
		before ? "OPS/S" : "OPS", before ? "BYTES/S" : "BYTES", "AT ONCE", "WAITED", "NOW",
		"REFUSED", "CANCEL", "FAILED", "P50", "P90", "P99", "MAX");
	for (int c = 0; c < COST_CLASSES; c++)
		class_row(r, before, cost_class_name(c), out);
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
	limits(r, out);
	classes(r, before, out);
	keys(r, "keys_by_wait", "WAITED MOST", out);
	keys(r, "keys_by_use", "USED MOST WHILE WAITING", out);
}
