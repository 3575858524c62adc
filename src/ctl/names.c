/* SPDX-License-Identifier: MIT */
#include "ctl/names.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/name_service.h"

/* An option that may hold "uid:NAME" and "gid:NAME". */
struct with_names {
	const char *option;
	const char *between; /* characters that separate rules */
	const char *end;     /* characters that end a name */
};

/* 0 and the number, or -1 with err. */
static int find(char kind, const char *name, uint64_t *id, struct error *err)
{
	const char *what = kind == 'u' ? "user" : "group";
	int64_t found = name_service_find(kind, name);
	if (found == NAME_SERVICE_NONE)
		return error_set(err, "there is no %s '%s'; use an existing name or a number", what,
				 name);
	if (found < 0)
		return error_set(err, "%s '%s' cannot be looked up now; give the number", what,
				 name);
	*id = (uint64_t)found;
	return 0;
}

/* `at` points to "uid:NAME": writes "uid:NUMBER" and returns a pointer past
 * the name; NULL with err. */
static const char *put_number(FILE *out, const char *at, const char *end, struct error *err)
{
	const char *name = at + 4;
	name += strspn(name, " \t");
	size_t n = strcspn(name, end);
	uint64_t id = 0;
	if (n == 0 || strspn(name, "0123456789") >= n) {
		fprintf(out, "%.*s", (int)(name + n - at), at);
		return name + n;
	}
	AUTO_FREE char *copy = strndup(name, n);
	if (!copy || find(at[0], copy, &id, err) < 0)
		return NULL;
	fprintf(out, "%.4s%" PRIu64, at, id);
	return name + n;
}

static bool put_all(FILE *out, const char *at, const struct with_names *w, struct error *err)
{
	bool start = true; /* of a rule */
	while (*at) {
		if (start && (strncmp(at, "uid:", 4) == 0 || strncmp(at, "gid:", 4) == 0)) {
			at = put_number(out, at, w->end, err);
			if (!at)
				return false;
			start = false;
			continue;
		}
		start = strchr(w->between, *at) || (start && *at == ' ');
		fputc(*at++, out);
	}
	return true;
}

char *with_numbers(const char *word, struct error *err)
{
	static const struct with_names options[] = {{"weight=", "+", "=,:+"},
						    {"match=", ",&", ",& \t"}};
	char *text = NULL;
	size_t size;
	for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const struct with_names *w = &options[i];
		size_t n = strlen(w->option);
		if (strncmp(word, w->option, n) != 0)
			continue;
		FILE *out = open_memstream(&text, &size);
		if (!out)
			return NULL;
		fputs(w->option, out);
		bool ok = put_all(out, word + n, w, err);
		if (fclose(out) == 0 && ok)
			return text;
		free(text);
		error_prefix(err, "%.*s", (int)n - 1, w->option);
		return NULL;
	}
	return strdup(word);
}
