/* SPDX-License-Identifier: MIT */
#include "base/mountinfo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

/* Decodes escapes such as \040, in place. */
static void unescape(char *text)
{
	char *to = text;
	for (const char *from = text; *from; to++) {
		unsigned c;
		if (from[0] == '\\' && sscanf(from + 1, "%3o", &c) == 1) {
			*to = (char)c;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* "ID PARENT MAJOR:MINOR ROOT WHERE OPTIONS... - TYPE SOURCE ...".  False: another form. */
static bool parse(char *line, struct mount_line *out)
{
	unsigned high, low;
	char *type = strstr(line, " - ");
	if (!type || sscanf(line, "%" SCNu64 " %*s %u:%u", &out->id, &high, &low) != 3)
		return false;
	*type = '\0';
	type += 3;
	type[strcspn(type, " \n")] = '\0';
	char *save = NULL, *word = strtok_r(line, " ", &save);
	for (int i = 0; word && i < 4; i++)
		word = strtok_r(NULL, " ", &save);
	if (!word)
		return false;
	unescape(word);
	out->device = makedev(high, low);
	out->where = strdup(word);
	out->type = strdup(type);
	return true;
}

static bool add(struct mountinfo *m, char *line)
{
	struct mount_line one = {0};
	if (!parse(line, &one))
		return true;
	struct mount_line *more = realloc(m->mount, (m->n + 1) * sizeof(*more));
	if (!more || !one.where || !one.type) {
		free(one.where);
		free(one.type);
		m->mount = more ? more : m->mount;
		return false;
	}
	m->mount = more;
	m->mount[m->n++] = one;
	return true;
}

bool mountinfo_read(struct mountinfo *m, const char *file)
{
	AUTO_FILE f = fopen(file, "re");
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	*m = (struct mountinfo){0};
	while (f && getline(&line, &size, f) > 0)
		if (!add(m, line))
			return false;
	return f;
}

void mountinfo_free(struct mountinfo *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		free(m->mount[i].where);
		free(m->mount[i].type);
	}
	free(m->mount);
	*m = (struct mountinfo){0};
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

const struct mount_line *mountinfo_of(const struct mountinfo *m, const char *path)
{
	const struct mount_line *found = NULL;
	for (const struct mount_line *l = m->mount; l < m->mount + m->n; l++)
		if (is_below(path, l->where) &&
		    (!found || strlen(l->where) >= strlen(found->where)))
			found = l;
	return found;
}

const struct mount_line *mountinfo_by_id(const struct mountinfo *m, uint64_t id)
{
	for (const struct mount_line *l = m->mount; l < m->mount + m->n; l++)
		if (l->id == id)
			return l;
	return NULL;
}

dev_t mountinfo_device(const struct mountinfo *m, const char *path)
{
	const struct mount_line *l = mountinfo_of(m, path);
	return l ? l->device : 0;
}

bool mountinfo_find(const struct mountinfo *m, const char *mountpoint, dev_t *device)
{
	const struct mount_line *l = mountinfo_of(m, mountpoint);
	if (!l || strcmp(l->where, mountpoint) != 0)
		return false;
	*device = l->device;
	return true;
}
