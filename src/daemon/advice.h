/* SPDX-License-Identifier: MIT */
/* Warnings about settings that are valid but will not do what was meant; given when mounting and
 * by `set`. */
#ifndef DAEMON_ADVICE_H
#define DAEMON_ADVICE_H

#include "daemon/settings.h"

/* True: fairness or a class distinguishes callers by cgroup. */
bool uses_cgroups(const struct settings *mount);

/* Calls `say` with one line for each warning. */
void advise(const struct settings *mount, void (*say)(const char *line, void *ctx), void *ctx);
/* Only those about one class, and about cgroups. */
void advise_class(const struct settings *mount, const struct settings *class,
		  void (*say)(const char *line, void *ctx), void *ctx);

#endif
