/* SPDX-License-Identifier: MIT */
/* What a reload says of its changes: to the log, to the client that asked for it, and to subscribers. */
#include <stdarg.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/commands.h"
#include "daemon/options.h"
#include "daemon/reload_compare.h"
#include "daemon/reload_internal.h"

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

/* Notes the options of a scope that take effect immediately: "mount 'data': iops=200, was off".  `name` is that of a target:
 * "data/backup" for a class. */
static void note_live(struct changes *j, enum scope_kind scope, const char *name,
		      const struct settings *old, const struct settings *new)
{
	bool global = scope == SCOPE_GLOBAL;
	for (unsigned i = 0; i < n_options; i++) {
		const struct option_def *o = &options[i];
		if (!o->live || !option_is_in(o, scope) || option_equal(o, old, new))
			continue;
		AUTO_FREE char *before = option_text(o, old), *now = option_text(o, new);
		note(j, LOG_LEVEL_INFO, "%s%s%s%s: %s=%s, was %s", scope_kind_name(scope),
		     global ? "" : " '", global ? "" : name, global ? "" : "'", o->name,
		     now && *now ? now : "none", before && *before ? before : "none");
		registry_tell(j->r, "limit_changed", scope_kind_name(scope), name, o->name, now);
	}
}

static void note_class(struct changes *j, const char *mount, const char *class, bool added)
{
	note(j, LOG_LEVEL_INFO, "mount '%s': class '%s' %s", mount, class,
	     added ? "added" : "removed");
	registry_tell(j->r, added ? "class_added" : "class_removed", "mount", mount, "class",
		      class);
}

/* Notes the classes of a mount that are added, removed, moved or changed. */
static void note_classes(struct changes *j, const struct settings *old, const struct settings *new)
{
	unsigned at = 0;
	bool moved = false;
	for (unsigned i = 0; i < old->n_classes; i++)
		if (!settings_find_class(new, old->class[i].name))
			note_class(j, new->name, old->class[i].name, false);
	for (unsigned i = 0; i < new->n_classes; i++) {
		const struct settings *s = &new->class[i], *was = settings_find_class(old, s->name);
		AUTO_FREE char *name = NULL;
		if (!was) {
			note_class(j, new->name, s->name, true);
			continue;
		}
		moved |= (unsigned)(was - old->class) < at;
		at = (unsigned)(was - old->class);
		if (asprintf(&name, "%s/%s", new->name, s->name) < 0)
			name = NULL;
		note_live(j, SCOPE_CLASS, name ? name : s->name, was, s);
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

void reload_note_change(struct changes *j, const struct scope_change *sc)
{
	const struct registry *r = j->r;
	enum scope_kind scope = sc->mount ? SCOPE_MOUNT : sc->fs ? SCOPE_FS : SCOPE_GLOBAL;
	const struct settings *old = sc->mount ? &sc->mount->s : sc->fs ? &sc->fs->s : &r->global;
	if (scope == SCOPE_GLOBAL && option_differs(old, &sc->s, "control"))
		note(j, LOG_LEVEL_WARNING, "global: control takes effect at the next start");
	if (sc->mount && sc->mount->session)
		note_fixed(j, old, &sc->s);
	note_live(j, scope, scope == SCOPE_GLOBAL ? "global" : sc->s.name, old, &sc->s);
	if (sc->mount)
		note_classes(j, old, &sc->s);
}

void reload_note_name(struct changes *j, const char *old, const char *new)
{
	note(j, LOG_LEVEL_INFO, "mount '%s': is called '%s' now", old, new);
	registry_tell(j->r, "mount_renamed", "mount", old, "name", new);
}
