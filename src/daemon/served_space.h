/* SPDX-License-Identifier: MIT */
/* size, inodes and on_quota: from settings to the space of a source, and from there to statistics.
 * Threads  the main thread only. */
#ifndef DAEMON_SERVED_SPACE_H
#define DAEMON_SERVED_SPACE_H

#include "daemon/registry.h"
#include "daemon/target.h"
#include "fs/space.h"
#include "proto/json_out.h"

/* Of an fs with these settings; NULL: out of memory. */
struct space *served_space_new(const struct settings *s);
/* What a mount says about it. */
struct space_policy served_space_policy(const struct served_mount *m);
/* Settings of a mount have changed, or it has come up; those of an fs have. */
void served_space_set(struct served_mount *m);
void served_space_changed(struct registry *r, struct served_fs *fs);
/* Its size or inodes are limited, by itself or by its fs. */
bool served_space_limited(const struct served_mount *m);

/* What its source holds is not known yet. */
bool served_space_counting(const struct served_mount *m);

/* Statistics of a mount or an fs, as "space"; nothing where nothing is counted. */
void served_space_put(struct json_out o, const struct target *t);
void served_space_put_mount(struct json_out o, const struct served_mount *m);

#endif
