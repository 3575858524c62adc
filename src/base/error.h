/* SPDX-License-Identifier: MIT */
/* An error message for people: what is wrong and where.  Parsers fill it in; main prints it, or the
 * control socket sends it.  Errors for the kernel are plain -errno. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>

#include "base/util.h"

struct error {
	char text[1024]; /* one line, no newline; empty: no error */
};

/* clang-format off */
#define ERROR_INIT {""}
/* clang-format on */

/* Fills `e` (NULL is allowed) and returns -1, so that a parser can `return error_set(...)`. */
int error_set(struct error *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Puts "where: " in front of the message.  Returns -1. */
int error_prefix(struct error *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

static inline bool error_is_set(const struct error *e)
{
	return e->text[0] != '\0';
}

#endif
