/* SPDX-License-Identifier: MIT */
/* Shared by reload.c and reload_paths.c. */
#ifndef DAEMON_RELOAD_INTERNAL_H
#define DAEMON_RELOAD_INTERNAL_H

#include "daemon/registry.h"

struct await;
struct command_reply;

/* A reload in progress. */
struct changes {
	struct registry *r;
	const struct configuration *c; /* what the file says now */
	struct command_reply *reply;   /* NULL: nobody waits for one */
	struct await *await;
};

/* The section of the new file that keeps this mount, possibly under another name; NULL: none. */
const struct settings *reload_successor(const struct changes *j, const struct served_mount *m);

#endif
