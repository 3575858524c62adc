/* SPDX-License-Identifier: MIT */
/* TARGET of ratefsctl: a mountpoint, a mount's name, MOUNT/CLASS, fs:NAME, pool:NAME or global. */
#ifndef DAEMON_TARGET_H
#define DAEMON_TARGET_H

#include <stdbool.h>

#include "daemon/options.h"
#include "daemon/registry.h"

#define TARGET_NAME_MAX 512

struct target {
	enum scope_kind scope;
	struct registry *registry;
	struct served_fs *fs; /* SCOPE_FS */
	struct served_mount
		*mount;		/* SCOPE_MOUNT, SCOPE_CLASS; NULL: no longer in the configuration */
	struct settings *class; /* SCOPE_CLASS: one of the mount's */
	char name[TARGET_NAME_MAX];  /* SCOPE_CLASS: MOUNT/CLASS */
	const struct settings *pool; /* SCOPE_POOL */
	struct ending *dropped;	     /* SCOPE_MOUNT: removed by a reload and still being ended */
};

int target_find(struct registry *r, const char *name, struct target *t, struct error *err);
const char *target_name(const struct target *t);
const struct settings *target_settings(const struct target *t);
/* True: settings of the target affect the mount. */
bool target_covers(const struct target *t, const struct served_mount *m);
/* "mount", "fs" or "global": the scope whose pause stops the mount; NULL: none. */
const char *served_paused_by(const struct served_mount *m);
/* The same for any target; for a class also "class". */
const char *target_paused_by(const struct target *t);
bool target_paused(const struct target *t);
/* Apply new settings, and check that reservations do not exceed the limits of the wider scopes.
 * Take over *s on success; -1 with err: nothing has changed. */
int target_set_mount(struct served_mount *m, struct settings *s, struct error *err);
int target_apply(struct registry *r, struct target *t, struct settings *s, struct error *err);
int target_pause(struct registry *r, const struct target *t, bool paused); /* 0 or -errno */

#endif
