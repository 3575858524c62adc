/* SPDX-License-Identifier: MIT */
#include "daemon/reload.h"

#include <stdarg.h>
#include <string.h>

#include "base/log.h"
#include "daemon/config_file.h"
#include "daemon/options.h"
#include "daemon/proto.h"

struct changes {
	struct registry *r;
	const struct configuration *c;
	FILE *out;
	unsigned n;
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
	if (j->out)
		record_text(j->out, line, "notes.%u", j->n++);
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

static void note_fixed(struct changes *j, const struct settings *old, const struct settings *new)
{
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		if (o->live || !(o->scopes & OPTION_MOUNT) || option_equal(o, old, new))
			continue;
		note(j, LOG_LEVEL_WARNING,
		     "mount '%s': %s counts from the next mount on (ratefsctl unmount, then mount)",
		     new->name, o->name);
	}
}

static void apply(struct changes *j, const char *what, int rc, const struct error *err)
{
	if (rc < 0)
		note(j, LOG_LEVEL_ERROR, "%s: %s", what, err->text);
}

static void change_global(struct changes *j)
{
	struct settings s, w = {.weights = j->c->weights}, weights;
	struct error err = ERROR_INIT;
	if (!settings_copy(&s, &j->c->global) || !settings_copy(&weights, &w)) {
		note(j, LOG_LEVEL_ERROR, "global: out of memory");
		return;
	}
	if (differs(&j->r->global, &s, "control"))
		note(j, LOG_LEVEL_WARNING, "global: control counts from the next start on");
	apply(j, "global", registry_set_global(j->r, &s, &err), &err);
	apply(j, "weights", registry_set_weights(j->r, &weights.weights, &err), &err);
	settings_free(&s);
	weights_free(&weights.weights);
}

static void set_fs(struct changes *j, struct served_fs *fs, const struct settings *wanted)
{
	struct error err = ERROR_INIT;
	struct settings s;
	if (!settings_copy(&s, wanted)) {
		note(j, LOG_LEVEL_ERROR, "fs '%s': out of memory", wanted->name);
		return;
	}
	apply(j, wanted->name, registry_set_fs(fs, &s, &err), &err);
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

static void drop_mounts(struct changes *j)
{
	list_for_each_safe (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		const struct settings *wanted = configuration_find_mount(j->c, m->s.name);
		if (wanted && !must_remount(&m->s, wanted) && !fs_moved(j, m))
			continue;
		if (m->session)
			note(j, LOG_LEVEL_INFO, "mount '%s': unmounted", m->s.name);
		registry_unmount(m);
		struct served_fs *own = registry_find_own_fs(j->r, m->s.name, true);
		if (own && own->mounts == 0)
			registry_forget_fs(own);
		registry_forget_mount(m);
	}
}

static void mount_it(struct changes *j, struct served_mount *m)
{
	struct error err = ERROR_INIT;
	if (registry_mount(m, &err) < 0)
		note(j, LOG_LEVEL_ERROR, "mount '%s': %s", m->s.name, err.text);
	else
		note(j, LOG_LEVEL_INFO, "mount '%s': mounted", m->s.name);
}

static void add_mount(struct changes *j, const struct settings *wanted)
{
	struct served_mount *m = registry_add_mount(j->r, wanted);
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
		if (settings_copy(&s, wanted)) {
			apply(j, wanted->name, registry_set_mount(m, &s, &err), &err);
			settings_free(&s);
		}
		if (m->failed)
			mount_it(j, m);
	}
}

static void drop_fs(struct changes *j)
{
	list_for_each_safe (it, &j->r->fs) {
		struct served_fs *fs = list_entry(it, struct served_fs, link);
		bool wanted = fs->own ? configuration_find_mount(j->c, fs->s.name) != NULL
				      : configuration_find_fs(j->c, fs->s.name) != NULL;
		if (!wanted && fs->mounts == 0)
			registry_forget_fs(fs);
	}
}

int reload(struct registry *r, struct problems *p, FILE *out)
{
	struct configuration c;
	struct changes j = {r, &c, out, 0};
	if (config_load(&c, r->file, p) < 0)
		return -1;
	drop_mounts(&j);
	change_global(&j);
	change_fs(&j);
	change_mounts(&j);
	drop_fs(&j);
	configuration_free(&c);
	log_info("%s: reloaded", r->file);
	return 0;
}
