/* SPDX-License-Identifier: MIT */
#include "proto/json_out.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/util.h"

struct json_out json_out_new(bool *failed)
{
	struct json_out o = {json_object(), failed};
	if (!o.at)
		*failed = true;
	return o;
}

/* Takes `value` over.  False: it could not be added. */
static bool put(struct json_out o, const char *key, json_t *value)
{
	bool ok = o.at && value;
	if (ok)
		ok = (key ? json_object_set_new_nocheck(o.at, key, value)
			  : json_array_append_new(o.at, value)) == 0;
	else
		json_decref(value);
	if (!ok)
		*o.failed = true;
	return ok;
}

void put_text(struct json_out o, const char *key, const char *value)
{
	AUTO_FREE char *utf8 = NULL;
	if (value && !text_is_utf8(value)) {
		utf8 = text_utf8(value);
		value = utf8;
		if (!utf8)
			*o.failed = true;
	}
	put(o, key, json_string_nocheck(value ? value : ""));
}

void put_u64(struct json_out o, const char *key, uint64_t value)
{
	put(o, key, json_integer((json_int_t)min_u64(value, INT64_MAX)));
}

void put_i64(struct json_out o, const char *key, int64_t value)
{
	put(o, key, json_integer(value));
}

void put_bool(struct json_out o, const char *key, bool value)
{
	put(o, key, json_boolean(value));
}

void put_real(struct json_out o, const char *key, double value)
{
	put(o, key, json_real(value));
}

struct json_out put_object(struct json_out o, const char *key)
{
	json_t *object = json_object();
	return (struct json_out){put(o, key, object) ? object : NULL, o.failed};
}

struct json_out put_array(struct json_out o, const char *key)
{
	json_t *array = json_array();
	return (struct json_out){put(o, key, array) ? array : NULL, o.failed};
}
