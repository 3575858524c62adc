/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/render.h"

/* False: a mount that is not mounted has no statistics. */
static bool is_served(const json_t *a)
{
	return json_object_get(a, "seconds");
}

static void head(const json_t *a, FILE *out)
{
	const char *scope = get_text(a, "scope"), *by = get_text(a, "paused_by");
	bool above = *by && strcmp(by, scope) != 0;
	fprintf(out, "%s", scope);
	if (strcmp(scope, "global") != 0)
		fprintf(out, " %s", get_text(a, "name"));
	if (*get_text(a, "mountpoint"))
		fprintf(out, ": %s at %s", get_text(a, "source"), get_text(a, "mountpoint"));
	if (!is_served(a)) {
		fprintf(out, ", not mounted\n");
		return;
	}
	fprintf(out, ", %.1f s%s%s%s%s%s\n", get_real(a, "seconds"),
		above || get_true(a, "paused") ? ", PAUSED" : "", above ? " (" : "",
		above ? by : "", above ? ")" : "",
		get_true(a, "dry_run") ? ", dry run: nothing waits" : "");
}

static void now(const json_t *a, FILE *out)
{
	char buf[TEXT_AMOUNT_MAX];
	fprintf(out, "waiting %" PRIu64 " (%s), in flight %" PRId64 ", open %" PRId64 "",
		get_u64(a, "parked_now"), text_amount(get_u64(a, "parked_bytes_now"), 1024, buf),
		get_i64(get_part(a, "inflight"), "now"), get_i64(get_part(a, "open"), "now"));
	if (get_u64(a, "device_now"))
		fprintf(out, ", in the device %" PRIu64, get_u64(a, "device_now"));
	if (get_u64(a, "passthrough_handles"))
		fprintf(out, ", %" PRIu64 " handles bypass the daemon until they are closed",
			get_u64(a, "passthrough_handles"));
	if (get_u64(a, "passthrough_maps"))
		fprintf(out, ", %" PRIu64 " handles bypass it through memory mappings",
			get_u64(a, "passthrough_maps"));
	fputc('\n', out);
}

static void space_line(const json_t *space, FILE *out)
{
	char used[TEXT_AMOUNT_MAX], size[TEXT_AMOUNT_MAX];
	if (!space)
		return;
	const char *state = get_text(space, "state");
	fprintf(out, "space used %s", text_amount(get_u64(space, "used"), 1024, used));
	if (get_u64(space, "size"))
		fprintf(out, " of %s", text_amount(get_u64(space, "size"), 1024, size));
	fprintf(out, ", inodes %" PRIu64, get_u64(space, "inodes_used"));
	if (get_u64(space, "inodes"))
		fprintf(out, " of %" PRIu64, get_u64(space, "inodes"));
	if (get_u64(space, "refused"))
		fprintf(out, ", refused %" PRIu64, get_u64(space, "refused"));
	if (strcmp(state, "failed") == 0)
		fputs(", NOT ENFORCED: the source cannot be counted", out);
	if (strcmp(state, "counting") == 0)
		fprintf(out, ", not enforced yet: counting, %" PRIu64 " files so far",
			get_u64(space, "scanned"));
	else if (get_true(space, "rescanning"))
		fprintf(out, ", counting again: %" PRIu64 " files so far",
			get_u64(space, "scanned"));
	fputc('\n', out);
}

/* Requests that the source does not answer. */
static void stuck(const json_t *source, FILE *out)
{
	char age[TEXT_AMOUNT_MAX];
	uint64_t queued = get_u64(source, "queued");
	const json_t *op;
	size_t i;
	if (!get_u64(source, "stuck"))
		return;
	fprintf(out, "STUCK in the source %" PRIu64, get_u64(source, "stuck"));
	json_array_foreach (get_part(source, "ops"), i, op)
		fprintf(out, "%s%" PRIu64 " %s for %s", i ? ", " : ": ", get_u64(op, "requests"),
			get_text(op, "name"), text_ns(get_u64(op, "oldest_ns"), age));
	if (queued)
		fprintf(out, "; %" PRIu64 " wait for a free thread", queued);
	fputc('\n', out);
}

/* --- limits --------------------------------------------------------------------------------- */

static void rate_columns(const json_t *limit, FILE *out)
{
	char rate[TEXT_AMOUNT_MAX], level[TEXT_AMOUNT_MAX], room[TEXT_AMOUNT_MAX];
	double base = strcmp(get_text(limit, "unit"), "bytes") == 0 ? 1024 : 1000;
	bool one = json_object_get(limit, "level"); /* a limit of each key has no level */
	fprintf(out, " %9s/s %10s %10s", text_amount(get_u64(limit, "rate"), base, rate),
		one ? text_amount(get_i64(limit, "level"), base, level) : "",
		text_amount(get_u64(limit, "capacity"), base, room));
}

static void limit_row(const json_t *a, const json_t *limit, FILE *out)
{
	bool dry_run = get_true(a, "dry_run");
	char name[RENDER_NAME_MAX];
	fprintf(out, "  %-24s", render_limit_name(a, limit, name));
	if (json_object_get(limit, "rate"))
		rate_columns(limit, out);
	else
		fprintf(out, " %11" PRId64 " %10" PRId64 " %10s", get_i64(limit, "limit"),
			get_i64(limit, "now"), "");
	if (dry_run)
		fprintf(out, " %10" PRIu64, get_u64(limit, "would_wait"));
	else
		fprintf(out, " %9.1f%%", 100 * get_real(limit, "blocking_share"));
	fprintf(out, "%s\n",
		!get_true(limit, "bottleneck") ? ""
		: dry_run		       ? "  <- requests would wait for this one"
					       : "  <- requests wait for this one");
}

static void limits(const json_t *a, FILE *out)
{
	const json_t *list = get_part(a, "limits_met"), *limit;
	size_t i;
	if (!json_array_size(list))
		return;
	fprintf(out, "\n  %-24s %11s %10s %10s %10s\n", "LIMIT", "RATE", "LEVEL", "CAPACITY",
		get_true(a, "dry_run") ? "WOULD WAIT" : "BLOCKING");
	json_array_foreach (list, i, limit)
		limit_row(a, limit, out);
}

/* --- classes of requests -------------------------------------------------------------------- */

static uint64_t refused(const json_t *class)
{
	return get_u64(class, "would_block") + get_u64(class, "full") +
	       get_u64(class, "timed_out") + get_u64(class, "misconfigured") +
	       get_u64(class, "no_room") + get_u64(class, "too_many_open") +
	       get_u64(class, "no_space");
}

/* Since the counters began, or per second since `before`. */
static double amount(const json_t *a, const json_t *before, const char *class, const char *what)
{
	double n = get_u64(get_part(get_part(a, "classes"), class), what);
	double seconds = before ? get_real(a, "seconds") - get_real(before, "seconds") : 1;
	if (before && seconds > 0)
		n = (n - get_u64(get_part(get_part(before, "classes"), class), what)) / seconds;
	return n < 0 ? 0 : n;
}

static void class_row(const json_t *a, const json_t *before, const char *name, const json_t *c,
		      FILE *out)
{
	char ops[TEXT_AMOUNT_MAX], bytes[TEXT_AMOUNT_MAX], t[4][TEXT_AMOUNT_MAX];
	bool dry_run = get_true(a, "dry_run");
	const json_t *wait = get_part(c, dry_run ? "would_wait" : "wait");
	uint64_t waited = dry_run ? get_u64(wait, "count") : get_u64(c, "parked_total");
	if (!get_u64(c, "ops") && !waited && !refused(c))
		return;
	fprintf(out,
		"  %-10s %9s %9s %9" PRIu64 " %10" PRIu64 " %6" PRIu64 " %8" PRIu64 " %8" PRIu64
		" %7" PRIu64 " %8s %8s %8s %8s\n",
		name, text_amount(amount(a, before, name, "ops"), 1000, ops),
		text_amount(amount(a, before, name, "bytes"), 1024, bytes), get_u64(c, "at_once"),
		waited, get_u64(c, "parked_now"), refused(c), get_u64(c, "cancelled"),
		get_u64(c, "failed"), text_ns(get_u64(wait, "p50_ns"), t[0]),
		text_ns(get_u64(wait, "p90_ns"), t[1]), text_ns(get_u64(wait, "p99_ns"), t[2]),
		text_ns(get_u64(wait, "max_ns"), t[3]));
}

static void classes(const json_t *a, const json_t *before, FILE *out)
{
	const char *name;
	json_t *class;
	fprintf(out, "\n  %-10s %9s %9s %9s %10s %6s %8s %8s %7s %8s %8s %8s %8s\n", "OPERATION",
		before ? "OPS/S" : "OPS", before ? "BYTES/S" : "BYTES", "AT ONCE",
		get_true(a, "dry_run") ? "WOULD WAIT" : "WAITED", "NOW", "REFUSED", "CANCEL",
		"FAILED", "P50", "P90", "P99", "MAX");
	json_object_foreach (get_part(a, "classes"), name, class)
		class_row(a, before, name, class, out);
}

/* In a scope that is not in a dry run itself: what requests of dry runs below it, or earlier, would have waited. */
static void dry_waits(const json_t *a, FILE *out)
{
	const char *name;
	json_t *class;
	uint64_t n = 0, ns = 0;
	char t[TEXT_AMOUNT_MAX];
	json_object_foreach (get_part(a, "classes"), name, class) {
		n += get_u64(get_part(class, "would_wait"), "count");
		ns += get_u64(get_part(class, "would_wait"), "sum_ns");
	}
	if (n && !get_true(a, "dry_run"))
		fprintf(out,
			"\n  In dry runs, %" PRIu64 " requests would have waited, %s in total.\n",
			n, text_ns(ns, t));
}

static bool has_device(const json_t *class)
{
	return get_u64(get_part(class, "device"), "count") || get_u64(class, "device_now");
}

static void device_row(const char *name, const json_t *class, FILE *out)
{
	char t[6][TEXT_AMOUNT_MAX];
	const json_t *d = get_part(class, "device");
	uint64_t n = get_u64(d, "count"), sum = get_u64(d, "sum_ns");
	fprintf(out, "  %-10s %9" PRIu64 " %6" PRIu64 " %9s %8s %8s %8s %8s %8s\n", name, n,
		get_u64(class, "device_now"), text_ns(sum, t[0]), text_ns(n ? sum / n : 0, t[1]),
		text_ns(get_u64(d, "p50_ns"), t[2]), text_ns(get_u64(d, "p90_ns"), t[3]),
		text_ns(get_u64(d, "p99_ns"), t[4]), text_ns(get_u64(d, "max_ns"), t[5]));
}

/* The time that requests spent in the simulated device, in addition to waiting for limits. */
static void device(const json_t *a, FILE *out)
{
	bool any = false;
	const char *name;
	json_t *class;
	json_object_foreach (get_part(a, "classes"), name, class)
		any |= has_device(class);
	if (!any)
		return;
	fprintf(out, "\n  %-10s %9s %6s %9s %8s %8s %8s %8s %8s\n", "IN DEVICE", "REQUESTS", "NOW",
		"TIME", "MEAN", "P50", "P90", "P99", "MAX");
	json_object_foreach (get_part(a, "classes"), name, class)
		if (has_device(class))
			device_row(name, class, out);
}

/* --- keys ----------------------------------------------------------------------------------- */

/* "uid 1000 alice", "process 17 dd (alice)", "cgroup /ci/job1 (alice)"; "gid 100 users", "all callers", "shared 3": what the
 * daemon knows of many users is the program and the user that waited last, which would mislead. */
static void key_who(const json_t *key, char *buf, size_t size)
{
	const char *kind = get_text(key, "kind"), *name = get_text(key, "name");
	const char *user = get_text(key, "user");
	char id[32];
	snprintf(id, sizeof(id), "%" PRIu64 " ", get_u64(key, "id"));
	if (strcmp(kind, "cgroup") == 0)
		id[0] = '\0';
	if (strcmp(kind, "none") == 0)
		snprintf(buf, size, "all callers");
	else if (strcmp(kind, "shared") == 0)
		snprintf(buf, size, "%s %s", kind, id);
	else if (!*user || strcmp(kind, "uid") == 0 || strcmp(kind, "gid") == 0)
		snprintf(buf, size, "%s %s%s", kind, id, name);
	else
		snprintf(buf, size, "%s %s%s (%s)", kind, id, name, user);
}

static void key_row(const json_t *a, const json_t *key, FILE *out)
{
	char who[64], limit[RENDER_NAME_MAX] = "", t[3][TEXT_AMOUNT_MAX], bytes[TEXT_AMOUNT_MAX];
	bool dry_run = get_true(a, "dry_run");
	const json_t *waited = get_part(key, "waits_for");
	if (!waited)
		waited = get_part(key, dry_run ? "would_limit" : "limit");
	if (waited)
		render_limit_name(a, waited, limit);
	key_who(key, who, sizeof(who));
	fprintf(out, "  %-32s %8s %8s %8" PRIu64 " %6" PRIu64 " %8s %8" PRIu64 " %9s  %s\n", who,
		text_ns(get_u64(key, dry_run ? "would_wait_ns" : "wait_ns"), t[0]),
		text_ns(get_u64(key, dry_run ? "max_would_wait_ns" : "max_wait_ns"), t[1]),
		get_u64(key, dry_run ? "would_wait_total" : "parked_total"),
		get_u64(key, "parked_now"), text_ns(get_u64(key, "oldest_ns"), t[2]),
		get_u64(key, "ops"), text_amount(get_u64(key, "bytes"), 1024, bytes), limit);
}

static void keys(const json_t *a, const char *list, const char *title, FILE *out)
{
	const json_t *key;
	size_t i;
	if (!json_array_size(get_part(a, list)))
		return;
	fprintf(out, "\n  %-32s %8s %8s %8s %6s %8s %8s %9s  %s\n", title, "WAIT", "MAX", "WAITED",
		"NOW", "OLDEST", "OPS", "BYTES", "FOR");
	json_array_foreach (get_part(a, list), i, key)
		key_row(a, key, out);
}

/* --- pools ---------------------------------------------------------------------------------- */

static void pool_limit(const char *name, const json_t *limit, FILE *out)
{
	char rate[TEXT_AMOUNT_MAX], granted[TEXT_AMOUNT_MAX], demand[TEXT_AMOUNT_MAX];
	double base = strcmp(get_text(limit, "unit"), "bytes") == 0 ? 1024 : 1000;
	fprintf(out, "  %-32s %8s %8s %8s\n", name,
		text_amount(get_real(limit, "rate"), base, rate),
		get_true(limit, "limited_here")
			? text_amount(get_real(limit, "granted"), base, granted)
			: "no limit",
		get_true(limit, "wants_all")
			? "all"
			: text_amount(get_real(limit, "demand"), base, demand));
}

#define MEMBERS_SHOWN 8

static void pool_members(const json_t *p, FILE *out)
{
	const json_t *list = get_part(p, "who"), *limits = get_part(p, "limits");
	char text[TEXT_AMOUNT_MAX];
	const json_t *m;
	json_t *share;
	const char *name;
	size_t i;
	if (get_true(p, "who_omitted"))
		fprintf(out, "  members are listed in pools of up to 64\n");
	json_array_foreach (list, i, m) {
		if (i == MEMBERS_SHOWN) {
			fprintf(out, "  and %zu members with smaller shares; --json lists them\n",
				json_array_size(list) - i);
			break;
		}
		fprintf(out, "  member %-25s weight %" PRIu64 ", %s ago", get_text(m, "host"),
			get_u64(m, "weight"), text_ns(get_u64(m, "age_ns"), text));
		json_object_foreach (get_part(m, "share"), name, share) {
			bool bytes = strcmp(get_text(get_part(limits, name), "unit"), "bytes") == 0;
			fprintf(out, ", %s %s", name,
				text_amount(json_real_value(share), bytes ? 1024 : 1000, text));
		}
		fputc('\n', out);
	}
}

static void pool(const json_t *p, FILE *out)
{
	char text[TEXT_AMOUNT_MAX];
	const char *name;
	json_t *limit;
	fprintf(out, "\npool %s at %s: %s, %" PRIu64 " member%s", get_text(p, "name"),
		get_text(p, "server"), get_text(p, "mode"), get_u64(p, "members"),
		get_u64(p, "members") == 1 ? "" : "s");
	if (json_object_get(p, "answer_age_ns"))
		fprintf(out, ", last answer %s ago", text_ns(get_u64(p, "answer_age_ns"), text));
	if (get_u64(p, "lost_ns"))
		fprintf(out, ", LOST for %s", text_ns(get_u64(p, "lost_ns"), text));
	if (*get_text(p, "error"))
		fprintf(out, ": %s", get_text(p, "error"));
	fprintf(out, "\n  %-32s %8s %8s %8s\n", "LIMIT", "POOL", "HERE", "WANTED");
	json_object_foreach (get_part(p, "limits"), name, limit)
		pool_limit(name, limit, out);
	pool_members(p, out);
}

static void pools(const json_t *a, FILE *out)
{
	const json_t *one;
	size_t i;
	json_array_foreach (get_part(a, "pools"), i, one)
		pool(one, out);
}

void render_stats_since(const json_t *a, const json_t *before, FILE *out)
{
	bool dry_run = get_true(a, "dry_run");
	if (!*get_text(a, "scope")) { /* a pool */
		pools(a, out);
		return;
	}
	head(a, out);
	if (!is_served(a))
		return;
	now(a, out);
	space_line(get_part(a, "space"), out);
	stuck(get_part(a, "in_source"), out);
	limits(a, out);
	classes(a, before, out);
	dry_waits(a, out);
	device(a, out);
	keys(a, "keys_by_wait", dry_run ? "WOULD WAIT MOST" : "WAITED MOST", out);
	keys(a, "keys_by_use", dry_run ? "MOVED MOST PAST A LIMIT" : "USED MOST WHILE WAITING",
	     out);
	pools(a, out);
}

void render_stats(const json_t *answer, FILE *out)
{
	render_stats_since(answer, NULL, out);
}
