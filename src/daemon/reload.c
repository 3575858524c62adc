/* SPDX-License-Identifier: MIT */
#include "daemon/reload.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/config_file.h"
#include "daemon/ending.h"
#include "daemon/files.h"
#include "daemon/in_use.h"
#include "daemon/names.h"
#include "daemon/pools.h"
#include "daemon/reload_back.h"
#include "daemon/reload_compare.h"
#include "daemon/reload_internal.h"
#include "daemon/reload_paths.h"
#include "daemon/trace.h"

/* --- mounts ---------------------------------------------------------------------------------- */

static bool fs_moved(const struct changes *j, const struct served_mount *m)
{
	const struct settings *fs = m->s.fs ? configuration_find_fs(j->c, m->s.fs) : NULL;
	const char *source = fs ? served_source(m) : NULL;
	return source && strcmp(fs->source, source) != 0;
}

const struct settings *reload_successor(const struct changes *j, const struct served_mount *m)
{
	const struct settings *same = configuration_find_mount(j->c, m->s.name);
	if (fs_moved(j, m))
		return NULL;
	if (same && !must_remount(&m->s, same))
		return same;
	for (unsigned i = 0; served_state(m) == SERVED_UP && i < j->c->n_mounts; i++)
		if (!must_remount(&m->s, &j->c->mount[i]))
			return &j->c->mount[i];
	return NULL;
}

/* Adds a problem for every mount that would be removed and is in use.  True: that is not known yet. */
static bool look_at_users(const struct changes *j, struct problems *p)
{
	bool unknown = false;
	list_for_each (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		enum use use = reload_successor(j, m) ? USE_NONE : in_use(m);
		unknown |= use == USE_UNKNOWN;
		if (use != USE_SOME)
			continue;
		AUTO_FREE char *text = in_use_text(m, !j->reply);
		problems_add(
			p, 0,
			"mount '%s' would be unmounted, but is in use (%s); reload --force unmounts it nevertheless",
			m->s.name, text ? text : "");
	}
	return unknown;
}

static void drop_mounts(struct changes *j)
{
	list_for_each_safe (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (reload_successor(j, m))
			continue;
		registry_unmount(m, false);
		if (m->ending)
			await_unmount(j->await, m->ending);
		registry_drop_fs(registry_find_own_fs(j->r, m->s.name, true));
		registry_tell(j->r, "mount_removed", "mount", m->s.name, NULL, NULL);
		registry_forget_mount(m);
	}
}

static void mount_it(struct changes *j, struct served_mount *m)
{
	m->asked = false;
	if (registry_mount(m, &m->trouble) < 0)
		log_error("mount '%s': %s", m->s.name, m->trouble.text);
	await_mount(j->await, m);
}

/* An fs with another source is another fs: what the old source holds does not count in it. */
static bool is_moved(const struct served_fs *fs, const struct settings *wanted)
{
	return strcmp(fs->s.source, wanted->source) != 0;
}

static void drop_fs(struct changes *j)
{
	list_for_each_safe (it, &j->r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		const struct settings *s = fs->own ? configuration_find_mount(j->c, fs->s.name)
						   : configuration_find_fs(j->c, fs->s.name);
		if (!s || (!fs->own && is_moved(fs, s)))
			registry_drop_fs(fs);
	}
}

/* --- planning: all that can fail ------------------------------------------------------------- */

struct renaming {
	struct served_mount *mount;
	char *name, *fs_name, *end_name;
};

/* Everything that the reload needs, allocated in advance, so that it happens as
 * a whole or not at all. */
struct reload_plan {
	struct registry_change change;
	struct pools_plan *pools;
	struct list fs, mounts; /* new ones */
	struct renaming *renaming;
	unsigned n_renamings;
};

static void plan_free(struct reload_plan *p)
{
	registry_change_free(&p->change);
	pools_plan_free(p->pools);
	list_for_each_safe (it, &p->mounts)
		registry_forget_mount(list_entry(it, struct served_mount, link));
	list_for_each_safe (it, &p->fs)
		registry_forget_fs(list_entry(it, struct served_fs, link));
	for (unsigned i = 0; i < p->n_renamings; i++) {
		free(p->renaming[i].name);
		free(p->renaming[i].fs_name);
		free(p->renaming[i].end_name);
	}
	free(p->renaming);
}

static bool plan_global(struct changes *j, struct reload_plan *p)
{
	const struct registry *r = j->r;
	return (same_options(SCOPE_GLOBAL, &r->global, &j->c->global) ||
		registry_change_add(&p->change, NULL, NULL, &j->c->global)) &&
	       (same_weights(&r->weights, &j->c->weights) ||
		registry_change_weights(&p->change, &j->c->weights));
}

static bool plan_fs_change(struct reload_plan *p, struct served_fs *fs,
			   const struct settings *wanted)
{
	return same_options(SCOPE_FS, &fs->s, wanted) ||
	       registry_change_add(&p->change, fs, NULL, wanted);
}

/* The section that keeps the mount of this own fs, which is named like the mount.  NULL: none does. */
static const struct settings *own_fs_successor(struct changes *j, const struct served_fs *fs)
{
	list_for_each (it, &j->r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->fs ? m->fs == fs : !m->s.fs && strcmp(m->s.name, fs->s.name) == 0)
			return reload_successor(j, m);
	}
	return NULL;
}

/* A mount's own fs is not in the file: a reload resets the options that `set` has changed in it. */
static bool plan_own_fs(struct changes *j, struct reload_plan *p, struct served_fs *fs)
{
	const struct settings *mount = own_fs_successor(j, fs), *was;
	struct settings wanted;
	if (!mount)
		return true; /* goes with its mount */
	settings_init(&wanted);
	was = j->back ? way_back_own_fs(j->back, mount->name) : NULL;
	if (was)
		wanted = *was;
	wanted.name = mount->name;
	wanted.source = fs->s.source;
	return plan_fs_change(p, fs, &wanted);
}

static bool plan_fs(struct changes *j, struct reload_plan *p)
{
	bool ok = true;
	list_for_each (it, &j->r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		ok = ok && (!fs->own || plan_own_fs(j, p, fs));
	}
	for (unsigned i = 0; ok && i < j->c->n_fs; i++) {
		const struct settings *wanted = &j->c->fs[i];
		struct served_fs *fs = registry_find_own_fs(j->r, wanted->name, false);
		ok = fs && !is_moved(fs, wanted)
			     ? plan_fs_change(p, fs, wanted)
			     : registry_make_fs(j->r, wanted, false, &p->fs) != NULL;
	}
	return ok;
}

/* The section of a mount that is up has a new name; plans to rename the mount as well. */
static bool plan_name(struct reload_plan *p, struct served_mount *m, const char *name)
{
	struct renaming *more = realloc(p->renaming, (p->n_renamings + 1) * sizeof(*more));
	if (!more)
		return false;
	p->renaming = more;
	struct renaming *one = &more[p->n_renamings++];
	*one = (struct renaming){m, strdup(name), strdup(name), strdup(name)};
	return one->name && one->fs_name && one->end_name;
}

static bool plan_mounts(struct changes *j, struct reload_plan *p)
{
	AUTO_FREE bool *taken = calloc(j->c->n_mounts + 1, sizeof(*taken));
	bool ok = taken;
	list_for_each (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		const struct settings *wanted = ok ? reload_successor(j, m) : NULL;
		if (!wanted)
			continue;
		taken[wanted - j->c->mount] = true;
		ok = strcmp(wanted->name, m->s.name) == 0 || plan_name(p, m, wanted->name);
		ok = ok && (same_mount(&m->s, wanted) ||
			    registry_change_add(&p->change, NULL, m, wanted));
	}
	for (unsigned i = 0; ok && i < j->c->n_mounts; i++)
		ok = taken[i] || registry_make_mount(j->r, &j->c->mount[i], &p->mounts);
	return ok;
}

static int plan(struct changes *j, struct reload_plan *p, struct error *err)
{
	*p = (struct reload_plan){0};
	registry_change_init(&p->change, j->r);
	list_init(&p->fs);
	list_init(&p->mounts);
	if (pools_join_all(j->r->pools, j->c, err) < 0 ||
	    pools_plan(j->r->pools, j->c, &p->pools, err) < 0)
		return -1;
	return plan_global(j, p) && plan_fs(j, p) && plan_mounts(j, p)
		       ? 0
		       : error_set(err, "nothing was changed: out of memory");
}

/* --- doing it ---------------------------------------------------------------------------------- */

static void swap_names(char **a, char **b)
{
	char *was = *a;
	*a = *b;
	*b = was;
}

/* Who listens to a mount goes on listening to it. */
static void rename_filters(struct changes *j, const struct reload_plan *p)
{
	if (!j->r->traces)
		return;
	list_for_each (it, &j->r->traces->all) {
		struct trace_filter *f = &list_entry(it, struct trace, link)->filter;
		for (unsigned i = 0; i < p->n_renamings; i++) {
			const struct renaming *one = &p->renaming[i];
			if (strcmp(f->mount, one->name) != 0) /* what it was called */
				continue;
			snprintf(f->mount, sizeof(f->mount), "%s", one->mount->s.name);
			break;
		}
	}
}

static void rename_mounts(struct changes *j, struct reload_plan *p)
{
	for (unsigned i = 0; i < p->n_renamings; i++) {
		struct renaming *one = &p->renaming[i];
		struct served_mount *m = one->mount;
		reload_note_name(j, m->s.name, one->name);
		if (m->fs->own)
			swap_names(&m->fs->s.name, &one->fs_name);
		swap_names(&m->end->name, &one->end_name);
		swap_names(&m->s.name, &one->name);
	}
	rename_filters(j, p);
}

static void add_mounts(struct changes *j, struct reload_plan *p)
{
	list_for_each_safe (it, &p->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		const struct was *was = j->back ? way_back_mount(j->back, m->s.name) : NULL;
		m->fresh = true;
		m->paused = was && was->paused;
		list_remove(it);
		list_push_tail(&j->r->mounts, it);
		registry_tell(j->r, "mount_added", "mount", m->s.name, NULL, NULL);
		if (!was)
			mount_it(j, m);
	}
}

/* Mounts that failed before this reload are tried again; on the way back, what was up. */
static void retry_mounts(struct changes *j)
{
	list_for_each (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		const struct was *was = j->back ? way_back_mount(j->back, m->s.name) : NULL;
		if (served_state(m) != SERVED_DOWN || !(was ? was->up : m->failed))
			continue;
		m->fresh = was;
		mount_it(j, m);
	}
}

static void pause_fs(struct changes *j, struct reload_plan *p)
{
	list_for_each (it, &p->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		if (j->back && way_back_fs_paused(j->back, fs->s.name))
			registry_pause_fs(fs, true);
	}
}

/* The limits are in force; the rest cannot fail. */
static void finish(struct changes *j, struct reload_plan *p)
{
	pools_reload(j->r->pools, p->pools);
	drop_mounts(j);
	rename_mounts(j, p);
	for (unsigned i = 0; i < p->change.n; i++)
		reload_note_change(j, &p->change.scope[i]);
	registry_change_finish(&p->change);
	drop_fs(j);
	pause_fs(j, p);
	list_splice_tail(&j->r->fs, &p->fs);
	if (!j->back)
		retry_mounts(j);
	add_mounts(j, p);
	if (j->back)
		retry_mounts(j);
}

static int carry_out(struct changes *j, struct error *err)
{
	struct reload_plan p;
	bool ok = plan(j, &p, err) == 0 && registry_change_apply(&p.change, err) == 0;
	if (ok)
		finish(j, &p);
	plan_free(&p);
	return ok ? 0 : -1;
}

static enum reload_result apply(struct changes *j, struct problems *problems)
{
	struct error err = ERROR_INIT;
	reload_settle(j->r);
	struct way_back *b = way_back_new(j->r);
	if (!b)
		error_set(&err, "nothing was changed: out of memory");
	if (!b || carry_out(j, &err) < 0) {
		problems_add(problems, 0, "%s", err.text);
		way_back_free(b);
		return RELOAD_FAILED;
	}
	j->await->reload = b->serial = ++j->r->reloads;
	reload_watch(j->r, b);
	return RELOAD_DONE;
}

int reload_apply_back(struct registry *r, struct way_back *b, struct error *err)
{
	struct await nobody = {0};
	struct changes j = {r, &b->c, NULL, &nobody, b};
	int rc = carry_out(&j, err);
	await_free(&nobody);
	return rc;
}

/* Finds out whether all new mounts can be made and all old ones can be removed. */
static enum reload_result look_first(struct changes *j, bool force, struct problems *p)
{
	bool unknown = reload_paths(j, p);
	unknown |= !force && look_at_users(j, p);
	if (!unknown)
		return p->n ? RELOAD_REFUSED : RELOAD_DONE;
	problems_free(p);
	return RELOAD_LATER;
}

void reload_forget_looks(struct registry *r)
{
	in_use_end(r);
	reload_paths_end(r);
}

bool reload_read(struct registry *r, bool again, struct configuration *c, struct problems *p,
		 enum reload_result *result)
{
	names_begin();
	files_begin(again);
	if (config_load(c, r->file, p) == 0)
		return true;
	bool names = names_wanted() && names_ask();
	*result = files_ask(r) || names ? RELOAD_LATER : RELOAD_REFUSED;
	if (*result == RELOAD_LATER)
		problems_free(p);
	else
		reload_forget_read();
	return false;
}

void reload_forget_read(void)
{
	names_end();
	files_end();
}

enum reload_result reload(struct registry *r, struct reload_how how, struct problems *p,
			  struct command_reply *reply)
{
	struct configuration c;
	struct await nobody = {0};
	struct changes j = {r, &c, reply, reply ? &reply->await : &nobody, NULL};
	enum reload_result res;
	if (!reload_read(r, how.again, &c, p, &res))
		return res;
	res = look_first(&j, how.force, p);
	if (res != RELOAD_LATER)
		reload_forget_read();
	if (res == RELOAD_DONE)
		res = apply(&j, p);
	configuration_free(&c);
	await_free(&nobody);
	if (res == RELOAD_DONE)
		log_info("%s: reloaded", r->file);
	return res;
}
