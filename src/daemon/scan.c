/* SPDX-License-Identifier: MIT */
#include "daemon/scan.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static char *trimmed(const char *from, const char *to)
{
	while (from < to && isspace((unsigned char)*from))
		from++;
	while (to > from && isspace((unsigned char)to[-1]))
		to--;
	return strndup(from, to > from ? to - from : 0);
}

/* --- sections ------------------------------------------------------------------------------- */

static struct scan_section *last_section(struct scan *s)
{
	return s->n_sections ? &s->section[s->n_sections - 1] : NULL;
}

/* What is wrong with a section of that name, told; or not. */
static bool section_is_bad(const struct scan *s, const char *name, unsigned line,
			   struct problems *p)
{
	if (!*name) {
		problems_add(p, line, "the section has no name");
		return true;
	}
	/* iniparser does not tell upper from lower case, and merges sections of one name */
	for (unsigned i = 0; i < s->n_sections; i++)
		if (strcasecmp(s->section[i].name, name) == 0) {
			problems_add(p, line, "[%s]: the section is there twice, first in line %u",
				     name, s->section[i].line);
			return true;
		}
	return false;
}

static void scan_section_line(struct scan *s, const char *text, size_t n, unsigned line,
			      struct problems *p)
{
	bool bad = text[n - 1] != ']';
	const char *close = memchr(text, ']', n);
	char *name = trimmed(text + 1, bad && close ? close : bad ? text + n : text + n - 1);
	struct scan_section *more = realloc(s->section, (s->n_sections + 1) * sizeof(*more));
	if (more)
		s->section = more;
	if (!name || !more) {
		free(name);
		problems_add(p, line, "out of memory");
		return;
	}
	if (bad)
		problems_add(p, line, "a section must end with ']', with nothing behind it");
	else
		bad = section_is_bad(s, name, line, p);
	s->section[s->n_sections++] = (struct scan_section){.name = name, .bad = bad, .line = line};
}

/* --- keys ----------------------------------------------------------------------------------- */

/* '-' and '_' are the same in option names. */
static bool same_key(const char *a, const char *b)
{
	for (; *a && *b; a++, b++) {
		int ca = tolower((unsigned char)*a), cb = tolower((unsigned char)*b);
		if ((ca == '-' ? '_' : ca) != (cb == '-' ? '_' : cb))
			return false;
	}
	return *a == *b;
}

static void add_key(struct scan_section *s, char *name, unsigned line, struct problems *p)
{
	for (unsigned i = 0; i < s->n_keys; i++)
		if (same_key(s->key[i].name, name)) {
			problems_add(p, line, "[%s] %s: the key is there twice, first in line %u",
				     s->name, name, s->key[i].line);
			free(name);
			return;
		}
	struct scan_key *more = realloc(s->key, (s->n_keys + 1) * sizeof(*more));
	if (!more || s->n_keys == SCAN_SECTION_KEYS) {
		free(name);
		problems_add(p, line, more ? "the section has too many keys" : "out of memory");
		s->key = more ? more : s->key;
		return;
	}
	s->key = more;
	s->key[s->n_keys++] = (struct scan_key){name, line};
}

/* What is wrong with how the value is written, or NULL. */
static const char *value_problem(const char *v, const char *end)
{
	while (v < end && isspace((unsigned char)*v))
		v++;
	if (v < end && (*v == '"' || *v == '\'')) {
		const char *close = memchr(v + 1, *v, end - v - 1);
		if (!close)
			return "the closing quote is missing";
		for (close++; close < end && isspace((unsigned char)*close); close++)
			;
		if (close < end && *close != '#' && *close != ';')
			return "something is behind the closing quote";
		return NULL;
	}
	for (const char *c = v; c < end; c++)
		if (*c == '#' || *c == ';')
			return c > v && !isspace((unsigned char)c[-1])
				       ? "'#' and ';' begin a comment; put the value in quotes"
				       : NULL;
	return NULL;
}

static void scan_key_line(struct scan *s, const char *text, size_t n, unsigned line,
			  struct problems *p)
{
	struct scan_section *section = last_section(s);
	const char *eq = memchr(text, '=', n);
	if (!eq) {
		problems_add(p, line, "neither a [section], nor 'key = value', nor a comment");
		return;
	}
	char *name = trimmed(text, eq);
	if (!name || !*name || !section) {
		problems_add(p, line,
			     !name    ? "out of memory"
			     : !*name ? "there is no key before '='"
				      : "the key stands before the first [section]");
		free(name);
		return;
	}
	const char *bad = value_problem(eq + 1, text + n);
	if (bad)
		problems_add(p, line, "[%s] %s: %s", section->name, name, bad);
	s->n_keys++;
	if (bad || section->bad)
		free(name);
	else
		add_key(section, name, line, p);
}

/* --- lines ---------------------------------------------------------------------------------- */

static const char *line_problem(const char *text, size_t n)
{
	if (n > SCAN_LINE_MAX)
		return "the line is longer than 1000 bytes";
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' && !isspace((unsigned char)text[i]))
			return "the line has control characters; is this a text file?";
	return NULL;
}

static bool is_comment(const char *text, size_t n)
{
	while (n && isspace((unsigned char)*text)) {
		text++;
		n--;
	}
	return n && (*text == '#' || *text == ';');
}

static void scan_line(struct scan *s, const char *text, size_t n, unsigned line, struct problems *p)
{
	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	const char *bad = line_problem(text, n);
	while (n && isspace((unsigned char)*text)) {
		text++;
		n--;
	}
	if (bad)
		problems_add(p, line, "%s", bad);
	else if (n == 0 || is_comment(text, n))
		return;
	else if (text[n - 1] == '\\')
		problems_add(p, line, "lines cannot be continued with '\\'");
	else if (*text == '[')
		scan_section_line(s, text, n, line, p);
	else
		scan_key_line(s, text, n, line, p);
}

static bool in_bad_section(struct scan *s)
{
	const struct scan_section *section = last_section(s);
	return section && section->bad;
}

void scan_text(struct scan *s, char *text, size_t size, struct problems *p)
{
	unsigned line = 1;
	memset(s, 0, sizeof(*s));
	while (size) {
		char *end = memchr(text, '\n', size);
		size_t n = end ? (size_t)(end - text) : size;
		unsigned before = p->n;
		scan_line(s, text, n, line, p);
		/* comments, too: iniparser would append the next line to one that ends with '\' */
		if (p->n > before || in_bad_section(s) || is_comment(text, n))
			memset(text, ' ', n);
		if (n > SCAN_LINE_MAX)
			memset(text, '\n', n);
		if (s->n_keys > SCAN_KEYS_MAX) {
			problems_add(p, line, "more than %u keys", SCAN_KEYS_MAX);
			memset(text, '\n', size);
			return;
		}
		line++;
		n += end != NULL;
		text += n;
		size -= n;
	}
}

void scan_free(struct scan *s)
{
	for (unsigned i = 0; i < s->n_sections; i++) {
		for (unsigned k = 0; k < s->section[i].n_keys; k++)
			free(s->section[i].key[k].name);
		free(s->section[i].key);
		free(s->section[i].name);
	}
	free(s->section);
	memset(s, 0, sizeof(*s));
}
