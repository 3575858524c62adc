/* SPDX-License-Identifier: MIT */
/* The client's side of records (daemon/proto.h): look them up, print them as nested JSON. */
#ifndef DAEMON_RECORDS_H
#define DAEMON_RECORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/util.h"

struct record {
	char *path;
	char *value; /* a JSON scalar as it came */
};

struct records {
	struct record *record;
	unsigned n;
};

/* Takes the text apart; lines that are no records are left out.  False: out of memory. */
bool records_parse(struct records *r, const char *text);
void records_free(struct records *r);

/* `path` is printf-like.  What is not there: false, 0, "". */
bool records_have(const struct records *r, const char *path, ...) PRINTF_LIKE(2, 3);
uint64_t records_u64(const struct records *r, const char *path, ...) PRINTF_LIKE(2, 3);
int64_t records_i64(const struct records *r, const char *path, ...) PRINTF_LIKE(2, 3);
double records_real(const struct records *r, const char *path, ...) PRINTF_LIKE(2, 3);
bool records_true(const struct records *r, const char *path, ...) PRINTF_LIKE(2, 3);
/* A string without quotes and escapes, to be freed; never NULL but when memory is out. */
char *records_text(const struct records *r, const char *path, ...) PRINTF_LIKE(2, 3);
/* For a terminal: names of processes and files are whatever somebody likes. */
char *records_line(const struct records *r, const char *path, ...) PRINTF_LIKE(2, 3);
/* Replaces a string. */
void records_set_text(struct records *r, const char *text, const char *path, ...) PRINTF_LIKE(3, 4);

/* All of them as one JSON object, without a newline.  Components that are numbers make arrays. */
void records_json(const struct records *r, FILE *out);

#endif
