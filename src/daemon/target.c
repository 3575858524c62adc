/* SPDX-License-Identifier: MIT */
#include "daemon/target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "daemon/ending.h"
#include "daemon/pools.h"
#include "daemon/reserves.h"

/* Finds MOUNT/CLASS.  Only the name of the mount may contain '/'. */
static bool find_class(struct registry *r, const char *name, struct target *t)
{
	const char *slash = strrchr(name, '/');
	AUTO_FREE char *mount = slash && slash != name ? strndup(name, slash - name) : NULL;
	t->mount = mount ? registry_find_mount(r, mount) : NULL;
	t->class = t->mount ? settings_find_class(&t->mount->s, slash + 1) : NULL;
	if (!t->class) {
		t->mount = NULL;
		return false;
	}
	t->scope = SCOPE_CLASS;
	snprintf(t->name, sizeof(t->name), "%s/%s", t->mount->s.name, t->class->name);
	return true;
}

/* JSON is UTF-8, so clients see a name that is not UTF-8 with its bad bytes replaced, and send it
 * like that.  True: `name` is what they see for `text`. */
static bool looks_like(const char *text, const char *name)
{
	AUTO_FREE char *utf8 = text && !text_is_utf8(text) ? text_utf8(text) : NULL;
	return utf8 && strcmp(utf8, name) == 0;
}

static struct served_mount *find_odd(struct registry *r, const char *name)
{
	struct served_mount *found = NULL;
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (!looks_like(m->s.name, name) && !looks_like(m->s.mountpoint, name))
			continue;
		if (found)
			return NULL; /* ambiguous */
		found = m;
	}
	return found;
}

int target_find(struct registry *r, const char *name, struct target *t, struct error *err)
{
	*t = (struct target){.scope = SCOPE_GLOBAL, .registry = r};
	if (strcmp(name, "global") == 0)
		return 0;
	if (strncmp(name, "fs:", 3) == 0) {
		t->scope = SCOPE_FS;
		t->fs = registry_find_fs(r, name + 3);
		return t->fs ? 0 : error_set(err, "there is no fs '%s'", name + 3);
	}
	if (strncmp(name, "pool:", 5) == 0) {
		t->scope = SCOPE_POOL;
		t->pool = pools_find(r->pools, name + 5);
		return t->pool ? 0 : error_set(err, "there is no pool '%s'", name + 5);
	}
	t->scope = SCOPE_MOUNT;
	t->mount = registry_find_target(r, name);
	t->dropped = ending_find_dropped(r, name);
	if (t->mount || t->dropped || find_class(r, name, t))
		return 0;
	t->mount = find_odd(r, name);
	if (t->mount)
		return 0;
	return error_set(err, "there is no mount or class '%s'", name);
}

const char *target_name(const struct target *t)
{
	return t->pool	    ? t->pool->name
	       : t->class   ? t->name
	       : t->mount   ? t->mount->s.name
	       : t->dropped ? t->dropped->name
	       : t->fs	    ? t->fs->s.name
			    : "global";
}

const struct settings *target_settings(const struct target *t)
{
	return t->pool	  ? t->pool
	       : t->class ? t->class
	       : t->mount ? &t->mount->s
	       : t->fs	  ? &t->fs->s
			  : &t->registry->global;
}

bool target_covers(const struct target *t, const struct served_mount *m)
{
	return (!t->mount || t->mount == m) && (!t->fs || t->fs == m->fs);
}

const char *served_paused_by(const struct served_mount *m)
{
	return m->paused		? scope_kind_name(SCOPE_MOUNT)
	       : m->fs && m->fs->paused ? scope_kind_name(SCOPE_FS)
	       : m->registry->paused	? scope_kind_name(SCOPE_GLOBAL)
					: NULL;
}

const char *target_paused_by(const struct target *t)
{
	bool within = false;
	if (t->class && t->mount->gate_mount)
		gate_class_paused(t->mount->gate_mount, t->class->name, &within);
	return within ? scope_kind_name(SCOPE_CLASS) : t->mount ? served_paused_by(t->mount) : NULL;
}

static bool class_paused(const struct target *t)
{
	bool within;
	return t->mount->gate_mount &&
	       gate_class_paused(t->mount->gate_mount, t->class->name, &within);
}

bool target_paused(const struct target *t)
{
	return t->pool	  ? false
	       : t->class ? class_paused(t)
	       : t->mount ? t->mount->paused
	       : t->fs	  ? t->fs->paused
			  : t->registry->paused;
}

int target_set_mount(struct served_mount *m, struct settings *s, struct error *err)
{
	if (reserves_check_live(m->registry, m, s, err) < 0)
		return -1;
	return registry_set_mount(m, s, err);
}

static int set_shared(struct registry *r, struct served_fs *fs, struct settings *s,
		      struct error *err)
{
	if (reserves_check_live(r, fs ? (const void *)fs : r, s, err) < 0)
		return -1;
	return fs ? registry_set_fs(r, fs, s, err) : registry_set_global(r, s, err);
}

/* Sets the mount's settings, changed only in this class.  Takes `s` over. */
static int apply_class(struct target *t, struct settings *s, struct error *err)
{
	struct settings mount;
	if (!settings_copy(&mount, &t->mount->s))
		return error_set(err, "out of memory");
	ptrdiff_t at = settings_find_class(&mount, t->class->name) - mount.class;
	settings_free(&mount.class[at]);
	mount.class[at] = *s;
	settings_init(s);
	if (target_set_mount(t->mount, &mount, err) < 0) {
		settings_free(&mount);
		return -1;
	}
	t->class = &t->mount->s.class[at];
	return 0;
}

/* Changes the limits for all members of the pool. */
static int apply_pool(struct target *t, struct settings *s, struct error *err)
{
	return pools_set(t->registry->pools, t->pool->name, s, err);
}

int target_apply(struct registry *r, struct target *t, struct settings *s, struct error *err)
{
	return t->pool	  ? apply_pool(t, s, err)
	       : t->class ? apply_class(t, s, err)
	       : t->mount ? target_set_mount(t->mount, s, err)
			  : set_shared(r, t->fs, s, err);
}

static int pause_class(const struct target *t, bool paused)
{
	struct gate_mount *m = t->mount->gate_mount;
	return m ? gate_pause_class(m, t->class->name, paused) : -ENOTCONN;
}

int target_pause(struct registry *r, const struct target *t, bool paused)
{
	return t->pool	  ? -EOPNOTSUPP
	       : t->class ? pause_class(t, paused)
	       : t->mount ? registry_pause_mount(t->mount, paused)
	       : t->fs	  ? registry_pause_fs(t->fs, paused)
			  : registry_pause_global(r, paused);
}
