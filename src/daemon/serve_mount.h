/* SPDX-License-Identifier: MIT */
/* One mount: translates its settings for the gate and the FUSE session. */
#ifndef DAEMON_SERVE_MOUNT_H
#define DAEMON_SERVE_MOUNT_H

#include "daemon/registry.h"
#include "fs/mount.h"

/* Creates the scope of a mount that is being made.  0, or -1 with err. */
int scope_make(struct served_mount *m, struct error *err);
/* The reverse, after the session is gone.  Removes the fs as well if no mount uses it any more. */
void scope_drop(struct registry *r, struct gate_mount *gate, struct served_fs *fs);
/* Logs what is served where, with which limits. */
void serve_mount_announce(const struct served_mount *m);

/* The settings in the form of the layers below.  The weights are in *rules, to be freed; false: out
 * of memory. */
bool gate_config_of(const struct settings *s, const struct weights *common,
		    struct gate_mount_config *out, struct weight_rule **rules);
struct mount_policy policy_of(const struct settings *s);
struct mount_config mount_config_of(const struct settings *s, const char *source,
				    const char *fuse_options);
/* "ro,allow_other,fsname=…" with the defaults for this user; to be freed.  NULL with err. */
char *fuse_options_of(const struct settings *s, const char *source, struct error *err);

#endif
