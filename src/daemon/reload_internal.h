/* SPDX-License-Identifier: MIT */
/* Shared by the files reload*.c. */
#ifndef DAEMON_RELOAD_INTERNAL_H
#define DAEMON_RELOAD_INTERNAL_H

#include "daemon/registry.h"

struct await;
struct command_reply;
struct way_back;

/* A reload in progress. */
struct changes {
	struct registry *r;
	const struct configuration *c; /* what the file says now, or what ran (back) */
	struct command_reply *reply;   /* NULL: nobody waits for one */
	struct await *await;
	const struct way_back *back; /* NULL: it is not the way back */
};

/* The section of the new file that keeps this mount, possibly under another name; NULL: none. */
const struct settings *reload_successor(const struct changes *j, const struct served_mount *m);

/* Loads what ran before.  -1 with err: out of memory, nothing has changed. */
int reload_apply_back(struct registry *r, const struct way_back *b, struct error *err);

#endif
