/* SPDX-License-Identifier: MIT */
/* ratefsctl: looks at and changes what running ratefs daemons do. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "daemon/client.h"
#include "daemon/command_table.h"
#include "daemon/ctl_names.h"
#include "daemon/mount_users.h"
#include "daemon/proto.h"
#include "daemon/render.h"
#include "daemon/save.h"

#include "config.h"

struct ctl {
	const char *which; /* daemon: process id or socket; NULL: all */
	bool json, save, force;
	enum command_id command;
	int n; /* words after the command */
	const char **word;
	struct daemons daemons;
};

static int complain(const char *text, int code)
{
	fprintf(stderr, "ratefsctl: %s\n", text);
	return code;
}

/* The daemon must not look names up while it serves, so it gets numbers. */
static int resolve_names(struct ctl *c)
{
	bool has_options = c->command == COMMAND_SET || c->command == COMMAND_CLASS_ADD;
	struct error err = ERROR_INIT;
	for (int i = 1; has_options && i < c->n; i++) {
		c->word[i] = with_numbers(c->word[i], &err); /* until the end of the program */
		if (!c->word[i])
			return complain(error_is_set(&err) ? err.text : "out of memory",
					PROTO_USAGE);
	}
	return -1;
}

/* --- one daemon ----------------------------------------------------------------------------- */

/* Who uses a mount that was to go, a line each. */
static void name_users(const struct mount_ref *m, bool many)
{
	struct mount_users u;
	mount_users_find(&u, m->device);
	for (unsigned i = 0; i < u.n; i++) {
		fprintf(stderr, "  %s%s", many ? m->name : "", many ? ": " : "");
		mount_user_print(&u.user[i], stderr);
		fputc('\n', stderr);
	}
	if (u.hidden && !u.n)
		fprintf(stderr, "  %s%sprocesses of other users, which only root may look at\n",
			many ? m->name : "", many ? ": " : "");
	mount_users_free(&u);
}

/* The command with its target replaced by the name that the daemon knows. */
static int ask(struct ctl *c, struct daemon_ref *d, const char *target, struct records *out)
{
	const char *word[PROTO_WORDS_MAX] = {commands[c->command].name};
	struct error err = ERROR_INIT;
	int n = 1;
	if (target)
		word[n++] = target;
	for (int i = 1; i < c->n; i++)
		word[n++] = c->word[i];
	if (c->force)
		word[n++] = "--force";
	int rc = daemon_ask(d, n, word, out, &err);
	if (rc) /* several lines for a reload of a bad file */
		complain(d->error ? d->error : err.text, rc);
	for (unsigned i = 0; i < d->n_in_use; i++)
		name_users(&d->in_use[i], d->n_in_use > 1);
	return rc;
}

static void put_json(const struct records *r)
{
	records_json(r, stdout);
	putchar('\n');
}

static int save(const struct records *r)
{
	struct save_value v[PROTO_WORDS_MAX];
	struct error err = ERROR_INIT;
	AUTO_FREE char *file = records_text(r, "file"), *scope = records_text(r, "scope");
	AUTO_FREE char *name = records_text(r, "section"), *section = NULL;
	unsigned n = 0;
	bool global = strcmp(scope, "global") == 0;
	if (asprintf(&section, "%s%s%s", scope, global ? "" : ":", global ? "" : name) < 0)
		return complain("out of memory", PROTO_FAILED);
	for (; n < PROTO_WORDS_MAX && records_have(r, "set.%u.key", n); n++)
		v[n] = (struct save_value){records_text(r, "set.%u.key", n),
					   records_text(r, "set.%u.value", n)};
	int rc = save_file(file, section, v, n, &err);
	while (n--) {
		free((char *)v[n].key);
		free((char *)v[n].value);
	}
	if (rc == 0)
		return 0;
	error_prefix(&err, "changed, but not saved");
	return complain(err.text, PROTO_FAILED);
}

static int present(struct ctl *c, struct records *r)
{
	render_names(r);
	if (c->json)
		put_json(r);
	else if (c->command == COMMAND_SHOW)
		render_show(r, stdout);
	else if (c->command == COMMAND_STATS)
		render_stats(r, NULL, stdout);
	else if (c->command == COMMAND_SET || c->command == COMMAND_CLASS_ADD ||
		 c->command == COMMAND_CLASS_REMOVE) /* of classes, only the warnings */
		render_set(r, stdout, stderr);
	else if (c->command == COMMAND_PAUSE)
		render_pause(r, stdout);
	else if (c->command == COMMAND_CLASS_LIST)
		render_classes(r, stdout);
	for (unsigned i = 0; !c->json && records_have(r, "notes.%u", i); i++) {
		AUTO_FREE char *line = records_text(r, "notes.%u", i);
		puts(line);
	}
	return c->save ? save(r) : 0;
}

/* The configuration file that a target is in, "" for none; to be freed. */
static char *file_of(struct daemon_ref *d, const char *target)
{
	const char *const words[] = {"find", target};
	struct error err = ERROR_INIT;
	struct records r;
	char *file = daemon_ask(d, 2, words, &r, &err) == 0 ? records_text(&r, "file") : NULL;
	records_free(&r);
	return file;
}

static int run_once(struct ctl *c, struct daemon_ref *d, const char *target)
{
	struct records r;
	if (c->save) {
		AUTO_FREE char *file = file_of(d, target);
		if (!file || !*file)
			return complain(
				"nothing was changed: the target is in no configuration file to save to",
				PROTO_FAILED);
	}
	int rc = ask(c, d, target, &r);
	if (rc == 0)
		rc = present(c, &r);
	records_free(&r);
	return rc;
}

/* --- watch ---------------------------------------------------------------------------------- */

static void paint(struct ctl *c, const struct records *now, const struct records *before)
{
	if (c->json) {
		put_json(now);
		return;
	}
	render_stats(now, before, stdout);
	putchar('\n');
}

/* A mount that stats or watch shows. */
struct view {
	struct daemon_ref *daemon;
	char *name;
	struct records before;
};

static int paint_view(struct ctl *c, struct view *v)
{
	struct records now;
	int rc = ask(c, v->daemon, v->name, &now);
	if (rc)
		return rc;
	render_names(&now);
	paint(c, &now, v->before.n ? &v->before : NULL);
	records_free(&v->before);
	v->before = now;
	return 0;
}

static int watch(struct ctl *c, struct view *v, unsigned n)
{
	int rc = 0;
	while (rc == 0 && !ferror(stdout)) {
		if (!c->json && isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		for (unsigned i = 0; i < n && rc == 0; i++)
			rc = paint_view(c, &v[i]);
		fflush(stdout);
		if (rc == 0)
			sleep(1);
	}
	return rc;
}

/* --- several daemons ------------------------------------------------------------------------ */

/* True: a limit is marked. */
static bool list_one(struct ctl *c, const struct records *r, bool first)
{
	if (c->json) {
		fputs(first ? "{\"daemons\":[" : ",", stdout);
		records_json(r, stdout);
		return false;
	}
	if (c->command == COMMAND_CLASS_LIST) {
		render_classes(r, stdout);
		return false;
	}
	if (first)
		render_list_head(stdout);
	return render_list(r, stdout);
}

static int list(struct ctl *c)
{
	int rc = 0, listed = 0;
	bool marked = false;
	for (unsigned i = 0; i < c->daemons.n; i++) {
		struct records r;
		int one = ask(c, &c->daemons.daemon[i], NULL, &r);
		if (one == 0)
			marked |= list_one(c, &r, listed++ == 0);
		rc = one ? one : rc;
		records_free(&r);
	}
	if (c->json && listed)
		fputs("]}\n", stdout);
	if (marked)
		render_list_foot(stdout);
	return rc;
}

/* reload and reset-stats without a target: everybody whom it concerns. */
static int run_everywhere(struct ctl *c)
{
	int rc = 0, asked = 0;
	for (unsigned i = 0; i < c->daemons.n; i++) {
		AUTO_FREE char *file = file_of(&c->daemons.daemon[i], "global");
		if (!file || (c->command == COMMAND_RELOAD && !*file))
			continue;
		int one = run_once(c, &c->daemons.daemon[i], NULL);
		rc = one ? one : rc;
		asked++;
	}
	return asked ? rc : complain("no daemon has a configuration file", PROTO_FAILED);
}

/* stats and watch without a target: all mounts of all daemons. */
static unsigned all_mounts(struct ctl *c, struct view **views)
{
	unsigned n = 0;
	for (unsigned i = 0; i < c->daemons.n; i++) {
		const char *const words[] = {"list"};
		struct error err = ERROR_INIT;
		struct records r;
		if (daemon_ask(&c->daemons.daemon[i], 1, words, &r, &err) == 0)
			for (unsigned k = 0; records_have(&r, "mounts.%u.name", k); k++) {
				struct view *more = realloc(*views, (n + 1) * sizeof(*more));
				if (!more)
					break;
				*views = more;
				more[n++] = (struct view){&c->daemons.daemon[i],
							  records_text(&r, "mounts.%u.name", k),
							  {0}};
			}
		records_free(&r);
	}
	return n;
}

static int show_views(struct ctl *c, struct view *v, unsigned n)
{
	int rc = 0;
	if (c->command == COMMAND_WATCH)
		return watch(c, v, n);
	for (unsigned i = 0; i < n; i++) {
		if (i && !c->json)
			putchar('\n');
		int one = run_once(c, v[i].daemon, v[i].name);
		rc = one ? one : rc;
	}
	return rc;
}

static int run_on_all(struct ctl *c)
{
	struct view *views = NULL;
	unsigned n = all_mounts(c, &views);
	int rc = n ? show_views(c, views, n) : complain("there are no mounts", PROTO_NO_TARGET);
	for (unsigned i = 0; i < n; i++) {
		free(views[i].name);
		records_free(&views[i].before);
	}
	free(views);
	return rc;
}

static int run_on_target(struct ctl *c)
{
	struct daemon_ref *d = NULL;
	struct error err = ERROR_INIT;
	AUTO_FREE char *name = NULL;
	int rc = daemons_locate(&c->daemons, c->word[0], &d, &name, &err);
	if (rc)
		return complain(err.text, rc);
	if (c->command != COMMAND_WATCH)
		return run_once(c, d, name);
	struct view view = {d, name, {0}};
	rc = watch(c, &view, 1);
	records_free(&view.before);
	return rc;
}

static int run(struct ctl *c)
{
	struct error err = ERROR_INIT;
	if (daemons_find(&c->daemons, c->which, &err) < 0)
		return complain(err.text, PROTO_NO_TARGET);
	bool everywhere = c->command == COMMAND_RELOAD || c->command == COMMAND_RESET_STATS;
	bool lists = c->command == COMMAND_LIST || c->command == COMMAND_CLASS_LIST;
	int rc = c->n	      ? run_on_target(c)
		 : lists      ? list(c)
		 : everywhere ? run_everywhere(c)
			      : run_on_all(c);
	daemons_free(&c->daemons);
	return rc;
}

/* --- the command line ----------------------------------------------------------------------- */

static void dump_commands(void)
{
	for (int i = 0; i < COMMANDS; i++)
		if (!commands[i].hidden)
			printf("%s\t%s\t%s\t%s\n", commands[i].name, commands[i].args,
			       commands[i].flags, commands[i].help);
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
	       "Looks at and changes what running ratefs daemons do.\n\n");
	for (int i = 0; i < COMMANDS; i++) {
		char left[64];
		if (commands[i].hidden)
			continue;
		usage_of(&commands[i], left, sizeof(left));
		printf("  %-34s %s\n", left, commands[i].help);
	}
	printf("\nTARGET is the name of a mount, any path on it, MOUNT/CLASS, fs:NAME or global.\n"
	       "  -d, --daemon=PID|PATH              talk to this daemon only (its process id or socket)\n"
	       "  -j, --json                         print JSON\n"
	       "  -h, --help                         this text\n"
	       "  -V, --version                      the version\n"
	       "Exit codes: 0 done, 1 failed, 2 wrong usage or value, 3 no such target or daemon.\n");
}

enum { FLAG_DUMP = 256, FLAG_SAVE, FLAG_FORCE };

/* -1: go on; else the exit code. */
static int parse_flags(struct ctl *c, int argc, char **argv)
{
	static const struct option names[] = {
		{"daemon", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"save", no_argument, NULL, FLAG_SAVE},
		{"force", no_argument, NULL, FLAG_FORCE},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{"dump-commands", no_argument, NULL, FLAG_DUMP},
		{NULL, 0, NULL, 0},
	};
	int flag;
	while ((flag = getopt_long(argc, argv, "d:jhV", names, NULL)) != -1) {
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
			return PROTO_USAGE;
		}
	}
	return -1;
}

/* Only flags that the command has. */
static bool flags_fit(const struct ctl *c, const struct command *cmd)
{
	return (!c->save || strstr(cmd->flags, "--save")) &&
	       (!c->json || strstr(cmd->flags, "--json")) &&
	       (!c->force || strstr(cmd->flags, "--force"));
}

static int parse_command(struct ctl *c, int argc, char **argv)
{
	struct error err = ERROR_INIT;
	if (argc < 1)
		return complain("needs a command; see ratefsctl --help", PROTO_USAGE);
	/* "class add": two words */
	AUTO_FREE char *both = NULL;
	int words = strcmp(argv[0], "class") == 0 && argc > 1 ? 2 : 1;
	if (asprintf(&both, "%s%s%s", argv[0], words > 1 ? " " : "", words > 1 ? argv[1] : "") < 0)
		return complain("out of memory", PROTO_FAILED);
	int id = command_find(both);
	if (id < 0 || commands[id].hidden) {
		const char *near = command_nearest(both);
		if (near)
			error_set(&err, "unknown command '%s'; did you mean '%s'?", both, near);
		else
			error_set(&err, "unknown command '%s'; see ratefsctl --help", both);
		return complain(err.text, PROTO_USAGE);
	}
	const struct command *cmd = &commands[id];
	c->command = id;
	c->n = argc - words;
	c->word = (const char **)argv + words;
	if (c->n < cmd->min_args || c->n > cmd->max_args || !flags_fit(c, cmd)) {
		char usage[64];
		usage_of(cmd, usage, sizeof(usage));
		error_set(&err, "usage: ratefsctl %s", usage);
		return complain(err.text, PROTO_USAGE);
	}
	return -1;
}

int main(int argc, char **argv)
{
	struct ctl c = {0};
	int rc = parse_flags(&c, argc, argv);
	if (rc < 0)
		rc = parse_command(&c, argc - optind, argv + optind);
	if (rc < 0)
		rc = resolve_names(&c);
	if (rc < 0)
		rc = run(&c);
	if (fflush(stdout) != 0 && rc == 0)
		rc = PROTO_FAILED;
	return rc;
}
