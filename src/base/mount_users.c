/* SPDX-License-Identifier: MIT */
#include "base/mount_users.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/mountinfo.h"

struct search {
	struct mount_users *users;
	dev_t device;
	struct mountinfo own; /* the mounts of our namespace … */
	char own_ns[64];      /* … and its name */
	bool no_memory;
};

/* --- one process ---------------------------------------------------------------------------- */

static bool read_link(pid_t pid, const char *name, char buf[PATH_MAX])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	ssize_t n = readlink(path, buf, PATH_MAX - 1);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool link_is_on(const struct search *s, const struct mountinfo *mounts, pid_t pid,
		       const char *name)
{
	char target[PATH_MAX];
	return read_link(pid, name, target) && target[0] == '/' &&
	       mountinfo_device(mounts, target) == s->device;
}

static unsigned count_files(const struct search *s, const struct mountinfo *mounts, pid_t pid)
{
	char path[32], name[32];
	unsigned n = 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	AUTO_DIR dir = opendir(path);
	for (const struct dirent *e; dir && (e = readdir(dir));) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(name, sizeof(name), "fd/%.20s", e->d_name);
		n += link_is_on(s, mounts, pid, name);
	}
	return n;
}

/* Lines "from-to perms offset major:minor inode path". */
static unsigned count_mapped(const struct search *s, pid_t pid)
{
	char path[32];
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	unsigned n = 0, high, low;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	AUTO_FILE maps = fopen(path, "re");
	while (maps && getline(&line, &size, maps) > 0)
		n += sscanf(line, "%*s %*s %*s %x:%x", &high, &low) == 2 &&
		     makedev(high, low) == s->device;
	return n;
}

static void read_name(struct mount_user *u)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)u->pid);
	AUTO_FILE comm = fopen(path, "re");
	if (!comm || !fgets(u->name, sizeof(u->name), comm))
		u->name[0] = '\0';
	u->name[strcspn(u->name, "\n")] = '\0';
	make_one_line(u->name);
}

static void add(struct search *s, const struct mount_user *u)
{
	struct mount_users *all = s->users;
	struct mount_user *more = realloc(all->user, (all->n + 1) * sizeof(*more));
	s->no_memory |= !more;
	if (!more)
		return;
	all->user = more;
	more[all->n] = *u;
	read_name(&more[all->n++]);
}

static void look_with(struct search *s, const struct mountinfo *mounts, struct mount_user *u)
{
	u->cwd = link_is_on(s, mounts, u->pid, "cwd");
	u->root = link_is_on(s, mounts, u->pid, "root");
	u->files = count_files(s, mounts, u->pid);
	u->mapped = count_mapped(s, u->pid);
	if (u->cwd || u->root || u->files || u->mapped)
		add(s, u);
}

/* True: the process may use the mount, but we may not inspect it.  Kernel threads and zombies use
 * no mounts; their command line is empty. */
static bool is_hidden(pid_t pid)
{
	char path[32], byte;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	AUTO_FILE cmdline = fopen(path, "re");
	return cmdline && fread(&byte, 1, 1, cmdline) == 1;
}

static void look_at(struct search *s, pid_t pid)
{
	struct mount_user u = {.pid = pid};
	char path[32], target[PATH_MAX];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) < 0)
		return; /* gone meanwhile */
	u.uid = st.st_uid;
	if (!read_link(pid, "ns/mnt", target)) {
		s->users->hidden += is_hidden(pid);
		return;
	}
	if (strcmp(target, s->own_ns) == 0) {
		look_with(s, &s->own, &u);
		return;
	}
	struct mountinfo theirs;
	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	if (mountinfo_read(&theirs, path))
		look_with(s, &theirs, &u);
	mountinfo_free(&theirs);
}

/* --- all of them ---------------------------------------------------------------------------- */

bool mount_device(const char *mountpoint, dev_t *device)
{
	struct mountinfo mounts;
	bool found = mountinfo_read(&mounts, "/proc/self/mountinfo") &&
		     mountinfo_find(&mounts, mountpoint, device);
	mountinfo_free(&mounts);
	return found;
}

bool mount_users_find(struct mount_users *u, dev_t device)
{
	struct search s = {.users = u, .device = device};
	char target[PATH_MAX];
	*u = (struct mount_users){0};
	if (!read_link(getpid(), "ns/mnt", target) ||
	    !mountinfo_read(&s.own, "/proc/self/mountinfo"))
		return false;
	snprintf(s.own_ns, sizeof(s.own_ns), "%.63s", target);
	AUTO_DIR proc = opendir("/proc");
	for (const struct dirent *e; proc && (e = readdir(proc));) {
		pid_t pid = isdigit((unsigned char)e->d_name[0])
				    ? (pid_t)strtol(e->d_name, NULL, 10)
				    : 0;
		if (pid > 0 && pid != getpid())
			look_at(&s, pid);
	}
	mountinfo_free(&s.own);
	return proc && !s.no_memory;
}

static const char *plural(unsigned n)
{
	return n == 1 ? "" : "s";
}

void mount_user_print(const struct mount_user *u, FILE *out)
{
	const char *comma = "";
	fprintf(out, "%s (process %d, user %u): ", u->name[0] ? u->name : "?", (int)u->pid,
		(unsigned)u->uid);
	if (u->root) {
		fputs("root directory", out);
		comma = ", ";
	}
	if (u->cwd) {
		fprintf(out, "%sworking directory", comma);
		comma = ", ";
	}
	if (u->files) {
		fprintf(out, "%s%u open file%s", comma, u->files, plural(u->files));
		comma = ", ";
	}
	if (u->mapped)
		fprintf(out, "%s%u mapping%s", comma, u->mapped, plural(u->mapped));
}

void mount_users_free(struct mount_users *u)
{
	free(u->user);
	*u = (struct mount_users){0};
}
