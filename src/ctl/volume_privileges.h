/* SPDX-License-Identifier: MIT */
/* Privileges of the plugin. */
#ifndef CTL_VOLUME_PRIVILEGES_H
#define CTL_VOLUME_PRIVILEGES_H

#include "base/error.h"

/* Gives up all capabilities except those that the plugin, or the daemon that it
 * starts, needs; set-user-ID programs no longer gain privileges.  Call before the
 * first thread.  0, or -1 with err. */
int volume_privileges_drop(struct error *err);

#endif
