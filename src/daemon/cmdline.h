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
	CMDLINE_REMOUNT, /* other flags for a mount that is there */
};

struct cmdline {
	enum cmdline_action action;
	bool foreground, debug;
	char *file;		     /* -c */
	char *words;		     /* of all -o */
	const char *profile;	     /* to be explained; NULL: list all */
	bool remount;		     /* is one of them */
	bool remount_ignores;	     /* it ignores some of them, being no flags */
	struct configuration config; /* of SOURCE MOUNTPOINT; paths are absolute */
};

/* 0 or -1 with err: a line for the user. */
int cmdline_parse(struct cmdline *c, int argc, char **argv, struct error *err);
void cmdline_free(struct cmdline *c);
void cmdline_help(void);

#endif
