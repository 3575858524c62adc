/* SPDX-License-Identifier: MIT */
/* The options size, inodes and on_quota: passes them to the space of a source (fs/space.h), and its
 * usage to statistics.
 * Threads  the main thread only. */
#ifndef DAEMON_SERVED_SPACE_H
#define DAEMON_SERVED_SPACE_H

#include "daemon/registry.h"
#include "daemon/target.h"
#include "fs/space.h"
#include "proto/json_out.h"

/* Reads from the environment where totals are saved.  Call it before there are threads: libfuse changes the environment while
 * it mounts.  Without it, they are not saved. */
void served_space_init(void);
/* The space of an fs with these settings; NULL: out of memory. */
struct space *served_space_new(const struct settings *s);
/* The limits that a mount sets for the space of its source, and the error past them. */
struct space_policy served_space_policy(const struct served_mount *m);
/* Call when the settings of a mount have changed, or it has come up … */
void served_space_set(struct served_mount *m);
/* … and when the settings of an fs have changed. */
void served_space_changed(struct registry *r, struct served_fs *fs);
/* True: the size or the inodes of the mount are limited, by its own options or by its fs. */
bool served_space_limited(const struct served_mount *m);

/* True: the contents of its source are still being counted. */
bool served_space_counting(const struct served_mount *m);

/* Puts "space", the usage of a mount or an fs; nothing if its source is not counted. */
void served_space_put(struct json_out o, const struct target *t);
void served_space_put_mount(struct json_out o, const struct served_mount *m);

#endif
