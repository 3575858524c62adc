/* SPDX-License-Identifier: MIT */
/* Everything that is wrong with a configuration, in one go: a line each, bounded. */
#ifndef DAEMON_PROBLEMS_H
#define DAEMON_PROBLEMS_H

#include "base/util.h"

#define PROBLEMS_MAX 50 /* lines that are kept; the rest is counted */

struct problems {
	const char *file;
	char *line[PROBLEMS_MAX]; /* in the order of the file, its own last */
	unsigned at[PROBLEMS_MAX];
	unsigned n; /* all of them */
};

/* "FILE:LINE: what"; 0 for a problem of the file as a whole. */
void problems_add(struct problems *p, unsigned line, const char *fmt, ...) PRINTF_LIKE(3, 4);
void problems_log(const struct problems *p); /* as errors */
/* All lines in one text, to be freed. */
char *problems_text(const struct problems *p);
void problems_free(struct problems *p);

#endif
