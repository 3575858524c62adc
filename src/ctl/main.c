/* SPDX-License-Identifier: MIT */
/* ratefsctl: inspects and controls running ratefs daemons. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/units.h"
#include "ctl/ctl.h"

#include "config.h"

static void dump_commands(void)
{
	for (unsigned i = 0; i < n_commands; i++)
		printf("%s\t%s\t%s\t%s\n", commands[i].name, commands[i].args, commands[i].flags,
		       commands[i].help);
}

static void usage_of(const struct command *c, char *buf, size_t size)
{
	bool flags = *c->flags;
	snprintf(buf, size, "%s%s%s%s%s%s", c->name, *c->args ? " " : "", c->args,
		 flags ? " [" : "", c->flags, flags ? "]" : "");
}

static void help(void)
{
	printf("usage: ratefsctl [--daemon=PID|PATH] COMMAND ...\n\n"
	       "Inspects and controls running ratefs daemons.\n\n");
	for (unsigned i = 0; i < n_commands; i++) {
		char left[64];
		usage_of(&commands[i], left, sizeof(left));
		printf("  %-34s %s\n", left, commands[i].help);
	}
	printf("\nTARGET is the name of a mount, any path on it, MOUNT/CLASS, fs:NAME, pool:NAME or global.\n"
	       "  -d, --daemon=PID|PATH              talk to this daemon only (its process id or socket)\n"
	       "  -j, --json                         print JSON\n"
	       "      --before=CLASS                 class add: try the new class before this one\n"
	       "      --key=KEY                      trace: only events of this caller (number or command)\n"
	       "      --min-wait=TIME                trace: only requests that waited at least so long\n"
	       "  -h, --help                         this text\n"
	       "  -V, --version                      the version\n"
	       "Exit codes: 0 done, 1 failed, 2 wrong usage or value, 3 no such target or daemon.\n");
}

enum { FLAG_DUMP = 256, FLAG_SAVE, FLAG_FORCE, FLAG_BEFORE, FLAG_KEY, FLAG_MIN_WAIT };

static int parse_min_wait(struct ctl *c)
{
	struct error err = ERROR_INIT;
	if (units_parse_duration(optarg, &c->min_wait_ns, &err) == 0)
		return 0;
	error_prefix(&err, "--min-wait");
	ctl_complain(PROTO_BAD_ARGUMENT, err.text);
	return -1;
}

static int complain_about_flag(int flag, const char *arg)
{
	struct error err = ERROR_INIT;
	if (flag == ':')
		error_set(&err, "'%s' needs a value; see ratefsctl --help", arg);
	else if (strncmp(arg, "--", 2) == 0)
		error_set(&err, "unknown flag '%s'; see ratefsctl --help", arg);
	else
		error_set(&err, "unknown flag '-%c'; see ratefsctl --help", optopt);
	return ctl_complain(PROTO_BAD_ARGUMENT, err.text);
}

/* -1: continue; otherwise the exit code. */
static int parse_flags(struct ctl *c, int argc, char **argv)
{
	static const struct option names[] = {
		{"daemon", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"save", no_argument, NULL, FLAG_SAVE},
		{"force", no_argument, NULL, FLAG_FORCE},
		{"before", required_argument, NULL, FLAG_BEFORE},
		{"key", required_argument, NULL, FLAG_KEY},
		{"min-wait", required_argument, NULL, FLAG_MIN_WAIT},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{"dump-commands", no_argument, NULL, FLAG_DUMP},
		{NULL, 0, NULL, 0},
	};
	int flag;
	opterr = 0;
	while ((flag = getopt_long(argc, argv, ":d:jhV", names, NULL)) != -1) {
		switch (flag) {
		case 'd':
			c->which = optarg;
			break;
		case 'j':
			c->json = true;
			break;
		case FLAG_SAVE:
			c->save = true;
			break;
		case FLAG_FORCE:
			c->force = true;
			break;
		case FLAG_BEFORE:
			c->before = optarg;
			break;
		case FLAG_KEY:
			c->key = optarg;
			break;
		case FLAG_MIN_WAIT:
			if (parse_min_wait(c) < 0)
				return proto_exit_status(PROTO_BAD_ARGUMENT);
			break;
		case 'h':
			help();
			return 0;
		case 'V':
			printf("ratefsctl %s\n", PACKAGE_VERSION);
			return 0;
		case FLAG_DUMP:
			dump_commands();
			return 0;
		default:
			return complain_about_flag(flag, argv[optind - 1]);
		}
	}
	return -1;
}

/* False: a flag was given that the command does not have. */
static bool flags_fit(const struct ctl *c, const struct command *cmd)
{
	return (!c->save || strstr(cmd->flags, "--save")) &&
	       (!c->json || strstr(cmd->flags, "--json")) &&
	       (!c->force || strstr(cmd->flags, "--force")) &&
	       (!c->before || strcmp(cmd->name, "class add") == 0) &&
	       ((!c->key && !c->min_wait_ns) || cmd->run == run_trace);
}

static int parse_command(struct ctl *c, int argc, char **argv)
{
	struct error err = ERROR_INIT;
	if (argc < 1)
		return ctl_complain(PROTO_BAD_ARGUMENT, "needs a command; see ratefsctl --help");
	/* "class add": two words */
	AUTO_FREE char *both = NULL;
	int words = strcmp(argv[0], "class") == 0 && argc > 1 ? 2 : 1;
	if (asprintf(&both, "%s%s%s", argv[0], words > 1 ? " " : "", words > 1 ? argv[1] : "") < 0)
		return ctl_complain(PROTO_NO_MEMORY, "out of memory");
	const struct command *cmd = command_find(both);
	if (!cmd) {
		const char *near = command_nearest(both);
		if (strcmp(both, "class") == 0)
			error_set(&err, "'class' needs add, remove or list; see ratefsctl --help");
		else if (near)
			error_set(&err, "unknown command '%s'; did you mean '%s'?", both, near);
		else
			error_set(&err, "unknown command '%s'; see ratefsctl --help", both);
		return ctl_complain(PROTO_BAD_ARGUMENT, err.text);
	}
	c->command = cmd;
	c->n = argc - words;
	c->word = (const char **)argv + words;
	if (c->n < cmd->min_args || c->n > cmd->max_args || !flags_fit(c, cmd)) {
		char usage[64];
		usage_of(cmd, usage, sizeof(usage));
		error_set(&err, "usage: ratefsctl %s", usage);
		return ctl_complain(PROTO_BAD_ARGUMENT, err.text);
	}
	return -1;
}

static int run(struct ctl *c)
{
	struct error err = ERROR_INIT;
	enum proto_code code = daemons_find(&c->daemons, c->which, CLIENT_PATIENCE_MS, &err);
	/* Metrics say how many do not answer, even if that is all of them. */
	bool counted = c->daemons.n_silent && c->command->run == run_metrics;
	int rc = code == PROTO_OK || counted ? c->command->run(c)
		 : c->daemons.n_silent	     ? ctl_silent(c)
					     : ctl_complain(code, err.text);
	daemons_free(&c->daemons);
	return rc;
}

/* The exit status: 1 if the output could not be written although everything else was done. */
static int end_output(int rc)
{
	struct error err = ERROR_INIT;
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return rc;
	error_set(&err, "cannot write the output%s%s", errno ? ": " : "",
		  errno ? strerror(errno) : "");
	int failed = ctl_complain(PROTO_FAILED, err.text);
	return rc ? rc : failed;
}

int main(int argc, char **argv)
{
	struct ctl c = {0};
	proto_init();
	int rc = parse_flags(&c, argc, argv);
	if (rc < 0)
		rc = parse_command(&c, argc - optind, argv + optind);
	if (rc < 0)
		rc = run(&c);
	return end_output(rc);
}
