/* SPDX-License-Identifier: MIT */
/* ratefsctl: its parsed command line, and its commands. */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <stdbool.h>
#include <stdio.h>

#include "ctl/client.h"

struct ctl;

/* One row of the table, which drives the command line, the help, completion and the documentation check. */
struct command {
	const char *name; /* one word, or two as in "class add" */
	const char *args, *flags, *help;
	int min_args, max_args; /* without the name */
	/* Runs the command; c->daemons has been filled in.  Returns the exit status. */
	int (*run)(struct ctl *c);
	const char *does; /* the protocol's command; NULL: none, or several */
	/* Prints the answer for people on stdout; NULL: prints only its notes. */
	void (*render)(const json_t *answer, FILE *out);
};

struct ctl {
	const char *which; /* the daemon's process ID or socket; NULL: all */
	bool json, save, force;
	const char *before;   /* class add: the class that the new one is tried before */
	const char *key;      /* trace: whose events */
	uint64_t min_wait_ns; /* trace: only of requests that waited at least this long */
	const struct command *command;
	int n; /* words after the command */
	const char **word;
	struct daemons daemons;
};

extern const struct command commands[];
extern const unsigned n_commands;

const struct command *command_find(const char *name); /* NULL: there is none of that name */
const char *command_nearest(const char *name);	      /* the most similar name, or NULL */

/* Prints the message on stderr; returns the exit status. */
int ctl_complain(enum proto_code code, const char *text);
/* Prints an object on stdout, without a newline. */
void ctl_put_json(const json_t *json);
/* Prints a line for each daemon that does not answer.  Returns the exit status: 0 if there is none. */
int ctl_silent(const struct ctl *c);
/* daemons_locate for the first word of the command line; complains if that fails. */
enum proto_code ctl_locate(struct ctl *c, struct daemon_ref **d, char **name);
/* Sends the command with the words of the command line to one daemon; complains if that fails.  Release the answer
 * with json_decref in all cases. */
enum proto_code ctl_ask(struct ctl *c, struct daemon_ref *d, const char *target, json_t **answer);

/* Runs one command on its target, or on everything that it applies to; commands.c. */
int run_on_target(struct ctl *c);  /* a target is required */
int run_everywhere(struct ctl *c); /* without a target: every daemon */
int run_on_mounts(struct ctl *c);  /* without a target: every mount of every daemon */
int run_list(struct ctl *c);	   /* every mount of every daemon, as one list */
int run_watch(struct ctl *c);
int run_top(struct ctl *c);	  /* top.c */
int run_plain_top(struct ctl *c); /* the same as plain lines, without a terminal */
int run_metrics(struct ctl *c);	  /* metrics_command.c */
int run_trace(struct ctl *c);	  /* trace.c */

#endif
