/* SPDX-License-Identifier: MIT */
#include "daemon/advice.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/cgroup.h"
#include "sched/job.h"

/* --- cgroups -------------------------------------------------------------------------------- */

#define CGROUP_TEXT 4096

/* The cgroup of a process; "" for a kernel thread or one that is gone. */
static void read_cgroup(const char *pid, char buf[CGROUP_TEXT])
{
	char path[64], text[CGROUP_TEXT], byte;
	buf[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
	AUTO_FILE cmdline = fopen(path, "re");
	if (!cmdline || fread(&byte, 1, 1, cmdline) != 1)
		return;
	snprintf(path, sizeof(path), "/proc/%.20s/cgroup", pid);
	AUTO_FILE cgroup = fopen(path, "re");
	text[cgroup ? fread(text, 1, sizeof(text) - 1, cgroup) : 0] = '\0';
	const char *found = cgroup_parse(text);
	snprintf(buf, CGROUP_TEXT, "%s", found ? found : "");
}

/* True as soon as two processes besides this one are found in different cgroups. */
static bool cgroups_differ(void)
{
	char first[CGROUP_TEXT] = "", other[CGROUP_TEXT] = "";
	AUTO_DIR proc = opendir("/proc");
	for (const struct dirent *e; proc && (e = readdir(proc));) {
		if (!isdigit((unsigned char)e->d_name[0]) ||
		    strtol(e->d_name, NULL, 10) == getpid())
			continue;
		read_cgroup(e->d_name, first[0] ? other : first);
		if (first[0] && other[0] && strcmp(first, other) != 0)
			return true;
		other[0] = '\0';
	}
	return false;
}

/* --- all of it ------------------------------------------------------------------------------ */

static bool limits_each(const struct settings *s)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		if (s->each.limit[k].enabled)
			return true;
	return false;
}

void advise(const struct settings *s, void (*say)(const char *line, void *ctx), void *ctx)
{
	char line[600];
	for (unsigned i = 0; i < s->weights.n; i++) {
		if (s->weights.rule[i].key.kind == s->fair)
			continue;
		snprintf(line, sizeof(line), "mount '%s': weight=%s has no effect with fair=%s",
			 s->name, s->weights.text[i], fair_kind_name(s->fair));
		say(line, ctx);
	}
	if (s->fair == FAIR_NONE && limits_each(s)) {
		snprintf(line, sizeof(line),
			 "mount '%s': with fair=none, each.* limits all callers together; use "
			 "fair=uid, process or cgroup",
			 s->name);
		say(line, ctx);
	}
	if (s->fair == FAIR_CGROUP && !cgroups_differ()) {
		snprintf(line, sizeof(line),
			 "mount '%s': fair=cgroup has no effect here: all processes are in one "
			 "cgroup; use fair=uid or fair=process, or give each its own cgroup",
			 s->name);
		say(line, ctx);
	}
}
