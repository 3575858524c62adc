/* SPDX-License-Identifier: MIT */
/* Compares what runs with what the file says now: what did not change is not touched.
 * Settings with names of users or groups ("uid:alice") are always treated as changed, since the
 * name may belong to another number now. */
#ifndef DAEMON_RELOAD_COMPARE_H
#define DAEMON_RELOAD_COMPARE_H

#include <stdbool.h>

#include "daemon/settings.h"

bool option_differs(const struct settings *a, const struct settings *b, const char *option);
/* True: source, mountpoint or fs differ, so that b is another mount. */
bool must_remount(const struct settings *a, const struct settings *b);
/* Compares all options of a scope, and the rates that its pool gives it. */
bool same_options(enum scope_kind scope, const struct settings *a, const struct settings *b);
/* The same for a mount, including its classes. */
bool same_mount(const struct settings *a, const struct settings *b);
bool same_weights(const struct weights *a, const struct weights *b);

#endif
