/* SPDX-License-Identifier: MIT */
/* The keys of a scope, from "key_table" of its answer (ratefs-control(7)). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/snapshot.h"
#include "proto/json_in.h"

/* The column of each figure; -1: the daemon does not send it. */
struct places {
	int kind, id, uid, name, class, ops, bytes, parked_now, wait_ns, would_wait_ns, oldest_ns,
		limit, done_ops, done_bytes;
};

static int place_of(const json_t *columns, const char *name)
{
	const json_t *column;
	size_t i;
	json_array_foreach (columns, i, column)
		if (json_is_string(column) && strcmp(json_string_value(column), name) == 0)
			return (int)i;
	return -1;
}

static struct places read_places(const json_t *columns)
{
	return (struct places){
		.kind = place_of(columns, "kind"),
		.id = place_of(columns, "id"),
		.uid = place_of(columns, "uid"),
		.name = place_of(columns, "name"),
		.class = place_of(columns, "class"),
		.ops = place_of(columns, "ops"),
		.bytes = place_of(columns, "bytes"),
		.parked_now = place_of(columns, "parked_now"),
		.wait_ns = place_of(columns, "wait_ns"),
		.would_wait_ns = place_of(columns, "would_wait_ns"),
		.oldest_ns = place_of(columns, "oldest_ns"),
		.limit = place_of(columns, "limit"),
		.done_ops = place_of(columns, "done_ops"),
		.done_bytes = place_of(columns, "done_bytes"),
	};
}

static uint64_t number(const json_t *row, int place)
{
	json_int_t n = place < 0 ? 0 : json_integer_value(json_array_get(row, (size_t)place));
	return n < 0 ? 0 : (uint64_t)n;
}

static const char *text(const json_t *texts, const json_t *row, int place)
{
	const char *found =
		place < 0 ? NULL : json_string_value(json_array_get(texts, number(row, place)));
	return found ? found : "";
}

/* "" for -1, which means no limit, and for an index outside of the list. */
static const char *limit(const struct snap_scope *s, const json_t *row, int place)
{
	json_int_t n = place < 0 ? -1 : json_integer_value(json_array_get(row, (size_t)place));
	return n >= 0 && n < s->waited_limits ? s->waited_limit[n] : "";
}

static bool read_limits(struct snap_scope *s, const json_t *limits)
{
	s->waited_limit = calloc(json_array_size(limits) + 1, sizeof(*s->waited_limit));
	if (!s->waited_limit)
		return false;
	for (; s->waited_limits < json_array_size(limits); s->waited_limits++)
		snapshot_limit_name(json_array_get(limits, s->waited_limits),
				    s->waited_limit[s->waited_limits]);
	return true;
}

bool snapshot_read_keys(struct snap_scope *s, const json_t *table)
{
	const json_t *rows = get_part(table, "rows"), *texts = get_part(table, "text"), *row;
	struct places at = read_places(get_part(table, "columns"));
	size_t i;
	if (at.done_ops >= 0 && at.done_bytes >= 0) {
		at.ops = at.done_ops;
		at.bytes = at.done_bytes;
	}
	s->key = calloc(json_array_size(rows) + 1, sizeof(*s->key));
	if (!s->key || !read_limits(s, get_part(table, "limits")))
		return false;
	json_array_foreach (rows, i, row)
		s->key[s->keys++] = (struct snap_key){
			.kind = text(texts, row, at.kind),
			.command = text(texts, row, at.name),
			.class = text(texts, row, at.class),
			.limit = limit(s, row, at.limit),
			.id = number(row, at.id),
			.uid = number(row, at.uid),
			.ops = number(row, at.ops),
			.bytes = number(row, at.bytes),
			.parked_now = number(row, at.parked_now),
			.wait_ns = number(row, at.wait_ns),
			.would_wait_ns = number(row, at.would_wait_ns),
			.oldest_ns = number(row, at.oldest_ns),
		};
	return true;
}

/* --- users -------------------------------------------------------------------------------------- */

/* The uid of such a key is only that of the caller that waited last. */
static bool has_many_users(const struct snap_key *k)
{
	return strcmp(k->kind, "gid") == 0 || strcmp(k->kind, "none") == 0 ||
	       strcmp(k->kind, "shared") == 0;
}

const char *snapshot_key_user(const struct snap_key *k, const char *(*user_name)(uint64_t uid),
			      char buf[SNAP_USER_MAX])
{
	if (!has_many_users(k))
		return user_name(k->uid);
	if (strcmp(k->kind, "gid") != 0)
		return strcmp(k->kind, "none") == 0 ? "all" : "shared";
	snprintf(buf, SNAP_USER_MAX, "gid %" PRIu64, k->id);
	return buf;
}

int snapshot_compare_users(const struct snap_key *a, const struct snap_key *b)
{
	bool many = has_many_users(a);
	if (many != has_many_users(b))
		return many ? 1 : -1;
	if (many && strcmp(a->kind, b->kind) != 0)
		return strcmp(a->kind, b->kind);
	uint64_t x = !many ? a->uid : strcmp(a->kind, "gid") == 0 ? a->id : 0;
	uint64_t y = !many ? b->uid : strcmp(b->kind, "gid") == 0 ? b->id : 0;
	return x < y ? -1 : x > y;
}
