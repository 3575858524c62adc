/* SPDX-License-Identifier: MIT */
/* All problems of a configuration: one line each, bounded in number. */
#ifndef DAEMON_PROBLEMS_H
#define DAEMON_PROBLEMS_H

#include "base/util.h"

#define PROBLEMS_MAX 50 /* lines that are kept; further ones are only counted */

struct problems {
	const char *file;
	char *line[PROBLEMS_MAX]; /* in the order of the file; problems of the whole file last */
	unsigned at[PROBLEMS_MAX];
	unsigned n; /* including those that are not kept */
};

/* Adds "FILE:LINE: " and the text; line 0: a problem of the whole file. */
void problems_add(struct problems *p, unsigned line, const char *fmt, ...) PRINTF_LIKE(3, 4);
void problems_log(const struct problems *p); /* as errors */
/* All lines in one text, to be freed. */
char *problems_text(const struct problems *p);
void problems_free(struct problems *p);

#endif
