/* SPDX-License-Identifier: MIT */
/* Messages for people after a change. */
#include <inttypes.h>
#include <string.h>

#include "ctl/render.h"

/* "process 154 (sleep, user root, 2 files)" */
static void opener(const json_t *who, bool first, FILE *out)
{
	uint64_t pid = get_u64(who, "pid"), n = get_u64(who, "handles");
	char user[TEXT_AMOUNT_MAX], comm[TEXT_AMOUNT_MAX];
	fprintf(out, "%s process %" PRIu64 " (%s, user %s, %" PRIu64 " file%s)", first ? "" : ",",
		pid, render_process(pid, comm), render_user(get_u64(who, "uid"), user), n,
		n == 1 ? "" : "s");
}

static void warn_of_bypassing(const json_t *mount, FILE *out)
{
	uint64_t all = get_u64(mount, "handles"), named = 0;
	const json_t *who;
	size_t i;
	fprintf(out,
		"ratefsctl: warning: mount '%s': %" PRIu64
		" open file%s limits on reads and writes until closed:",
		get_text(mount, "mount"), all, all == 1 ? " bypasses" : "s bypass");
	json_array_foreach (get_part(mount, "openers"), i, who) {
		opener(who, i == 0, out);
		named += get_u64(who, "handles");
	}
	fprintf(out, "%s\n", named < all ? ", and others" : "");
}

void render_set(const json_t *answer, FILE *out)
{
	const json_t *mount, *line;
	json_t *value;
	const char *key;
	size_t i;
	json_object_foreach (get_part(answer, "values"), key, value)
		fprintf(out, "%s=%s\n", key, json_string_value(value));
	json_array_foreach (get_part(answer, "bypassing"), i, mount)
		warn_of_bypassing(mount, stderr);
	json_array_foreach (get_part(answer, "warnings"), i, line)
		fprintf(stderr, "ratefsctl: warning: %s\n", json_string_value(line));
}

/* To its users a paused mount looks like a hang, so say how to end the pause. */
void render_pause(const json_t *answer, FILE *out)
{
	const char *scope = get_text(answer, "scope"), *name = get_text(answer, "name");
	const char *prefix = strcmp(scope, "fs") == 0 ? "fs:" : "";
	const char *who = strcmp(scope, "class") == 0
				  ? "requests of this class wait"
				  : "all programs that use it wait, including df and umount";
	fprintf(out,
		"%s%s is paused: %s.\n"
		"To continue: ratefsctl resume %s%s\n",
		prefix, name, who, prefix, name);
	if (strcmp(scope, "mount") == 0)
		fprintf(out, "To unmount it: ratefsctl unmount %s\n", name);
}
