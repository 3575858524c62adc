/* SPDX-License-Identifier: MIT */
#include "daemon/await.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/commands.h"
#include "daemon/ending.h"
#include "daemon/loop.h"
#include "daemon/reload_back.h"
#include "daemon/served_space.h"

static bool add(struct await *a, const char *name, uint64_t ending)
{
	struct await_item *more = realloc(a->item, (a->n + 1) * sizeof(*more));
	if (!more)
		return false;
	a->item = more;
	more[a->n] = (struct await_item){strdup(name), ending};
	if (!more[a->n].name)
		return false;
	a->n++;
	a->until_ms = loop_now_ms() + AWAIT_MS;
	return true;
}

bool await_mount(struct await *a, const struct served_mount *m)
{
	return add(a, m->s.name, 0);
}

bool await_unmount(struct await *a, const struct ending *e)
{
	return add(a, e->name, e->serial);
}

void await_free(struct await *a)
{
	for (unsigned i = 0; i < a->n; i++)
		free(a->item[i].name);
	free(a->item);
	memset(a, 0, sizeof(*a));
}

static bool item_is_over(struct registry *r, const struct await_item *i)
{
	if (i->ending) {
		const struct ending *e = ending_find(r, i->ending);
		return !e || e->released;
	}
	const struct served_mount *m = registry_find_mount(r, i->name);
	return !m || served_state(m) != SERVED_MOUNTING;
}

bool await_is_over(struct registry *r, const struct await *a)
{
	if (loop_now_ms() >= a->until_ms)
		return true;
	if (a->reload && r->way_back && r->way_back->serial == a->reload)
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (!item_is_over(r, &a->item[i]))
			return false;
	return true;
}

/* --- the result ----------------------------------------------------------------------------- */

static void note(struct command_reply *reply, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void note(struct command_reply *reply, const char *fmt, ...)
{
	char line[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	command_note(reply, line);
}

/* An error for a client that asked for this mount, a note for one that asked for all. */
static void trouble(struct await *a, struct command_reply *reply, const char *name,
		    const char *text)
{
	if (a->reload) {
		note(reply, "mount '%s': %s", name, text);
		return;
	}
	command_fail(reply, PROTO_FAILED, "%s", text);
	free(reply->place);
	reply->place = strdup(name);
}

/* The reload has changed everything else; an error says which mounts it could not make. */
static void mount_failed(struct await *a, struct command_reply *reply, const char *name,
			 const char *text)
{
	AUTO_FREE char *before = reply->long_text;
	if (!a->reload) {
		trouble(a, reply, name, text);
		return;
	}
	if (asprintf(&reply->long_text, "%s%sreloaded, but mount '%s': %s", before ? before : "",
		     before ? "\n" : "", name, text) < 0)
		reply->long_text = NULL;
	command_fail(reply, PROTO_FAILED, "reloaded, but mount '%s': %s", name, text);
}

static void report_mount(struct registry *r, struct await *a, const struct await_item *i,
			 struct command_reply *reply)
{
	const struct served_mount *m = registry_find_mount(r, i->name);
	if (!m)
		return;
	switch (served_state(m)) {
	case SERVED_UP:
		if (a->reload)
			note(reply, "mount '%s': mounted", i->name);
		break;
	case SERVED_MOUNTING:
		trouble(a, reply, i->name,
			served_space_counting(m)
				? "is still being mounted: what its source holds is being counted"
				: "is still being mounted: the source or the mountpoint does not respond");
		break;
	default:
		if (error_is_set(&m->trouble))
			mount_failed(a, reply, i->name, m->trouble.text);
	}
}

static void report_unmount(struct registry *r, struct await *a, const struct await_item *i,
			   struct command_reply *reply)
{
	const struct ending *e = ending_find(r, i->ending);
	AUTO_FREE char *text = e ? ending_text(e) : NULL, *line = NULL;
	if (e && !e->released) {
		if (asprintf(
			    &line,
			    "is still being unmounted, with %s; 'unmount --force' abandons what hangs",
			    text ? text : "") >= 0)
			trouble(a, reply, i->name, line);
	} else if (e && !e->clean) {
		note(reply, "mount '%s': unmounted; abandoned %s", i->name, text ? text : "");
	} else if (a->reload) {
		note(reply, "mount '%s': unmounted", i->name);
	}
}

/* What the reload did is as it was before. */
static void report_undone(const struct registry *r, struct command_reply *reply)
{
	const char *why = r->undone_why ? r->undone_why : "out of memory";
	json_object_del(reply->data.at, "notes");
	command_fail(reply, PROTO_FAILED, "not reloaded, everything is as before: %s", why);
	if (asprintf(&reply->long_text, "not reloaded, everything is as before: %s", why) < 0)
		reply->long_text = NULL;
}

void await_report(struct registry *r, struct await *a, struct command_reply *reply)
{
	if (a->reload && a->reload == r->undone) {
		report_undone(r, reply);
		return;
	}
	for (unsigned i = 0; i < a->n; i++)
		if (a->item[i].ending)
			report_unmount(r, a, &a->item[i], reply);
		else
			report_mount(r, a, &a->item[i], reply);
}
