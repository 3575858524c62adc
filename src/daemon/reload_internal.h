/* SPDX-License-Identifier: MIT */
/* Shared by the files reload*.c. */
#ifndef DAEMON_RELOAD_INTERNAL_H
#define DAEMON_RELOAD_INTERNAL_H

#include "daemon/registry.h"
#include "daemon/reload.h"

struct await;
struct command_reply;
struct scope_change;
struct way_back;

/* A reload in progress. */
struct changes {
	struct registry *r;
	struct configuration *c;     /* what the file says now, or what ran (back) */
	struct command_reply *reply; /* NULL: nobody waits for one */
	struct await *await;
	const struct way_back *back; /* NULL: it is not the way back */
};

/* Reads the file.  False with *result: RELOAD_LATER, or RELOAD_REFUSED with problems.  `again`: the command is repeated. */
bool reload_read(struct registry *r, bool again, struct configuration *c, struct problems *p,
		 enum reload_result *result);
void reload_forget_read(void); /* call when the reload is over */

/* The section of the new file that keeps this mount, possibly under another name; NULL: none. */
const struct settings *reload_successor(const struct changes *j, const struct served_mount *m);

/* Notes what a scope's new settings change, before they take the place of the old ones (reload_notes.c). */
void reload_note_change(struct changes *j, const struct scope_change *sc);
void reload_note_name(struct changes *j, const char *old, const char *new); /* of a mount */

/* Loads what ran before.  -1 with err: out of memory, nothing has changed. */
int reload_apply_back(struct registry *r, struct way_back *b, struct error *err);

#endif
