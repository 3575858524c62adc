/* SPDX-License-Identifier: MIT */
#include "daemon/config_check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/classes.h"
#include "daemon/options.h"
#include "daemon/pool_config.h"
#include "daemon/reserves.h"

/* Removes "//", "/./" and trailing slashes.  Does not access the path, which may be in a mount of
 * our own whose requests wait for us. */
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

/* The line where the file sets an option; that of its section if it does not. */
static unsigned line_of(const struct settings *s, const char *option)
{
	unsigned line = s->lines[option_find(option) - options];
	return line ? line : s->line;
}

static void check_path(const struct settings *s, const char *scope, const char *key, char *path,
		       struct problems *p)
{
	if (!path)
		return;
	if (path[0] != '/')
		problems_add(p, line_of(s, key), "[%s:%s] %s: '%s' is not an absolute path", scope,
			     s->section, key, path);
	normalise(path);
}

static void check_fs(struct configuration *c, unsigned i, struct problems *p)
{
	struct settings *fs = &c->fs[i];
	if (!fs->section)
		return;
	if (!fs->source)
		problems_add(p, fs->line, "[fs:%s] source: is missing", fs->section);
	check_path(fs, "fs", "source", fs->source, p);
}

static void check_fs_of_mount(const struct configuration *c, const struct settings *m,
			      struct problems *p)
{
	if (m->fs && m->source)
		problems_add(p, line_of(m, "source"),
			     "[mount:%s] source: give fs or source, not both", m->section);
	else if (!m->fs && !m->source)
		problems_add(p, m->line, "[mount:%s] source: is missing; give fs or source",
			     m->section);
	else if (m->fs && !configuration_find_fs(c, m->fs))
		problems_add(p, line_of(m, "fs"), "[mount:%s] fs: there is no [fs:%s]", m->section,
			     m->fs);
}

static void check_twice(const struct configuration *c, unsigned i, struct problems *p)
{
	const struct settings *m = &c->mount[i];
	for (unsigned k = 0; k < i; k++) {
		const struct settings *o = &c->mount[k];
		if (!o->name)
			continue;
		if (strcmp(o->name, m->name) == 0)
			problems_add(p, line_of(m, "name"),
				     "[mount:%s] name: '%s' is also the name of [mount:%s]",
				     m->section, m->name, o->section);
		if (m->mountpoint && o->mountpoint && strcmp(o->mountpoint, m->mountpoint) == 0)
			problems_add(p, line_of(m, "mountpoint"),
				     "[mount:%s] mountpoint: '%s' is also that of [mount:%s]",
				     m->section, m->mountpoint, o->section);
	}
}

static void check_mount(struct configuration *c, unsigned i, struct problems *p)
{
	struct settings *m = &c->mount[i];
	if (!m->section)
		return;
	if (!m->mountpoint)
		problems_add(p, m->line, "[mount:%s] mountpoint: is missing", m->section);
	check_path(m, "mount", "mountpoint", m->mountpoint, p);
	check_path(m, "mount", "source", m->source, p);
	check_fs_of_mount(c, m, p);
	if (is_other_target(m->name))
		problems_add(p, m->line,
			     "[mount:%s] name: '%s' has another meaning for ratefsctl; choose "
			     "another name",
			     m->section, m->name);
	check_twice(c, i, p);
}

/* --- classes -------------------------------------------------------------------------------- */

/* Adds a mount's copy of a class after its earlier classes. */
static void give_class(struct settings *mount, const struct settings *class, struct problems *p)
{
	struct settings *copy = settings_add_class(mount, class->name);
	if (!copy) {
		problems_add(p, class->line, "out of memory");
		return;
	}
	settings_free(copy);
	if (!settings_copy(copy, class)) {
		mount->n_classes--;
		problems_add(p, class->line, "out of memory");
	}
}

/* The mount of this name or, if there is none, of the section [mount:NAME]. */
static struct settings *find_mount(const struct configuration *c, const char *name)
{
	struct settings *m = configuration_find_mount(c, name);
	for (unsigned i = 0; i < c->n_mounts && !m; i++)
		if (c->mount[i].section && strcmp(c->mount[i].section, name) == 0)
			m = &c->mount[i];
	return m;
}

/* Copies a class to the mounts of mounts=a,b, or without that option to all mounts. */
static void spread_class(struct configuration *c, const struct settings *class, struct problems *p)
{
	AUTO_FREE char *copy = class->mounts ? strdup(class->mounts) : NULL;
	char *rest = copy, *name;
	if (class->mounts && !copy)
		problems_add(p, class->line, "out of memory");
	for (unsigned i = 0; !class->mounts && i < c->n_mounts; i++)
		give_class(&c->mount[i], class, p);
	while (copy && (name = option_next_word(&rest))) {
		name += strspn(name, " \t");
		for (size_t n = strlen(name); n && strchr(" \t", name[n - 1]); n--)
			name[n - 1] = '\0';
		struct settings *m = find_mount(c, name);
		if (!m)
			problems_add(p, line_of(class, "mounts"),
				     "[class:%s] mounts: there is no [mount:%s]; add it, or remove "
				     "the name here",
				     class->name, name);
		else if (!settings_find_class(m, class->name))
			give_class(m, class, p);
	}
}

static void add_problem(void *ctx, const struct settings *class, const char *option,
			const char *text)
{
	problems_add(ctx, *option ? line_of(class, option) : class->line, "[class:%s] %s%s%s",
		     class->name, option, *option ? ": " : "", text);
}

/* Reports a parent that the file does not have, once instead of for every mount of the class. */
static void check_parent_exists(const struct configuration *c, struct settings *class,
				struct problems *p)
{
	unsigned i = 0;
	while (class->parent && i < c->n_classes && strcmp(c->class[i].name, class->parent) != 0)
		i++;
	if (!class->parent || i < c->n_classes)
		return;
	problems_add(
		p, line_of(class, "parent"),
		"[class:%s] parent: there is no class '%s'; add [class:%s], or correct the name",
		class->name, class->parent, class->parent);
	free(class->parent);
	class->parent = NULL;
}

/* Reports a class that has no match and is not the parent of another.  match=none is accepted: `ratefsctl class add --save`
 * writes it before there are others. */
static void check_use(const struct configuration *c, const struct settings *class,
		      struct problems *p)
{
	size_t match = (size_t)(option_find("match") - options);
	bool used = class->match.rule || class->given[match];
	for (unsigned i = 0; i < c->n_classes && !used; i++)
		used = c->class[i].parent && strcmp(c->class[i].parent, class->name) == 0;
	/* a match that could not be parsed has been reported already */
	if (!used && !class->lines[match])
		problems_add(p, class->line,
			     "[class:%s] match: is missing, and the class is not the parent of "
			     "another; write match=",
			     class->name);
}

/* Checks reservations against the limits that several mounts share: those of fs and global. */
static void check_shared_reserves(const struct configuration *c, struct problems *p)
{
	AUTO_FREE const struct settings **mount = calloc(c->n_mounts + 1, sizeof(*mount));
	char what[200];
	if (!mount) {
		problems_add(p, 0, "out of memory");
		return;
	}
	for (unsigned i = 0; i < c->n_fs; i++) {
		unsigned n = 0;
		for (unsigned k = 0; k < c->n_mounts; k++)
			if (c->mount[k].fs && c->fs[i].name &&
			    strcmp(c->mount[k].fs, c->fs[i].name) == 0)
				mount[n++] = &c->mount[k];
		snprintf(what, sizeof(what), "fs '%s'", c->fs[i].name);
		reserves_check_shared(&c->fs[i], what, mount, n, add_problem, p);
	}
	for (unsigned k = 0; k < c->n_mounts; k++)
		mount[k] = &c->mount[k];
	reserves_check_shared(&c->global, "global", mount, c->n_mounts, add_problem, p);
}

static void check_classes(struct configuration *c, struct problems *p)
{
	for (unsigned i = 0; i < c->n_classes; i++) {
		check_parent_exists(c, &c->class[i], p);
		spread_class(c, &c->class[i], p);
		check_use(c, &c->class[i], p);
	}
	for (unsigned i = 0; i < c->n_mounts; i++)
		classes_check(&c->mount[i], add_problem, p);
	check_shared_reserves(c, p);
}

/* --- pools ---------------------------------------------------------------------------------- */

static void check_pool(struct configuration *c, unsigned i, struct problems *p)
{
	struct settings *pool = &c->pool[i];
	struct error err = ERROR_INIT;
	if (!pool->section)
		return;
	if (pool_config_check(pool, &err) < 0)
		problems_add(p, pool->line, "[pool:%s] %s", pool->section, err.text);
	check_path(pool, "pool", "auth_file", pool->auth_file, p);
	check_path(pool, "pool", "tls_ca", pool->tls_ca, p);
	check_path(pool, "pool", "tls_cert", pool->tls_cert, p);
	check_path(pool, "pool", "tls_key", pool->tls_key, p);
	for (unsigned k = 0; k < i; k++)
		if (c->pool[k].name && strcmp(c->pool[k].name, pool->name) == 0)
			problems_add(p, pool->line, "[pool:%s] occurs twice", pool->section);
}

static void join_pool(const struct configuration *c, struct settings *s, const char *scope,
		      struct problems *p)
{
	struct error err = ERROR_INIT;
	if (pool_config_join(s, c->pool, c->n_pools, &err) < 0)
		problems_add(p, line_of(s, "pool"), "[%s%s%s] %s", scope, s->section ? ":" : "",
			     s->section ? s->section : "", err.text);
}

static void check_pools(struct configuration *c, struct problems *p)
{
	for (unsigned i = 0; i < c->n_pools; i++)
		check_pool(c, i, p);
	join_pool(c, &c->global, "global", p);
	for (unsigned i = 0; i < c->n_fs; i++)
		join_pool(c, &c->fs[i], "fs", p);
	for (unsigned i = 0; i < c->n_mounts; i++)
		join_pool(c, &c->mount[i], "mount", p);
	for (unsigned i = 0; i < c->n_classes; i++)
		join_pool(c, &c->class[i], "class", p);
}

/* Call after the classes were copied to their mounts. */
static void check_nested_pools(const struct configuration *c, struct problems *p)
{
	struct error err = ERROR_INIT;
	for (unsigned i = 0; i < c->n_fs; i++)
		if (pool_config_nested(&c->fs[i], NULL, &c->global, &err) < 0)
			problems_add(p, line_of(&c->fs[i], "pool"), "[fs:%s] %s", c->fs[i].name,
				     err.text);
	for (unsigned i = 0; i < c->n_mounts; i++) {
		const struct settings *m = &c->mount[i];
		const struct settings *fs = m->fs ? configuration_find_fs(c, m->fs) : NULL;
		if (pool_config_nested(m, fs, &c->global, &err) < 0)
			problems_add(p, line_of(m, "pool"), "[mount:%s] %s", m->name, err.text);
	}
}

void config_check(struct configuration *c, struct problems *p)
{
	check_pools(c, p); /* before classes are copied to mounts */
	for (unsigned i = 0; i < c->n_fs; i++)
		check_fs(c, i, p);
	for (unsigned i = 0; i < c->n_mounts; i++)
		check_mount(c, i, p);
	check_classes(c, p);
	check_nested_pools(c, p);
	if (!c->n_mounts)
		problems_add(p, 0, "there is no [mount:NAME]: nothing to serve");
}
