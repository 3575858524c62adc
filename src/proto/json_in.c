/* SPDX-License-Identifier: MIT */
#include "proto/json_in.h"

const char *get_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

uint64_t get_u64(const json_t *o, const char *key)
{
	int64_t value = get_i64(o, key);
	return value > 0 ? (uint64_t)value : 0;
}

int64_t get_i64(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

double get_real(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

bool get_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

json_t *get_part(const json_t *o, const char *key)
{
	json_t *part = json_object_get(o, key);
	return json_is_object(part) || json_is_array(part) ? part : NULL;
}
