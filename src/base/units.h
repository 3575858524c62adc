/* SPDX-License-Identifier: MIT */
/* Parses and formats sizes, rates, counts and durations as people write them.
 *
 * Bytes:  K M G T (either case) and KiB MiB GiB TiB = 1024-based; kB MB GB TB = 1000-based.
 * Ops:    k = 1000, M = 10^6, G = 10^9.
 * Times:  ns us ms s m h d; a bare number means seconds; a fraction is allowed ("1.5s").
 * A rate may end in "/s".  "0" and "off" mean unlimited where a limit is parsed.
 *
 * Parsers return 0, or -1 with `err` naming the text and what is wrong with it:
 *	'10Q': unknown suffix 'Q'
 *	'10mbit': bits are not accepted; write bytes, for example 1250K
 * and leave *out untouched. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

int units_parse_bytes(const char *text, uint64_t *out, struct error *err);
int units_parse_byte_rate(const char *text, uint64_t *per_sec, struct error *err);
int units_parse_count(const char *text, uint64_t *out, struct error *err);
int units_parse_op_rate(const char *text, uint64_t *per_sec, struct error *err);
int units_parse_duration(const char *text, uint64_t *ns, struct error *err);

/* The shortest text that parses back to exactly the same value; returns buf. */
#define UNITS_TEXT_MAX 40
char *units_format_bytes(uint64_t bytes, char buf[UNITS_TEXT_MAX]);
char *units_format_count(uint64_t count, char buf[UNITS_TEXT_MAX]);
char *units_format_duration(uint64_t ns, char buf[UNITS_TEXT_MAX]);

#endif
