/* SPDX-License-Identifier: MIT */
/* Resolves names of users and groups on the command line of ratefsctl. */
#ifndef CTL_NAMES_H
#define CTL_NAMES_H

#include "base/error.h"

/* Converts "weight=uid:alice=4" to "weight=uid:1000=4", "match=gid:staff" to "match=gid:50"; copies
 * other words unchanged.  Invalid values are left to the daemon to refuse.  To be freed; NULL with
 * err: there is no such user or group. */
char *with_numbers(const char *word, struct error *err);

#endif
