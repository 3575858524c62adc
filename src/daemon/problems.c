/* SPDX-License-Identifier: MIT */
#include "daemon/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"

void problems_add(struct problems *p, unsigned line, const char *fmt, ...)
{
	AUTO_FREE char *what = NULL;
	va_list ap;
	unsigned i = p->n++;
	if (i >= PROBLEMS_MAX)
		return;
	va_start(ap, fmt);
	if (vasprintf(&what, fmt, ap) < 0)
		what = NULL;
	va_end(ap);
	const char *text = what ? what : "out of memory";
	int rc = line ? asprintf(&p->line[i], "%s:%u: %s", p->file, line, text)
		      : asprintf(&p->line[i], "%s: %s", p->file, text);
	if (rc < 0)
		p->line[i] = NULL;
}

static unsigned kept(const struct problems *p)
{
	return p->n < PROBLEMS_MAX ? p->n : PROBLEMS_MAX;
}

void problems_log(const struct problems *p)
{
	for (unsigned i = 0; i < kept(p); i++)
		log_error("%s", p->line[i] ? p->line[i] : "out of memory");
	if (p->n > PROBLEMS_MAX)
		log_error("%s: and %u more problems", p->file, p->n - PROBLEMS_MAX);
}

char *problems_text(const struct problems *p)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (unsigned i = 0; i < kept(p); i++)
		fprintf(out, "%s%s", i ? "\n" : "", p->line[i] ? p->line[i] : "out of memory");
	if (p->n > PROBLEMS_MAX)
		fprintf(out, "\n%s: and %u more problems", p->file, p->n - PROBLEMS_MAX);
	return fclose(out) == 0 ? text : NULL;
}

void problems_free(struct problems *p)
{
	for (unsigned i = 0; i < kept(p); i++)
		free(p->line[i]);
	p->n = 0;
}
