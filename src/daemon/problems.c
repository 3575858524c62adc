/* SPDX-License-Identifier: MIT */
#include "daemon/problems.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

static unsigned kept(const struct problems *p)
{
	return p->n < PROBLEMS_MAX ? p->n : PROBLEMS_MAX;
}

/* Inserts in order, so that problems are listed in the order of the file. */
static void insert(struct problems *p, unsigned at, char *text)
{
	unsigned n = kept(p);
	p->n++;
	if (n == PROBLEMS_MAX && p->at[n - 1] <= at) {
		free(text);
		return;
	}
	if (n == PROBLEMS_MAX)
		free(p->line[--n]);
	for (; n && p->at[n - 1] > at; n--) {
		p->at[n] = p->at[n - 1];
		p->line[n] = p->line[n - 1];
	}
	p->at[n] = at;
	p->line[n] = text;
}

void problems_add(struct problems *p, unsigned line, const char *fmt, ...)
{
	AUTO_FREE char *what = NULL;
	char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	if (vasprintf(&what, fmt, ap) < 0)
		what = NULL;
	va_end(ap);
	const char *why = what ? what : "out of memory";
	int rc = line ? asprintf(&text, "%s:%u: %s", p->file, line, why)
		      : asprintf(&text, "%s: %s", p->file, why);
	/* A problem of a class is found once for each mount that has the class: keep one. */
	for (unsigned i = 0; rc >= 0 && i < kept(p); i++)
		if (p->line[i] && strcmp(p->line[i], text) == 0) {
			free(text);
			return;
		}
	insert(p, line ? line : UINT_MAX, rc < 0 ? NULL : text);
}

void problems_log(const struct problems *p)
{
	for (unsigned i = 0; i < kept(p); i++)
		log_error("%s", p->line[i] ? p->line[i] : "out of memory");
	if (p->n > PROBLEMS_MAX)
		log_error("%s: %u more problems", p->file, p->n - PROBLEMS_MAX);
}

char *problems_text(const struct problems *p)
{
	AUTO_FREE char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (unsigned i = 0; i < kept(p); i++)
		fprintf(out, "%s%s", i ? "\n" : "", p->line[i] ? p->line[i] : "out of memory");
	if (p->n > PROBLEMS_MAX)
		fprintf(out, "\n%s: %u more problems", p->file, p->n - PROBLEMS_MAX);
	return fclose(out) == 0 ? take_ptr(&text) : NULL;
}

void problems_free(struct problems *p)
{
	for (unsigned i = 0; i < kept(p); i++)
		free(p->line[i]);
	p->n = 0;
}
