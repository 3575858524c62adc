/* SPDX-License-Identifier: MIT */
/* Keys as rows of numbers, for programs that fetch thousands of keys once a second and sort and
 * search them themselves.  A list of objects would take five times as long to print and parse. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "daemon/stats_out.h"
#include "proto/proto.h"

/* The columns, in the order in which put_row puts them. */
static const char *const columns[] = {
	"kind",	    "id",	  "uid",     "name",	  "class", "ops",
	"bytes",    "parked_now", "wait_ns", "oldest_ns", "limit", "would_wait_ns",
	"done_ops", "done_bytes"}; /* the last two if the keys are watched */
#define WATCHED 2

struct table {
	struct json_out text, limits, rows;
	json_t *index; /* text → its position in `text` */
	const struct waited_limit **limit;
	unsigned n_limits;
	unsigned columns;
};

static json_int_t index_of_text(struct table *t, const char *text)
{
	const json_t *known = json_object_get(t->index, text);
	json_int_t at = (json_int_t)json_array_size(t->text.at);
	if (known)
		return json_integer_value(known);
	put_text(t->text, NULL, text);
	if (json_object_set_new_nocheck(t->index, text, json_integer(at)) < 0)
		*t->text.failed = true;
	return at;
}

static bool same_limit(const struct waited_limit *a, const struct waited_limit *b)
{
	return a->scope == b->scope && a->each == b->each && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->of, b->of) == 0;
}

/* The position of the key's limit in `limits`, where it is added if necessary; -1: not known.  A
 * linear search will do, since most keys wait for the same limit. */
static json_int_t index_of_limit(struct table *t, const struct key_stats *k)
{
	const struct waited_limit *l = k->waits_for.known  ? &k->waits_for
				       : k->limit[0].known ? &k->limit[0]
							   : &k->would_limit;
	if (!l->known)
		return -1;
	for (unsigned i = 0; i < t->n_limits; i++)
		if (same_limit(t->limit[i], l))
			return i;
	put_waited_limit(t->limits, NULL, l);
	t->limit[t->n_limits] = l;
	return t->n_limits++;
}

static void put_row(struct table *t, const struct key_stats *k)
{
	char path[STATS_NAME_MAX];
	const json_int_t value[ARRAY_SIZE(columns)] = {
		index_of_text(t, key_kind(k)),
		(json_int_t)min_u64(k->key.id, INT64_MAX),
		k->uid,
		index_of_text(t, stats_key_name(k, path)),
		index_of_text(t, k->leaf),
		(json_int_t)k->ops,
		(json_int_t)min_u64(k->bytes, INT64_MAX),
		(json_int_t)k->parked_now,
		(json_int_t)min_u64(k->wait_ns, INT64_MAX),
		(json_int_t)min_u64(k->oldest_ns, INT64_MAX),
		index_of_limit(t, k),
		(json_int_t)min_u64(k->would_wait_ns, INT64_MAX),
		(json_int_t)min_u64(k->done_ops, INT64_MAX),
		(json_int_t)min_u64(k->done_bytes, INT64_MAX),
	};
	struct json_out row = put_array(t->rows, NULL);
	for (unsigned i = 0; i < t->columns; i++)
		put_i64(row, NULL, value[i]);
}

void put_key_table(struct json_out o, const struct key_stats *k, unsigned n, bool watched)
{
	struct json_out table = put_object(o, "key_table"), names = put_array(table, "columns");
	AUTO_JSON *index = json_object();
	AUTO_FREE const struct waited_limit **limit = calloc(n + 1, sizeof(*limit));
	struct table t = {put_array(table, "text"),
			  put_array(table, "limits"),
			  put_array(table, "rows"),
			  index,
			  limit,
			  0,
			  ARRAY_SIZE(columns) - (watched ? 0 : WATCHED)};
	if (!index || !limit) {
		*o.failed = true;
		return;
	}
	for (unsigned i = 0; i < t.columns; i++)
		put_text(names, NULL, columns[i]);
	for (unsigned i = 0; i < n; i++)
		put_row(&t, &k[i]);
}
