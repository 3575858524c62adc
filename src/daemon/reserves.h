/* SPDX-License-Identifier: MIT */
/* Reservations of classes (reserve.bps, reserve.iops) against the limits of the scopes that they are in: what
 * the classes below a scope reserve together may not be more than the scope has. */
#ifndef DAEMON_RESERVES_H
#define DAEMON_RESERVES_H

#include "daemon/classes.h"

struct registry;

/* Within a mount: against the limits of its classes and its own.  Returns how many problems there are, each of
 * which has been reported. */
unsigned reserves_check_mount(const struct settings *mount, class_report *report, void *ctx);
/* Against the limits of a scope that holds these mounts; `what` names it in messages ("fs 'data'"). */
unsigned reserves_check_shared(const struct settings *scope, const char *what,
			       const struct settings *const *mount, unsigned n,
			       class_report *report, void *ctx);

/* The same for what is served, as if `changed` (a served_mount, a served_fs or the registry itself) had the
 * settings s.  0 or -1 with the first problem. */
int reserves_check_live(struct registry *r, const void *changed, const struct settings *s,
			struct error *err);

#endif
