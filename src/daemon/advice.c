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

#define KERNEL_THREAD 0x00200000 /* in /proc/PID/stat: see include/linux/sched.h of the kernel */

/* False: it is a kernel thread or gone.  Reading the command line instead would wait for a process that hangs while it
 * changes its memory. */
static bool is_program(const char *pid)
{
	char path[64], line[512] = "", state;
	unsigned flags;
	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	AUTO_FILE in = fopen(path, "re");
	if (!in || !fgets(line, sizeof(line), in))
		return false;
	const char *name_end = strrchr(line, ')'); /* the name may contain anything */
	return name_end &&
	       sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2 &&
	       state != 'Z' && !(flags & KERNEL_THREAD);
}

/* The cgroup of a process; "" for a kernel thread or one that is gone. */
static void read_cgroup(const char *pid, char buf[CGROUP_TEXT])
{
	char path[64], text[CGROUP_TEXT];
	buf[0] = '\0';
	if (!is_program(pid))
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

static bool matches_cgroups(const struct settings *s)
{
	return s->match.text && strstr(s->match.text, "cgroup:");
}

bool uses_cgroups(const struct settings *s)
{
	bool uses = s->fair == FAIR_CGROUP || matches_cgroups(s);
	for (unsigned i = 0; i < s->n_classes && !uses; i++)
		uses = uses_cgroups(&s->class[i]);
	return uses;
}

/* One line for each of the mount's settings and those of its classes that name cgroups. */
static void say_useless_cgroups(const struct settings *mount, const struct settings *class,
				void (*say)(const char *line, void *ctx), void *ctx)
{
	const struct settings *s = class ? class : mount;
	char line[600], in[300] = "";
	if (class)
		snprintf(in, sizeof(in), ", class '%s'", class->name);
	if (s->fair == FAIR_CGROUP) {
		snprintf(line, sizeof(line),
			 "mount '%s'%s: fair=cgroup has no effect here: all processes are in one "
			 "cgroup; use fair=uid or fair=process, or give each its own cgroup",
			 mount->name, in);
		say(line, ctx);
	}
	if (matches_cgroups(s)) {
		snprintf(
			line, sizeof(line),
			"mount '%s'%s: match=cgroup: tells nobody apart here: all processes are in "
			"one cgroup; match users or programs, or give each its own cgroup",
			mount->name, in);
		say(line, ctx);
	}
}

static void advise_cgroups(const struct settings *mount, void (*say)(const char *line, void *ctx),
			   void *ctx)
{
	if (!uses_cgroups(mount) || cgroups_differ())
		return;
	say_useless_cgroups(mount, NULL, say, ctx);
	for (unsigned i = 0; i < mount->n_classes; i++)
		say_useless_cgroups(mount, &mount->class[i], say, ctx);
}

/* --- all of it ------------------------------------------------------------------------------ */

static bool limits_each(const struct settings *s)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		if (s->each.limit[k].enabled)
			return true;
	return false;
}

/* Weights of a mount apply to its classes, too. */
static bool has_such_keys(const struct settings *s, enum fair_kind kind)
{
	bool has = s->fair == kind;
	for (unsigned i = 0; i < s->n_classes && !has; i++)
		has = s->class[i].fair == kind;
	return has;
}

/* Weights and limits of keys, of the mount itself or of one class. */
static void advise_keys(const struct settings *mount, const struct settings *class,
			void (*say)(const char *line, void *ctx), void *ctx)
{
	const struct settings *s = class ? class : mount;
	char line[600], in[300] = "";
	if (class)
		snprintf(in, sizeof(in), ", class '%s'", class->name);
	for (unsigned i = 0; i < s->weights.n; i++) {
		if (has_such_keys(s, s->weights.rule[i].key.kind))
			continue;
		snprintf(line, sizeof(line), "mount '%s'%s: weight=%s has no effect with fair=%s",
			 mount->name, in, s->weights.text[i], fair_kind_name(s->fair));
		say(line, ctx);
	}
	if (s->fair == FAIR_NONE && limits_each(s)) {
		snprintf(line, sizeof(line),
			 "mount '%s'%s: with fair=none, each.* limits all callers together; use "
			 "fair=uid, process or cgroup",
			 mount->name, in);
		say(line, ctx);
	}
}

void advise(const struct settings *s, void (*say)(const char *line, void *ctx), void *ctx)
{
	advise_keys(s, NULL, say, ctx);
	for (unsigned i = 0; i < s->n_classes; i++)
		advise_keys(s, &s->class[i], say, ctx);
	advise_cgroups(s, say, ctx);
}

void advise_class(const struct settings *mount, const struct settings *class,
		  void (*say)(const char *line, void *ctx), void *ctx)
{
	advise_keys(mount, class, say, ctx);
	advise_cgroups(mount, say, ctx);
}
