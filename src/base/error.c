/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *e, const char *fmt, ...)
{
	if (!e)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	make_one_line(e->text);
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
	return -1;
}
