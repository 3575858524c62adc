/* SPDX-License-Identifier: MIT */
#include "daemon/render.h"

#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

char *render_amount(double n, double base, char buf[RENDER_MAX])
{
	static const char unit[] = " kMGTPE";
	unsigned u = 0;
	double size = n < 0 ? -n : n;
	while (size >= base && unit[u + 1]) {
		size /= base;
		n /= base;
		u++;
	}
	const char suffix[2] = {base == 1024 && u == 1 ? 'K' : u ? unit[u] : '\0', '\0'};
	snprintf(buf, RENDER_MAX, "%.*f%s", u && size < 100 ? 1 : 0, n, suffix);
	return buf;
}

char *render_ns(uint64_t ns, char buf[RENDER_MAX])
{
	if (ns == 0)
		snprintf(buf, RENDER_MAX, "-");
	else if (ns < 1000000)
		snprintf(buf, RENDER_MAX, "%.0fus", ns / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, RENDER_MAX, "%.3gms", ns / 1e6);
	else
		snprintf(buf, RENDER_MAX, ns < 100000000000 ? "%.3gs" : "%.0fs", ns / 1e9);
	return buf;
}

char *render_user(uint64_t uid, char buf[RENDER_MAX])
{
	const struct passwd *pw = getpwuid(uid);
	if (pw)
		snprintf(buf, RENDER_MAX, "%s", pw->pw_name);
	else
		snprintf(buf, RENDER_MAX, "%" PRIu64, uid);
	return buf;
}

char *render_process(uint64_t pid, char buf[RENDER_MAX])
{
	char path[40];
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/comm", pid);
	AUTO_FILE comm = fopen(path, "re");
	if (!comm || !fgets(buf, RENDER_MAX, comm))
		snprintf(buf, RENDER_MAX, "gone");
	buf[strcspn(buf, "\n")] = '\0';
	make_one_line(buf);
	return buf;
}

/* --- list ----------------------------------------------------------------------------------- */

void render_list_head(FILE *out)
{
	fprintf(out, "%-16s %-10s %-8s %-32s %-32s %s\n", "NAME", "STATE", "DAEMON", "MOUNTPOINT",
		"SOURCE", "LIMITS");
}

static void list_stuck(const struct records *r, const char *list, unsigned i, FILE *out)
{
	char age[RENDER_MAX];
	AUTO_FREE char *op = records_line(r, "%s.%u.stuck.oldest_op", list, i);
	uint64_t n = records_u64(r, "%s.%u.stuck.requests", list, i);
	if (n)
		fprintf(out, " (%" PRIu64 " stuck in the source: %s, for %s)", n, op,
			render_ns(records_u64(r, "%s.%u.stuck.oldest_ns", list, i), age));
}

static void list_space(const struct records *r, unsigned i, FILE *out)
{
	char used[RENDER_MAX], size[RENDER_MAX];
	AUTO_FREE char *phase = records_line(r, "mounts.%u.space.state", i);
	if (strcmp(phase, "counting") == 0)
		fprintf(out, " (counting what the source holds: %" PRIu64 " files so far)",
			records_u64(r, "mounts.%u.space.scanned", i));
	if (records_have(r, "mounts.%u.space.size", i))
		fprintf(out, " size=%s (%s used)",
			render_amount(records_u64(r, "mounts.%u.space.size", i), 1024, size),
			render_amount(records_u64(r, "mounts.%u.space.used", i), 1024, used));
	if (records_have(r, "mounts.%u.space.inodes", i))
		fprintf(out, " inodes=%" PRIu64 " (%" PRIu64 " used)",
			records_u64(r, "mounts.%u.space.inodes", i),
			records_u64(r, "mounts.%u.space.inodes_used", i));
}

static void list_endings(const struct records *r, FILE *out)
{
	for (unsigned i = 0; records_have(r, "endings.%u.name", i); i++) {
		AUTO_FREE char *name = records_line(r, "endings.%u.name", i);
		AUTO_FREE char *state = records_line(r, "endings.%u.state", i);
		AUTO_FREE char *at = records_line(r, "endings.%u.mountpoint", i);
		fprintf(out, "%-16s %-10s %-8" PRIu64 " %-32s %-32s", name, state,
			records_u64(r, "pid"), at, "-");
		list_stuck(r, "endings", i, out);
		fputc('\n', out);
	}
}

/* Of whom this is a view: the narrowest scope that needs no name. */
static bool is_own(const struct records *r, const char *scope, const char *of)
{
	AUTO_FREE char *own = records_line(r, "scope"), *name = records_line(r, "name");
	const char *slash = strchr(name, '/');
	if (strcmp(scope, *own ? own : "mount") != 0) /* "" in a list of mounts */
		return false;
	return strcmp(scope, "class") != 0 || strcmp(of, slash ? slash + 1 : name) == 0;
}

char *render_limit_name(const struct records *r, const char *path, unsigned i,
			char buf[RENDER_NAME_MAX])
{
	AUTO_FREE char *scope = records_line(r, "%s.%u.scope", path, i);
	AUTO_FREE char *of = records_line(r, "%s.%u.of", path, i);
	AUTO_FREE char *name = records_line(r, "%s.%u.name", path, i);
	bool class = strcmp(scope, "class") == 0;
	if (is_own(r, scope, of))
		snprintf(buf, RENDER_NAME_MAX, "%s", name);
	else
		snprintf(buf, RENDER_NAME_MAX, "%s%s%s.%s", scope, class ? ":" : "",
			 class ? of : "", name);
	return buf;
}

bool render_limits(const struct records *r, const char *path, const char *class, FILE *out)
{
	bool marked = false;
	for (unsigned k = 0; records_have(r, "%s.%u.name", path, k); k++) {
		AUTO_FREE char *scope = records_line(r, "%s.%u.scope", path, k);
		AUTO_FREE char *of = records_line(r, "%s.%u.of", path, k);
		AUTO_FREE char *option = records_line(r, "%s.%u.name", path, k);
		AUTO_FREE char *value = records_line(r, "%s.%u.value", path, k);
		bool worst = records_true(r, "%s.%u.bottleneck", path, k);
		char name[RENDER_NAME_MAX];
		bool of_class = strcmp(scope, "class") == 0;
		if (class ? !of_class || strcmp(of, class) != 0 : of_class)
			continue;
		fprintf(out, " %s=%s%s", class ? option : render_limit_name(r, path, k, name),
			value, worst ? "*" : "");
		marked |= worst;
	}
	return marked;
}

/* A row for each class of the i-th mount. */
static bool list_classes(const struct records *r, unsigned i, const char *path, FILE *out)
{
	AUTO_FREE char *mount = records_line(r, "mounts.%u.name", i);
	bool marked = false;
	for (unsigned k = 0; records_have(r, "mounts.%u.classes.%u.name", i, k); k++) {
		AUTO_FREE char *class = records_line(r, "mounts.%u.classes.%u.name", i, k);
		AUTO_FREE char *match = records_line(r, "mounts.%u.classes.%u.options.match", i, k);
		AUTO_FREE char *name = NULL;
		if (asprintf(&name, "%s/%s", mount, class) < 0)
			return marked;
		fprintf(out, "%-16s %-10s %-8s %-65s", name, "class", "", match);
		marked |= render_limits(r, path, class, out);
		fputc('\n', out);
	}
	return marked;
}

bool render_list(const struct records *r, FILE *out)
{
	bool marked = false;
	for (unsigned i = 0; records_have(r, "mounts.%u.name", i); i++) {
		AUTO_FREE char *name = records_line(r, "mounts.%u.name", i);
		AUTO_FREE char *state = records_line(r, "mounts.%u.state", i);
		AUTO_FREE char *at = records_line(r, "mounts.%u.mountpoint", i);
		AUTO_FREE char *source = records_line(r, "mounts.%u.source", i);
		fprintf(out, "%-16s %-10s %-8" PRIu64 " %-32s %-32s", name, state,
			records_u64(r, "pid"), at, source);
		char path[40];
		snprintf(path, sizeof(path), "mounts.%u.limits_met", i);
		marked |= render_limits(r, path, NULL, out);
		list_space(r, i, out);
		list_stuck(r, "mounts", i, out);
		fputc('\n', out);
		marked |= list_classes(r, i, path, out);
	}
	list_endings(r, out);
	return marked;
}

void render_list_foot(FILE *out)
{
	fprintf(out, "* requests wait for this limit most\n");
}

/* --- show ----------------------------------------------------------------------------------- */

static void show_option(const struct records *r, const char *path, FILE *out)
{
	const char *name = path + strlen("options.");
	const char *dot = strrchr(name, '.'); /* "each.bps.value" */
	int n = dot ? (int)(dot - name) : 0;
	if (!dot || strcmp(dot, ".value") != 0)
		return;
	AUTO_FREE char *value = records_line(r, "%s", path);
	bool def = records_true(r, "options.%.*s.default", n, name);
	bool live = records_true(r, "options.%.*s.live", n, name);
	if (def && (!*value || strncmp(name, "each.", 5) == 0))
		return; /* limits for each that nobody has set: too many to be read */
	fprintf(out, "%-18.*s %-24s%s%s\n", n, name, value, def ? " default" : "",
		live ? "" : " (fixed)");
}

static void show_limits(const struct records *r, FILE *out)
{
	if (records_have(r, "limits_met.0.name"))
		fprintf(out, "\n# every limit that requests here meet, of all scopes\n");
	for (unsigned i = 0; records_have(r, "limits_met.%u.name", i); i++) {
		AUTO_FREE char *value = records_line(r, "limits_met.%u.value", i);
		char name[RENDER_NAME_MAX];
		fprintf(out, "%-18s %s%s\n", render_limit_name(r, "limits_met", i, name), value,
			records_true(r, "limits_met.%u.bottleneck", i)
				? "  <- requests wait for this one"
				: "");
	}
}

void render_show(const struct records *r, FILE *out)
{
	AUTO_FREE char *scope = records_line(r, "scope"), *name = records_line(r, "name");
	AUTO_FREE char *source = records_line(r, "source"), *state = records_line(r, "state");
	fprintf(out, "# %s%s%s", scope, strcmp(scope, "global") == 0 ? "" : " ",
		strcmp(scope, "global") == 0 ? "" : name);
	if (*state)
		fprintf(out, " (%s), source %s", state, source);
	fprintf(out, "%s\n", records_true(r, "paused") ? ", paused" : "");
	for (unsigned i = 0; i < r->n; i++)
		if (strncmp(r->record[i].path, "options.", 8) == 0)
			show_option(r, r->record[i].path, out);
	show_limits(r, out);
}

/* --- names ---------------------------------------------------------------------------------- */

static void name_key(struct records *r, const char *list, unsigned i)
{
	AUTO_FREE char *kind = records_line(r, "%s.%u.kind", list, i);
	uint64_t id = records_u64(r, "%s.%u.id", list, i);
	if (strcmp(kind, "uid") == 0) {
		const struct passwd *pw = getpwuid(id);
		records_set_text(r, pw ? pw->pw_name : "", "%s.%u.name", list, i);
	} else if (strcmp(kind, "gid") == 0) {
		const struct group *gr = getgrgid(id);
		records_set_text(r, gr ? gr->gr_name : "", "%s.%u.name", list, i);
	}
}

void render_names(struct records *r)
{
	static const char *const lists[] = {"keys_by_wait", "keys_by_use"};
	for (unsigned l = 0; l < ARRAY_SIZE(lists); l++)
		for (unsigned i = 0; records_have(r, "%s.%u.kind", lists[l], i); i++)
			name_key(r, lists[l], i);
}
