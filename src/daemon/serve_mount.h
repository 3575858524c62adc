/* SPDX-License-Identifier: MIT */
/* One mount: what its settings mean to the gate's scope and the FUSE session. */
#ifndef DAEMON_SERVE_MOUNT_H
#define DAEMON_SERVE_MOUNT_H

#include "daemon/registry.h"
#include "fs/mount.h"

/* The scope of a mount that is to come up.  0 or -1 with err. */
int scope_make(struct served_mount *m, struct error *err);
/* And back: after the session is gone.  Takes the fs with it if that is nobody's any more. */
void scope_drop(struct registry *r, struct gate_mount *gate, struct served_fs *fs);
/* Says in the log what is served where, under which limits. */
void serve_mount_announce(const struct served_mount *m);

/* What the settings mean to the layers below.  The weights are *rules, to be freed; false: out of
 * memory. */
bool gate_config_of(const struct settings *s, const struct weights *common,
		    struct gate_mount_config *out, struct weight_rule **rules);
struct mount_policy policy_of(const struct settings *s);
struct mount_config mount_config_of(const struct settings *s, const char *source,
				    const char *fuse_options);
/* "ro,allow_other,fsname=…" with the defaults of who we are; to be freed.  NULL with err. */
char *fuse_options_of(const struct settings *s, const char *source, struct error *err);

#endif
