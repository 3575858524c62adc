/* SPDX-License-Identifier: MIT */
/* Resolves names of users and groups on the command line of ratefsctl. */
#ifndef CTL_NAMES_H
#define CTL_NAMES_H

#include "base/error.h"

/* "weight=uid:alice=4" -> "weight=uid:1000=4", "match=gid:staff" -> "match=gid:50", to be freed; other words
 * come back as they are.  Invalid values are left to the daemon to refuse.  NULL with err: there is no such
 * user or group. */
char *with_numbers(const char *word, struct error *err);

#endif
