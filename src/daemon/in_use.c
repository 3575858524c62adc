/* SPDX-License-Identifier: MIT */
#include "daemon/in_use.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mount_users.h"
#include "daemon/loop.h"
#include "daemon/registry.h"
#include "fs/detach.h"
#include "fs/mount.h"

#define FRESH_MS    2000 /* older answers are discarded: whoever wanted them has left */
#define PATIENCE_MS 5000 /* if finding out takes longer, the mount is assumed to be in use */

struct use_look {
	struct task task;
	struct served_mount *owner; /* NULL: nobody waits for the answer any more */
	struct registry *registry;
	int64_t since_ms; /* when the search started; once `done`, when it ended */
	bool done, overdue;

	/* used by the thread until done */
	struct mount_place place;
	bool busy;
	bool understood; /* the search has worked; otherwise assume that it is in use */
	struct mount_users users;

	uint64_t handles; /* files that clients had open at the end of the search */
};

/* --- the task ------------------------------------------------------------------------------- */

static void run(struct task *t)
{
	struct use_look *l = container_of(t, struct use_look, task);
	if (!l->place.id) {
		l->understood = true; /* mount(8) has mounted it: only open files can be checked */
		return;
	}
	int rc = mount_place_in_use(&l->place);
	l->understood = mount_users_find(&l->users, l->place.dev) || rc >= 0;
	l->busy = rc > 0 || l->users.n;
}

static void look_free(struct use_look *l)
{
	mount_users_free(&l->users);
	free(l);
}

static void done(struct task *t)
{
	struct use_look *l = container_of(t, struct use_look, task);
	struct fs_counts counts = {0};
	l->registry->looks--;
	if (!l->owner) {
		look_free(l);
		return;
	}
	if (l->owner->session)
		fs_mount_look(l->owner->session, &counts);
	l->handles = counts.handles;
	l->since_ms = loop_now_ms();
	l->done = true;
	l->registry->looked = true;
}

static bool start(struct served_mount *m)
{
	struct use_look *l = calloc(1, sizeof(*l));
	if (!l)
		return false;
	l->task = (struct task){.run = run, .done = done};
	l->owner = m;
	l->registry = m->registry;
	l->since_ms = loop_now_ms();
	l->place = fs_mount_place(m->session);
	m->look = l;
	m->registry->looks++;
	task_start(&m->registry->tasks, &l->task);
	return true;
}

/* --- its answer ----------------------------------------------------------------------------- */

static bool is_overdue(const struct use_look *l)
{
	return !l->done && loop_now_ms() - l->since_ms > PATIENCE_MS;
}

static bool says_busy(const struct use_look *l)
{
	return is_overdue(l) || (l->done && (l->busy || l->handles || !l->understood));
}

enum use in_use(struct served_mount *m)
{
	if (served_state(m) != SERVED_UP)
		return USE_NONE;
	if (m->look && m->look->done && loop_now_ms() - m->look->since_ms > FRESH_MS)
		in_use_forget(m);
	if (!m->look && !start(m))
		return USE_SOME; /* out of memory: assume that it is in use */
	if (says_busy(m->look))
		return USE_SOME;
	return m->look->done ? USE_NONE : USE_UNKNOWN;
}

char *in_use_text(const struct served_mount *m, bool names)
{
	const struct use_look *l = m->look;
	struct fs_source_look source = {0};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	if (m->session)
		fs_mount_look_source(m->session, &source);
	if (!l)
		fputs("cannot tell by whom: out of memory", out);
	else if (!l->done)
		fputs("cannot tell by whom: the path to its mountpoint hangs", out);
	else if (l->handles)
		fprintf(out, "%" PRIu64 " open file%s", l->handles, l->handles == 1 ? "" : "s");
	else if (!source.stuck) /* else a request that hangs keeps the mount in use */
		fputs("no open file, but a working directory, a mapped file or a mount below it",
		      out);
	if (source.stuck)
		fprintf(out, "%s%u request%s stuck in the source", ftell(out) > 0 ? ", " : "",
			source.stuck, source.stuck == 1 ? "" : "s");
	for (unsigned i = 0; names && l && l->done && i < l->users.n; i++) {
		fputs("; ", out);
		mount_user_print(&l->users.user[i], out);
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

void in_use_put(struct json_out list, const struct registry *r)
{
	list_for_each (it, (struct list *)&r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (!m->look || !says_busy(m->look))
			continue;
		struct json_out one = put_object(list, NULL);
		put_text(one, "mount", m->s.name);
		put_u64(one, "device", m->look->place.dev);
	}
}

/* --- life ----------------------------------------------------------------------------------- */

void in_use_progress(struct registry *r)
{
	list_for_each (it, &r->mounts) {
		struct use_look *l = list_entry(it, struct served_mount, link)->look;
		if (!l || l->overdue || !is_overdue(l))
			continue;
		l->overdue = true;
		r->looked = true;
	}
}

/* A search that hangs is kept, so that no second one is started for the same mount. */
void in_use_end(struct registry *r)
{
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->look && m->look->done)
			in_use_forget(m);
	}
}

void in_use_forget(struct served_mount *m)
{
	struct use_look *l = m->look;
	m->look = NULL;
	if (!l)
		return;
	l->owner = NULL;
	l->registry->looked |= !l->done; /* whoever waits for the answer must not wait for ever */
	if (l->done)
		look_free(l);
}
