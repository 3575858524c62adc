/* SPDX-License-Identifier: MIT */
/* The lines of a file in ini format: where sections, keys and values are.  Error messages need this
 * for line numbers, and edits need it to leave the rest of the file unchanged.  The daemon reads
 * values with iniparser (daemon/ini.c), whose grammar this follows.
 *
 * Locking  none: there is no state. */
#ifndef BASE_INI_LINES_H
#define BASE_INI_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define INI_LINE_MAX 1000 /* iniparser's buffer has 1024 bytes */

struct ini_span {
	const char *from, *to; /* `to` is exclusive */
};

enum ini_kind {
	INI_NOTHING, /* blank, or a comment */
	INI_SECTION,
	INI_KEY,
	INI_OTHER /* none of these: `problem` says why */
};

struct ini_line {
	const char *start, *end; /* without the newline */
	const char *next;	 /* the next line; NULL: this is the last one */
	enum ini_kind kind;
	struct ini_span name;  /* of the section or the key */
	struct ini_span value; /* of the key: with its quotes, without a comment */
	const char *problem;   /* what is wrong with the line; NULL: nothing */
};

/* Reads the line at `text`; false: there is none (`text` is NULL, or at `end`). */
bool ini_line_read(struct ini_line *l, const char *text, const char *end);

/* Compare names as iniparser and the option table do: both ignore case; keys also treat '-' and '_'
 * as equal. */
bool ini_section_is(struct ini_span name, const char *section);
bool ini_key_is(struct ini_span name, const char *key);

#endif
