/* SPDX-License-Identifier: MIT */
#include "ctl/metrics_format.h"

#include <inttypes.h>

static void put_value(FILE *out, const char *value)
{
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			fprintf(out, "\\%c", *value);
		else if (*value == '\n')
			fputs("\\n", out);
		else
			fputc(*value, out);
	}
}

void metric_name(FILE *out, const char *name, const char *suffix,
		 const struct label label[LABELS_MAX])
{
	fprintf(out, "%s%s", name, suffix);
	for (unsigned i = 0; i < LABELS_MAX && label[i].name; i++) {
		fprintf(out, "%c%s=\"", i ? ',' : '{', label[i].name);
		put_value(out, label[i].value);
		fputc('"', out);
	}
	fputs(label[0].name ? "} " : " ", out);
}

void metric_count(FILE *out, const char *name, const struct label *label, uint64_t n)
{
	metric_name(out, name, "", label);
	fprintf(out, "%" PRIu64 "\n", n);
}

void metric_real(FILE *out, const char *name, const struct label *label, double n)
{
	metric_name(out, name, "", label);
	fprintf(out, "%.15g\n", n);
}

void metric_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}
