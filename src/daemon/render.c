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

/* --- list ----------------------------------------------------------------------------------- */

void render_list_head(FILE *out)
{
	fprintf(out, "%-16s %-10s %-8s %-32s %-32s %s\n", "NAME", "STATE", "DAEMON", "MOUNTPOINT",
		"SOURCE", "LIMITS");
}

void render_list(const struct records *r, FILE *out)
{
	for (unsigned i = 0; records_have(r, "mounts.%u.name", i); i++) {
		AUTO_FREE char *name = records_line(r, "mounts.%u.name", i);
		AUTO_FREE char *state = records_line(r, "mounts.%u.state", i);
		AUTO_FREE char *at = records_line(r, "mounts.%u.mountpoint", i);
		AUTO_FREE char *source = records_line(r, "mounts.%u.source", i);
		fprintf(out, "%-16s %-10s %-8" PRIu64 " %-32s %-32s", name, state,
			records_u64(r, "pid"), at, source);
		for (unsigned k = 0; records_have(r, "mounts.%u.limits.%u.name", i, k); k++) {
			AUTO_FREE char *limit = records_line(r, "mounts.%u.limits.%u.name", i, k);
			AUTO_FREE char *rate = records_line(r, "mounts.%u.limits.%u.rate", i, k);
			fprintf(out, " %s=%s", limit, rate);
		}
		fputc('\n', out);
	}
}

/* --- show ----------------------------------------------------------------------------------- */

static void show_option(const struct records *r, const char *path, FILE *out)
{
	const char *name = path + strlen("options.");
	int n = strcspn(name, ".");
	if (strcmp(name + n, ".value") != 0)
		return;
	AUTO_FREE char *value = records_line(r, "%s", path);
	bool def = records_true(r, "options.%.*s.default", n, name);
	bool live = records_true(r, "options.%.*s.live", n, name);
	if (def && !*value)
		return;
	fprintf(out, "%-18.*s %-24s%s%s\n", n, name, value, def ? " default" : "",
		live ? "" : " (fixed)");
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
