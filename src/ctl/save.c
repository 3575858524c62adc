/* SPDX-License-Identifier: MIT */
#include "ctl/save.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* --- lines ---------------------------------------------------------------------------------- */

struct line {
	const char *start, *end; /* without newline */
	const char *next;	 /* of the next line; NULL: none */
};

static bool next_line(const char *text, struct line *l)
{
	if (!text || !*text)
		return false;
	size_t n = strcspn(text, "\n");
	*l = (struct line){text, text + n, text[n] ? text + n + 1 : NULL};
	return true;
}

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && isspace((unsigned char)*p))
		p++;
	return p;
}

static const char *trim_end(const char *start, const char *end)
{
	while (end > start && isspace((unsigned char)end[-1]))
		end--;
	return end;
}

static bool is_section(const struct line *l, const char *section)
{
	const char *from = skip_blanks(l->start, l->end), *to = trim_end(from, l->end);
	if (to - from < 2 || *from != '[' || to[-1] != ']')
		return false;
	if (!section)
		return true;
	from = skip_blanks(from + 1, to - 1);
	to = trim_end(from, to - 1);
	return (size_t)(to - from) == strlen(section) && strncasecmp(from, section, to - from) == 0;
}

/* The '=' of a line that sets `key` ('-' and '_' are the same), or of any key; else NULL. */
static const char *equals_sign(const struct line *l, const char *key)
{
	const char *from = skip_blanks(l->start, l->end);
	const char *eq = memchr(from, '=', l->end - from);
	if (!eq || *from == '#' || *from == ';' || *from == '[')
		return NULL;
	const char *to = trim_end(from, eq);
	if (key && (size_t)(to - from) != strlen(key))
		return NULL;
	for (; key && *key; key++, from++)
		if ((*from == '-' ? '_' : tolower((unsigned char)*from)) != *key)
			return NULL;
	return eq;
}

/* Where the value ends and a comment (or the blanks before it) begins. */
static const char *value_end(const char *v, const char *end)
{
	if (v < end && (*v == '"' || *v == '\'')) {
		const char *close = memchr(v + 1, *v, end - v - 1);
		return close ? close + 1 : end;
	}
	const char *p = v;
	while (p < end && *p != '#' && *p != ';')
		p++;
	return trim_end(v, p);
}

/* --- editing -------------------------------------------------------------------------------- */

static void put_value(FILE *out, const char *value)
{
	bool quotes = !*value || strpbrk(value, "#;'\"") || isspace((unsigned char)*value);
	char quote = strchr(value, '"') ? '\'' : '"';
	if (quotes)
		fprintf(out, "%c%s%c", quote, value, quote);
	else
		fputs(value, out);
}

static void put_text(FILE *out, const char *from, const char *to)
{
	fwrite(from, 1, to - from, out);
}

struct edit {
	FILE *out;
	const char *section;
	const struct save_value *v;
	unsigned n;
	bool *done;
};

/* Writes the line, with a new value if it is one of ours. */
static void put_line(struct edit *e, const struct line *l, bool inside)
{
	for (unsigned i = 0; inside && i < e->n; i++) {
		const char *eq = equals_sign(l, e->v[i].key);
		if (!eq)
			continue;
		const char *value = skip_blanks(eq + 1, l->end);
		put_text(e->out, l->start, value);
		put_value(e->out, e->v[i].value);
		put_text(e->out, value_end(value, l->end), l->end);
		e->done[i] = true;
		return;
	}
	put_text(e->out, l->start, l->end);
}

static void put_missing(struct edit *e)
{
	for (unsigned i = 0; i < e->n; i++) {
		if (e->done[i])
			continue;
		fprintf(e->out, "%s = ", e->v[i].key);
		put_value(e->out, e->v[i].value);
		fputc('\n', e->out);
		e->done[i] = true;
	}
}

/* The last line of the section that says something: what is missing goes behind it. */
static const char *last_of_section(const char *text, const char *section)
{
	const char *last = NULL;
	bool inside = false;
	struct line l;
	for (; next_line(text, &l); text = l.next) {
		if (is_section(&l, NULL)) {
			inside = is_section(&l, section);
			if (inside)
				last = l.start;
		} else if (inside && equals_sign(&l, NULL)) {
			last = l.start;
		}
	}
	return last;
}

static bool key_is_there(const char *text, const char *section, const char *key)
{
	bool inside = false;
	struct line l;
	for (; next_line(text, &l); text = l.next) {
		if (is_section(&l, NULL))
			inside = is_section(&l, section);
		else if (inside && equals_sign(&l, key))
			return true;
	}
	return false;
}

static void edit_lines(struct edit *e, const char *text)
{
	const char *last = last_of_section(text, e->section), *at = text;
	bool inside = false;
	struct line l;
	/* those that come later in the file are not missing */
	for (unsigned i = 0; i < e->n; i++)
		e->done[i] = key_is_there(text, e->section, e->v[i].key);
	for (; next_line(at, &l); at = l.next) {
		if (is_section(&l, NULL))
			inside = is_section(&l, e->section);
		put_line(e, &l, inside);
		if (l.next || l.start == last)
			fputc('\n', e->out);
		if (l.start == last)
			put_missing(e);
	}
	if (!last) {
		fprintf(e->out, "%s\n[%s]\n", *text && text[strlen(text) - 1] != '\n' ? "\n" : "",
			e->section);
		put_missing(e);
	}
}

char *save_edit(const char *text, const char *section, const struct save_value *v, unsigned n)
{
	char *result = NULL;
	size_t size;
	AUTO_FREE bool *done = calloc(n + 1, sizeof(*done));
	FILE *out = open_memstream(&result, &size);
	if (!out || !done) {
		if (out)
			fclose(out);
		free(result);
		return NULL;
	}
	struct edit e = {out, section, v, n, done};
	edit_lines(&e, text);
	if (fclose(out) == 0)
		return result;
	free(result);
	return NULL;
}

/* --- files ---------------------------------------------------------------------------------- */

static char *read_text(const char *path, struct stat *st)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, st) < 0)
		return NULL;
	AUTO_FREE char *text = calloc(1, st->st_size + 1);
	off_t done = 0;
	while (text && done < st->st_size) {
		ssize_t n = read(fd, text + done, st->st_size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	return take_ptr(&text);
}

static int write_text(const char *path, const char *text, const struct stat *st)
{
	AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t size = strlen(text), done = 0;
	if (fd < 0)
		return -1;
	while (done < size) {
		ssize_t n = write(fd, text + done, size - done);
		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? n : 0;
	}
	if (fchown(fd, st->st_uid, st->st_gid) < 0 && errno != EPERM)
		return -1;
	return fchmod(fd, st->st_mode & 07777) < 0 || fsync(fd) < 0 ? -1 : 0;
}

int save_file(const char *path, const char *section, const struct save_value *v, unsigned n,
	      struct error *err)
{
	struct stat st;
	AUTO_FREE char *real = realpath(path, NULL); /* a link stays a link */
	AUTO_FREE char *temporary = NULL;
	AUTO_FREE char *old = real ? read_text(real, &st) : NULL;
	if (!old)
		return error_set(err, "%s: %s", path, strerror(errno));
	AUTO_FREE char *text = save_edit(old, section, v, n);
	if (!text || asprintf(&temporary, "%s.%d~", real, (int)getpid()) < 0)
		return error_set(err, "out of memory");
	if (write_text(temporary, text, &st) == 0 && rename(temporary, real) == 0)
		return 0;
	error_set(err, "%s: %s", path, strerror(errno));
	unlink(temporary);
	return -1;
}
