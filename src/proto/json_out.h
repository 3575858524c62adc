/* SPDX-License-Identifier: MIT */
/* Builds a JSON document member by member without a check after each: if memory runs out, members are missing and
 * *failed is set.
 *
 *	bool failed = false;
 *	struct json_out o = json_out_new(&failed), read;
 *	put_text(o, "name", "slow");
 *	read = put_object(put_object(o, "classes"), "read");
 *	put_u64(read, "ops", 17);
 *
 * Where `o` is an array, the key is NULL.  Text may be any bytes; invalid UTF-8 becomes U+FFFD. */
#ifndef PROTO_JSON_OUT_H
#define PROTO_JSON_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct json_out {
	json_t *at; /* an object or an array; NULL: there was no memory for it */
	bool *failed;
};

/* An empty object, which belongs to the caller. */
struct json_out json_out_new(bool *failed);

void put_text(struct json_out o, const char *key, const char *value); /* NULL is put as "" */
void put_u64(struct json_out o, const char *key, uint64_t value);     /* at most INT64_MAX */
void put_i64(struct json_out o, const char *key, int64_t value);
void put_bool(struct json_out o, const char *key, bool value);
void put_real(struct json_out o, const char *key, double value);
struct json_out put_object(struct json_out o, const char *key);
struct json_out put_array(struct json_out o, const char *key);

#endif
