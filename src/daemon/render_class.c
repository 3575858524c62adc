/* SPDX-License-Identifier: MIT */
/* The classes of mounts, for people. */
#include <string.h>

#include "base/cleanup.h"
#include "daemon/render.h"

/* All that was given besides match and parent: "weight=3 bps=5M each.iops=100". */
static void options_of(const struct records *r, unsigned i, unsigned k, FILE *out)
{
	char prefix[80];
	int n = snprintf(prefix, sizeof(prefix), "mounts.%u.classes.%u.options.", i, k);
	for (unsigned at = 0; at < r->n; at++) {
		const char *path = r->record[at].path;
		if (strncmp(path, prefix, n) != 0 || strcmp(path + n, "match") == 0 ||
		    strcmp(path + n, "parent") == 0)
			continue;
		AUTO_FREE char *value = records_line(r, "%s", path);
		fprintf(out, " %s=%s", path + n, value);
	}
}

void render_classes(const struct records *r, FILE *out)
{
	if (records_have(r, "mounts.0.name"))
		fprintf(out, "%-24s %-16s %-40s %s\n", "CLASS", "PARENT", "MATCH", "OPTIONS");
	for (unsigned i = 0; records_have(r, "mounts.%u.name", i); i++) {
		AUTO_FREE char *mount = records_line(r, "mounts.%u.name", i);
		for (unsigned k = 0; records_have(r, "mounts.%u.classes.%u.name", i, k); k++) {
			AUTO_FREE char *name = records_line(r, "mounts.%u.classes.%u.name", i, k);
			AUTO_FREE char *parent =
				records_line(r, "mounts.%u.classes.%u.options.parent", i, k);
			AUTO_FREE char *match =
				records_line(r, "mounts.%u.classes.%u.options.match", i, k);
			AUTO_FREE char *both = NULL;
			if (asprintf(&both, "%s/%s", mount, name) < 0)
				return;
			fprintf(out, "%-24s %-16s %-40s", both, *parent ? parent : "-",
				*match ? match : "-");
			options_of(r, i, k, out);
			fputc('\n', out);
		}
	}
}
