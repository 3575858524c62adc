/* SPDX-License-Identifier: MIT */
#include "ctl/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "ctl/metrics_format.h"
#include "ctl/rates.h"

/* --- counters of mounts and classes, by operation ----------------------------------------------- */

static bool is(const struct snap_scope *s, const char *scope)
{
	return strcmp(s->scope, scope) == 0;
}

struct counter {
	const char *name, *help;
	const char *label, *value; /* a second label besides "op", or NULL */
	size_t offset;		   /* in struct snap_op */
};

#define OP_FIELD(field) offsetof(struct snap_op, field)

/* Rows of the same name are adjacent, and only the first of them has a help text. */
static const struct counter mount_counters[] = {
	{"ratefs_operations_total", "Requests that were admitted.", NULL, NULL, OP_FIELD(ops)},
	{"ratefs_bytes_total", "Bytes that were admitted, less those that were not transferred.",
	 NULL, NULL, OP_FIELD(bytes)},
	{"ratefs_waited_total", "Requests that had to wait for a limit.", NULL, NULL,
	 OP_FIELD(parked_total)},
	{"ratefs_refused_total", "Requests that were not admitted.", "reason", "would_block",
	 OP_FIELD(would_block)},
	{"ratefs_refused_total", NULL, "reason", "full", OP_FIELD(full)},
	{"ratefs_refused_total", NULL, "reason", "no_room", OP_FIELD(no_room)},
	{"ratefs_refused_total", NULL, "reason", "too_many_open", OP_FIELD(too_many_open)},
	{"ratefs_refused_total", NULL, "reason", "no_space", OP_FIELD(no_space)},
	{"ratefs_refused_total", NULL, "reason", "timed_out", OP_FIELD(timed_out)},
	{"ratefs_refused_total", NULL, "reason", "cancelled", OP_FIELD(cancelled)},
	{"ratefs_refused_total", NULL, "reason", "misconfigured", OP_FIELD(misconfigured)},
	{"ratefs_outcomes_total", "How admitted requests ended.", "outcome", "ok", OP_FIELD(ok)},
	{"ratefs_outcomes_total", NULL, "outcome", "error", OP_FIELD(errors)},
	{"ratefs_outcomes_total", NULL, "outcome", "failed", OP_FIELD(failed)},
	{"ratefs_outcomes_total", NULL, "outcome", "aborted", OP_FIELD(aborted)},
};

static const struct counter class_counters[] = {
	{"ratefs_class_operations_total",
	 "Requests of a class and of the classes in it that were admitted.", NULL, NULL,
	 OP_FIELD(ops)},
	{"ratefs_class_bytes_total",
	 "Bytes of a class and of the classes in it that were admitted.", NULL, NULL,
	 OP_FIELD(bytes)},
	{"ratefs_class_waited_total", "Requests of a class that had to wait for a limit.", NULL,
	 NULL, OP_FIELD(parked_total)},
};

/* "data/backup" is the class backup of the mount data. */
static void split(const struct snap_scope *s, char *mount, size_t size, const char **class)
{
	const char *slash = is(s, "class") ? strrchr(s->name, '/') : NULL;
	snprintf(mount, size, "%.*s", slash ? (int)(slash - s->name) : (int)strlen(s->name),
		 s->name);
	*class = slash ? slash + 1 : "";
}

static void put_counter(const struct snapshot *s, const struct snap_scope *c,
			const struct counter *row, FILE *out)
{
	char mount[512];
	const char *class;
	bool of_class = is(c, "class");
	split(c, mount, sizeof(mount), &class);
	for (unsigned i = 0; i < c->ops; i++) {
		struct label label[LABELS_MAX] = {
			{"daemon", snapshot_daemon_name(s, c->daemon)},
			{"mount", mount},
			{"op", c->op[i].name},
		};
		if (of_class)
			label[3] = (struct label){"class", class};
		if (row->label)
			label[3 + of_class] = (struct label){row->label, row->value};
		metric_count(out, row->name, label,
			     *(const uint64_t *)((const char *)&c->op[i] + row->offset));
	}
}

static void put_counters(const struct snapshot *s, const char *scope, const struct counter *row,
			 unsigned rows, FILE *out)
{
	for (unsigned r = 0; r < rows; r++) {
		if (row[r].help)
			metric_head(out, row[r].name, "counter", row[r].help);
		for (unsigned i = 0; i < s->scopes; i++)
			if (is(&s->scope[i], scope))
				put_counter(s, &s->scope[i], &row[r], out);
	}
}

/* --- gauges of mounts --------------------------------------------------------------------------- */

#define SCOPE_FIELD(field) offsetof(struct snap_scope, field)

struct gauge {
	const char *name, *help;
	size_t offset; /* in struct snap_scope */
};

static const struct gauge gauges[] = {
	{"ratefs_mounted", "1: the mount is mounted.", SCOPE_FIELD(mounted)},
	{"ratefs_paused", "1: a pause of the mount or of a wider scope holds all requests.",
	 SCOPE_FIELD(paused)},
	{"ratefs_dry_run", "1: the limits of the mount only count what would have waited.",
	 SCOPE_FIELD(dry_run)},
	{"ratefs_parked", "Requests that wait for a limit now.", SCOPE_FIELD(parked_now)},
	{"ratefs_parked_bytes", "Memory that waiting requests use.", SCOPE_FIELD(parked_bytes_now)},
	{"ratefs_in_flight", "Requests that were admitted and are not answered yet.",
	 SCOPE_FIELD(in_flight)},
	{"ratefs_open_handles", "Open files and directories.", SCOPE_FIELD(open)},
	{"ratefs_keys", "Keys (processes, users ... that compete for the limits) that are tracked.",
	 SCOPE_FIELD(keys_now)},
	{"ratefs_bypassing_handles",
	 "Open files whose data bypasses the limits of the mount until they are closed.",
	 SCOPE_FIELD(bypassing_handles)},
	{"ratefs_bypassing_maps",
	 "Open files that bypass the limits of the mount through memory mappings only.",
	 SCOPE_FIELD(bypassing_maps)},
	{"ratefs_stuck_requests", "Requests that the source has not answered for a long time.",
	 SCOPE_FIELD(stuck)},
	{"ratefs_device_requests", "Requests in the simulated device now.",
	 SCOPE_FIELD(device_now)},
};

/* For mounts whose space is counted. */
static const struct gauge space_gauges[] = {
	{"ratefs_space_used_bytes", "What the source holds.", SCOPE_FIELD(space_used)},
	{"ratefs_space_limit_bytes", "What it may hold; 0: no limit.", SCOPE_FIELD(space_limit)},
	{"ratefs_space_inodes_used", "Files and directories in the source.",
	 SCOPE_FIELD(inodes_used)},
	{"ratefs_space_inodes_limit", "How many there may be; 0: no limit.",
	 SCOPE_FIELD(inodes_limit)},
	{"ratefs_space_refused_total", "Requests that found no room.", SCOPE_FIELD(space_refused)},
};

static void put_gauge(const struct snapshot *s, const struct gauge *g, bool of_space, FILE *out)
{
	bool counter = g->offset == SCOPE_FIELD(space_refused);
	metric_head(out, g->name, counter ? "counter" : "gauge", g->help);
	for (unsigned i = 0; i < s->scopes; i++) {
		const struct snap_scope *c = &s->scope[i];
		if (is(c, "mount") && (!of_space || c->counts_space))
			metric_count(out, g->name,
				     LABELS({"daemon", snapshot_daemon_name(s, c->daemon)},
					    {"mount", c->name}),
				     *(const uint64_t *)((const char *)c + g->offset));
	}
}

static void put_gauges(const struct snapshot *s, FILE *out)
{
	for (unsigned g = 0; g < ARRAY_SIZE(gauges); g++)
		put_gauge(s, &gauges[g], false, out);
	for (unsigned g = 0; g < ARRAY_SIZE(space_gauges); g++)
		put_gauge(s, &space_gauges[g], true, out);
}

static void put_oldest(const struct snapshot *s, FILE *out)
{
	static const char name[] = "ratefs_oldest_wait_seconds";
	metric_head(
		out, name, "gauge",
		"How long the oldest request that waits for a limit has waited; 0: none waits.");
	for (unsigned i = 0; i < s->scopes; i++) {
		const struct snap_scope *c = &s->scope[i];
		if (is(c, "mount"))
			metric_real(out, name,
				    LABELS({"daemon", snapshot_daemon_name(s, c->daemon)},
					   {"mount", c->name}),
				    (double)c->oldest_wait_ns / 1e9);
	}
}

static void put_mounts(const struct snapshot *s, FILE *out)
{
	metric_head(out, "ratefs_mount_info", "gauge",
		    "Always 1; mountpoint and source of a mount.");
	for (unsigned i = 0; i < s->scopes; i++) {
		const struct snap_scope *c = &s->scope[i];
		if (is(c, "mount"))
			metric_count(out, "ratefs_mount_info",
				     LABELS({"daemon", snapshot_daemon_name(s, c->daemon)},
					    {"mount", c->name}, {"mountpoint", c->mountpoint},
					    {"source", c->source}),
				     1);
	}
}

/* --- limits -------------------------------------------------------------------------------------- */

enum { OF_BYTES = 1, OF_OPS = 2, OF_PERMITS = 4, OF_EACH = 8 };

static double rate(const struct snap_limit *l)
{
	return l->per_sec;
}
static double capacity(const struct snap_limit *l)
{
	return l->capacity;
}
static double level(const struct snap_limit *l)
{
	return l->level;
}
static double permits(const struct snap_limit *l)
{
	return (double)l->permits;
}
static double used_permits(const struct snap_limit *l)
{
	return (double)l->used;
}
static double blocking(const struct snap_limit *l)
{
	return (double)l->blocking_ns / 1e9;
}
static double would_wait(const struct snap_limit *l)
{
	return (double)l->would_wait;
}

static const struct limit_figure {
	const char *name, *type, *help;
	unsigned kinds; /* OF_* bits; rates for each key need OF_EACH as well */
	double (*of)(const struct snap_limit *l);
} limit_figures[] = {
	{"ratefs_limit_bytes_per_second", "gauge", "Rate of a limit in bytes.", OF_BYTES | OF_EACH,
	 rate},
	{"ratefs_limit_operations_per_second", "gauge", "Rate of a limit in operations.",
	 OF_OPS | OF_EACH, rate},
	{"ratefs_limit_capacity_bytes", "gauge",
	 "Most tokens that a limit in bytes can accumulate.", OF_BYTES | OF_EACH, capacity},
	{"ratefs_limit_capacity_operations", "gauge",
	 "Most tokens that a limit in operations can accumulate.", OF_OPS | OF_EACH, capacity},
	{"ratefs_limit_level_bytes", "gauge", "Tokens now; less than 0: debt.", OF_BYTES, level},
	{"ratefs_limit_level_operations", "gauge", "Tokens now; less than 0: debt.", OF_OPS, level},
	{"ratefs_limit_permits", "gauge", "Most that max_inflight or max_open allows.", OF_PERMITS,
	 permits},
	{"ratefs_limit_permits_used", "gauge", "Permits that are in use now.", OF_PERMITS,
	 used_permits},
	{"ratefs_limit_blocking_seconds_total", "counter",
	 "Time during which requests waited for the limit.",
	 OF_BYTES | OF_OPS | OF_PERMITS | OF_EACH, blocking},
	{"ratefs_limit_would_wait_total", "counter",
	 "Requests that would have waited for the limit, in a dry run.",
	 OF_BYTES | OF_OPS | OF_PERMITS | OF_EACH, would_wait},
};

static bool has_figure(const struct snap_limit *l, unsigned kinds)
{
	unsigned kind = !l->rate ? OF_PERMITS : l->bytes ? OF_BYTES : OF_OPS;
	return (kinds & kind) && (!l->each || (kinds & OF_EACH));
}

static void put_limits(const struct snapshot *s, FILE *out)
{
	unsigned n;
	AUTO_FREE struct limit_rates *list = limit_rates(s, NULL, NULL, 0, &n);
	for (unsigned f = 0; list && f < ARRAY_SIZE(limit_figures); f++) {
		const struct limit_figure *fig = &limit_figures[f];
		metric_head(out, fig->name, fig->type, fig->help);
		for (unsigned i = 0; i < n; i++) {
			char target[RATES_TARGET_MAX];
			const struct snap_limit *l = list[i].limit;
			if (!has_figure(l, fig->kinds))
				continue;
			metric_real(out, fig->name,
				    LABELS({"daemon",
					    snapshot_daemon_name(s, list[i].seen_from->daemon)},
					   {"scope", l->scope},
					   {"target", limit_target(&list[i], target)},
					   {"limit", l->name}),
				    fig->of(l));
		}
	}
}

/* --- waiting ------------------------------------------------------------------------------------- */

static void put_histogram(const char *name, const struct snap_scope *c, const struct snap_wait *w,
			  const char *daemon, FILE *out)
{
	uint64_t sum = 0;
	char le[32];
	struct label label[LABELS_MAX] = {
		{"daemon", daemon}, {"mount", c->name}, {"class", w->class}, {"limit", w->limit}};
	for (unsigned i = 0; i <= c->bounds; i++) {
		sum += w->count[i];
		if (i < c->bounds)
			snprintf(le, sizeof(le), "%.9g", (double)c->bound_ns[i] / 1e9);
		label[4] = (struct label){"le", i < c->bounds ? le : "+Inf"};
		metric_name(out, name, "_bucket", label);
		fprintf(out, "%" PRIu64 "\n", sum);
	}
	label[4] = (struct label){0};
	metric_name(out, name, "_sum", label);
	fprintf(out, "%.9f\n", (double)w->sum_ns / 1e9);
	metric_name(out, name, "_count", label);
	fprintf(out, "%" PRIu64 "\n", sum);
}

static void put_waits(const struct snapshot *s, FILE *out)
{
	static const char wait[] = "ratefs_wait_seconds", would[] = "ratefs_would_wait_seconds";
	metric_head(out, wait, "histogram",
		    "How long requests waited, by the limit that they waited for.");
	for (unsigned i = 0; i < s->scopes; i++) {
		const struct snap_scope *c = &s->scope[i];
		for (unsigned w = 0; is(c, "mount") && w < c->waits; w++)
			put_histogram(wait, c, &c->wait[w], snapshot_daemon_name(s, c->daemon),
				      out);
	}
	metric_head(out, would, "histogram",
		    "How long requests would have waited in dry runs, by limit.");
	for (unsigned i = 0; i < s->scopes; i++) {
		const struct snap_scope *c = &s->scope[i];
		for (unsigned w = 0; is(c, "mount") && w < c->would_waits; w++)
			put_histogram(would, c, &c->would_wait[w],
				      snapshot_daemon_name(s, c->daemon), out);
	}
}

/* --- users --------------------------------------------------------------------------------------- */

struct user {
	const struct snap_key *key; /* the first of its keys */
	uint64_t wait_ns, parked, bytes;
};

static int by_user(const void *a, const void *b)
{
	const struct user *x = a, *y = b;
	return snapshot_compare_users(x->key, y->key);
}

static int by_wait(const void *a, const void *b)
{
	const struct user *x = a, *y = b;
	if (x->wait_ns != y->wait_ns)
		return x->wait_ns > y->wait_ns ? -1 : 1;
	return by_user(a, b);
}

/* The users of all keys of a mount, longest wait first; to be freed. */
static struct user *users_of(const struct snap_scope *c, unsigned *n)
{
	struct user *u = calloc(c->keys + 1, sizeof(*u));
	*n = 0;
	if (!u)
		return NULL;
	for (unsigned i = 0; i < c->keys; i++)
		u[i] = (struct user){&c->key[i], c->key[i].wait_ns, c->key[i].parked_now,
				     c->key[i].bytes};
	qsort(u, c->keys, sizeof(*u), by_user);
	for (unsigned i = 0; i < c->keys; i++) {
		if (*n && by_user(&u[*n - 1], &u[i]) == 0) {
			u[*n - 1].wait_ns += u[i].wait_ns;
			u[*n - 1].parked += u[i].parked;
			u[*n - 1].bytes += u[i].bytes;
		} else {
			u[(*n)++] = u[i];
		}
	}
	qsort(u, *n, sizeof(*u), by_wait);
	return u;
}

static const struct user_figure {
	const char *name, *help;
	size_t offset;
	double unit;
} user_figures[] = {
	{"ratefs_top_user_wait_seconds", "Time that requests of the user have waited.",
	 offsetof(struct user, wait_ns), 1e9},
	{"ratefs_top_user_parked", "Requests of the user that wait now.",
	 offsetof(struct user, parked), 1},
	{"ratefs_top_user_waited_bytes", "Bytes of requests of the user that had waited.",
	 offsetof(struct user, bytes), 1},
};

static void put_users(const struct snapshot *s, const struct metrics_options *o, FILE *out)
{
	for (unsigned f = 0; o->users && f < ARRAY_SIZE(user_figures); f++) {
		const struct user_figure *fig = &user_figures[f];
		metric_head(out, fig->name, "gauge", fig->help);
		for (unsigned i = 0; i < s->scopes; i++) {
			const struct snap_scope *c = &s->scope[i];
			unsigned n = 0;
			AUTO_FREE struct user *u = is(c, "mount") ? users_of(c, &n) : NULL;
			char name[SNAP_USER_MAX];
			for (unsigned k = 0; k < n && k < o->users; k++)
				metric_real(out, fig->name,
					    LABELS({"daemon", snapshot_daemon_name(s, c->daemon)},
						   {"mount", c->name},
						   {"user", snapshot_key_user(u[k].key,
									      o->user_name, name)}),
					    (double)*(const uint64_t *)((const char *)&u[k] +
									fig->offset) /
						    fig->unit);
		}
	}
}

/* --- the whole ----------------------------------------------------------------------------------- */

void metrics_write(const struct snapshot *s, const struct metrics_options *o, FILE *out)
{
	metric_head(out, "ratefs_build_info", "gauge", "Always 1; the version of ratefs.");
	metric_count(out, "ratefs_build_info", LABELS({"version", o->version}), 1);
	metric_head(out, "ratefs_daemons", "gauge", "Daemons that answered.");
	metric_count(out, "ratefs_daemons", LABELS({NULL, NULL}), s->daemons);
	metric_head(out, "ratefs_daemons_failed", "gauge", "Daemons that did not answer.");
	metric_count(out, "ratefs_daemons_failed", LABELS({NULL, NULL}), s->daemons_failed);
	put_mounts(s, out);
	put_gauges(s, out);
	put_oldest(s, out);
	put_counters(s, "mount", mount_counters, ARRAY_SIZE(mount_counters), out);
	put_counters(s, "class", class_counters, ARRAY_SIZE(class_counters), out);
	put_limits(s, out);
	put_waits(s, out);
	metrics_write_pools(s, out);
	put_users(s, o, out);
}
