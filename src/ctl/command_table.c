/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "ctl/ctl.h"
#include "ctl/render.h"

#define MANY 500

const struct command commands[] = {
	{"list", "", "--json", "all mounts of all daemons, and their scopes", 0, 0, run_list,
	 "list", NULL},
	{"show", "TARGET", "--json", "the options in force", 1, 1, run_on_target, "show",
	 render_show},
	{"set", "TARGET KEY=VALUE...", "--save",
	 "change options at once; --save writes them into the configuration file, too", 2, MANY,
	 run_on_target, "set", render_set},
	{"stats", "[TARGET]", "--json", "who waited, how long, on which limit", 0, 1, run_on_mounts,
	 "stats", render_stats},
	{"top", "[TARGET]", "", "who waits now, and for what: a live view; change limits in it", 0,
	 1, run_top, NULL, NULL},
	{"watch", "[TARGET]", "--json", "the same as lines, once a second; --json: statistics", 0,
	 1, run_watch, "stats", NULL},
	{"metrics", "", "", "statistics of all daemons for Prometheus", 0, 0, run_metrics, NULL,
	 NULL},
	{"trace", "[TARGET]", "--json",
	 "requests that waited or were refused, and changes, as they happen", 0, 1, run_trace, NULL,
	 NULL},
	{"reload", "[TARGET]", "--force",
	 "read the configuration file again; --force: also where a mount in use goes", 0, 1,
	 run_everywhere, "reload", NULL},
	{"mount", "NAME", "", "mount what the configuration names", 1, 1, run_on_target, "mount",
	 NULL},
	{"unmount", "NAME", "--force",
	 "unmount it; --force: also while it is in use, which ends then", 1, 1, run_on_target,
	 "unmount", NULL},
	{"pause", "TARGET", "", "let nothing pass until resume; df and umount wait, too", 1, 1,
	 run_on_target, "pause", render_pause},
	{"resume", "TARGET", "", "let it pass again", 1, 1, run_on_target, "resume", NULL},
	{"rescan", "TARGET", "", "count again what its source holds (size, inodes)", 1, 1,
	 run_on_target, "rescan", NULL},
	{"reset-stats", "[TARGET]", "", "count from zero", 0, 1, run_everywhere, "reset-stats",
	 NULL},
	{"class add", "MOUNT NAME KEY=VALUE...", "--save",
	 "give a mount one more class, asked after the others; --save: in the file, too", 3, MANY,
	 run_on_target, "class-add", render_set},
	{"class remove", "MOUNT/CLASS", "", "take a class away; its requests go on elsewhere", 1, 1,
	 run_on_target, "class-remove", render_set},
	{"class list", "[MOUNT]", "--json",
	 "the classes of mounts, in the order in which they are asked", 0, 1, run_list,
	 "class-list", render_classes},
};
const unsigned n_commands = ARRAY_SIZE(commands);

const struct command *command_find(const char *name)
{
	for (unsigned i = 0; i < n_commands; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

const char *command_nearest(const char *name)
{
	const char *nearest = NULL;
	unsigned best = 3; /* farther is not near */
	for (unsigned i = 0; i < n_commands; i++) {
		unsigned d = text_distance(name, commands[i].name);
		if (d < best) {
			best = d;
			nearest = commands[i].name;
		}
	}
	return nearest;
}
