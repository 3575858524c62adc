/* SPDX-License-Identifier: MIT */
/* What the daemon does when it is told to over the control socket. */
#ifndef DAEMON_COMMANDS_H
#define DAEMON_COMMANDS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

struct await;
struct registry;

struct command_reply {
	FILE *out; /* records */
	int code;  /* 0, or PROTO_* with the text in err or, where longer, long_text */
	struct error err;
	char *long_text; /* to be freed */
	char *in_use;	 /* with a code: words of in_use_words; to be freed */
	bool later; /* nothing was done yet: run the command again when what it waits for is known */
	struct await *await; /* what it takes a while to do; then the reply is not complete yet */
};

void command_run(struct registry *r, int n, char **word, struct command_reply *reply);

#endif
