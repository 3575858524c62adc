/* SPDX-License-Identifier: MIT */
#include "daemon/command_table.h"

#include <string.h>

#include "daemon/proto.h"

#define MANY (PROTO_WORDS_MAX - 1)

const struct command commands[COMMANDS] = {
	[COMMAND_LIST] = {"list", "", "--json", "all mounts of all daemons, and their scopes", 0, 0,
			  false},
	[COMMAND_SHOW] = {"show", "TARGET", "--json", "the options in force", 1, 1, false},
	[COMMAND_SET] =
		{"set", "TARGET KEY=VALUE...", "--save",
		 "change options at once; --save writes them into the configuration file, too", 2,
		 MANY, false},
	[COMMAND_STATS] = {"stats", "[TARGET]", "--json", "who waited, how long, on which limit", 0,
			   1, false},
	[COMMAND_WATCH] = {"watch", "[TARGET]", "--json", "the same, once a second", 0, 1, false},
	[COMMAND_RELOAD] = {"reload", "[TARGET]", "", "read the configuration file again", 0, 1,
			    false},
	[COMMAND_MOUNT] = {"mount", "NAME", "", "mount what the configuration names", 1, 1, false},
	[COMMAND_UNMOUNT] = {"unmount", "NAME", "--force",
			     "unmount it; --force: also while files are open, which end then", 1, 2,
			     false},
	[COMMAND_PAUSE] = {"pause", "TARGET", "", "let nothing pass until resume", 1, 1, false},
	[COMMAND_RESUME] = {"resume", "TARGET", "", "let it pass again", 1, 1, false},
	[COMMAND_RESET_STATS] = {"reset-stats", "[TARGET]", "", "count from zero", 0, 1, false},
	[COMMAND_FIND] = {"find", "TARGET", "", "is the target here?", 1, 1, true},
};

int command_find(const char *name)
{
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return i;
	return -1;
}
