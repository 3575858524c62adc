/* SPDX-License-Identifier: MIT */
#include "daemon/records.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/proto.h"

static bool add(struct records *r, const char *line, size_t n)
{
	const char *tab = memchr(line, '\t', n);
	if (!tab)
		return true;
	struct record *more = realloc(r->record, (r->n + 1) * sizeof(*more));
	if (!more)
		return false;
	r->record = more;
	struct record *rec = &more[r->n];
	rec->path = strndup(line, tab - line);
	rec->value = strndup(tab + 1, line + n - tab - 1);
	r->n++;
	return rec->path && rec->value;
}

bool records_parse(struct records *r, const char *text)
{
	memset(r, 0, sizeof(*r));
	while (*text) {
		size_t n = strcspn(text, "\n");
		if (!add(r, text, n)) {
			records_free(r);
			return false;
		}
		text += n + (text[n] != '\0');
	}
	return true;
}

void records_free(struct records *r)
{
	for (unsigned i = 0; i < r->n; i++) {
		free(r->record[i].path);
		free(r->record[i].value);
	}
	free(r->record);
	memset(r, 0, sizeof(*r));
}

/* --- looking up ----------------------------------------------------------------------------- */

static struct record *find(const struct records *r, const char *path, va_list ap)
{
	char full[256];
	vsnprintf(full, sizeof(full), path, ap);
	for (unsigned i = 0; i < r->n; i++)
		if (strcmp(r->record[i].path, full) == 0)
			return &r->record[i];
	return NULL;
}

#define FIND(rec, r, path)                                                                         \
	do {                                                                                       \
		va_list ap;                                                                        \
		va_start(ap, path);                                                                \
		(rec) = find(r, path, ap);                                                         \
		va_end(ap);                                                                        \
	} while (0)

bool records_have(const struct records *r, const char *path, ...)
{
	const struct record *rec;
	FIND(rec, r, path);
	return rec;
}

uint64_t records_u64(const struct records *r, const char *path, ...)
{
	const struct record *rec;
	FIND(rec, r, path);
	return rec ? strtoull(rec->value, NULL, 10) : 0;
}

int64_t records_i64(const struct records *r, const char *path, ...)
{
	const struct record *rec;
	FIND(rec, r, path);
	return rec ? strtoll(rec->value, NULL, 10) : 0;
}

double records_real(const struct records *r, const char *path, ...)
{
	const struct record *rec;
	FIND(rec, r, path);
	return rec ? strtod(rec->value, NULL) : 0;
}

bool records_true(const struct records *r, const char *path, ...)
{
	const struct record *rec;
	FIND(rec, r, path);
	return rec && strcmp(rec->value, "true") == 0;
}

/* --- strings -------------------------------------------------------------------------------- */

static char *put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		*to++ = c;
	} else if (c < 0x800) {
		*to++ = 0xc0 | c >> 6;
		*to++ = 0x80 | (c & 0x3f);
	} else {
		*to++ = 0xe0 | c >> 12;
		*to++ = 0x80 | (c >> 6 & 0x3f);
		*to++ = 0x80 | (c & 0x3f);
	}
	return to;
}

/* Undoes json_put_string; a \uXXXX is never shorter than its UTF-8. */
static void unquote(char *s)
{
	char *to = s;
	for (const char *from = s + (*s == '"'); *from && *from != '"';) {
		unsigned c;
		if (*from != '\\' || !from[1]) {
			*to++ = *from++;
		} else if (from[1] == 'u' && sscanf(from + 2, "%4x", &c) == 1 &&
			   strlen(from) >= 6) {
			to = put_utf8(to, c);
			from += 6;
		} else {
			*to++ = from[1];
			from += 2;
		}
	}
	*to = '\0';
}

static char *text_of(const struct record *rec)
{
	char *text = strdup(rec ? rec->value : "");
	if (text)
		unquote(text);
	return text;
}

char *records_text(const struct records *r, const char *path, ...)
{
	const struct record *rec;
	FIND(rec, r, path);
	return text_of(rec);
}

char *records_line(const struct records *r, const char *path, ...)
{
	const struct record *rec;
	FIND(rec, r, path);
	char *text = text_of(rec);
	if (text)
		make_one_line(text);
	return text;
}

void records_set_text(struct records *r, const char *text, const char *path, ...)
{
	struct record *rec;
	char *value = NULL;
	size_t size;
	FIND(rec, r, path);
	FILE *out = rec ? open_memstream(&value, &size) : NULL;
	if (!out)
		return;
	json_put_string(out, text);
	if (fclose(out) == 0) {
		free(rec->value);
		rec->value = value;
	}
}

/* --- JSON ----------------------------------------------------------------------------------- */

/* Records from..to share what lies before `skip` in their paths. */
static void put_object(const struct record *from, const struct record *to, size_t skip, FILE *out)
{
	bool array = isdigit((unsigned char)from->path[skip]);
	fputc(array ? '[' : '{', out);
	for (const struct record *r = from; r < to;) {
		const char *name = r->path + skip;
		size_t n = strcspn(name, ".");
		const struct record *end = r + 1;
		while (end < to && strncmp(end->path + skip, name, n) == 0 &&
		       (end->path[skip + n] == '.' || !end->path[skip + n]))
			end++;
		if (r > from)
			fputc(',', out);
		if (!array)
			fprintf(out, "\"%.*s\":", (int)n, name);
		if (name[n])
			put_object(r, end, skip + n + 1, out);
		else
			fputs(r->value, out);
		r = end;
	}
	fputc(array ? ']' : '}', out);
}

void records_json(const struct records *r, FILE *out)
{
	if (r->n)
		put_object(r->record, r->record + r->n, 0, out);
	else
		fputs("{}", out);
}
