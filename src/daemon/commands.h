/* SPDX-License-Identifier: MIT */
/* The commands that clients send over the control socket (proto/proto.h, ratefs-control(7)).
 *
 *	command_reply_init ─▶ command_run ─▶ command_awaits? ─ no ─▶ command_answer ─▶ command_reply_free
 *	                         ▲             └ reply->later: run it once more when names or uses are known
 *	                         └─────────────┘ else: wait until await_is_over, await_report
 *
 * Main thread only; nothing here blocks. */
#ifndef DAEMON_COMMANDS_H
#define DAEMON_COMMANDS_H

#include <stdbool.h>

#include "base/error.h"
#include "daemon/await.h"
#include "daemon/trace.h"
#include "proto/json_out.h"
#include "proto/proto.h"

struct registry;

struct command_reply {
	struct json_out data; /* the members of an answer besides "v" and "ok" */
	bool no_memory;	      /* some members of `data` are missing */
	enum proto_code code; /* 0, or why the command failed */
	char *place;	      /* the target that the text is about; NULL: none */
	struct error err;
	char *long_text;	/* instead of err: several lines */
	char remedy[256];	/* what the user can do about it; "": not known */
	struct json_out in_use; /* mounts in use, if that is why it failed: an array or empty */
	bool subscribes;	/* after the answer, send events that pass `filter` */
	struct trace_filter filter;
	bool later; /* nothing was done yet: run the command again when names or uses are known */
	bool again; /* this is done now; set by the caller */
	struct await await; /* mounts in progress; until they are done the reply is incomplete */
};

/* False: out of memory; do not call command_reply_free. */
bool command_reply_init(struct command_reply *reply);
void command_reply_free(struct command_reply *reply);

/* `request` is an object of proto_parse. */
void command_run(struct registry *r, json_t *request, struct command_reply *reply);
static inline bool command_awaits(const struct command_reply *reply)
{
	return !reply->code && (reply->later || reply->await.n);
}

/* Adds a line to "notes". */
void command_note(struct command_reply *reply, const char *line);
/* Makes the reply an error with this code and text.  Returns -1. */
int command_fail(struct command_reply *reply, enum proto_code code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* The whole answer, with the request's "id" unless `id` is NULL.  The caller calls json_decref.
 * NULL: out of memory. */
json_t *command_answer(struct command_reply *reply, json_t *id);
/* The same for a request that could not be read. */
json_t *command_refusal(enum proto_code code, const char *text);

#endif
