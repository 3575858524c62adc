/* SPDX-License-Identifier: MIT */
#include "daemon/target.h"

#include <string.h>

int target_find(struct registry *r, const char *name, struct target *t, struct error *err)
{
	*t = (struct target){.scope = OPTION_GLOBAL, .registry = r};
	if (strcmp(name, "global") == 0)
		return 0;
	if (strncmp(name, "fs:", 3) == 0) {
		t->scope = OPTION_FS;
		t->fs = registry_find_fs(r, name + 3);
		return t->fs ? 0 : error_set(err, "there is no fs '%s'", name + 3);
	}
	t->scope = OPTION_MOUNT;
	t->mount = registry_find_target(r, name);
	return t->mount ? 0 : error_set(err, "there is no mount '%s'", name);
}

const char *target_name(const struct target *t)
{
	return t->mount ? t->mount->s.name : t->fs ? t->fs->s.name : "global";
}

const struct settings *target_settings(const struct target *t)
{
	return t->mount ? &t->mount->s : t->fs ? &t->fs->s : &t->registry->global;
}

bool target_paused(const struct target *t)
{
	return t->mount ? t->mount->paused : t->fs ? t->fs->paused : t->registry->paused;
}

int target_apply(struct registry *r, const struct target *t, struct settings *s, struct error *err)
{
	return t->mount ? registry_set_mount(t->mount, s, err)
	       : t->fs	? registry_set_fs(t->fs, s, err)
			: registry_set_global(r, s, err);
}

int target_pause(struct registry *r, const struct target *t, bool paused)
{
	return t->mount ? registry_pause_mount(t->mount, paused)
	       : t->fs	? registry_pause_fs(t->fs, paused)
			: registry_pause_global(r, paused);
}
