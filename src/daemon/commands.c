/* SPDX-License-Identifier: MIT */
#include "daemon/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/commands_internal.h"
#include "daemon/reload_back.h"
#include "daemon/stats_out.h"

/* --- replies -------------------------------------------------------------------------------- */

bool command_reply_init(struct command_reply *reply)
{
	memset(reply, 0, sizeof(*reply));
	reply->data = json_out_new(&reply->no_memory);
	reply->in_use.failed = &reply->no_memory;
	put_u64(reply->data, "v", PROTO_VERSION);
	put_bool(reply->data, "ok", true);
	if (!reply->no_memory)
		return true;
	command_reply_free(reply);
	return false;
}

void command_reply_free(struct command_reply *reply)
{
	json_decref(reply->data.at);
	json_decref(reply->in_use.at);
	free(reply->place);
	free(reply->long_text);
	await_free(&reply->await);
	memset(reply, 0, sizeof(*reply));
}

int command_fail(struct command_reply *reply, enum proto_code code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	error_vset(&reply->err, fmt, ap);
	va_end(ap);
	reply->code = code;
	return -1;
}

void command_note(struct command_reply *reply, const char *line)
{
	json_t *notes = json_object_get(reply->data.at, "notes");
	struct json_out o = {notes, &reply->no_memory};
	put_text(notes ? o : put_array(reply->data, "notes"), NULL, line);
}

/* Puts the text and its remedy as two members. */
static void put_what(struct json_out o, const struct command_reply *reply)
{
	const struct error *err = &reply->err;
	const char *remedy = reply->remedy[0]	 ? reply->remedy
			     : !reply->long_text ? error_remedy(err)
						 : "";
	char what[sizeof(err->text)];
	bool split = !reply->long_text && !reply->remedy[0] && *remedy;
	snprintf(what, sizeof(what), "%.*s", split ? (int)err->what : (int)sizeof(what) - 1,
		 err->text);
	put_text(o, "text", reply->long_text ? reply->long_text : what);
	if (*remedy)
		put_text(o, "remedy", remedy);
}

static json_t *failure(struct command_reply *reply, bool *failed)
{
	struct json_out o = json_out_new(failed);
	put_u64(o, "v", PROTO_VERSION);
	put_bool(o, "ok", false);
	struct json_out error = put_object(o, "error");
	put_text(error, "code", proto_code_name(reply->code));
	if (reply->place)
		put_text(error, "place", reply->place);
	put_what(error, reply);
	json_t *notes =
		json_object_get(reply->data.at, "notes"); /* of a reload that is done in part */
	if (notes && json_object_set(o.at, "notes", notes) < 0)
		*failed = true;
	if (reply->in_use.at && json_object_set(error.at, "in_use", reply->in_use.at) < 0)
		*failed = true;
	return o.at;
}

json_t *command_answer(struct command_reply *reply, json_t *id)
{
	bool failed = false;
	if (reply->no_memory && !reply->code)
		command_fail(reply, PROTO_NO_MEMORY, "there is no memory for the answer");
	json_t *answer = reply->code ? failure(reply, &failed) : json_incref(reply->data.at);
	if (id && json_object_set(answer, "id", id) < 0)
		failed = true;
	if (!failed)
		return answer;
	json_decref(answer);
	return NULL;
}

json_t *command_refusal(enum proto_code code, const char *text)
{
	struct command_reply reply = {.code = code};
	bool failed = false;
	error_set(&reply.err, "%s", text);
	json_t *answer = failure(&reply, &failed);
	if (!failed)
		return answer;
	json_decref(answer);
	return NULL;
}

/* --- requests ------------------------------------------------------------------------------- */

enum {
	MAY_TARGET = 1 << 0,
	NEEDS_TARGET = 1 << 1,
	MAY_FORCE = 1 << 2,
	NEEDS_VALUES = 1 << 3,
	NEEDS_CLASS = 1 << 4,
	MAY_KEYS = 1 << 6,
	MAY_FILTER = 1 << 7,
	MAY_READ = 1 << 8,
	WHILE_ENDING = 1 << 5, /* also for a mount that a reload removes, while it is unmounted */
	CHANGES = 1 << 9, /* something by hand, which a reload that fails later must not undo */
};

static const struct command {
	const char *name;
	void (*run)(struct request *rq);
	unsigned has;
} commands[] = {
	{"list", do_list, 0},
	{"show", do_show, NEEDS_TARGET},
	{"set", do_set, NEEDS_TARGET | NEEDS_VALUES | CHANGES},
	{"stats", do_stats, MAY_TARGET | MAY_KEYS},
	{"reload", do_reload, MAY_TARGET | MAY_FORCE},
	{"mount", do_mount, NEEDS_TARGET | MAY_READ | CHANGES},
	{"unmount", do_unmount, NEEDS_TARGET | MAY_FORCE | WHILE_ENDING | CHANGES},
	{"pause", do_pause, NEEDS_TARGET | CHANGES},
	{"resume", do_resume, NEEDS_TARGET | CHANGES},
	{"reset-stats", do_reset_stats, MAY_TARGET},
	{"rescan", do_rescan, NEEDS_TARGET},
	{"class-add", do_class_add, NEEDS_TARGET | NEEDS_CLASS | NEEDS_VALUES | CHANGES},
	{"class-remove", do_class_remove, NEEDS_TARGET | CHANGES},
	{"class-list", do_class_list, MAY_TARGET},
	{"subscribe", do_subscribe, MAY_TARGET | MAY_FILTER},
	{"find", do_find, NEEDS_TARGET | WHILE_ENDING},
};

static const struct command *command_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

/* The members that a request may have. */
static const struct member {
	const char *name;
	json_type type; /* JSON_TRUE: or false */
	unsigned may, needs;
} members[] = {
	{"target", JSON_STRING, MAY_TARGET | NEEDS_TARGET, NEEDS_TARGET},
	{"force", JSON_TRUE, MAY_FORCE, 0},
	{"read", JSON_TRUE, MAY_READ, 0},
	{"values", JSON_OBJECT, NEEDS_VALUES, NEEDS_VALUES},
	{"class", JSON_STRING, NEEDS_CLASS, NEEDS_CLASS},
	{"before", JSON_STRING, NEEDS_CLASS, 0},
	{"keys", JSON_INTEGER, MAY_KEYS, 0},
	{"table", JSON_TRUE, MAY_KEYS, 0},
	{"watch", JSON_TRUE, MAY_KEYS, 0},
	{"key", JSON_STRING, MAY_FILTER, 0}, /* or a number */
	{"min_wait_ns", JSON_INTEGER, MAY_FILTER, 0},
};

static bool is_of_type(const json_t *value, json_type type)
{
	return (json_typeof(value) == type && json_integer_value(value) >= 0) ||
	       (type == JSON_TRUE && json_is_false(value));
}

static const char *type_name(json_type type)
{
	switch (type) {
	case JSON_STRING:
		return "a string";
	case JSON_TRUE:
		return "true or false";
	case JSON_INTEGER:
		return "a whole number, 0 or larger";
	default:
		return "an object";
	}
}

static int check_member(const char *name, const json_t *value, const struct command *c,
			struct command_reply *reply)
{
	if (strcmp(name, "v") == 0 || strcmp(name, "do") == 0)
		return 0;
	if (strcmp(name, "id") == 0)
		return json_is_string(value) || json_is_integer(value)
			       ? 0
			       : command_fail(reply, PROTO_BAD_ARGUMENT,
					      "\"id\" is neither a string nor a whole number");
	for (unsigned i = 0; i < ARRAY_SIZE(members); i++) {
		if (strcmp(members[i].name, name) != 0 || !(c->has & members[i].may))
			continue;
		bool key = strcmp(name, "key") == 0;
		return is_of_type(value, members[i].type) ||
				       (key && is_of_type(value, JSON_INTEGER))
			       ? 0
			       : command_fail(reply, PROTO_BAD_ARGUMENT, "\"%s\" is not %s%s", name,
					      type_name(members[i].type),
					      key ? " or a whole number, 0 or larger" : "");
	}
	return command_fail(reply, PROTO_BAD_ARGUMENT, "\"%s\" has no member \"%.80s\"", c->name,
			    name);
}

static int check_members(json_t *request, const struct command *c, struct command_reply *reply)
{
	const char *name;
	json_t *value;
	json_object_foreach (request, name, value)
		if (check_member(name, value, c, reply) < 0)
			return -1;
	for (unsigned i = 0; i < ARRAY_SIZE(members); i++)
		if ((c->has & members[i].needs) && !json_object_get(request, members[i].name))
			return command_fail(reply, PROTO_BAD_ARGUMENT, "\"%s\" needs \"%s\"",
					    c->name, members[i].name);
	return 0;
}

static int check_version(json_t *request, struct command_reply *reply)
{
	const json_t *v = json_object_get(request, "v");
	if (!json_is_integer(v))
		return command_fail(reply, PROTO_BAD_REQUEST,
				    "\"v\", the version, is missing or not a whole number");
	if (json_integer_value(v) != PROTO_VERSION)
		return command_fail(reply, PROTO_BAD_VERSION,
				    "this daemon speaks version %d of the protocol", PROTO_VERSION);
	return 0;
}

static const struct command *read_request(json_t *request, struct command_reply *reply)
{
	const char *name = json_string_value(json_object_get(request, "do"));
	const struct command *c = name ? command_find(name) : NULL;
	if (check_version(request, reply) < 0)
		return NULL;
	if (!name)
		command_fail(reply, PROTO_BAD_REQUEST,
			     "\"do\", the command, is missing or not a string");
	else if (!c)
		command_fail(reply, PROTO_UNKNOWN_COMMAND, "unknown command '%.80s'", name);
	else if (check_members(request, c, reply) == 0)
		return c;
	return NULL;
}

static struct stats_keys keys_of(const json_t *request)
{
	const json_t *keys = json_object_get(request, "keys");
	json_int_t n = keys ? json_integer_value(keys) : STATS_TOP_KEYS;
	bool table = json_is_true(json_object_get(request, "table"));
	return (struct stats_keys){
		.most = n > STATS_MAX_KEYS ? STATS_MAX_KEYS : (unsigned)n,
		.table = table,
		.watch = table && json_is_true(json_object_get(request, "watch")),
	};
}

void command_run(struct registry *r, json_t *request, struct command_reply *reply)
{
	struct request rq = {.registry = r, .reply = reply, .out = reply->data};
	const struct command *c = read_request(request, reply);
	if (!c)
		return;
	const char *target = json_string_value(json_object_get(request, "target"));
	rq.name = target;
	rq.force = json_is_true(json_object_get(request, "force"));
	rq.read = json_is_true(json_object_get(request, "read"));
	rq.values = json_object_get(request, "values");
	rq.class = json_string_value(json_object_get(request, "class"));
	rq.before = json_string_value(json_object_get(request, "before"));
	rq.keys = keys_of(request);
	rq.key = json_object_get(request, "key");
	rq.min_wait_ns = (uint64_t)json_integer_value(json_object_get(request, "min_wait_ns"));
	bool must_exist = !rq.read; /* the file may have a mount that the registry has not */
	if (must_exist && target_find(r, target ? target : "global", &rq.target, &reply->err) < 0)
		reply->code = PROTO_NO_TARGET;
	else if (must_exist && rq.target.dropped && !rq.target.mount && !(c->has & WHILE_ENDING))
		command_fail(reply, PROTO_WRONG_STATE,
			     "is no longer configured, and is being unmounted");
	else
		c->run(&rq);
	if ((c->has & CHANGES) && !reply->code && !reply->later)
		reload_keep(r);
	if (reply->code && target && !reply->place)
		reply->place = strdup(target);
}
