/* SPDX-License-Identifier: MIT */
/* Checks the reservations of classes (reserve.bps, reserve.iops) against the limits of
 * the scopes that they are in: the classes below a scope must not reserve more in total
 * than the scope's limit. */
#ifndef DAEMON_RESERVES_H
#define DAEMON_RESERVES_H

#include "daemon/classes.h"

struct registry;

/* Checks against the limits of the mount and its classes.  Returns the number of problems; each has
 * been reported. */
unsigned reserves_check_mount(const struct settings *mount, class_report *report, void *ctx);
/* Checks against the limits of a scope that contains these mounts; `what` names it in
 * messages ("fs 'data'"). */
unsigned reserves_check_shared(const struct settings *scope, const char *what,
			       const struct settings *const *mount, unsigned n,
			       class_report *report, void *ctx);

/* Checks all scopes that are being served, as if `changed` (a served_mount, a served_fs or the
 * registry itself) had the settings s.  0, or -1 with the first problem in err. */
int reserves_check_live(struct registry *r, const void *changed, const struct settings *s,
			struct error *err);

#endif
