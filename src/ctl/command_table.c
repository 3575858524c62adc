/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "ctl/ctl.h"
#include "ctl/render.h"

#define MANY 500

const struct command commands[] = {
	{"list", "", "--json", "list all mounts of all daemons with their limits", 0, 0, run_list,
	 "list", NULL},
	{"show", "TARGET", "--json", "show the options of a target and the limits that apply", 1, 1,
	 run_on_target, "show", render_show},
	{"set", "TARGET KEY=VALUE...", "--save",
	 "change options immediately; --save: in the configuration file, too", 2, MANY,
	 run_on_target, "set", render_set},
	{"stats", "[TARGET]", "--json", "show who waited, how long, and for which limit", 0, 1,
	 run_on_mounts, "stats", render_stats},
	{"top", "[TARGET]", "", "live view of who waits for which limit; can change limits", 0, 1,
	 run_top, NULL, NULL},
	{"watch", "[TARGET]", "--json",
	 "print what top shows as lines, every second; --json: statistics", 0, 1, run_watch,
	 "stats", NULL},
	{"metrics", "", "", "print the statistics of all daemons for Prometheus", 0, 0, run_metrics,
	 NULL, NULL},
	{"trace", "[TARGET]", "--json",
	 "print requests that wait or are refused, and changes, as they happen", 0, 1, run_trace,
	 NULL, NULL},
	{"reload", "[TARGET]", "--force",
	 "reload the configuration file; --force: even if that unmounts a mount in use", 0, 1,
	 run_everywhere, "reload", NULL},
	{"mount", "NAME", "", "mount NAME from the configuration file", 1, 1, run_on_target,
	 "mount", NULL},
	{"unmount", "NAME", "--force", "unmount; --force: even if it is in use", 1, 1,
	 run_on_target, "unmount", NULL},
	{"pause", "TARGET", "", "hold all requests until resume; df and umount wait, too", 1, 1,
	 run_on_target, "pause", render_pause},
	{"resume", "TARGET", "", "continue after pause", 1, 1, run_on_target, "resume", NULL},
	{"rescan", "TARGET", "", "recount what the source holds (size, inodes)", 1, 1,
	 run_on_target, "rescan", NULL},
	{"reset-stats", "[TARGET]", "", "reset all statistics of the daemon that has TARGET", 0, 1,
	 run_everywhere, "reset-stats", NULL},
	{"class add", "MOUNT NAME KEY=VALUE...", "--save",
	 "add a class to a mount, after the others or --before=CLASS", 3, MANY, run_on_target,
	 "class-add", render_set},
	{"class remove", "MOUNT/CLASS", "",
	 "remove a class; its requests belong to the next that matches", 1, 1, run_on_target,
	 "class-remove", render_set},
	{"class list", "[MOUNT]", "--json", "list classes in the order in which they are tried", 0,
	 1, run_list, "class-list", render_classes},
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
	unsigned best = strlen(name) < 4 ? 2 : 3; /* a larger distance is not a typo */
	for (unsigned i = 0; i < n_commands; i++) {
		unsigned d = text_distance(name, commands[i].name);
		if (d < best) {
			best = d;
			nearest = commands[i].name;
		}
	}
	return nearest;
}
