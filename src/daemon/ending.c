/* SPDX-License-Identifier: MIT */
#include "daemon/ending.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/loop.h"
#include "daemon/serve_mount.h"

struct ending *ending_new(struct registry *r, const struct settings *s)
{
	struct ending *e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->registry = r;
	e->name = strdup(s->name);
	e->mountpoint = strdup(s->mountpoint);
	if (e->name && e->mountpoint)
		return e;
	ending_free(e);
	return NULL;
}

void ending_free(struct ending *e)
{
	if (!e)
		return;
	free(e->name);
	free(e->mountpoint);
	free(e);
}

struct ending *ending_find(struct registry *r, uint64_t serial)
{
	list_for_each (it, &r->endings) {
		struct ending *e = list_entry(it, struct ending, link);
		if (e->serial == serial)
			return e;
	}
	return NULL;
}

struct ending *ending_find_dropped(struct registry *r, const char *name)
{
	list_for_each (it, &r->endings) {
		struct ending *e = list_entry(it, struct ending, link);
		if (!e->owner && !e->released &&
		    (strcmp(e->name, name) == 0 || strcmp(e->mountpoint, name) == 0))
			return e;
	}
	return NULL;
}

void ending_look(const struct ending *e, struct fs_source_look *out)
{
	if (e->released)
		*out = e->left;
	else
		fs_mount_look_source(e->session, out);
}

char *ending_text(const struct ending *e)
{
	struct fs_source_look l;
	char *text;
	ending_look(e, &l);
	int rc = l.oldest_op[0] ? asprintf(&text, "%u request%s in the source: %s, for %.1f s", l.n,
					   l.n == 1 ? "" : "s", l.oldest_op, l.oldest_ns / 1e9)
				: asprintf(&text, "%u request%s", l.n, l.n == 1 ? "" : "s");
	return rc < 0 ? NULL : text;
}

/* --- gone ----------------------------------------------------------------------------------- */

static void run_free(struct task *t)
{
	fs_mount_free(container_of(t, struct ending, task)->session);
}

static void freed(struct task *t)
{
	struct ending *e = container_of(t, struct ending, task);
	if (!e->clean)
		log_info("mount '%s': all abandoned requests have finished", e->name);
	list_remove(&e->link);
	scope_drop(e->registry, e->gate_mount, e->fs);
	ending_free(e);
}

/* --- released ------------------------------------------------------------------------------- */

static void run_stop(struct task *t)
{
	struct ending *e = container_of(t, struct ending, task);
	e->clean = fs_mount_stop(e->session, e->force ? 0 : NEVER, &e->left);
	auto_unmount_stop(&e->auto_unmount);
}

static void released(struct task *t)
{
	struct ending *e = container_of(t, struct ending, task);
	struct served_mount *m = e->owner;
	e->released = true;
	e->since_ms = loop_now_ms();
	if (!e->clean) {
		AUTO_FREE char *text = ending_text(e);
		log_warning("mount '%s': abandoned %s", e->name, text ? text : "what hangs");
	}
	if (e->clean && !m)
		log_info("mount '%s': unmounted", e->name);
	if (m) {
		m->ending = NULL;
		m->session = NULL;
		m->gate_mount = NULL;
		m->fs = NULL;
		e->owner = NULL;
	}
	e->task = (struct task){.run = run_free, .done = freed};
	task_start(&e->registry->tasks, &e->task);
}

/* --- begin ---------------------------------------------------------------------------------- */

void ending_begin(struct ending *e, struct fs_mount *session, struct gate_mount *gate,
		  struct served_fs *fs)
{
	struct registry *r = e->registry;
	e->task = (struct task){.run = run_stop, .done = released};
	e->serial = ++r->last_serial;
	e->session = session;
	e->gate_mount = gate;
	e->fs = fs;
	e->since_ms = loop_now_ms();
	list_push_tail(&r->endings, &e->link);
	task_start(&r->tasks, &e->task);
}

void ending_of(struct served_mount *m, bool force)
{
	if (m->ending) {
		if (force)
			ending_abandon(m->ending);
		return;
	}
	struct ending *e = m->end;
	m->end = NULL;
	m->ending = e;
	e->owner = m;
	e->force = force;
	ending_begin(e, m->session, m->gate_mount, m->fs);
}

void ending_abandon(struct ending *e)
{
	if (!e->released)
		fs_mount_abandon(e->session);
}
