/* SPDX-License-Identifier: MIT */
#include "fs/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_BYTES 4096U /* enough for nearly every process */

ssize_t proc_read(const char *path, char *buf, size_t size)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, buf, size - 1);
	if (n < 0)
		return -1;
	buf[n] = '\0';
	return n;
}

char status_of_thread(pid_t tid)
{
	char path[64], stat[512];
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	if (proc_read(path, stat, sizeof(stat)) < 0)
		return '\0';
	const char *at = strrchr(stat, ')'); /* the name may contain anything */
	return at && at[1] ? at[2] : '\0';
}

char *status_read(uint32_t tid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/status", tid);
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t room = FIRST_BYTES, len = 0;
	AUTO_FREE char *text = fd >= 0 ? malloc(room) : NULL;
	while (text) {
		ssize_t n = read(fd, text + len, room - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return NULL;
		len += (size_t)n;
		text[len] = '\0';
		if (n == 0)
			return take_ptr(&text);
		if (len + 1 < room)
			continue;
		char *more = realloc(text, room *= 2);
		if (!more)
			return NULL;
		text = more;
	}
	return NULL;
}

bool status_number(const char *status, const char *name, int base, uint64_t *out)
{
	const char *at = strstr(status, name);
	if (!at)
		return false;
	*out = strtoull(at + strlen(name), NULL, base);
	return true;
}

static size_t count_words(const char *at, const char *end)
{
	size_t n = 0;
	for (; at < end; at++)
		n += *at == ' ';
	return n + 1;
}

int status_groups(const char *status, gid_t **out)
{
	const char *at = strstr(status, "\nGroups:");
	*out = NULL;
	if (!at)
		return 0;
	at += strlen("\nGroups:");
	const char *end = at + strcspn(at, "\n");
	gid_t *id = malloc(count_words(at, end) * sizeof(*id));
	if (!id)
		return -ENOMEM;
	int n = 0;
	for (;;) {
		while (at < end && (*at == ' ' || *at == '\t'))
			at++;
		if (at >= end)
			break;
		char *next;
		id[n++] = (gid_t)strtoul(at, &next, 10);
		if (next == at)
			break;
		at = next;
	}
	*out = id;
	return n;
}
