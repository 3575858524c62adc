/* SPDX-License-Identifier: MIT */
/* The commands of ratefsctl: one table for client, daemon, help and documentation check. */
#ifndef DAEMON_COMMAND_TABLE_H
#define DAEMON_COMMAND_TABLE_H

#include <stdbool.h>

enum command_id {
	COMMAND_LIST,
	COMMAND_SHOW,
	COMMAND_SET,
	COMMAND_STATS,
	COMMAND_WATCH, /* the client asks for stats again and again */
	COMMAND_RELOAD,
	COMMAND_MOUNT,
	COMMAND_UNMOUNT,
	COMMAND_PAUSE,
	COMMAND_RESUME,
	COMMAND_RESET_STATS,
	COMMAND_RESCAN,
	COMMAND_CLASS_ADD,
	COMMAND_CLASS_REMOVE,
	COMMAND_CLASS_LIST,
	COMMAND_FIND, /* for ratefsctl itself: is the target here? */
	COMMANDS
};

struct command {
	const char *name, *args, *flags, *help;
	int min_args, max_args; /* without the name */
	bool hidden;
};

extern const struct command commands[COMMANDS];

/* Some names are of two words.  -1: there is none of that name. */
int command_find(const char *name);
/* The command that is spelled most alike, or NULL. */
const char *command_nearest(const char *name);

#endif
