/* SPDX-License-Identifier: MIT */
#include "daemon/ini.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iniparser.h>

#include "base/cleanup.h"
#include "base/ini_lines.h"
#include "daemon/files.h"

#define KEYS_MAX	 20000 /* iniparser's search is linear in the number of keys */
#define SECTION_KEYS_MAX 2000

/* --- sections and keys ---------------------------------------------------------------------- */

static char *copy_of(struct ini_span s)
{
	return strndup(s.from, s.to - s.from);
}

static struct ini_section *last_section(const struct ini *ini)
{
	return ini->n_sections ? &ini->section[ini->n_sections - 1] : NULL;
}

static bool in_bad_section(const struct ini *ini)
{
	return ini->n_sections && ini->section[ini->n_sections - 1].bad;
}

/* iniparser ignores the case of sections, and merges those of the same name. */
static bool is_repeated(const struct ini *ini, const char *name, unsigned line, struct problems *p)
{
	for (unsigned i = 0; i < ini->n_sections; i++)
		if (strcasecmp(ini->section[i].name, name) == 0) {
			problems_add(p, line,
				     "[%s]: the section occurs twice, first in line %u; rename "
				     "or merge them",
				     name, ini->section[i].line);
			return true;
		}
	return false;
}

static void add_section(struct ini *ini, const struct ini_line *l, unsigned line,
			struct problems *p)
{
	char *name = copy_of(l->name);
	struct ini_section *more = realloc(ini->section, (ini->n_sections + 1) * sizeof(*more));
	if (more)
		ini->section = more;
	if (!name || !more) {
		free(name);
		problems_add(p, line, "out of memory");
		return;
	}
	if (l->problem)
		problems_add(p, line, "%s", l->problem);
	bool bad = l->problem || is_repeated(ini, name, line, p);
	ini->section[ini->n_sections++] =
		(struct ini_section){.name = name, .bad = bad, .line = line};
}

static const struct ini_key *find_key(const struct ini_section *s, struct ini_span name)
{
	for (unsigned i = 0; i < s->n_keys; i++)
		if (ini_key_is(name, s->key[i].name))
			return &s->key[i];
	return NULL;
}

static void append_key(struct ini_section *s, struct ini_span name, unsigned line,
		       struct problems *p)
{
	if (s->n_keys == SECTION_KEYS_MAX) {
		problems_add(p, line, "the section has too many keys");
		return;
	}
	struct ini_key *more = realloc(s->key, (s->n_keys + 1) * sizeof(*more));
	char *copy = copy_of(name);
	if (more)
		s->key = more;
	if (!more || !copy) {
		free(copy);
		problems_add(p, line, "out of memory");
		return;
	}
	s->key[s->n_keys++] = (struct ini_key){.name = copy, .line = line};
}

static void add_key(struct ini *ini, const struct ini_line *l, unsigned line, struct problems *p)
{
	struct ini_section *s = last_section(ini);
	int n = (int)(l->name.to - l->name.from);
	ini->n_keys++;
	if (!s) {
		problems_add(p, line, "the key is before the first [section]");
		return;
	}
	const struct ini_key *twin = find_key(s, l->name);
	if (l->problem)
		problems_add(p, line, "[%s] %.*s: %s", s->name, n, l->name.from, l->problem);
	else if (s->bad)
		return;
	else if (twin)
		problems_add(p, line, "[%s] %.*s: the key occurs twice, first in line %u", s->name,
			     n, l->name.from, twin->line);
	else
		append_key(s, l->name, line, p);
}

static void add_line(struct ini *ini, const struct ini_line *l, unsigned line, struct problems *p)
{
	if (l->kind == INI_SECTION)
		add_section(ini, l, line, p);
	else if (l->kind == INI_KEY)
		add_key(ini, l, line, p);
	else if (l->problem)
		problems_add(p, line, "%s", l->problem);
}

/* Blanks out what iniparser must not see: lines with problems, so that it can read the rest and all
 * problems are found together, and comments, since it would join one that ends with '\' with the
 * next line. */
static void index_lines(struct ini *ini, char *text, size_t size, struct problems *p)
{
	struct ini_line l;
	char *end = text + size;
	unsigned line = 1;
	for (const char *at = text; ini_line_read(&l, at, end); at = l.next, line++) {
		unsigned before = p->n;
		size_t n = l.end - l.start;
		add_line(ini, &l, line, p);
		if (n > INI_LINE_MAX)
			memset(text + (l.start - text), '\n', n);
		else if (p->n > before || in_bad_section(ini) || l.kind == INI_NOTHING)
			memset(text + (l.start - text), ' ', n);
		if (ini->n_keys > KEYS_MAX) {
			problems_add(p, line, "more than %u keys", KEYS_MAX);
			memset(text + (l.start - text), '\n', end - l.start);
			return;
		}
	}
}

/* --- values, by iniparser ------------------------------------------------------------------- */

static int quiet(const char *fmt, ...)
{
	return 0; /* every problem has been reported already */
}

/* iniparser 4.1 reads only files: this one is in memory, so that it reads the text that was indexed,
 * even if the file changes meanwhile. */
static dictionary *load_text(const char *text, size_t size)
{
	AUTO_FD fd = memfd_create("ini", MFD_CLOEXEC);
	char path[40];
	if (fd < 0 || write(fd, text, size) != (ssize_t)size)
		return NULL;
	iniparser_set_error_callback(quiet);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return iniparser_load(path);
}

static void find_values(struct ini *ini)
{
	char path[2 * INI_LINE_MAX + 2];
	for (unsigned i = 0; i < ini->n_sections; i++)
		for (unsigned k = 0; k < ini->section[i].n_keys; k++) {
			struct ini_key *key = &ini->section[i].key[k];
			snprintf(path, sizeof(path), "%s:%s", ini->section[i].name, key->name);
			key->value = iniparser_getstring(ini->values, path, NULL);
		}
}

/* --- all of it ------------------------------------------------------------------------------ */

void ini_parse(struct ini *ini, char *text, size_t size, struct problems *p)
{
	memset(ini, 0, sizeof(*ini));
	index_lines(ini, text, size, p);
	ini->values = load_text(text, size);
	if (ini->values)
		find_values(ini);
	else if (!p->n)
		problems_add(p, 0, "cannot be read by iniparser");
}

void ini_load(struct ini *ini, const char *path, struct problems *p)
{
	AUTO_FREE char *text = NULL;
	struct error err = ERROR_INIT;
	size_t size;
	memset(ini, 0, sizeof(*ini));
	if (files_read(path, &text, &size, &err) == FILE_READ)
		ini_parse(ini, text, size, p);
	else
		problems_add(p, 0, "%s", err.text);
}

void ini_free(struct ini *ini)
{
	for (unsigned i = 0; i < ini->n_sections; i++) {
		for (unsigned k = 0; k < ini->section[i].n_keys; k++)
			free(ini->section[i].key[k].name);
		free(ini->section[i].key);
		free(ini->section[i].name);
	}
	free(ini->section);
	if (ini->values)
		iniparser_freedict(ini->values);
	memset(ini, 0, sizeof(*ini));
}
