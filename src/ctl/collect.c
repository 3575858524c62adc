/* SPDX-License-Identifier: MIT */
#include "ctl/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "ctl/client.h"

/* --- one daemon ------------------------------------------------------------------------------ */

struct asked {
	struct snapshot *snapshot;
	struct daemon_ref *daemon;
	const struct collect_options *o;
	uint64_t pid;
	bool memory; /* false: out of memory */
	struct error err;
};

static enum proto_code call_stats(struct asked *a, const char *target, unsigned keys, bool watch,
				  json_t **answer)
{
	json_t *request = request_new("stats", target);
	if (request) {
		json_object_set_new(request, "keys", json_integer(keys));
		json_object_set_new(request, "table", json_true());
		if (watch)
			json_object_set_new(request, "watch", json_true());
	}
	return daemon_call(a->daemon, request, answer, &a->err);
}

/* False: the daemon does not answer.  A scope that was removed meanwhile is left out. */
static bool ask_stats(struct asked *a, const char *target, unsigned keys)
{
	json_t *answer = NULL;
	bool watch = a->o->watch && keys;
	enum proto_code code = call_stats(a, target, keys, watch, &answer);
	if (code == PROTO_BAD_ARGUMENT && watch) { /* an older daemon */
		json_decref(answer);
		code = call_stats(a, target, keys, false, &answer);
	}
	if (code == PROTO_OK)
		a->memory = snapshot_add(a->snapshot, a->pid, answer) && a->memory;
	bool answered = code == PROTO_OK || answer;
	json_decref(answer);
	return answered;
}

static bool ask_scope(struct asked *a, const char *format, const char *x, const char *y)
{
	AUTO_FREE char *target = NULL;
	if (asprintf(&target, format, x, y) < 0) {
		target = NULL;
		a->memory = false;
		return true;
	}
	return ask_stats(a, target, 0);
}

static bool ask_mount(struct asked *a, const json_t *m)
{
	const char *name = get_text(m, "name");
	const json_t *class;
	size_t i;
	if (a->o->mount && strcmp(a->o->mount, name) != 0)
		return true;
	if (!ask_stats(a, name, a->o->keys))
		return false;
	json_array_foreach (get_part(m, "classes"), i, class)
		if (!ask_scope(a, "%s/%s", name, get_text(class, "name")))
			return false;
	/* Several mounts may share an fs: ask once. */
	const char *fs = get_text(m, "fs");
	return !*fs || snapshot_find(a->snapshot, a->pid, "fs", fs) ||
	       ask_scope(a, "fs:%s%s", fs, "");
}

/* The configuration file; without one, the first mountpoint; if that is only a descriptor, as of `ratefs run`, the name of
 * the mount. */
static const char *name_of(const json_t *list)
{
	const json_t *first = json_array_get(get_part(list, "mounts"), 0);
	const char *file = get_text(list, "file"), *at = get_text(first, "mountpoint");
	if (*file)
		return file;
	return strncmp(at, "/dev/fd/", 8) == 0 ? get_text(first, "name") : at;
}

static bool ask_scopes(struct asked *a)
{
	AUTO_JSON *list = NULL;
	const json_t *m;
	size_t i;
	if (daemon_call(a->daemon, request_new("list", NULL), &list, &a->err) != PROTO_OK)
		return false;
	a->pid = get_u64(list, "pid");
	json_array_foreach (get_part(list, "mounts"), i, m)
		if (!ask_mount(a, m))
			return false;
	if (!ask_stats(a, "global", 0))
		return false;
	a->memory = snapshot_add_daemon(a->snapshot, a->pid, name_of(list)) && a->memory;
	return true;
}

/* A daemon that exits in the middle leaves nothing: without its name, its scopes could be taken for those of another. */
static bool ask_daemon(struct asked *a)
{
	unsigned before = a->snapshot->scopes;
	if (ask_scopes(a))
		return true;
	snapshot_cut(a->snapshot, before);
	return false;
}

/* --- all ------------------------------------------------------------------------------------- */

struct snapshot *collect(const struct collect_options *o, struct error *err)
{
	struct snapshot *s = snapshot_new(monotonic_ns());
	struct daemons all;
	bool memory = true;
	if (!s)
		return NULL;
	enum proto_code code = daemons_find(&all, o->which, o->patience_ms, err);
	memory = code != PROTO_NO_MEMORY;
	s->daemons_failed = all.n_silent;
	if (all.n_silent)
		error_set(err, "%s", all.silent[0]);
	for (unsigned i = 0; i < all.n; i++) {
		struct asked a = {.snapshot = s, .daemon = &all.daemon[i], .o = o, .memory = true};
		if (!ask_daemon(&a)) {
			s->daemons_failed++;
			error_set(err, "%s", a.err.text);
		}
		memory = memory && a.memory;
	}
	daemons_free(&all);
	if (memory)
		return s;
	snapshot_free(s);
	error_set(err, "out of memory");
	return NULL;
}
