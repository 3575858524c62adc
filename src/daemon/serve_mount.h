/* SPDX-License-Identifier: MIT */
/* One mount: from its settings to the gate's scope and the FUSE session, and back. */
#ifndef DAEMON_SERVE_MOUNT_H
#define DAEMON_SERVE_MOUNT_H

#include "daemon/registry.h"
#include "fs/mount.h"

/* Makes scope and session, and mounts.  0 or -1 with err and nothing left behind. */
int serve_mount_open(struct served_mount *m, struct error *err);
/* After fs_mount_stop. */
void serve_mount_close(struct served_mount *m);
/* Says in the log what is served where, under which limits. */
void serve_mount_announce(const struct served_mount *m);

/* What the settings mean to the layers below.  The weights are *rules, to be freed; false: out of
 * memory. */
bool gate_config_of(const struct settings *s, const struct weights *common,
		    struct gate_mount_config *out, struct weight_rule **rules);
struct mount_policy policy_of(const struct settings *s);
/* "ro,allow_other,fsname=…" with the defaults of who we are; to be freed.  NULL with err. */
char *fuse_options_of(const struct settings *s, const char *source, bool *multi_user,
		      struct error *err);

#endif
