/* SPDX-License-Identifier: MIT */
#include "ctl/render.h"

#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "ctl/users.h"

char *render_user(uint64_t uid, char buf[TEXT_AMOUNT_MAX])
{
	snprintf(buf, TEXT_AMOUNT_MAX, "%s", user_name(uid));
	return buf;
}

char *render_process(uint64_t pid, char buf[TEXT_AMOUNT_MAX])
{
	char path[40];
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/comm", pid);
	AUTO_FILE comm = fopen(path, "re");
	if (!comm || !fgets(buf, TEXT_AMOUNT_MAX, comm))
		snprintf(buf, TEXT_AMOUNT_MAX, "gone");
	buf[strcspn(buf, "\n")] = '\0';
	make_one_line(buf);
	return buf;
}

/* --- preparation ---------------------------------------------------------------------------- */

static void make_printable(json_t *json)
{
	const char *key;
	json_t *value;
	size_t i;
	if (json_is_string(json)) {
		AUTO_FREE char *text = strdup(json_string_value(json));
		if (!text)
			return;
		make_one_line(text);
		json_string_set_nocheck(json, text);
	}
	json_object_foreach (json, key, value)
		make_printable(value);
	json_array_foreach (json, i, value)
		make_printable(value);
}

static void name_key(json_t *key)
{
	const char *kind = get_text(key, "kind"), *name = NULL;
	uint64_t id = get_u64(key, "id");
	if (strcmp(kind, "uid") == 0) {
		const struct passwd *pw = getpwuid(id);
		name = pw ? pw->pw_name : "";
	} else if (strcmp(kind, "gid") == 0) {
		const struct group *gr = getgrgid(id);
		name = gr ? gr->gr_name : "";
	}
	if (name)
		json_object_set_new(key, "name", json_string(name));
	if (json_object_get(key, "uid")) {
		char user[TEXT_AMOUNT_MAX];
		json_object_set_new(key, "user",
				    json_string(render_user(get_u64(key, "uid"), user)));
	}
}

void render_prepare(json_t *answer, bool people)
{
	static const char *const lists[] = {"keys_by_wait", "keys_by_use"};
	json_t *key;
	size_t i;
	for (unsigned l = 0; l < ARRAY_SIZE(lists); l++)
		json_array_foreach (get_part(answer, lists[l]), i, key)
			name_key(key);
	json_object_del(answer, "ok");
	if (people)
		make_printable(answer);
}

/* --- limits --------------------------------------------------------------------------------- */

/* True: this is the scope that the answer is about, whose limits are printed without a prefix. */
static bool is_own(const json_t *answer, const char *scope, const char *of)
{
	const char *own = get_text(answer, "scope"), *name = get_text(answer, "name");
	const char *slash = strrchr(name, '/'); /* only the name of the mount may contain more */
	if (strcmp(scope, *own ? own : "mount") != 0) /* "" in a list of mounts */
		return false;
	return strcmp(scope, "class") != 0 || strcmp(of, slash ? slash + 1 : name) == 0;
}

char *render_limit_name(const json_t *answer, const json_t *limit, char buf[RENDER_NAME_MAX])
{
	const char *scope = get_text(limit, "scope"), *of = get_text(limit, "of");
	const char *name = get_text(limit, "name");
	bool class = strcmp(scope, "class") == 0 || strcmp(scope, "pool") == 0;
	if (is_own(answer, scope, of))
		snprintf(buf, RENDER_NAME_MAX, "%s", name);
	else
		snprintf(buf, RENDER_NAME_MAX, "%s%s%s.%s", scope, class ? ":" : "",
			 class ? of : "", name);
	return buf;
}

bool render_limits(const json_t *answer, const json_t *limits, const char *class, FILE *out)
{
	bool marked = false;
	const json_t *limit;
	size_t i;
	json_array_foreach (limits, i, limit) {
		bool worst = get_true(limit, "bottleneck");
		char name[RENDER_NAME_MAX];
		bool pool = strcmp(get_text(limit, "scope"), "pool") == 0;
		bool of_class = strcmp(get_text(limit, pool ? "joined_by" : "scope"), "class") == 0;
		const char *of = get_text(limit, pool ? "joined_by_name" : "of");
		if (class ? !of_class || strcmp(of, class) != 0 : of_class)
			continue;
		fprintf(out, " %s=%s%s",
			class && !pool ? get_text(limit, "name")
				       : render_limit_name(answer, limit, name),
			get_text(limit, "value"), worst ? "*" : "");
		marked |= worst;
	}
	return marked;
}

/* --- list ----------------------------------------------------------------------------------- */

void render_list_head(FILE *out)
{
	fprintf(out, "%-16s %-10s %-8s %-32s %-32s %s\n", "NAME", "STATE", "DAEMON", "MOUNTPOINT",
		"SOURCE", "LIMITS");
}

static void list_stuck(const json_t *mount, FILE *out)
{
	char age[TEXT_AMOUNT_MAX];
	const json_t *stuck = get_part(mount, "stuck");
	if (stuck)
		fprintf(out, " (%" PRIu64 " stuck in the source: %s, for %s)",
			get_u64(stuck, "requests"), get_text(stuck, "oldest_op"),
			text_ns(get_u64(stuck, "oldest_ns"), age));
}

/* Prints the first twelve digits of each ID, as container engines do. */
static void list_containers(const json_t *mount, FILE *out)
{
	const json_t *list = get_part(mount, "containers"), *id;
	size_t i;
	const char *before = json_array_size(list) > 1 ? " in containers " : " in container ";
	json_array_foreach (list, i, id) {
		fprintf(out, "%s%.12s", i ? ", " : before, json_string_value(id));
	}
}

static void list_row(const json_t *answer, const json_t *mount, const char *source, FILE *out)
{
	fprintf(out, "%-16s %-10s %-8" PRIu64 " %-32s %-32s", get_text(mount, "name"),
		get_text(mount, "state"), get_u64(answer, "pid"), get_text(mount, "mountpoint"),
		source);
}

static void list_reserves(const json_t *class, FILE *out)
{
	static const char *const names[] = {"reserve.bps", "reserve.iops"};
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = get_text(get_part(class, "options"), names[i]);
		if (*value)
			fprintf(out, " %s=%s", names[i], value);
	}
}

/* A row for each class of the mount. */
static bool list_classes(const json_t *answer, const json_t *mount, FILE *out)
{
	const json_t *class;
	bool marked = false;
	size_t i;
	json_array_foreach (get_part(mount, "classes"), i, class) {
		const char *name = get_text(class, "name");
		AUTO_FREE char *both = NULL;
		if (asprintf(&both, "%s/%s", get_text(mount, "name"), name) < 0)
			return marked;
		fprintf(out, "%-16s %-10s %-8s %-65s", both, "class", "",
			get_text(get_part(class, "options"), "match"));
		marked |= render_limits(answer, get_part(mount, "limits_met"), name, out);
		list_reserves(class, out);
		fputc('\n', out);
	}
	return marked;
}

static void list_space(const json_t *space, FILE *out)
{
	char used[TEXT_AMOUNT_MAX], size[TEXT_AMOUNT_MAX];
	if (!space)
		return;
	if (strcmp(get_text(space, "state"), "counting") == 0)
		fprintf(out, " (counting what the source holds: %" PRIu64 " files so far)",
			get_u64(space, "scanned"));
	if (get_u64(space, "size"))
		fprintf(out, " size=%s (%s used)", text_amount(get_u64(space, "size"), 1024, size),
			text_amount(get_u64(space, "used"), 1024, used));
	if (get_u64(space, "inodes"))
		fprintf(out, " inodes=%" PRIu64 " (%" PRIu64 " used)", get_u64(space, "inodes"),
			get_u64(space, "inodes_used"));
}

bool render_list(const json_t *answer, FILE *out)
{
	bool marked = false;
	const json_t *mount;
	size_t i;
	json_array_foreach (get_part(answer, "mounts"), i, mount) {
		list_row(answer, mount, get_text(mount, "source"), out);
		marked |= render_limits(answer, get_part(mount, "limits_met"), NULL, out);
		list_containers(mount, out);
		list_space(get_part(mount, "space"), out);
		list_stuck(mount, out);
		fputc('\n', out);
		marked |= list_classes(answer, mount, out);
	}
	json_array_foreach (get_part(answer, "endings"), i, mount) {
		list_row(answer, mount, "-", out);
		list_stuck(mount, out);
		fputc('\n', out);
	}
	return marked;
}

void render_list_foot(FILE *out)
{
	fprintf(out, "* requests wait for this limit most\n");
}

/* --- show ----------------------------------------------------------------------------------- */

static void show_option(const char *name, const json_t *option, FILE *out)
{
	const char *value = get_text(option, "value");
	bool def = get_true(option, "default");
	if (def && (!*value || strncmp(name, "each.", 5) == 0))
		return; /* there are many "each." limits: omit those that are not set */
	fprintf(out, "%-18s %-24s%s%s\n", name, value, def ? " default" : "",
		get_true(option, "live") ? "" : " (fixed)");
}

static void show_limits(const json_t *answer, FILE *out)
{
	const json_t *limits = get_part(answer, "limits_met"), *limit;
	size_t i;
	if (json_array_size(limits))
		fprintf(out, "\n# limits that apply here, of all scopes\n");
	json_array_foreach (limits, i, limit) {
		char name[RENDER_NAME_MAX];
		fprintf(out, "%-18s %s%s\n", render_limit_name(answer, limit, name),
			get_text(limit, "value"),
			get_true(limit, "bottleneck") ? "  <- requests wait for this one" : "");
	}
}

static void show_advice(const json_t *answer, FILE *out)
{
	const json_t *line;
	size_t i;
	json_array_foreach (get_part(answer, "advice"), i, line)
		fprintf(out, "%s# warning: %s\n", i ? "" : "\n", json_string_value(line));
}

void render_show(const json_t *answer, FILE *out)
{
	const char *scope = get_text(answer, "scope"), *name;
	bool global = strcmp(scope, "global") == 0;
	json_t *option;
	fprintf(out, "# %s%s%s", scope, global ? "" : " ", global ? "" : get_text(answer, "name"));
	if (*get_text(answer, "state"))
		fprintf(out, " (%s), source %s", get_text(answer, "state"),
			get_text(answer, "source"));
	fprintf(out, "%s\n", get_true(answer, "paused") ? ", paused" : "");
	if (*get_text(answer, "transport_reason"))
		fprintf(out, "# no io_uring, requests come by /dev/fuse: %s\n",
			get_text(answer, "transport_reason"));
	else if (strcmp(get_text(answer, "transport"), "uring") == 0)
		fprintf(out, "# requests come by io_uring\n");
	json_object_foreach (get_part(answer, "options"), name, option)
		show_option(name, option, out);
	if (*get_text(answer, "cgroups"))
		fprintf(out, "\n# cgroups here: %s\n", get_text(answer, "cgroups"));
	show_limits(answer, out);
	show_advice(answer, out);
}
