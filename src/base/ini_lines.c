/* SPDX-License-Identifier: MIT */
#include "base/ini_lines.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_blank(char c)
{
	return isspace((unsigned char)c);
}

static bool begins_comment(char c)
{
	return c == '#' || c == ';';
}

static struct ini_span trimmed(const char *from, const char *to)
{
	while (from < to && is_blank(*from))
		from++;
	while (to > from && is_blank(to[-1]))
		to--;
	return (struct ini_span){from, to};
}

/* --- the kinds of lines --------------------------------------------------------------------- */

static void read_section(struct ini_line *l, struct ini_span t)
{
	const char *close = memchr(t.from, ']', t.to - t.from);
	bool ends = t.to[-1] == ']';
	l->kind = INI_SECTION;
	l->name = trimmed(t.from + 1, ends ? t.to - 1 : close ? close : t.to);
	if (!ends)
		l->problem = "a section must end with ']', with nothing behind it";
	else if (l->name.from == l->name.to)
		l->problem = "the section has no name";
}

static void read_quoted(struct ini_line *l, struct ini_span v)
{
	const char *close = memchr(v.from + 1, *v.from, v.to - v.from - 1);
	l->value = (struct ini_span){v.from, close ? close + 1 : v.to};
	const char *behind = trimmed(l->value.to, v.to).from;
	if (!close)
		l->problem = "the closing quote is missing";
	else if (behind < v.to && !begins_comment(*behind))
		l->problem = "something is behind the closing quote";
}

static void read_value(struct ini_line *l, struct ini_span v)
{
	if (v.from < v.to && (*v.from == '"' || *v.from == '\'')) {
		read_quoted(l, v);
		return;
	}
	const char *comment = v.from;
	while (comment < v.to && !begins_comment(*comment))
		comment++;
	l->value = trimmed(v.from, comment);
	if (comment < v.to && comment > v.from && !is_blank(comment[-1]))
		l->problem = "'#' and ';' begin a comment; put the value in quotes";
}

static void read_key(struct ini_line *l, struct ini_span t)
{
	const char *equals = memchr(t.from, '=', t.to - t.from);
	if (!equals) {
		l->problem = "neither a [section], nor 'key = value', nor a comment";
		return;
	}
	l->name = trimmed(t.from, equals);
	if (l->name.from == l->name.to) {
		l->problem = "there is no key before '='";
		return;
	}
	l->kind = INI_KEY;
	read_value(l, trimmed(equals + 1, t.to));
}

static const char *problem_of_bytes(struct ini_span t, const char *start)
{
	if (t.to - start > INI_LINE_MAX)
		return "the line is longer than 1000 bytes";
	for (const char *c = t.from; c < t.to; c++)
		if ((unsigned char)*c < ' ' && !is_blank(*c))
			return "the line has control characters; is this a text file?";
	return NULL;
}

bool ini_line_read(struct ini_line *l, const char *text, const char *end)
{
	if (!text || text == end)
		return false;
	const char *newline = memchr(text, '\n', end - text);
	*l = (struct ini_line){.start = text,
			       .end = newline ? newline : end,
			       .next = newline ? newline + 1 : NULL,
			       .kind = INI_OTHER};
	struct ini_span t = trimmed(l->start, l->end);
	l->problem = problem_of_bytes(t, l->start);
	if (l->problem)
		return true;
	if (t.from == t.to || begins_comment(*t.from))
		l->kind = INI_NOTHING;
	else if (t.to[-1] == '\\')
		l->problem = "lines cannot be continued with '\\'";
	else if (*t.from == '[')
		read_section(l, t);
	else
		read_key(l, t);
	return true;
}

/* --- names ---------------------------------------------------------------------------------- */

bool ini_section_is(struct ini_span name, const char *section)
{
	size_t n = name.to - name.from;
	return strlen(section) == n && strncasecmp(name.from, section, n) == 0;
}

static int folded(char c)
{
	return c == '-' ? '_' : tolower((unsigned char)c);
}

bool ini_key_is(struct ini_span name, const char *key)
{
	for (; name.from < name.to && *key; name.from++, key++)
		if (folded(*name.from) != folded(*key))
			return false;
	return name.from == name.to && !*key;
}
