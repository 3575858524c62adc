/* SPDX-License-Identifier: MIT */
/* The classes of mounts, for people. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ctl/render.h"

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

/* "weight=3 bps=5M each.iops=100": all that was given besides match and parent. */
static void class_row(const json_t *mount, const json_t *class, FILE *out)
{
	json_t *options = get_part(class, "options"), *value;
	const char *key;
	AUTO_FREE char *both = NULL;
	if (asprintf(&both, "%s/%s", get_text(mount, "name"), get_text(class, "name")) < 0)
		return;
	fprintf(out, "%-24s %-16s %-40s", both, or_dash(get_text(options, "parent")),
		or_dash(get_text(options, "match")));
	json_object_foreach (options, key, value)
		if (strcmp(key, "match") != 0 && strcmp(key, "parent") != 0)
			fprintf(out, " %s=%s", key, json_string_value(value));
	fputc('\n', out);
}

void render_classes(const json_t *answer, FILE *out)
{
	const json_t *mounts = get_part(answer, "mounts"), *mount, *class;
	size_t i, k;
	if (json_array_size(mounts))
		fprintf(out, "%-24s %-16s %-40s %s\n", "CLASS", "PARENT", "MATCH", "OPTIONS");
	json_array_foreach (mounts, i, mount)
		json_array_foreach (get_part(mount, "classes"), k, class)
			class_row(mount, class, out);
}
