/* SPDX-License-Identifier: MIT */
/* Counts all requests of keys, also those that need not wait, while somebody looks at them.  This costs a look-up for
 * each request, so it ends a few seconds after the last look. */
#ifndef DAEMON_KEY_WATCH_H
#define DAEMON_KEY_WATCH_H

#include "daemon/target.h"

/* Somebody looks at the keys of the mounts of the target. */
void key_watch_look(struct registry *r, const struct target *t);
/* Call every second while key_watch_is_on. */
void key_watch_tick(struct registry *r);
bool key_watch_is_on(const struct registry *r);

#endif
