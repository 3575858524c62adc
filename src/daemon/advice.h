/* SPDX-License-Identifier: MIT */
/* Warnings about settings that are valid but will not do what was meant; given when mounting and
 * by `set`. */
#ifndef DAEMON_ADVICE_H
#define DAEMON_ADVICE_H

#include "daemon/settings.h"

/* Calls `say` with one line for each warning. */
void advise(const struct settings *mount, void (*say)(const char *line, void *ctx), void *ctx);

#endif
