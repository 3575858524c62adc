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
	return h;
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

char *cgroup_parse(char *text)
{
	char *path = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	path = path ? strchr(path, '/') : strchr(text, '/'); /* cgroup v1: the first hierarchy */
	if (path)
		path[strcspn(path, "\n")] = '\0';
	return path;
}
