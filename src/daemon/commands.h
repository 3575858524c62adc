/* SPDX-License-Identifier: MIT */
/* What the daemon does when it is told to over the control socket (proto/proto.h, ratefs-control(7)).
 *
 *	command_reply_init ─▶ command_run ─▶ command_awaits? ─ no ─▶ command_answer ─▶ command_reply_free
 *	                         ▲             └ reply->later: run it once more when names or uses are known
 *	                         └─────────────┘ else: wait until await_is_over, await_report
 *
 * Main thread only; never waits. */
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
	struct json_out data; /* the members of an answer beside "v" and "ok" */
	bool no_memory;	      /* some of them are missing */
	enum proto_code code; /* or why it failed, with: */
	char *place;	      /* what the text is about: the target; NULL: nothing special */
	struct error err;
	char *long_text;	/* instead of err: several lines */
	char remedy[256];	/* what to do about it; "": nothing is known */
	struct json_out in_use; /* mounts that were to go: an array or empty */
	bool subscribes;	/* wants the events that pass `filter`, after the answer */
	struct trace_filter filter;
	bool later; /* nothing was done yet: run the command again when what it waits for is known */
	struct await await; /* what it takes a while to do; then the reply is not complete yet */
};

/* False: out of memory, and there is nothing to be freed. */
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
/* Where and what; returns -1. */
int command_fail(struct command_reply *reply, enum proto_code code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* The whole answer, to be given back by json_decref, with the "id" of the request unless NULL.
 * NULL: out of memory. */
json_t *command_answer(struct command_reply *reply, json_t *id);
/* The same for a request that could not be read. */
json_t *command_refusal(enum proto_code code, const char *text);

#endif
