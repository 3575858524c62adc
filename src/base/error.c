/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define BEFORE_REMEDY "; "

/* The length of the formatted text before the remedy; 0: there is no remedy.  The format is
 * searched, not the finished text, because values may contain "; " as well. */
static size_t length_of_what(const char *fmt, va_list ap) PRINTF_LIKE(1, 0);
static size_t length_of_what(const char *fmt, va_list ap)
{
	const char *end = strstr(fmt, BEFORE_REMEDY);
	char head[256];
	if (!end || (size_t)(end - fmt) >= sizeof(head))
		return 0;
	memcpy(head, fmt, end - fmt);
	head[end - fmt] = '\0';
	int n = vsnprintf(NULL, 0, head, ap);
	return n > 0 ? (size_t)n : 0;
}

int error_vset(struct error *e, const char *fmt, va_list ap)
{
	if (!e)
		return -1;
	va_list again;
	va_copy(again, ap);
	e->what = length_of_what(fmt, again);
	va_end(again);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	make_one_line(e->text);
	return -1;
}

int error_set(struct error *e, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	error_vset(e, fmt, ap);
	va_end(ap);
	return -1;
}

int error_prefix(struct error *e, const char *fmt, ...)
{
	if (!e)
		return -1;
	char where[256], what[sizeof(e->text)];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(where, sizeof(where), fmt, ap);
	va_end(ap);
	make_one_line(where);
	memcpy(what, e->text, sizeof(what));
	size_t n = strlen(where);
	snprintf(e->text, sizeof(e->text), "%s: %.*s", where, (int)(sizeof(what) - n - 3), what);
	e->what += e->what ? n + 2 : 0;
	return -1;
}

const char *error_remedy(const struct error *e)
{
	size_t at = e->what + strlen(BEFORE_REMEDY);
	return e->what && at < strlen(e->text) ? e->text + at : "";
}
