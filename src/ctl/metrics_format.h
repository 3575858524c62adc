/* SPDX-License-Identifier: MIT */
/* The text format of Prometheus: one sample per line, the lines of a metric together below its head. */
#ifndef CTL_METRICS_FORMAT_H
#define CTL_METRICS_FORMAT_H

#include <stdint.h>
#include <stdio.h>

/* A list of labels ends at the first one without a name. */
struct label {
	const char *name, *value;
};
#define LABELS_MAX  6
#define LABELS(...) ((const struct label[LABELS_MAX]){__VA_ARGS__})

void metric_head(FILE *out, const char *name, const char *type, const char *help);
/* Prints a sample up to its value, which the caller prints. */
void metric_name(FILE *out, const char *name, const char *suffix,
		 const struct label label[LABELS_MAX]);
void metric_count(FILE *out, const char *name, const struct label *label, uint64_t n);
void metric_real(FILE *out, const char *name, const struct label *label, double n);

#endif
