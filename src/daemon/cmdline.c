/* SPDX-License-Identifier: MIT */
#include "daemon/cmdline.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/options.h"
#include "daemon/path.h"
#include "daemon/pool_config.h"
#include "daemon/profile.h"

enum { LONG_CHECK = 256, LONG_DUMP, LONG_FORCE, LONG_PROFILES };

static const struct {
	const char *usage, *help;
} usage_rows[] = {
	{"-o OPTION[,...]", "mount options, see below"},
	{"-c, --config=FILE", "serve the mounts of a configuration file"},
	{"    --check", "with -c: print all problems of the file, mount nothing"},
	{"    --force", "mount over another ratefs mount, or over /, /dev, /proc, /sys"},
	{"-f, --foreground", "stay in the foreground, log to standard error"},
	{"-d, --debug", "like -f, and log every request"},
	{"    --profiles [NAME[:SIZE]]", "list the device profiles, or show what one of them sets"},
	{"-h, --help", "print this text"},
	{"-V, --version", "print the version"},
};

/* --- one mount from -o ---------------------------------------------------------------------- */

struct batches {
	bool mount[OPTIONS_MAX], fs[OPTIONS_MAX], global[OPTIONS_MAX], pool[OPTIONS_MAX];
};

static int refuse_file_only(const struct option_def *o, struct error *err)
{
	static const struct {
		const char *name, *instead;
	} rows[] = {
		{"source", "SOURCE is the first argument"},
		{"mountpoint", "MOUNTPOINT is the second argument"},
		{"fs", "fs.iops and the like limit the source"},
		{"options", "write its options after -o"},
	};
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(o->name, rows[i].name) == 0)
			return error_set(err, "%s: is for configuration files; here %s", o->name,
					 rows[i].instead);
	return error_set(err, "%s: is for configuration files", o->name);
}

static int set_scoped(struct configuration *c, struct batches *b, const char *name,
		      const char *value, struct error *err)
{
	enum scope_kind scope = option_scope_of(&name);
	const struct option_def *o = option_find(name);
	if (o && o->file_only)
		return refuse_file_only(o, err);
	switch (scope) {
	case SCOPE_GLOBAL:
		return option_set(&c->global, scope, name, value, b->global, err);
	case SCOPE_FS:
		return option_set(&c->fs[0], scope, name, value, b->fs, err);
	case SCOPE_POOL:
		if (!c->n_pools && !configuration_add_pool(c))
			return error_set(err, "out of memory");
		return option_set(&c->pool[0], scope, name, value, b->pool, err);
	default:
		return option_set(&c->mount[0], SCOPE_MOUNT, name, value, b->mount, err);
	}
}

static int parse_words(struct configuration *c, struct batches *b, const char *text,
		       struct error *err)
{
	AUTO_FREE char *copy = strdup(text);
	char *rest = copy, *word;
	if (!copy)
		return error_set(err, "out of memory");
	while ((word = option_next_word(&rest))) {
		char *eq = strchr(word, '=');
		if (!*word)
			continue;
		if (eq)
			*eq++ = '\0';
		if (set_scoped(c, b, word, eq, err) < 0)
			return -1;
	}
	return 0;
}

/* --- remount -------------------------------------------------------------------------------- */

/* For a remount, mount(8) passes all options of the mount and its fstab line again, and those of
 * the kernel. */
static bool of_the_kernel(const char *name)
{
	return !strcmp(name, "user_id") || !strcmp(name, "group_id") || !strcmp(name, "blksize") ||
	       !strcmp(name, "remount");
}

static int check_remount_word(struct cmdline *c, char *word, struct error *err)
{
	word[strcspn(word, "=")] = '\0';
	const char *name = word;
	if (!*name || of_the_kernel(name))
		return 0;
	if (strcmp(name, "bind") == 0)
		return error_set(err, "'bind' is for mount(8): mount -o remount,bind,...");
	option_scope_of(&name);
	const struct option_def *o = option_find(name);
	if (!o)
		return error_set(err, "unknown option '%s'; see ratefs --help", word);
	c->remount_ignores |=
		o->type != OPTION_FLAG && o->type != OPTION_VALUE && o->type != OPTION_NOISE;
	return 0;
}

static int check_remount(struct cmdline *c, struct error *err)
{
	AUTO_FREE char *copy = strdup(c->words);
	char *rest = copy, *word;
	if (!copy)
		return error_set(err, "out of memory");
	while ((word = option_next_word(&rest)))
		if (check_remount_word(c, word, err) < 0)
			return -1;
	return 0;
}

/* Appends the text of an -o to the previous ones. */
static int take_words(struct cmdline *c, const char *text, struct error *err)
{
	char *all;
	if (asprintf(&all, "%s%s%s", c->words ? c->words : "", c->words ? "," : "", text) < 0)
		return error_set(err, "out of memory");
	free(c->words);
	c->words = all;
	AUTO_FREE char *copy = strdup(text);
	char *rest = copy, *word;
	while (copy && (word = option_next_word(&rest)))
		c->remount |= strcmp(word, "remount") == 0;
	return copy ? 0 : error_set(err, "out of memory");
}

/* --- places --------------------------------------------------------------------------------- */

static int make_absolute(char **path)
{
	if (path_passed_fd(*path) >= 0)
		return 0;
	char *absolute = path_absolute(*path);
	if (!absolute)
		return -1;
	free(*path);
	*path = absolute;
	return 0;
}

/* "iops=5", "dry_run": probably the -o is missing. */
static bool looks_like_option(const char *text)
{
	AUTO_FREE char *copy = strndup(text, strcspn(text, "="));
	const char *name = copy;
	if (!copy)
		return false;
	option_scope_of(&name);
	return option_find(name);
}

static int take_places(struct settings *m, char **place, int n, struct error *err)
{
	if (n > 2)
		return looks_like_option(place[2])
			       ? error_set(err,
					   "unexpected argument '%s'; options go after -o: -o %s",
					   place[2], place[2])
			       : error_set(err, "unexpected argument '%s'; see ratefs --help",
					   place[2]);
	if (n < 2)
		return error_set(err, "needs SOURCE and MOUNTPOINT, or -c FILE; see ratefs --help");
	const char *source = place[0];
	if (strncmp(source, "ratefs#", 7) == 0) /* old syntax of fstab */
		source += 7;
	m->source = strdup(source);
	m->mountpoint = strdup(place[1]);
	if (!m->source || !m->mountpoint)
		return error_set(err, "out of memory");
	if (!*m->source || !*m->mountpoint)
		return error_set(err, "SOURCE and MOUNTPOINT must not be empty");
	if (make_absolute(&m->source) < 0 || make_absolute(&m->mountpoint) < 0)
		return error_set(err, "out of memory");
	option_mark_given("source", m);
	option_mark_given("mountpoint", m);
	return 0;
}

/* The mount and its fs are named after the mountpoint unless a name is given. */
static int take_names(struct configuration *c, struct error *err)
{
	struct settings *m = &c->mount[0], *fs = &c->fs[0];
	const char *slash = strrchr(m->mountpoint, '/');
	const char *last = slash && slash[1] ? slash + 1 : m->mountpoint;
	if (!m->name && !(m->name = strdup(last)))
		return error_set(err, "out of memory");
	fs->name = strdup(m->name);
	fs->source = strdup(m->source);
	if (!fs->name || !fs->source)
		return error_set(err, "out of memory");
	return 0;
}

/* --- flags ---------------------------------------------------------------------------------- */

/* mount(8) calls its helpers as mount.TYPE SOURCE MOUNTPOINT [-sfnv] [-N NS] [-o …] [-t TYPE]. */
static bool called_by_mount(const char *argv0)
{
	const char *slash = strrchr(argv0, '/');
	return strncmp(slash ? slash + 1 : argv0, "mount.", 6) == 0;
}

int cmdline_bad_flag(char **argv, int flag, const char *help, struct error *err)
{
	const char *arg = argv[optind - 1];
	if (flag == ':')
		return error_set(err, "'%s' needs a value; see %s", arg, help);
	if (strncmp(arg, "--", 2) != 0)
		return error_set(err, "unknown flag '-%c'; see %s", optopt, help);
	if (looks_like_option(arg + 2))
		return error_set(err, "unknown flag '%s'; options go after -o: -o %s", arg,
				 arg + 2);
	return error_set(err, "unknown flag '%s'; see %s", arg, help);
}

static int take_flag(struct cmdline *c, struct batches *b, int flag, bool helper, struct error *err)
{
	switch (flag) {
	case 'o':
		if (take_words(c, optarg, err) < 0)
			return -1;
		return c->remount ? 0 : parse_words(&c->config, b, optarg, err);
	case 'c':
		free(c->file);
		/* the daemon changes its working directory, and a reload needs the path */
		c->file = path_absolute(optarg);
		return c->file ? 0 : error_set(err, "out of memory");
	case 'f':
		if (helper)
			c->action = CMDLINE_FAKE;
		c->foreground = true;
		return 0;
	case 'd':
		c->foreground = c->debug = true;
		return 0;
	case 'r':
		return parse_words(&c->config, b, "ro", err);
	case 'w':
		return parse_words(&c->config, b, "rw", err);
	case 'h':
		c->action = CMDLINE_HELP;
		return 0;
	case 'V':
		c->action = CMDLINE_VERSION;
		return 0;
	case LONG_CHECK:
		c->action = CMDLINE_CHECK;
		return 0;
	case LONG_FORCE:
		c->config.force = true;
		return 0;
	case LONG_PROFILES:
		c->action = CMDLINE_PROFILES;
		return 0;
	case LONG_DUMP:
		c->action = CMDLINE_DUMP;
		return 0;
	default:
		return 0; /* -n -s -v -t: accepted for mount(8) */
	}
}

static int parse_flags(struct cmdline *c, struct batches *b, int argc, char **argv,
		       struct error *err)
{
	static const struct option names[] = {
		{"config", required_argument, NULL, 'c'},
		{"check", no_argument, NULL, LONG_CHECK},
		{"force", no_argument, NULL, LONG_FORCE},
		{"foreground", no_argument, NULL, 'f'},
		{"debug", no_argument, NULL, 'd'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{"profiles", no_argument, NULL, LONG_PROFILES},
		{"dump-options", no_argument, NULL, LONG_DUMP},
		{NULL, 0, NULL, 0},
	};
	bool helper = called_by_mount(argv[0]);
	int flag;
	opterr = 0;
	while ((flag = getopt_long(argc, argv, ":o:c:fdhVrwnsvt:N:", names, NULL)) != -1) {
		if (flag == '?' || flag == ':')
			return cmdline_bad_flag(argv, flag, "ratefs --help", err);
		if (take_flag(c, b, flag, helper, err) < 0)
			return -1;
	}
	return 0;
}

static int check_together(const struct configuration *c, const struct batches *b, struct error *err)
{
	if (options_check(&c->global, b->global, err) < 0)
		return error_prefix(err, "global");
	if (options_check(&c->fs[0], b->fs, err) < 0)
		return error_prefix(err, "fs");
	if (c->n_pools && options_check(&c->pool[0], b->pool, err) < 0)
		return error_prefix(err, "pool");
	return options_check(&c->mount[0], b->mount, err);
}

static bool names_a_pool(const struct settings *s)
{
	return s->pool && *s->pool && strcmp(s->pool, "none") != 0;
}

/* The name of the pool: that of pool=NAME, or else taken from the key: "farm" for "farm" and for
 * "ratefs:{farm}". */
static char *name_of_pool(const struct configuration *c)
{
	const struct settings *scope[] = {&c->mount[0], &c->fs[0], &c->global};
	const char *key = c->pool[0].key, *tag = key ? strchr(key, '{') : NULL;
	for (unsigned i = 0; i < ARRAY_SIZE(scope); i++)
		if (names_a_pool(scope[i]))
			return strdup(scope[i]->pool);
	if (tag && strcspn(tag + 1, "}") && strchr(tag, '}'))
		return strndup(tag + 1, strcspn(tag + 1, "}"));
	return strdup(key && *key ? key : "pool");
}

static bool make_paths_absolute(struct settings *pool)
{
	char **path[] = {&pool->auth_file, &pool->tls_ca, &pool->tls_cert, &pool->tls_key};
	for (unsigned i = 0; i < ARRAY_SIZE(path); i++)
		if (*path[i] && make_absolute(path[i]) < 0)
			return false;
	return true;
}

/* On the command line, a pool that is named must be described there, too. */
static int refuse_unknown_pool(const struct configuration *c, struct error *err)
{
	const struct settings *scope[] = {&c->mount[0], &c->fs[0], &c->global};
	for (unsigned i = 0; i < ARRAY_SIZE(scope); i++)
		if (names_a_pool(scope[i]))
			return error_set(err,
					 "pool: '%s' needs a server and a limit; give "
					 "pool.server=ADDRESS and, for example, pool.bps=BYTES too",
					 scope[i]->pool);
	return 0;
}

/* The pool of -o pool.server=...: the mount takes part, unless a wider scope does. */
static int take_pool(struct configuration *c, struct error *err)
{
	struct settings *pool = c->pool, *m = &c->mount[0];
	if (!c->n_pools && refuse_unknown_pool(c, err) < 0)
		return -1;
	if (c->n_pools) {
		if (!(pool->name = name_of_pool(c)) || !make_paths_absolute(pool))
			return error_set(err, "out of memory");
		if (pool_config_check(pool, err) < 0)
			return error_prefix(err, "pool");
		if (!m->pool && !c->fs[0].pool && !c->global.pool &&
		    !(m->pool = strdup(pool->name)))
			return error_set(err, "out of memory");
	}
	if (pool_config_join(&c->global, c->pool, c->n_pools, err) < 0 ||
	    pool_config_join(&c->fs[0], c->pool, c->n_pools, err) < 0)
		return -1;
	if (pool_config_join(m, c->pool, c->n_pools, err) < 0 ||
	    pool_config_nested(&c->fs[0], NULL, &c->global, err) < 0)
		return -1;
	return pool_config_nested(m, &c->fs[0], &c->global, err);
}

static int finish(struct cmdline *c, const struct batches *b, char **place, int n,
		  struct error *err)
{
	static const struct batches nothing;
	if (c->action == CMDLINE_RUN && c->remount)
		c->action = CMDLINE_REMOUNT;
	if (c->action == CMDLINE_REMOUNT)
		return check_remount(c, err) < 0 ? -1
						 : take_places(&c->config.mount[0], place, n, err);
	if (c->action == CMDLINE_PROFILES) {
		if (n > 1)
			return error_set(err, "unexpected argument '%s'; see ratefs --help",
					 place[1]);
		c->profile = n ? place[0] : NULL;
		return 0;
	}
	if (c->action != CMDLINE_RUN && c->action != CMDLINE_CHECK)
		return 0;
	if (c->action == CMDLINE_CHECK && !c->file)
		return error_set(err, "--check needs -c FILE");
	if (!c->file) {
		char **control = &c->config.global.control;
		if (take_places(&c->config.mount[0], place, n, err) < 0)
			return -1;
		if (*control && strcmp(*control, "off") != 0 && make_absolute(control) < 0)
			return error_set(err, "out of memory");
		if (profile_apply(&c->config.mount[0], err) < 0 ||
		    check_together(&c->config, b, err) < 0 || take_pool(&c->config, err) < 0)
			return -1;
		return take_names(&c->config, err);
	}
	if (n > 0)
		return error_set(
			err, "unexpected argument '%s'; with -c FILE, the file says what to mount",
			place[0]);
	if (memcmp(b, &nothing, sizeof(nothing)) != 0)
		return error_set(
			err, "-o cannot be combined with -c FILE; write the options into the file");
	return 0;
}

int cmdline_parse(struct cmdline *c, int argc, char **argv, struct error *err)
{
	struct batches b = {0};
	memset(c, 0, sizeof(*c));
	configuration_init(&c->config);
	if (!configuration_add_fs(&c->config) || !configuration_add_mount(&c->config))
		return error_set(err, "out of memory");
	if (parse_flags(c, &b, argc, argv, err) < 0)
		return -1;
	return finish(c, &b, argv + optind, argc - optind, err);
}

void cmdline_free(struct cmdline *c)
{
	configuration_free(&c->config);
	free(c->file);
	free(c->words);
}

void cmdline_help(void)
{
	printf("usage: ratefs SOURCE MOUNTPOINT [-o OPTION[,...]] [-f] [-d] [--force]\n"
	       "       ratefs -c FILE [--check] [-f] [-d] [--force]\n"
	       "       ratefs run [-o OPTION[,...]] [-C DIR]... [--] COMMAND [ARG]...\n"
	       "       ratefs --profiles [NAME[:SIZE]]\n\n"
	       "Mounts a second, throttled view of the directory SOURCE at MOUNTPOINT.\n\n");
	for (unsigned i = 0; i < ARRAY_SIZE(usage_rows); i++)
		printf("  %-30s %s\n", usage_rows[i].usage, usage_rows[i].help);
	options_help(stdout);
	printf("\nSizes: 10M, 512KiB, 4MB; rates per second; times: 100ms, 2s, 1m.\n"
	       "Exit codes: 0 done, 1 could not mount or serve, 2 wrong usage or configuration.\n");
}
