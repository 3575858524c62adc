/* SPDX-License-Identifier: MIT */
/* The command line of ratefs: ratefs SOURCE MOUNTPOINT [-o …], ratefs -c FILE. */
#ifndef DAEMON_CMDLINE_H
#define DAEMON_CMDLINE_H

#include <stdbool.h>

#include "base/error.h"
#include "daemon/settings.h"

enum cmdline_action {
	CMDLINE_RUN,
	CMDLINE_CHECK,
	CMDLINE_HELP,
	CMDLINE_VERSION,
	CMDLINE_DUMP,
	CMDLINE_PROFILES,
	CMDLINE_FAKE,
	CMDLINE_REMOUNT, /* changes the flags of an existing mount */
};

struct cmdline {
	enum cmdline_action action;
	bool foreground, debug;
	char *file;		     /* -c */
	char *words;		     /* the text of all -o */
	const char *profile;	     /* CMDLINE_PROFILES: the one to be shown; NULL: list all */
	bool remount;		     /* `remount` is among the options */
	bool remount_ignores;	     /* some options are not flags; a remount ignores them */
	struct configuration config; /* of SOURCE MOUNTPOINT; paths are absolute */
};

/* 0 or -1 with err: a line for the user. */
int cmdline_parse(struct cmdline *c, int argc, char **argv, struct error *err);
void cmdline_free(struct cmdline *c);
void cmdline_help(void);
/* Sets err to what is wrong with the flag for which getopt_long returned `flag`, ':' or '?'; `help`
 * names the command that lists the valid ones.  Returns -1. */
int cmdline_bad_flag(char **argv, int flag, const char *help, struct error *err);

#endif
