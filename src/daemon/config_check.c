/* SPDX-License-Identifier: MIT */
#include "daemon/config_check.h"

#include <stdbool.h>
#include <string.h>

#include "daemon/options.h"

/* Takes out "//", "/./" and trailing slashes; the file system is not asked, since the path may lie
 * in a mount of our own that waits. */
static void normalise(char *path)
{
	char *to = path;
	for (const char *from = path; *from;) {
		if (from[0] == '/' && (from[1] == '/' || (!from[1] && to > path)))
			from++;
		else if (from[0] == '/' && from[1] == '.' &&
			 (from[2] == '/' || (!from[2] && to > path)))
			from += 2;
		else
			*to++ = *from++;
	}
	*to = '\0';
}

static void check_path(const struct settings *s, const char *scope, const char *key, char *path,
		       struct problems *p)
{
	if (!path)
		return;
	if (path[0] != '/')
		problems_add(p, s->line, "[%s:%s] %s: '%s' is not an absolute path", scope, s->name,
			     key, path);
	normalise(path);
}

static void check_fs(struct configuration *c, unsigned i, struct problems *p)
{
	struct settings *fs = &c->fs[i];
	if (!fs->name)
		return;
	if (!fs->source)
		problems_add(p, fs->line, "[fs:%s] source: is missing", fs->name);
	check_path(fs, "fs", "source", fs->source, p);
}

static void check_fs_of_mount(const struct configuration *c, const struct settings *m,
			      struct problems *p)
{
	if (m->fs && m->source)
		problems_add(p, m->line, "[mount:%s] source: give fs or source, not both", m->name);
	else if (!m->fs && !m->source)
		problems_add(p, m->line, "[mount:%s] source: is missing; give fs or source",
			     m->name);
	else if (m->fs && !configuration_find_fs(c, m->fs))
		problems_add(p, m->line, "[mount:%s] fs: there is no [fs:%s]", m->name, m->fs);
}

static void check_twice(const struct configuration *c, unsigned i, struct problems *p)
{
	const struct settings *m = &c->mount[i];
	for (unsigned k = 0; k < i; k++) {
		const struct settings *o = &c->mount[k];
		if (!o->name)
			continue;
		if (strcmp(o->name, m->name) == 0)
			problems_add(p, m->line,
				     "[mount:%s] name: is also the name of the mount in line %u",
				     m->name, o->line);
		if (m->mountpoint && o->mountpoint && strcmp(o->mountpoint, m->mountpoint) == 0)
			problems_add(p, m->line,
				     "[mount:%s] mountpoint: '%s' is also that of [mount:%s]",
				     m->name, m->mountpoint, o->name);
	}
}

static void check_mount(struct configuration *c, unsigned i, struct problems *p)
{
	struct settings *m = &c->mount[i];
	if (!m->name)
		return;
	if (!m->mountpoint)
		problems_add(p, m->line, "[mount:%s] mountpoint: is missing", m->name);
	check_path(m, "mount", "mountpoint", m->mountpoint, p);
	check_path(m, "mount", "source", m->source, p);
	check_fs_of_mount(c, m, p);
	check_twice(c, i, p);
	if (words_find(&m->fuse, "allow_other") && words_find(&m->fuse, "allow_root"))
		problems_add(p, m->line, "[mount:%s] allow_root: allow_other says more already",
			     m->name);
}

void config_check(struct configuration *c, struct problems *p)
{
	for (unsigned i = 0; i < c->n_fs; i++)
		check_fs(c, i, p);
	for (unsigned i = 0; i < c->n_mounts; i++)
		check_mount(c, i, p);
	if (!c->n_mounts)
		problems_add(p, 0, "there is no [mount:NAME]: nothing to serve");
}
