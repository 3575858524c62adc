/* SPDX-License-Identifier: MIT */
/* The language of the control socket.
 *
 *	request  one line of words: set /mnt/a%20b iops=100
 *	answer   "ok BYTES\n" and that many bytes, or "error CODE TEXT [NAME DEVICE]...\n"
 *
 * A word is any bytes: those that are not printable ASCII, blanks and '%' are written as %XX; an
 * empty word is "%".  The bytes of an "ok" are records, one per line: a dotted path, a tab and a
 * JSON scalar, so that a client can print them as a table or nest them into JSON:
 *
 *	classes.read.ops	17
 *	keys.0.name	"fio"
 *
 * NAME and DEVICE (a decimal dev_t) are mounts that were to be taken away and are in use: who uses them is for
 * the client to find, since the daemon may not look at all processes. */
#ifndef DAEMON_PROTO_H
#define DAEMON_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/util.h"

#define PROTO_LINE_MAX	(64U << 10)
#define PROTO_WORDS_MAX 512
#define PROTO_REPLY_MAX (16U << 20)

/* Codes of "error"; ratefsctl exits with them. */
enum { PROTO_FAILED = 1, PROTO_USAGE = 2, PROTO_NO_TARGET = 3 };

void proto_put_word(FILE *out, const char *word);
/* Splits a line (without newline) into decoded words, in place.  The number of words, or -1 when
 * a word is not well-formed, holds a NUL byte, or there are too many. */
int proto_split(char *line, char *word[PROTO_WORDS_MAX]);

/* Records.  `path` is printf-like. */
void record_text(FILE *out, const char *value, const char *path, ...) PRINTF_LIKE(3, 4);
void record_u64(FILE *out, uint64_t value, const char *path, ...) PRINTF_LIKE(3, 4);
void record_i64(FILE *out, int64_t value, const char *path, ...) PRINTF_LIKE(3, 4);
void record_bool(FILE *out, bool value, const char *path, ...) PRINTF_LIKE(3, 4);
void record_real(FILE *out, double value, const char *path, ...) PRINTF_LIKE(3, 4);

/* A string as JSON, quotes included; bytes that are not UTF-8 become U+FFFD. */
void json_put_string(FILE *out, const char *text);

#endif
