/* SPDX-License-Identifier: MIT */
#include "daemon/reload_paths.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/ending.h"
#include "daemon/loop.h"
#include "daemon/options.h"
#include "daemon/path.h"
#include "daemon/reload_internal.h"

#define PATIENCE_MS 2000 /* how long to wait for a path; clients wait meanwhile */
#define FRESH_MS    2000 /* older answers are discarded: whoever wanted them has left */

/* A mount that the reload would make. */
struct new_mount {
	const struct settings *s;
	const char *source;	 /* its own or that of its fs */
	bool replaces;		 /* a mount of its name or mountpoint is up and would be removed */
	bool look_at_source;	 /* false: the source is in a mount that is to be made or removed */
	bool look_at_mountpoint; /* the same for the mountpoint */
};

/* The paths of one mount.  Each has a task of its own, so that one that hangs does not hold up the others. */
struct path_item {
	struct task task;
	struct path_look *look;
	bool done;
	/* used by the thread until done */
	char *source, *mountpoint; /* NULL: not to be looked at */
	bool force;
	struct error source_err, mountpoint_err;
};

struct path_look {
	struct registry *registry;
	int64_t since_ms; /* when it started; once nothing is left, when it ended */
	unsigned left;	  /* items that are not done */
	bool overdue;
	bool wanted; /* false: nobody waits for the answer any more */
	unsigned n;
	struct path_item item[];
};

/* --- the tasks ------------------------------------------------------------------------------ */

static void run(struct task *t)
{
	struct path_item *item = container_of(t, struct path_item, task);
	if (item->source)
		path_check_source(item->source, &item->source_err);
	if (item->mountpoint)
		path_check_mountpoint(item->mountpoint, item->force, &item->mountpoint_err);
}

static void look_free(struct path_look *l)
{
	for (unsigned i = 0; i < l->n; i++) {
		free(l->item[i].source);
		free(l->item[i].mountpoint);
	}
	free(l);
}

static void done(struct task *t)
{
	struct path_item *item = container_of(t, struct path_item, task);
	struct path_look *l = item->look;
	l->registry->looks--;
	item->done = true;
	if (--l->left)
		return;
	l->since_ms = loop_now_ms();
	if (l->wanted)
		l->registry->looked = true;
	else
		look_free(l);
}

static bool copy(char **to, const char *path, bool wanted)
{
	*to = wanted ? strdup(path) : NULL;
	return !wanted || *to;
}

static struct path_look *look_new(struct registry *r, const struct new_mount *mount, unsigned n)
{
	struct path_look *l = calloc(1, sizeof(*l) + n * sizeof(l->item[0]));
	bool ok = l;
	for (; ok && l->n < n; l->n++) {
		struct path_item *item = &l->item[l->n];
		const struct new_mount *m = &mount[l->n];
		*item = (struct path_item){
			.task = {.run = run, .done = done}, .look = l, .force = r->force};
		ok = copy(&item->source, m->source, m->look_at_source) &&
		     copy(&item->mountpoint, m->s->mountpoint, m->look_at_mountpoint);
	}
	if (ok)
		return l;
	if (l)
		look_free(l);
	return NULL;
}

static bool start(struct registry *r, const struct new_mount *mount, unsigned n)
{
	struct path_look *l = look_new(r, mount, n);
	if (!l)
		return false;
	l->registry = r;
	l->since_ms = loop_now_ms();
	l->wanted = true;
	l->left = n;
	r->path_look = l;
	r->looks += n;
	for (unsigned i = 0; i < n; i++)
		task_start(&r->tasks, &l->item[i].task);
	return true;
}

/* --- its answer ----------------------------------------------------------------------------- */

static bool is_of(const char *known, const char *path, bool wanted)
{
	return known ? wanted && strcmp(known, path) == 0 : !wanted;
}

/* True: it was started for these mounts. */
static bool is_about(const struct path_look *l, const struct new_mount *mount, unsigned n)
{
	bool same = l->n == n;
	for (unsigned i = 0; same && i < n; i++)
		same = is_of(l->item[i].source, mount[i].source, mount[i].look_at_source) &&
		       is_of(l->item[i].mountpoint, mount[i].s->mountpoint,
			     mount[i].look_at_mountpoint);
	return same;
}

static unsigned line_of(const struct settings *s, const char *option)
{
	unsigned line = s->lines[option_find(option) - options];
	return line ? line : s->line;
}

static void report(const struct path_item *item, const struct new_mount *m, struct problems *p)
{
	if (!item->done && m->replaces)
		problems_add(p, m->s->line,
			     "[mount:%s] source '%s' or mountpoint '%s' does not respond",
			     m->s->section, m->source, m->s->mountpoint);
	if (!item->done)
		return;
	if (error_is_set(&item->source_err))
		problems_add(p, line_of(m->s, m->s->source ? "source" : "fs"), "[mount:%s] %s",
			     m->s->section, item->source_err.text);
	if (error_is_set(&item->mountpoint_err))
		problems_add(p, line_of(m->s, "mountpoint"), "[mount:%s] %s", m->s->section,
			     item->mountpoint_err.text);
}

static bool is_overdue(const struct path_look *l)
{
	return l->left && loop_now_ms() - l->since_ms > PATIENCE_MS;
}

static bool is_stale(const struct path_look *l)
{
	return !l->left && loop_now_ms() - l->since_ms > FRESH_MS;
}

/* True: not known yet. */
static bool check(struct registry *r, const struct new_mount *mount, unsigned n, struct problems *p)
{
	if (r->path_look && (is_stale(r->path_look) || !is_about(r->path_look, mount, n)))
		reload_paths_end(r);
	if (!r->path_look && !start(r, mount, n)) {
		problems_add(p, 0, "out of memory");
		return false;
	}
	if (r->path_look->left && !is_overdue(r->path_look))
		return true;
	for (unsigned i = 0; i < n; i++)
		report(&r->path_look->item[i], &mount[i], p);
	return false;
}

/* --- new mounts ------------------------------------------------------------------------------ */

static bool has_successor(const struct changes *j, const struct settings *wanted)
{
	list_for_each (it, &j->r->mounts)
		if (reload_successor(j, list_entry(it, struct served_mount, link)) == wanted)
			return true;
	return false;
}

/* True: the path is in a mount that is ending, or that this reload removes. */
static bool is_in_ending(const struct changes *j, const char *path)
{
	list_for_each (it, &j->r->endings) {
		const struct ending *e = list_entry(it, struct ending, link);
		if (!e->released && path_is_in(path, e->mountpoint))
			return true;
	}
	list_for_each (it, &j->r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if ((path_is_in(path, m->s.mountpoint) || path_is_in(path, m->real_mountpoint)) &&
		    served_state(m) != SERVED_DOWN && !reload_successor(j, m))
			return true;
	}
	return false;
}

/* True: another of the new mounts will cover the path. */
static bool is_in_new(const struct new_mount *mount, unsigned n, const struct new_mount *m,
		      const char *path)
{
	for (unsigned i = 0; i < n; i++)
		if (&mount[i] != m && path_is_in(path, mount[i].s->mountpoint))
			return true;
	return false;
}

/* True: this reload removes a mount that is up, and `wanted` takes over its name or mountpoint. */
static bool replaces(const struct changes *j, const struct settings *wanted)
{
	list_for_each (it, &j->r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (served_state(m) == SERVED_UP && !reload_successor(j, m) &&
		    (strcmp(m->s.name, wanted->name) == 0 ||
		     strcmp(m->s.mountpoint, wanted->mountpoint) == 0))
			return true;
	}
	return false;
}

bool reload_paths(const struct changes *j, struct problems *p)
{
	const struct configuration *c = j->c;
	AUTO_FREE struct new_mount *mount = calloc(c->n_mounts + 1, sizeof(*mount));
	unsigned n = 0;
	if (!mount) {
		problems_add(p, 0, "out of memory");
		return false;
	}
	for (unsigned i = 0; i < c->n_mounts; i++) {
		const struct settings *s = &c->mount[i];
		const struct settings *fs = s->fs ? configuration_find_fs(c, s->fs) : NULL;
		if (!has_successor(j, s))
			mount[n++] = (struct new_mount){
				.s = s,
				.source = fs ? fs->source : s->source,
				.replaces = replaces(j, s),
			};
	}
	for (unsigned i = 0; i < n; i++) {
		struct new_mount *m = &mount[i];
		m->look_at_source =
			!is_in_ending(j, m->source) && !is_in_new(mount, n, NULL, m->source);
		m->look_at_mountpoint = !is_in_ending(j, m->s->mountpoint) &&
					!is_in_new(mount, n, m, m->s->mountpoint);
	}
	return n && check(j->r, mount, n, p);
}

/* --- life ----------------------------------------------------------------------------------- */

void reload_paths_progress(struct registry *r)
{
	struct path_look *l = r->path_look;
	if (!l || l->overdue || !is_overdue(l))
		return;
	l->overdue = true;
	r->looked = true;
}

void reload_paths_end(struct registry *r)
{
	struct path_look *l = r->path_look;
	r->path_look = NULL;
	if (!l)
		return;
	l->wanted = false;
	if (!l->left)
		look_free(l);
}
