/* SPDX-License-Identifier: MIT */
/* Names of users and groups in options.
 *
 * Looking one up may take any time and any system call: NSS modules open network sockets, ask other
 * daemons, use keys.  So it is done only where there is no event loop and no system call filter: at
 * startup, by ratefsctl, and for a reload by a helper process (resolver.h).  A reload that finds names
 * asks for all of them together, and is repeated when the answers have arrived:
 *
 *	names_begin ─▶ parse ─▶ names_wanted? ─ no ─▶ names_end
 *	                          └ yes ─▶ names_ask … names_receive ─▶ parse again ─▶ names_end
 *
 * Locking  none: only for the main thread. */
#ifndef DAEMON_NAMES_H
#define DAEMON_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum name_kind { NAME_USER, NAME_GROUP };

/* 0 and the number; -1 with err: there is no such name, or it has not been looked up yet. */
int names_find(enum name_kind kind, const char *name, uint64_t *id, struct error *err);

/* From now on this process looks up nothing itself.  With `asks`, starts a helper process that
 * does; call it before privileges are dropped.  0, or -1 with err. */
int names_close(bool asks, struct error *err);
int names_fd(void); /* of the helper, to be watched; -1: there is none */

void names_begin(void);
bool names_wanted(void); /* names were needed since names_begin and are not known */
/* Asks the helper for them.  False: the helper is gone. */
bool names_ask(void);
/* The helper's fd is readable.  True: it has answered, or never will. */
bool names_receive(void);
void names_end(void); /* forgets everything: the next reload asks again */

void names_stop(void);

#endif
