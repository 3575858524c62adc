/* SPDX-License-Identifier: MIT */
#include "daemon/command_table.h"

#include <string.h>

#include "daemon/options.h"
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
	[COMMAND_RELOAD] =
		{"reload", "[TARGET]", "--force",
		 "read the configuration file again; --force: also where a mount in use goes", 0, 1,
		 false},
	[COMMAND_MOUNT] = {"mount", "NAME", "", "mount what the configuration names", 1, 1, false},
	[COMMAND_UNMOUNT] = {"unmount", "NAME", "--force",
			     "unmount it; --force: also while it is in use, which ends then", 1, 1,
			     false},
	[COMMAND_PAUSE] = {"pause", "TARGET", "",
			   "let nothing pass until resume; df and umount wait, too", 1, 1, false},
	[COMMAND_RESUME] = {"resume", "TARGET", "", "let it pass again", 1, 1, false},
	[COMMAND_RESET_STATS] = {"reset-stats", "[TARGET]", "", "count from zero", 0, 1, false},
	[COMMAND_RESCAN] = {"rescan", "TARGET", "",
			    "count again what its source holds (size, inodes)", 1, 1, false},
	[COMMAND_CLASS_ADD] = {"class add", "MOUNT NAME KEY=VALUE...", "",
			       "give a mount one more class, asked after the others", 3, MANY,
			       false},
	[COMMAND_CLASS_REMOVE] = {"class remove", "MOUNT/CLASS", "",
				  "take a class away; its requests go on elsewhere", 1, 1, false},
	[COMMAND_CLASS_LIST] = {"class list", "[MOUNT]", "--json",
				"the classes of mounts, in the order in which they are asked", 0, 1,
				false},
	[COMMAND_FIND] = {"find", "TARGET", "", "is the target here?", 1, 1, true},
};

int command_find(const char *name)
{
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return i;
	return -1;
}

const char *command_nearest(const char *name)
{
	const char *nearest = NULL;
	unsigned best = 3; /* farther is not near */
	for (int i = 0; i < COMMANDS; i++) {
		unsigned d = commands[i].hidden ? best : option_distance(name, commands[i].name);
		if (d < best) {
			best = d;
			nearest = commands[i].name;
		}
	}
	return nearest;
}
