/* SPDX-License-Identifier: MIT */
/* Settings that are valid and yet will not do what was meant: said at the mount, and by `set`. */
#ifndef DAEMON_ADVICE_H
#define DAEMON_ADVICE_H

#include "daemon/settings.h"

/* Calls `say` with one line for each of them. */
void advise(const struct settings *mount, void (*say)(const char *line, void *ctx), void *ctx);

#endif
