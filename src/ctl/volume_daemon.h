/* SPDX-License-Identifier: MIT */
/* The ratefs daemon that serves the volumes, and the program ratefs: the real table behind struct volume_daemon_ops. */
#ifndef CTL_VOLUME_DAEMON_H
#define CTL_VOLUME_DAEMON_H

#include "ctl/volumes.h"

/* The context of the table is the struct volume_setup. */
extern const struct volume_daemon_ops volume_daemon;

/* Asks the program for its options. */
int volume_daemon_options(const struct volume_setup *setup, struct volume_options *known,
			  struct error *err);

#endif
