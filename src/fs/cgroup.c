/* SPDX-License-Identifier: MIT */
#include "fs/cgroup.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Paths of the cgroups that were seen, so that statistics can name them.  A new one replaces whatever
 * was in its slot. */
#define CGROUP_NAMES 1024
static struct {
	pthread_mutex_t lock;
	struct {
		uint64_t id;
		char *path;
	} slot[CGROUP_NAMES];
} cgroups = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
	if (cgroups.slot[id % CGROUP_NAMES].id != id) {
		free(cgroups.slot[id % CGROUP_NAMES].path);
		cgroups.slot[id % CGROUP_NAMES].path = strdup(path);
		cgroups.slot[id % CGROUP_NAMES].id = id;
	}
	pthread_mutex_unlock(&cgroups.lock);
}

bool cgroup_path(uint64_t id, char *buf, size_t size)
{
	pthread_mutex_lock(&cgroups.lock);
	const char *path = cgroups.slot[id % CGROUP_NAMES].path;
	bool found = path && cgroups.slot[id % CGROUP_NAMES].id == id;
	if (found)
		snprintf(buf, size, "%s", path);
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
