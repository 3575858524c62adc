/* SPDX-License-Identifier: MIT */
/* TARGET of ratefsctl: a mountpoint, a mount's name, fs:NAME or global. */
#ifndef DAEMON_TARGET_H
#define DAEMON_TARGET_H

#include <stdbool.h>

#include "daemon/options.h"
#include "daemon/registry.h"

struct target {
	enum option_scope scope;
	struct registry *registry;
	struct served_fs *fs;	    /* OPTION_FS */
	struct served_mount *mount; /* OPTION_MOUNT */
};

int target_find(struct registry *r, const char *name, struct target *t, struct error *err);
const char *target_name(const struct target *t);
const struct settings *target_settings(const struct target *t);
bool target_paused(const struct target *t);
/* Takes *s over on success; -1 with err and nothing changed. */
int target_apply(struct registry *r, const struct target *t, struct settings *s, struct error *err);
int target_pause(struct registry *r, const struct target *t, bool paused); /* 0 or -errno */

#endif
