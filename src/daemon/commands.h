/* SPDX-License-Identifier: MIT */
/* What the daemon does when it is told to over the control socket. */
#ifndef DAEMON_COMMANDS_H
#define DAEMON_COMMANDS_H

#include <stdio.h>

#include "base/error.h"

struct registry;

struct command_reply {
	FILE *out; /* records */
	int code;  /* 0, or PROTO_* with the text in err or, where longer, long_text */
	struct error err;
	char *long_text; /* to be freed */
};

void command_run(struct registry *r, int n, char **word, struct command_reply *reply);

#endif
