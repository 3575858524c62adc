/* SPDX-License-Identifier: MIT */
/* An error message for people: what is wrong and where, and if possible, after "; ", what to do
 * about it.  Parsers fill it in; main prints it, or the control socket sends it.  Errors for the
 * kernel are plain -errno. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/util.h"

struct error {
	char text[1024]; /* one line, no newline; empty: no error */
	size_t what;	 /* length of the part before the remedy; 0: there is no remedy */
};

/* clang-format off */
#define ERROR_INIT {.text = ""}
/* clang-format on */

/* Fills `e` (NULL is allowed) and returns -1, so that a parser can `return error_set(...)`.  What follows the first
 * "; " of the format is the remedy. */
int error_set(struct error *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
int error_vset(struct error *e, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);
/* Puts "where: " in front of the message.  Returns -1. */
int error_prefix(struct error *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

static inline bool error_is_set(const struct error *e)
{
	return e->text[0] != '\0';
}

/* The remedy; "": none. */
const char *error_remedy(const struct error *e);

#endif
