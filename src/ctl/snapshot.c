/* SPDX-License-Identifier: MIT */
#include "ctl/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_in.h"

/* --- reading ------------------------------------------------------------------------------------ */

static struct snap_op read_op(const char *name, const json_t *o)
{
	uint64_t errors = get_u64(o, "errors"), answered = get_u64(o, "ok");
	return (struct snap_op){
		.name = name,
		.ops = get_u64(o, "ops"),
		.bytes = get_u64(o, "bytes"),
		.at_once = get_u64(o, "at_once"),
		.parked_total = get_u64(o, "parked_total"),
		.parked_now = get_u64(o, "parked_now"),
		.would_block = get_u64(o, "would_block"),
		.full = get_u64(o, "full"),
		.no_room = get_u64(o, "no_room"),
		.too_many_open = get_u64(o, "too_many_open"),
		.no_space = get_u64(o, "no_space"),
		.timed_out = get_u64(o, "timed_out"),
		.cancelled = get_u64(o, "cancelled"),
		.misconfigured = get_u64(o, "misconfigured"),
		.ok = answered > errors ? answered - errors : 0,
		.errors = errors,
		.failed = get_u64(o, "failed"),
		.aborted = get_u64(o, "aborted"),
	};
}

static struct snap_limit read_limit(const json_t *o)
{
	return (struct snap_limit){
		.scope = get_text(o, "scope"),
		.of = get_text(o, "of"),
		.name = get_text(o, "name"),
		.value = get_text(o, "value"),
		.rate = json_object_get(o, "rate"),
		.bytes = strcmp(get_text(o, "unit"), "bytes") == 0,
		.each = strncmp(get_text(o, "name"), "each.", 5) == 0,
		.bottleneck = get_true(o, "bottleneck"),
		.per_sec = get_real(o, "rate"),
		.capacity = get_real(o, "capacity"),
		.level = get_real(o, "level"),
		.permits = get_u64(o, "limit"),
		.used = get_u64(o, "now"),
		.blocking_ns = get_u64(o, "blocking_ns"),
		.would_wait = get_u64(o, "would_wait"),
	};
}

void snapshot_limit_name(const json_t *o, char out[SNAP_LIMIT_MAX])
{
	const char *scope = get_text(o, "scope"), *name = get_text(o, "name");
	if (strcmp(scope, "class") == 0 || strcmp(scope, "pool") == 0)
		snprintf(out, SNAP_LIMIT_MAX, "%s:%s.%s", scope, get_text(o, "of"), name);
	else if (!*scope || strcmp(scope, "mount") == 0)
		snprintf(out, SNAP_LIMIT_MAX, "%s", name);
	else
		snprintf(out, SNAP_LIMIT_MAX, "%s.%s", scope, name);
}

static struct snap_wait read_wait(const json_t *o)
{
	struct snap_wait w = {
		.class = get_text(o, "class"),
		.sum_ns = get_u64(o, "sum_ns"),
	};
	snapshot_limit_name(get_part(o, "limit"), w.limit);
	const json_t *counts = json_object_get(o, "counts");
	for (unsigned i = 0; i < json_array_size(counts) && i <= SNAP_BOUNDS_MAX; i++)
		w.count[i] = (uint64_t)json_integer_value(json_array_get(counts, i));
	return w;
}

/* --- one scope --------------------------------------------------------------------------------- */

static void free_scope(struct snap_scope *s)
{
	free(s->op);
	free(s->limit);
	free(s->key);
	free(s->waited_limit);
	free(s->wait);
	free(s->would_wait);
	snapshot_free_pools(s);
}

static bool read_ops(struct snap_scope *s, json_t *classes)
{
	const char *name;
	json_t *o;
	s->op = calloc(json_object_size(classes) + 1, sizeof(*s->op));
	if (!s->op)
		return false;
	json_object_foreach (classes, name, o)
		s->op[s->ops++] = read_op(name, o);
	return true;
}

/* Fills `list` and its counter `n` with what `read` makes of the elements of an array. */
#define READ_LIST(list, n, array, read)                                                            \
	({                                                                                         \
		const json_t *array_ = (array);                                                    \
		(list) = calloc(json_array_size(array_) + 1, sizeof(*(list)));                     \
		for (unsigned i_ = 0; (list) && i_ < json_array_size(array_); i_++)                \
			(list)[(n)++] = read(json_array_get(array_, i_));                          \
		(list) != NULL;                                                                    \
	})

static void read_bounds(struct snap_scope *s, const json_t *bounds)
{
	for (; s->bounds < json_array_size(bounds) && s->bounds < SNAP_BOUNDS_MAX; s->bounds++)
		s->bound_ns[s->bounds] =
			(uint64_t)json_integer_value(json_array_get(bounds, s->bounds));
}

static void read_figures(struct snap_scope *s, const json_t *a)
{
	s->scope = get_text(a, "scope");
	s->name = get_text(a, "name");
	s->mountpoint = get_text(a, "mountpoint");
	s->source = get_text(a, "source");
	s->fs = get_text(a, "fs");
	s->seconds = get_real(a, "seconds");
	s->mounted = get_true(a, "mounted");
	s->paused = get_true(a, "paused") || *get_text(a, "paused_by");
	s->dry_run = get_true(a, "dry_run");
	s->parked_now = get_u64(a, "parked_now");
	s->parked_bytes_now = get_u64(a, "parked_bytes_now");
	s->in_flight = get_u64(get_part(a, "inflight"), "now");
	s->open = get_u64(get_part(a, "open"), "now");
	s->keys_now = get_u64(a, "keys_now");
	s->device_now = get_u64(a, "device_now");
	s->bypassing_handles = get_u64(a, "bypassing_handles");
	s->bypassing_maps = get_u64(a, "bypassing_maps");
	s->oldest_wait_ns = get_u64(a, "oldest_wait_ns");
	s->stuck = get_u64(get_part(a, "in_source"), "stuck");
	const json_t *space = get_part(a, "space");
	s->counts_space = space;
	s->space_state = get_text(space, "state");
	s->space_refused = get_u64(space, "refused");
	s->space_used = get_u64(space, "used");
	s->space_limit = get_u64(space, "size");
	s->inodes_used = get_u64(space, "inodes_used");
	s->inodes_limit = get_u64(space, "inodes");
}

static bool read_scope(struct snap_scope *s, const json_t *a)
{
	bool global = strcmp(get_text(a, "scope"), "global") == 0;
	read_figures(s, a);
	read_bounds(s, json_object_get(a, "wait_bounds_ns"));
	return read_ops(s, json_object_get(a, "classes")) &&
	       READ_LIST(s->limit, s->limits, json_object_get(a, "limits_met"), read_limit) &&
	       snapshot_read_keys(s, get_part(a, "key_table")) &&
	       READ_LIST(s->wait, s->waits, json_object_get(a, "waits"), read_wait) &&
	       READ_LIST(s->would_wait, s->would_waits, json_object_get(a, "would_wait"),
			 read_wait) &&
	       (!global || snapshot_read_pools(s, get_part(a, "pools")));
}

/* --- the whole --------------------------------------------------------------------------------- */

struct snapshot *snapshot_new(uint64_t at_ns)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	if (s)
		s->at_ns = at_ns;
	return s;
}

static void free_daemon(struct snap_daemon *d)
{
	free(d->name);
	free(d->with_pid);
}

void snapshot_cut(struct snapshot *s, unsigned n)
{
	while (s->scopes > n) {
		s->scopes--;
		free_scope(&s->scope[s->scopes]);
		json_decref(s->answer[s->scopes]);
	}
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	snapshot_cut(s, 0);
	for (unsigned i = 0; i < s->daemons; i++)
		free_daemon(&s->daemon[i]);
	free(s->daemon);
	free(s->scope);
	free(s->answer);
	free(s);
}

bool snapshot_add_daemon(struct snapshot *s, uint64_t pid, const char *name)
{
	struct snap_daemon *daemon = realloc(s->daemon, (s->daemons + 1) * sizeof(*daemon));
	if (!daemon)
		return false;
	s->daemon = daemon;
	struct snap_daemon *new = &daemon[s->daemons];
	*new = (struct snap_daemon){.pid = pid, .name = strdup(name)};
	if (!new->name || asprintf(&new->with_pid, "%s (process %" PRIu64 ")", name, pid) < 0) {
		free(new->name);
		return false;
	}
	for (unsigned i = 0; i < s->daemons; i++)
		if (strcmp(daemon[i].name, name) == 0)
			daemon[i].twin = new->twin = true;
	s->daemons++;
	return true;
}

const char *snapshot_daemon_name(const struct snapshot *s, uint64_t pid)
{
	for (unsigned i = 0; i < s->daemons; i++)
		if (s->daemon[i].pid == pid)
			return s->daemon[i].twin ? s->daemon[i].with_pid : s->daemon[i].name;
	return "";
}

static bool make_room(struct snapshot *s)
{
	struct snap_scope *scope = realloc(s->scope, (s->scopes + 1) * sizeof(*scope));
	if (scope)
		s->scope = scope;
	json_t **answer = realloc(s->answer, (s->scopes + 1) * sizeof(*answer));
	if (answer)
		s->answer = answer;
	return scope && answer;
}

bool snapshot_add(struct snapshot *s, uint64_t daemon, json_t *answer)
{
	struct snap_scope scope = {.daemon = daemon};
	if (!make_room(s) || !read_scope(&scope, answer)) {
		free_scope(&scope);
		return false;
	}
	s->scope[s->scopes] = scope;
	s->answer[s->scopes++] = json_incref(answer);
	return true;
}

const struct snap_scope *snapshot_find(const struct snapshot *s, uint64_t daemon, const char *scope,
				       const char *name)
{
	for (unsigned i = 0; s && i < s->scopes; i++) {
		const struct snap_scope *c = &s->scope[i];
		if (c->daemon == daemon && strcmp(c->scope, scope) == 0 &&
		    strcmp(c->name, name) == 0)
			return c;
	}
	return NULL;
}
