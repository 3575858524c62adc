/* SPDX-License-Identifier: MIT */
#include "proto/proto.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	int status;
} codes[PROTO_CODES] = {
	[PROTO_OK] = {"ok", 0},
	[PROTO_BAD_REQUEST] = {"bad-request", 2},
	[PROTO_BAD_VERSION] = {"bad-version", 2},
	[PROTO_UNKNOWN_COMMAND] = {"unknown-command", 2},
	[PROTO_BAD_ARGUMENT] = {"bad-argument", 2},
	[PROTO_NO_TARGET] = {"no-target", 3},
	[PROTO_WRONG_TARGET] = {"wrong-target", 2},
	[PROTO_UNKNOWN_OPTION] = {"unknown-option", 2},
	[PROTO_BAD_VALUE] = {"bad-value", 2},
	[PROTO_NOT_LIVE] = {"not-live", 2},
	[PROTO_EXISTS] = {"exists", 2},
	[PROTO_IN_USE] = {"in-use", 1},
	[PROTO_WRONG_STATE] = {"wrong-state", 1},
	[PROTO_NO_FILE] = {"no-file", 1},
	[PROTO_BAD_FILE] = {"bad-file", 1},
	[PROTO_DENIED] = {"denied", 1},
	[PROTO_NO_MEMORY] = {"no-memory", 1},
	[PROTO_FAILED] = {"failed", 1},
};

const char *proto_code_name(enum proto_code code)
{
	return codes[code].name;
}

enum proto_code proto_code_find(const char *name)
{
	for (int i = 0; i < PROTO_CODES; i++)
		if (strcmp(codes[i].name, name) == 0)
			return i;
	return PROTO_FAILED;
}

int proto_exit_status(enum proto_code code)
{
	return codes[code].status;
}

/* Set when an allocation of the parser fails: it would then drop characters of
 * a string and continue. */
static _Thread_local bool starved;

static void *watched_malloc(size_t size)
{
	void *memory = malloc(size);
	if (!memory)
		starved = true;
	return memory;
}

void proto_init(void)
{
	json_set_alloc_funcs(watched_malloc, free);
	json_object_seed(0);
}

/* How deep the brackets of a line are nested, ignoring those in strings.  The parser recurses no deeper than this; it
 * also finds out whether they match. */
static unsigned depth_of(const char *line, size_t size)
{
	unsigned depth = 0, deepest = 0;
	bool in_string = false;
	for (const char *p = line; p < line + size; p++) {
		if (in_string) {
			if (*p == '\\')
				p++; /* skip the escaped character */
			else
				in_string = *p != '"';
		} else if (*p == '"') {
			in_string = true;
		} else if (*p == '{' || *p == '[') {
			depth++;
			deepest = depth > deepest ? depth : deepest;
		} else if ((*p == '}' || *p == ']') && depth) {
			depth--;
		}
	}
	return deepest;
}

json_t *proto_parse(const char *line, size_t size, unsigned depth, struct error *err)
{
	json_error_t why;
	if (depth_of(line, size) > depth) {
		error_set(err, "nested deeper than %u levels", depth);
		return NULL;
	}
	starved = false;
	json_t *json = json_loadb(line, size, JSON_REJECT_DUPLICATES, &why);
	if (starved)
		error_set(err, "out of memory");
	else if (!json)
		error_set(err, "not JSON: %s, at byte %d", why.text, why.position);
	else if (!json_is_object(json))
		error_set(err, "not a JSON object");
	else
		return json;
	json_decref(json);
	return NULL;
}

/* Replaces json_dumps(), which omits parts of the text when memory runs out and does not always report it. */
struct sink {
	char *text;
	size_t size, room;
	bool failed;
};

static int append(const char *text, size_t size, void *data)
{
	struct sink *s = data;
	if (s->size + size + 2 > s->room) {
		size_t room = 2 * (s->room + size) + 254;
		char *more = s->failed ? NULL : realloc(s->text, room);
		s->failed |= !more;
		if (!more)
			return -1;
		s->text = more;
		s->room = room;
	}
	memcpy(s->text + s->size, text, size);
	s->size += size;
	return 0;
}

char *proto_line(const json_t *object, size_t *size)
{
	struct sink s = {0};
	int rc = json_dump_callback(object, append, &s, PROTO_DUMP_FLAGS);
	if (rc < 0 || s.failed) {
		free(s.text);
		return NULL;
	}
	memcpy(s.text + s.size, "\n", 2); /* append keeps room for it */
	*size = s.size + 1;
	return s.text;
}
