/* SPDX-License-Identifier: MIT */
#include "ctl/containers.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

bool container_id(const char *cgroups, char id[CONTAINER_ID_LEN + 1])
{
	size_t run = 0;
	for (const char *p = cgroups;; p++) {
		if (isxdigit((unsigned char)*p) && !isupper((unsigned char)*p)) {
			run++;
			continue;
		}
		if (run == CONTAINER_ID_LEN) {
			memcpy(id, p - run, run);
			id[run] = '\0';
			return true;
		}
		if (!*p)
			return false;
		run = 0;
	}
}

bool container_mount_is_hosts(const struct container_mount *m, const char *mountpoint)
{
	size_t n = strlen(m->where), own = strlen(mountpoint);
	return n >= own && strcmp(m->where + n - own, mountpoint) == 0;
}

/* In place: the kernel writes blanks and backslashes as three octal digits. */
static void unescape(char *text)
{
	char *to = text;
	unsigned code;
	for (const char *p = text; *p; to++) {
		if (*p == '\\' && sscanf(p + 1, "%3o", &code) == 1) {
			*to = (char)code;
			p += 4;
		} else {
			*to = *p++;
		}
	}
	*to = '\0';
}

/* ID PARENT MAJOR:MINOR ROOT WHERE OPTIONS [TAG...] - TYPE SOURCE OPTIONS */
bool container_mount_parse(char *line, struct container_mount *m)
{
	unsigned high, low;
	int where = 0;
	char *tail = strstr(line, " - fuse.ratefs ");
	if (!tail || sscanf(line, "%*u %*u %u:%u %*s %n", &high, &low, &where) != 2 || !where)
		return false;
	char *source = tail + strlen(" - fuse.ratefs ");
	source[strcspn(source, " \n")] = '\0';
	line[where + strcspn(line + where, " ")] = '\0';
	m->device = makedev(high, low);
	m->source = source;
	m->where = line + where;
	unescape(line + where);
	return true;
}

struct walk {
	void (*each)(void *ctx, const struct container_mount *m);
	void *ctx;
	ino_t own;
	ino_t *seen; /* namespaces */
	size_t n, room;
};

static bool is_seen(const struct walk *w, ino_t ns)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->seen[i] == ns)
			return true;
	return false;
}

static bool remember(struct walk *w, ino_t ns)
{
	if (w->n == w->room) {
		size_t room = w->room ? 2 * w->room : 64;
		ino_t *more = realloc(w->seen, room * sizeof(*more));
		if (!more)
			return false;
		w->seen = more;
		w->room = room;
	}
	w->seen[w->n++] = ns;
	return true;
}

static void find_id(pid_t pid, char id[CONTAINER_ID_LEN + 1])
{
	char path[32], text[8192] = "";
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	AUTO_FILE f = fopen(path, "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	text[n] = '\0';
	if (!container_id(text, id))
		id[0] = '\0';
}

/* False: the process has just exited. */
static bool look_at(struct walk *w, pid_t pid, ino_t ns)
{
	char path[32], id[CONTAINER_ID_LEN + 1] = "";
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	bool asked = false;
	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	AUTO_FILE f = fopen(path, "re");
	while (f && getline(&line, &size, f) > 0) {
		struct container_mount m = {.pid = pid, .own = ns == w->own, .container = id};
		if (!container_mount_parse(line, &m))
			continue;
		if (!asked && !m.own)
			find_id(pid, id);
		asked = true;
		w->each(w->ctx, &m);
	}
	return f != NULL;
}

static bool walk_process(struct walk *w, const char *name)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%.20s/ns/mnt", name);
	if (stat(path, &st) < 0 || is_seen(w, st.st_ino))
		return true; /* exited, a kernel thread, or of another user */
	/* Another process may still be in the namespace of one that has exited. */
	return !look_at(w, (pid_t)strtol(name, NULL, 10), st.st_ino) || remember(w, st.st_ino);
}

bool containers_each(void (*each)(void *ctx, const struct container_mount *m), void *ctx)
{
	struct walk w = {.each = each, .ctx = ctx};
	struct stat st;
	AUTO_DIR proc = opendir("/proc");
	bool ok = proc && stat("/proc/self/ns/mnt", &st) == 0;
	w.own = ok ? st.st_ino : 0;
	for (const struct dirent *e; ok && (e = readdir(proc));)
		if (isdigit((unsigned char)e->d_name[0]))
			ok = walk_process(&w, e->d_name);
	free(w.seen);
	return ok;
}
