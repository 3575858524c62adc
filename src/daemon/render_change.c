/* SPDX-License-Identifier: MIT */
/* What people are told after a change. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/render.h"

/* "process 154 (sleep, user root, 2 files)" */
static void opener(const struct records *r, unsigned i, unsigned k, FILE *out)
{
	uint64_t pid = records_u64(r, "bypassing.%u.openers.%u.pid", i, k);
	uint64_t uid = records_u64(r, "bypassing.%u.openers.%u.uid", i, k);
	uint64_t n = records_u64(r, "bypassing.%u.openers.%u.handles", i, k);
	char user[RENDER_MAX], comm[RENDER_MAX];
	fprintf(out, "%s process %" PRIu64 " (%s, user %s, %" PRIu64 " file%s)", k ? "," : "", pid,
		render_process(pid, comm), render_user(uid, user), n, n == 1 ? "" : "s");
}

static void warn_of_bypassing(const struct records *r, unsigned i, FILE *out)
{
	AUTO_FREE char *mount = records_line(r, "bypassing.%u.mount", i);
	uint64_t all = records_u64(r, "bypassing.%u.handles", i), named = 0;
	fprintf(out,
		"ratefsctl: warning: mount '%s': %" PRIu64
		" open file%s limits on reads and writes until closed:",
		mount, all, all == 1 ? " bypasses" : "s bypass");
	for (unsigned k = 0; records_have(r, "bypassing.%u.openers.%u.pid", i, k); k++) {
		opener(r, i, k, out);
		named += records_u64(r, "bypassing.%u.openers.%u.handles", i, k);
	}
	fprintf(out, "%s\n", named < all ? ", and others" : "");
}

void render_set(const struct records *r, FILE *out, FILE *warnings)
{
	for (unsigned i = 0; records_have(r, "set.%u.key", i); i++) {
		AUTO_FREE char *key = records_line(r, "set.%u.key", i);
		AUTO_FREE char *value = records_line(r, "set.%u.value", i);
		fprintf(out, "%s=%s\n", key, value);
	}
	for (unsigned i = 0; records_have(r, "bypassing.%u.mount", i); i++)
		warn_of_bypassing(r, i, warnings);
	for (unsigned i = 0; records_have(r, "warnings.%u", i); i++) {
		AUTO_FREE char *line = records_line(r, "warnings.%u", i);
		fprintf(warnings, "ratefsctl: warning: %s\n", line);
	}
}

/* What is paused looks like a hang to everybody who meets it: say how to end that. */
void render_pause(const struct records *r, FILE *out)
{
	AUTO_FREE char *scope = records_line(r, "scope"), *name = records_line(r, "name");
	const char *prefix = strcmp(scope, "fs") == 0 ? "fs:" : "";
	fprintf(out,
		"%s%s is paused: everything that uses it waits, df and umount too.\n"
		"To go on: ratefsctl resume %s%s\n",
		prefix, name, prefix, name);
	if (strcmp(scope, "mount") == 0)
		fprintf(out, "To end it: ratefsctl unmount %s\n", name);
}
