/* SPDX-License-Identifier: MIT */
#include "daemon/reload.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/config_file.h"
#include "daemon/ending.h"
#include "daemon/in_use.h"
#include "daemon/names.h"
#include "daemon/options.h"
#include "daemon/pools.h"
#include "daemon/reload_compare.h"
#include "daemon/reload_internal.h"
#include "daemon/reload_paths.h"

static void note(struct changes *j, enum log_level level, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void note(struct changes *j, enum log_level level, const char *fmt, ...)
{
	char line[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	log_write(level, "%s", line);
	if (j->reply)
		command_note(j->reply, line);
}

/* --- scopes that stay ------------------------------------------------------------------------ */

/* Notes the options that take effect immediately: "mount 'data': iops=200, was off". */
static void note_live(struct changes *j, enum scope_kind scope, const struct settings *old,
		      const struct settings *new)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		if (!o->live || !option_is_in(o, scope) || option_equal(o, old, new))
			continue;
		AUTO_FREE char *before = option_text(o, old), *now = option_text(o, new);
		bool global = scope == SCOPE_GLOBAL;
		note(j, LOG_LEVEL_INFO, "%s%s%s%s: %s=%s, was %s", scope_kind_name(scope),
		     global ? "" : " '", global ? "" : new->name, global ? "" : "'", o->name, now,
		     before && *before ? before : "none");
		registry_tell(j->r, "limit_changed", scope_kind_name(scope),
			      global ? "global" : new->name, o->name, now);
	}
}

/* The same for the classes of a mount; also notes classes that are added, removed or moved. */
static void note_classes(struct changes *j, const struct settings *old, const struct settings *new)
{
	unsigned at = 0;
	bool moved = false;
	for (unsigned i = 0; i < old->n_classes; i++)
		if (!settings_find_class(new, old->class[i].name))
			note(j, LOG_LEVEL_INFO, "mount '%s': class '%s' removed", new->name,
			     old->class[i].name);
	for (unsigned i = 0; i < new->n_classes; i++) {
		const struct settings *s = &new->class[i], *was = settings_find_class(old, s->name);
		if (!was) {
			note(j, LOG_LEVEL_INFO, "mount '%s': class '%s' added", new->name, s->name);
			continue;
		}
		moved |= (unsigned)(was - old->class) < at;
		at = (unsigned)(was - old->class);
		note_live(j, SCOPE_CLASS, was, s);
	}
	if (moved)
		note(j, LOG_LEVEL_INFO, "mount '%s': its classes are in another order", new->name);
}

static void note_fixed(struct changes *j, const struct settings *old, const struct settings *new)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		if (o->live || !option_is_in(o, SCOPE_MOUNT) || option_equal(o, old, new))
			continue;
		note(j, LOG_LEVEL_WARNING,
		     "mount '%s': %s takes effect at the next mount (ratefsctl unmount, then mount)",
		     new->name, o->name);
	}
}

/* --- mounts ---------------------------------------------------------------------------------- */

static bool fs_moved(const struct changes *j, const struct served_mount *m)
{
	const struct settings *fs = m->s.fs ? configuration_find_fs(j->c, m->s.fs) : NULL;
	return fs && m->fs && strcmp(fs->source, m->fs->s.source) != 0;
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
			"mount '%s' would go, but is in use (%s); reload --force takes it away",
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

static void drop_fs(struct changes *j)
{
	list_for_each_safe (it, &j->r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		bool wanted = fs->own ? configuration_find_mount(j->c, fs->s.name) != NULL
				      : configuration_find_fs(j->c, fs->s.name) != NULL;
		if (!wanted)
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

/* The new name of a mount's own fs, which is named like the mount. */
static char *own_fs_name(struct changes *j, const struct served_fs *fs)
{
	list_for_each (it, &j->r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		const struct settings *wanted = m->fs == fs ? reload_successor(j, m) : NULL;
		if (wanted)
			return wanted->name;
	}
	return fs->s.name;
}

/* A mount's own fs is not in the file: a reload resets the options that `set` has changed in it. */
static bool plan_own_fs(struct changes *j, struct reload_plan *p, struct served_fs *fs)
{
	struct settings nothing;
	settings_init(&nothing);
	nothing.name = own_fs_name(j, fs);
	nothing.source = fs->s.source;
	return plan_fs_change(p, fs, &nothing);
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
		ok = fs ? plan_fs_change(p, fs, wanted)
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

/* Plans a new mount.  If it replaces one of the same name, keeps the settings of that one, to mount it again on failure. */
static bool plan_new_mount(struct changes *j, struct reload_plan *p, unsigned i)
{
	const struct settings *wanted = &j->c->mount[i];
	struct served_mount *m = registry_make_mount(j->r, wanted, &p->mounts);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are n_mounts > i of them */
	const struct served_mount *was = registry_find_mount(j->r, wanted->name);
	bool way_back =
		was && served_state(was) == SERVED_UP && was->s.source && !reload_successor(j, was);
	if (!m || !way_back)
		return m;
	m->fallback = malloc(sizeof(*m->fallback));
	if (m->fallback && settings_copy(m->fallback, &was->s))
		return true;
	free(m->fallback);
	m->fallback = NULL;
	return false;
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
		ok = taken[i] || plan_new_mount(j, p, i);
	return ok;
}

static int plan(struct changes *j, struct reload_plan *p, struct error *err)
{
	*p = (struct reload_plan){0};
	registry_change_init(&p->change, j->r);
	list_init(&p->fs);
	list_init(&p->mounts);
	if (pools_plan(j->r->pools, j->c, &p->pools, err) < 0)
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

static void rename_mounts(struct changes *j, struct reload_plan *p)
{
	for (unsigned i = 0; i < p->n_renamings; i++) {
		struct renaming *one = &p->renaming[i];
		struct served_mount *m = one->mount;
		note(j, LOG_LEVEL_INFO, "mount '%s': is called '%s' now", m->s.name, one->name);
		if (m->fs->own)
			swap_names(&m->fs->s.name, &one->fs_name);
		swap_names(&m->end->name, &one->end_name);
		swap_names(&m->s.name, &one->name);
	}
}

static void note_change(struct changes *j, const struct scope_change *sc)
{
	const struct registry *r = j->r;
	enum scope_kind scope = sc->mount ? SCOPE_MOUNT : sc->fs ? SCOPE_FS : SCOPE_GLOBAL;
	const struct settings *old = sc->mount ? &sc->mount->s : sc->fs ? &sc->fs->s : &r->global;
	if (scope == SCOPE_GLOBAL && option_differs(old, &sc->s, "control"))
		note(j, LOG_LEVEL_WARNING, "global: control takes effect at the next start");
	if (sc->mount && sc->mount->session)
		note_fixed(j, old, &sc->s);
	note_live(j, scope, old, &sc->s);
	if (sc->mount)
		note_classes(j, old, &sc->s);
}

static void add_mounts(struct changes *j, struct reload_plan *p)
{
	list_for_each_safe (it, &p->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		list_remove(it);
		list_push_tail(&j->r->mounts, it);
		registry_tell(j->r, "mount_added", "mount", m->s.name, NULL, NULL);
		mount_it(j, m);
	}
}

static void retry_mounts(struct changes *j)
{
	list_for_each (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->failed && served_state(m) == SERVED_DOWN)
			mount_it(j, m);
	}
}

/* The limits are in force; the rest cannot fail. */
static void finish(struct changes *j, struct reload_plan *p)
{
	pools_reload(j->r->pools, p->pools);
	drop_mounts(j);
	rename_mounts(j, p);
	for (unsigned i = 0; i < p->change.n; i++)
		note_change(j, &p->change.scope[i]);
	registry_change_finish(&p->change);
	list_splice_tail(&j->r->fs, &p->fs);
	retry_mounts(j);
	add_mounts(j, p);
	drop_fs(j);
}

static enum reload_result carry_out(struct changes *j, struct problems *problems)
{
	struct reload_plan p;
	struct error err = ERROR_INIT;
	bool ok = plan(j, &p, &err) == 0 && registry_change_apply(&p.change, &err) == 0;
	if (ok)
		finish(j, &p);
	else
		problems_add(problems, 0, "%s", err.text);
	plan_free(&p);
	return ok ? RELOAD_DONE : RELOAD_FAILED;
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

enum reload_result reload(struct registry *r, bool force, struct problems *p,
			  struct command_reply *reply)
{
	struct configuration c;
	struct await nobody = {0};
	struct changes j = {r, &c, reply, reply ? &reply->await : &nobody};
	j.await->reload = true;
	names_begin();
	int rc = config_load(&c, r->file, p);
	if (rc < 0 && names_wanted() && names_ask()) {
		problems_free(p);
		return RELOAD_LATER;
	}
	enum reload_result res = rc < 0 ? RELOAD_REFUSED : look_first(&j, force, p);
	if (res != RELOAD_LATER)
		names_end();
	if (res == RELOAD_DONE)
		res = carry_out(&j, p);
	if (rc == 0)
		configuration_free(&c);
	await_free(&nobody);
	if (res == RELOAD_DONE)
		log_info("%s: reloaded", r->file);
	return res;
}
