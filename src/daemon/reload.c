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

struct changes {
	struct registry *r;
	const struct configuration *c;
	struct command_reply *reply; /* NULL: nobody waits for one */
	struct await *await;
};

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

/* --- what is there stays, as far as it can --------------------------------------------------- */

static bool differs(const struct settings *a, const struct settings *b, const char *option)
{
	return !option_equal(option_find(option), a, b);
}

/* Another place or another tree: that is another mount. */
static bool must_remount(const struct settings *a, const struct settings *b)
{
	return differs(a, b, "source") || differs(a, b, "mountpoint") || differs(a, b, "fs");
}

/* What takes effect now: "mount 'data': iops=200, was off". */
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

/* The same for the classes of a mount, and which of them come, go or change places. */
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

static void apply(struct changes *j, const char *what, int rc, const struct error *err)
{
	if (rc < 0)
		note(j, LOG_LEVEL_ERROR, "%s: %s", what, err->text);
}

/* "uid:alice": may be another number now, whatever it is called. */
static bool has_names(const char *text)
{
	for (const char *at = text; at && (at = strstr(at, "id:")); at += 3)
		if (!strchr("0123456789", at[3 + strspn(at + 3, " \t")]))
			return true;
	return false;
}

static bool weights_have_names(const struct weights *w)
{
	for (unsigned i = 0; i < w->n; i++)
		if (has_names(w->text[i]))
			return true;
	return false;
}

/* What did not change is not touched. */
static bool same_options(enum scope_kind scope, const struct settings *a, const struct settings *b)
{
	for (unsigned i = 0; i < n_options; i++)
		if (option_is_in(&options[i], scope) &&
		    (!option_equal(&options[i], a, b) || a->given[i] != b->given[i]))
			return false;
	return !has_names(b->match.text) && !weights_have_names(&b->weights);
}

static bool same_mount(const struct settings *a, const struct settings *b)
{
	if (a->n_classes != b->n_classes || !a->section != !b->section ||
	    (a->section && strcmp(a->section, b->section) != 0) || !same_options(SCOPE_MOUNT, a, b))
		return false;
	for (unsigned i = 0; i < a->n_classes; i++)
		if (strcmp(a->class[i].name, b->class[i].name) != 0 ||
		    !same_options(SCOPE_CLASS, &a->class[i], &b -> class[i]))
			return false;
	return true;
}

static bool same_weights(const struct weights *a, const struct weights *b)
{
	if (a->n != b->n || weights_have_names(b))
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (strcmp(a->text[i], b->text[i]) != 0)
			return false;
	return true;
}

static void change_global(struct changes *j)
{
	struct settings s;
	struct weights weights;
	struct error err = ERROR_INIT;
	if (!settings_copy(&s, &j->c->global)) {
		note(j, LOG_LEVEL_ERROR, "global: out of memory");
		return;
	}
	if (differs(&j->r->global, &s, "control"))
		note(j, LOG_LEVEL_WARNING, "global: control takes effect at the next start");
	note_live(j, SCOPE_GLOBAL, &j->r->global, &s);
	if (!same_options(SCOPE_GLOBAL, &j->r->global, &s))
		apply(j, "global", registry_set_global(j->r, &s, &err), &err);
	settings_free(&s);
	if (same_weights(&j->r->weights, &j->c->weights))
		return;
	if (!weights_copy(&weights, &j->c->weights)) {
		note(j, LOG_LEVEL_ERROR, "weights: out of memory");
		return;
	}
	apply(j, "weights", registry_set_weights(j->r, &weights, &err), &err);
	weights_free(&weights);
}

static void set_fs(struct changes *j, struct served_fs *fs, const struct settings *wanted)
{
	struct error err = ERROR_INIT;
	struct settings s;
	if (same_options(SCOPE_FS, &fs->s, wanted))
		return;
	if (!settings_copy(&s, wanted)) {
		note(j, LOG_LEVEL_ERROR, "fs '%s': out of memory", wanted->name);
		return;
	}
	note_live(j, SCOPE_FS, &fs->s, &s);
	apply(j, wanted->name, registry_set_fs(j->r, fs, &s, &err), &err);
	settings_free(&s);
}

/* A mount's own fs is not in the file: what `set` has given it goes. */
static void clear_own_fs(struct changes *j)
{
	list_for_each (it, &j->r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		struct settings nothing;
		settings_init(&nothing);
		nothing.name = fs->s.name;
		nothing.source = fs->s.source;
		if (fs->own)
			set_fs(j, fs, &nothing);
	}
}

static void change_fs(struct changes *j)
{
	clear_own_fs(j);
	for (unsigned i = 0; i < j->c->n_fs; i++) {
		const struct settings *wanted = &j->c->fs[i];
		struct served_fs *fs = registry_find_own_fs(j->r, wanted->name, false);
		if (fs)
			set_fs(j, fs, wanted);
		else if (!registry_add_fs(j->r, wanted, false))
			note(j, LOG_LEVEL_ERROR, "fs '%s': out of memory", wanted->name);
	}
}

/* --- mounts ---------------------------------------------------------------------------------- */

static bool fs_moved(const struct changes *j, const struct served_mount *m)
{
	const struct settings *fs = m->s.fs ? configuration_find_fs(j->c, m->s.fs) : NULL;
	return fs && m->fs && strcmp(fs->source, m->fs->s.source) != 0;
}

/* The section that goes on with a mount that is up, under whatever name; NULL: none does. */
static const struct settings *successor(const struct changes *j, const struct served_mount *m)
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

/* A mount that would go and is in use stays, and everything with it. */
static enum reload_result look_at_users(const struct changes *j, struct problems *p)
{
	bool unknown = false;
	list_for_each (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		enum use use = successor(j, m) ? USE_NONE : in_use(m);
		unknown |= use == USE_UNKNOWN;
		if (use != USE_SOME)
			continue;
		AUTO_FREE char *text = in_use_text(m, !j->reply);
		problems_add(
			p, 0,
			"mount '%s' would go, but is in use (%s); reload --force takes it away",
			m->s.name, text ? text : "");
	}
	if (!unknown)
		return p->n ? RELOAD_REFUSED : RELOAD_DONE;
	problems_free(p);
	return RELOAD_LATER;
}

/* Goes now, or with its last mount. */
static void drop_one_fs(struct served_fs *fs)
{
	if (!fs)
		return;
	fs->dropped = true;
	if (fs->mounts == 0)
		registry_forget_fs(fs);
}

static void drop_mounts(struct changes *j)
{
	list_for_each_safe (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (successor(j, m))
			continue;
		registry_unmount(m, false);
		if (m->ending)
			await_unmount(j->await, m->ending);
		drop_one_fs(registry_find_own_fs(j->r, m->s.name, true));
		registry_tell(j->r, "mount_removed", "mount", m->s.name, NULL, NULL);
		registry_forget_mount(m);
	}
}

static bool replace_name(char **name, const char *new)
{
	char *copy = strdup(new);
	if (!copy)
		return false;
	free(*name);
	*name = copy;
	return true;
}

/* The section of a mount that is up has another name now: so has the mount. */
static void rename_mounts(struct changes *j)
{
	list_for_each (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		const struct settings *wanted = successor(j, m);
		if (strcmp(wanted->name, m->s.name) == 0)
			continue;
		note(j, LOG_LEVEL_INFO, "mount '%s': is called '%s' now", m->s.name, wanted->name);
		if ((m->fs->own && !replace_name(&m->fs->s.name, wanted->name)) ||
		    !replace_name(&m->end->name, wanted->name) ||
		    !replace_name(&m->s.name, wanted->name))
			note(j, LOG_LEVEL_ERROR, "mount '%s': out of memory", wanted->name);
	}
}

static void mount_it(struct changes *j, struct served_mount *m)
{
	struct error err = ERROR_INIT;
	m->asked = false;
	if (registry_mount(m, &err) < 0)
		note(j, LOG_LEVEL_ERROR, "mount '%s': %s", m->s.name, err.text);
	else
		await_mount(j->await, m);
}

static void add_mount(struct changes *j, const struct settings *wanted)
{
	struct served_mount *m = registry_add_mount(j->r, wanted);
	if (m)
		registry_tell(j->r, "mount_added", "mount", m->s.name, NULL, NULL);
	if (m)
		mount_it(j, m);
	else
		note(j, LOG_LEVEL_ERROR, "mount '%s': out of memory", wanted->name);
}

static void change_mounts(struct changes *j)
{
	for (unsigned i = 0; i < j->c->n_mounts; i++) {
		const struct settings *wanted = &j->c->mount[i];
		struct served_mount *m = registry_find_mount(j->r, wanted->name);
		struct error err = ERROR_INIT;
		struct settings s;
		if (!m) {
			add_mount(j, wanted);
			continue;
		}
		if (m->session)
			note_fixed(j, &m->s, wanted);
		if (same_mount(&m->s, wanted)) {
			/* goes on as it is */
		} else if (settings_copy(&s, wanted)) {
			note_live(j, SCOPE_MOUNT, &m->s, &s);
			note_classes(j, &m->s, &s);
			apply(j, wanted->name, registry_set_mount(m, &s, &err), &err);
			settings_free(&s);
		} else {
			note(j, LOG_LEVEL_ERROR, "mount '%s': out of memory", wanted->name);
		}
		if (m->failed && served_state(m) == SERVED_DOWN)
			mount_it(j, m);
	}
}

static void drop_fs(struct changes *j)
{
	list_for_each_safe (it, &j->r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		bool wanted = fs->own ? configuration_find_mount(j->c, fs->s.name) != NULL
				      : configuration_find_fs(j->c, fs->s.name) != NULL;
		if (!wanted)
			drop_one_fs(fs);
	}
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
	enum reload_result res = rc < 0	 ? RELOAD_REFUSED
				 : force ? RELOAD_DONE
					 : look_at_users(&j, p);
	if (res != RELOAD_LATER)
		names_end();
	if (res != RELOAD_DONE) {
		if (rc == 0)
			configuration_free(&c);
		return res;
	}
	pools_reload(r->pools, &c);
	drop_mounts(&j);
	rename_mounts(&j);
	change_global(&j);
	change_fs(&j);
	change_mounts(&j);
	drop_fs(&j);
	configuration_free(&c);
	await_free(&nobody);
	log_info("%s: reloaded", r->file);
	return RELOAD_DONE;
}

/* --- one mount ------------------------------------------------------------------------------- */

/* Mounts that are down and in the file no more, and the one whose section is read anew. */
static void forget_down(struct changes *j, const char *name)
{
	list_for_each_safe (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (served_state(m) != SERVED_DOWN ||
		    (strcmp(m->s.name, name) != 0 && configuration_find_mount(j->c, m->s.name)))
			continue;
		drop_one_fs(registry_find_own_fs(j->r, m->s.name, true));
		registry_forget_mount(m);
	}
}

static struct served_mount *take_section(struct changes *j, const struct settings *wanted)
{
	const struct settings *fs = wanted->fs ? configuration_find_fs(j->c, wanted->fs) : NULL;
	struct served_mount *m = registry_find_mount(j->r, wanted->name);
	if (m && served_state(m) != SERVED_DOWN)
		return m; /* registry_mount says what is the matter with it */
	forget_down(j, wanted->name);
	if (fs && !registry_find_own_fs(j->r, fs->name, false) && !registry_add_fs(j->r, fs, false))
		return NULL;
	return registry_add_mount(j->r, wanted);
}

static void mount_section(struct changes *j, const char *name)
{
	const struct settings *wanted = configuration_find_mount(j->c, name);
	if (!wanted) {
		command_fail(j->reply, PROTO_NO_TARGET, "there is no mount '%s' in %s", name,
			     j->r->file);
		return;
	}
	struct served_mount *m = take_section(j, wanted);
	if (!m) {
		command_fail(j->reply, PROTO_NO_MEMORY, "out of memory");
		return;
	}
	m->asked = true;
	if (served_state(m) == SERVED_DOWN && registry_mount(m, &j->reply->err) < 0)
		j->reply->code = PROTO_FAILED;
	else if (served_state(m) == SERVED_ENDING)
		command_fail(j->reply, PROTO_WRONG_STATE, "is still being unmounted");
	else if (served_state(m) == SERVED_MOUNTING)
		await_mount(&j->reply->await, m);
}

enum reload_result reload_mount(struct registry *r, const char *name, struct problems *p,
				struct command_reply *reply)
{
	struct configuration c;
	struct changes j = {r, &c, reply, &reply->await};
	const struct served_mount *m = registry_find_mount(r, name);
	if (m && served_state(m) == SERVED_UP)
		return RELOAD_DONE;
	names_begin();
	int rc = config_load(&c, r->file, p);
	if (rc < 0 && names_wanted() && names_ask()) {
		problems_free(p);
		return RELOAD_LATER;
	}
	names_end();
	if (rc < 0)
		return RELOAD_REFUSED;
	mount_section(&j, name);
	configuration_free(&c);
	return RELOAD_DONE;
}
