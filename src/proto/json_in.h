/* SPDX-License-Identifier: MIT */
/* Reads members of a JSON document.  A member that is missing or has another type reads as 0, "" or NULL, so that a
 * program can read the answers of older and newer daemons. */
#ifndef PROTO_JSON_IN_H
#define PROTO_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

const char *get_text(const json_t *o, const char *key); /* belongs to the document */
uint64_t get_u64(const json_t *o, const char *key);
int64_t get_i64(const json_t *o, const char *key);
double get_real(const json_t *o, const char *key); /* integers, too */
bool get_true(const json_t *o, const char *key);
/* An object or an array, or NULL, which all of these functions and json_array_foreach accept. */
json_t *get_part(const json_t *o, const char *key);

#endif
