/* SPDX-License-Identifier: MIT */
/* Privileges of the plugin. */
#ifndef CTL_VOLUME_PRIVILEGES_H
#define CTL_VOLUME_PRIVILEGES_H

#include "base/error.h"

/* Gives up all capabilities that neither the plugin needs nor the daemon that it starts, and new privileges by set-user-ID
 * programs.  Call before the first thread. */
int volume_privileges_drop(struct error *err);

#endif
