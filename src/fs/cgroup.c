/* SPDX-License-Identifier: MIT */
#include "fs/cgroup.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Paths of the cgroups that were seen: rules match them and statistics name them.  Each row keeps the last
 * few that it has seen, so that cgroups in use at the same time do not displace each other. */
#define ROWS	1024
#define PER_ROW 16
struct name {
	uint64_t id;
	char *path; /* NULL: free */
};
static struct {
	pthread_mutex_t lock;
	struct {
		struct name name[PER_ROW];
		unsigned next; /* to be displaced */
	} row[ROWS];
} cgroups = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct name *find_locked(uint64_t id)
{
	const struct name *n = cgroups.row[id % ROWS].name;
	for (unsigned i = 0; i < PER_ROW; i++)
		if (n[i].path && n[i].id == id)
			return &n[i];
	return NULL;
}

uint64_t cgroup_id(const char *path)
{
	uint64_t h = 0xcbf29ce484222325ULL; /* FNV-1a */
	for (; *path; path++)
		h = (h ^ (uint8_t)*path) * 0x100000001b3ULL;
	return h & ((1ULL << 53) - 1); /* JSON readers keep no more bits of a number */
}

void cgroup_remember(uint64_t id, const char *path)
{
	pthread_mutex_lock(&cgroups.lock);
	if (!find_locked(id)) {
		struct name *n =
			&cgroups.row[id % ROWS].name[cgroups.row[id % ROWS].next++ % PER_ROW];
		free(n->path);
		*n = (struct name){id, strdup(path)};
	}
	pthread_mutex_unlock(&cgroups.lock);
}

bool cgroup_path(uint64_t id, char *buf, size_t size)
{
	pthread_mutex_lock(&cgroups.lock);
	const struct name *found = find_locked(id);
	if (found)
		snprintf(buf, size, "%s", found->path);
	pthread_mutex_unlock(&cgroups.lock);
	return found;
}

/* --- /proc/PID/cgroup: a line "NUMBER:CONTROLLERS:PATH" for each hierarchy, "0::PATH" for cgroup v2 --------------- */

static bool is_v2(const char *line)
{
	return strncmp(line, "0::", 3) == 0;
}

static bool is_systemd(const char *line)
{
	const char *colon = strchr(line, ':');
	return colon && strncmp(colon, ":name=systemd:", 14) == 0;
}

/* The path of a line; NULL: it has none, or it is the root, which does not distinguish
 * processes. */
static char *path_below_root(char *line)
{
	char *path = strchr(line, '/');
	const char *end = strchr(line, '\n');
	if (!path || (end && path > end) || path[1] == '\n' || !path[1])
		return NULL;
	return path;
}

static char *next_line(char *line)
{
	char *end = strchr(line, '\n');
	return end && end[1] ? end + 1 : NULL;
}

/* The path in the first hierarchy that is_meant accepts (NULL: all) and in which the process is not
 * in the root. */
static char *find_path(char *text, bool (*is_meant)(const char *line))
{
	for (char *line = text; line; line = next_line(line)) {
		char *path = path_below_root(line);
		if (path && (!is_meant || is_meant(line)))
			return path;
	}
	return NULL;
}

/* On hybrid systems, systemd keeps its v1 hierarchy and v2 equal for its own units, but engines that manage v1 put containers
 * into v1 hierarchies only: in v2, all of them are in the cgroup of the engine's service. */
char *cgroup_parse(char *text)
{
	char *path = find_path(text, is_systemd);
	path = path ? path : find_path(text, is_v2);
	path = path ? path : find_path(text, NULL);
	path = path ? path : strchr(text, '/');
	if (path)
		path[strcspn(path, "\n")] = '\0';
	return path;
}

const char *cgroup_hierarchies(const char *text)
{
	bool v1 = false, v2 = false;
	for (const char *line = text; line && *line; line = strchr(line, '\n'), line += !!line) {
		v2 |= is_v2(line);
		v1 |= !is_v2(line);
	}
	return v1 && v2 ? "v1 (systemd's), and v2 for processes in its root"
	       : v1	? "v1"
	       : v2	? "v2"
			: "none";
}
