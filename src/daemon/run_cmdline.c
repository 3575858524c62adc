/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/cmdline.h"
#include "daemon/options.h"
#include "daemon/profile.h"
#include "daemon/path.h"
#include "daemon/run.h"

enum { LONG_REPORT = 256, LONG_JSON, LONG_COMPARE };

static const struct {
	const char *usage, *help;
} usage_rows[] = {
	{"-o OPTION[,...]", "limits and other options, as for a mount"},
	{"-C, --directory=DIR", "throttle DIR; may be repeated (default: the current directory)"},
	{"    --report=FILE", "write the report to FILE instead of standard error"},
	{"    --json", "write the report as JSON"},
	{"    --compare", "run COMMAND without ratefs as well and compare the times"},
	{"-q, --quiet", "print no report and no remarks"},
	{"-h, --help", "print this text"},
};

/* The configuration that is being built. */
struct draft {
	struct settings global, fs, mount; /* for every mount */
	bool batch_global[OPTIONS_MAX], batch_fs[OPTIONS_MAX], batch_mount[OPTIONS_MAX];
	char *dir[RUN_DIRS_MAX];
	unsigned n_dirs;
};

/* --- options -------------------------------------------------------------------------------- */

/* A limit without a prefix applies to the whole command, whatever the number of directories: it
 * belongs to the global scope, which all mounts share. */
static int set_option(struct draft *d, const char *name, const char *value, struct error *err)
{
	const char *bare = name;
	enum scope_kind scope = option_scope_of(&bare);
	const struct option_def *o = option_find(bare);
	if (bare == name && o && option_is_in(o, SCOPE_GLOBAL))
		scope = SCOPE_GLOBAL;
	if (scope == SCOPE_POOL || (o && strcmp(o->name, "pool") == 0))
		return error_set(err, "%s: ratefs run takes part in no pool", name);
	if (o && o->file_only)
		return error_set(err, "%s: is for configuration files", o->name);
	if (o && (strcmp(o->name, "name") == 0 || strcmp(o->name, "auto_unmount") == 0))
		return error_set(err, "%s: has no meaning for ratefs run", o->name);
	switch (scope) {
	case SCOPE_GLOBAL:
		return option_set(&d->global, scope, bare, value, d->batch_global, err);
	case SCOPE_FS:
		return option_set(&d->fs, scope, bare, value, d->batch_fs, err);
	default:
		return option_set(&d->mount, scope, bare, value, d->batch_mount, err);
	}
}

static int set_options(struct draft *d, const char *text, struct error *err)
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
		if (set_option(d, word, eq, err) < 0)
			return -1;
	}
	return 0;
}

static int check_options(struct draft *d, struct error *err)
{
	if (profile_apply(&d->mount, err) < 0)
		return -1;
	if (options_check(&d->global, d->batch_global, err) < 0)
		return -1;
	if (options_check(&d->fs, d->batch_fs, err) < 0)
		return error_prefix(err, "fs");
	return options_check(&d->mount, d->batch_mount, err);
}

static bool has_limits(const struct settings *s)
{
	for (unsigned i = 0; i < n_options; i++)
		if (options[i].type == OPTION_RATE && option_is_given(&options[i], s))
			return true;
	return s->limits.max_inflight || s->limits.max_open;
}

/* --- directories ---------------------------------------------------------------------------- */

static bool lies_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	return strncmp(path, dir, n) == 0 && (path[n] == '/' || !path[n]);
}

static int add_dir(struct draft *d, const char *path, struct error *err)
{
	struct stat st;
	if (d->n_dirs == RUN_DIRS_MAX)
		return error_set(err, "-C: more than %d directories", RUN_DIRS_MAX);
	AUTO_FREE char *real = realpath(path, NULL);
	if (!real || stat(real, &st) < 0)
		return error_set(err, "-C %s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return error_set(err, "-C %s: not a directory", path);
	if (access(real, R_OK | X_OK) < 0)
		return error_set(err, "-C %s: %s", path, strerror(errno));
	if (path_is_system(real))
		return error_set(err,
				 "%s: the system needs what is there as it is; "
				 "choose another directory with -C DIR",
				 real);
	for (unsigned i = 0; i < d->n_dirs; i++) {
		if (strcmp(real, d->dir[i]) == 0)
			return 0;
		if (lies_in(real, d->dir[i]) || lies_in(d->dir[i], real))
			return error_set(
				err, "-C %s: contains %s or is inside it; name only one of them",
				path, d->dir[i]);
	}
	d->dir[d->n_dirs++] = take_ptr(&real);
	return 0;
}

/* Copies the flags of the filesystem (such as noexec), so that the mount does not allow what the
 * filesystem below it forbids. */
static bool inherit_flags(struct settings *m, const char *dir)
{
	struct statvfs st;
	if (statvfs(dir, &st) < 0)
		return true;
	return (!(st.f_flag & ST_RDONLY) || words_put(&m->fuse, "ro", "rw")) &&
	       (!(st.f_flag & ST_NOEXEC) || words_put(&m->fuse, "noexec", "exec"));
}

static bool add_mount(struct configuration *c, const struct draft *d, const char *dir)
{
	struct settings *fs = configuration_add_fs(c), *m = configuration_add_mount(c);
	if (!fs || !m)
		return false;
	settings_free(fs);
	settings_free(m);
	if (!settings_copy(fs, &d->fs) || !settings_copy(m, &d->mount))
		return false;
	fs->name = strdup(dir);
	fs->source = strdup(dir);
	m->name = strdup(dir);
	m->source = strdup(dir);
	m->mountpoint = strdup(dir);
	option_mark_given("source", m);
	option_mark_given("mountpoint", m);
	return fs->name && fs->source && m->name && m->source && m->mountpoint &&
	       inherit_flags(m, dir);
}

/* --- the whole ------------------------------------------------------------------------------ */

static int take_flag(struct run *r, struct draft *d, int flag, struct error *err)
{
	switch (flag) {
	case 'o':
		return set_options(d, optarg, err);
	case 'C':
		return add_dir(d, optarg, err);
	case LONG_REPORT:
		r->report = optarg;
		return 0;
	case LONG_JSON:
		r->json = true;
		return 0;
	case LONG_COMPARE:
		r->compare = true;
		return 0;
	case 'q':
		r->quiet = true;
		return 0;
	default:
		r->help = true;
		return 0;
	}
}

static int parse_flags(struct run *r, struct draft *d, int argc, char **argv, struct error *err)
{
	static const struct option names[] = {
		{"directory", required_argument, NULL, 'C'},
		{"report", required_argument, NULL, LONG_REPORT},
		{"json", no_argument, NULL, LONG_JSON},
		{"compare", no_argument, NULL, LONG_COMPARE},
		{"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int flag;
	opterr = 0;
	optind = 1;
	while ((flag = getopt_long(argc, argv, "+:o:C:qh", names, NULL)) != -1) {
		if (flag == ':' || flag == '?')
			return cmdline_bad_flag(argv, flag, "ratefs run --help", err);
		if (take_flag(r, d, flag, err) < 0)
			return -1;
	}
	r->command = argv + optind;
	return 0;
}

/* For a dry run, disables caches: requests that the kernel answers from its cache, or by
 * passthrough, would not be measured. */
static int measure_all(struct draft *d, struct error *err)
{
	const struct option_def *cache = option_find("cache");
	if (!d->mount.dry_run || option_is_given(cache, &d->mount))
		return 0;
	return option_set(&d->mount, SCOPE_MOUNT, "cache", "strict", d->batch_mount, err);
}

static int complete(struct run *r, struct draft *d, struct error *err)
{
	if (r->help)
		return 0;
	if (!*r->command)
		return error_set(err, "needs a COMMAND; see ratefs run --help");
	if (!d->n_dirs && add_dir(d, ".", err) < 0)
		return -1;
	if (check_options(d, err) < 0 || measure_all(d, err) < 0)
		return -1;
	if (!option_is_given(option_find("log_level"), &d->global))
		d->global.log_level = r->quiet ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING;
	r->dry_run = d->mount.dry_run;
	r->limited = has_limits(&d->global) || has_limits(&d->fs) || has_limits(&d->mount) ||
		     device_config_models(&d->mount.device);
	settings_free(&r->config.global);
	if (!settings_copy(&r->config.global, &d->global))
		return error_set(err, "out of memory");
	for (unsigned i = 0; i < d->n_dirs; i++)
		if (!add_mount(&r->config, d, d->dir[i]))
			return error_set(err, "out of memory");
	return 0;
}

int run_parse(struct run *r, int argc, char **argv, struct error *err)
{
	struct draft d = {0};
	memset(r, 0, sizeof(*r));
	configuration_init(&r->config);
	settings_init(&d.global);
	settings_init(&d.fs);
	settings_init(&d.mount);
	int rc = parse_flags(r, &d, argc, argv, err);
	if (rc == 0)
		rc = complete(r, &d, err);
	settings_free(&d.global);
	settings_free(&d.fs);
	settings_free(&d.mount);
	for (unsigned i = 0; i < d.n_dirs; i++)
		free(d.dir[i]);
	return rc;
}

void run_free(struct run *r)
{
	configuration_free(&r->config);
}

void run_help(void)
{
	printf("usage: ratefs run [-o OPTION[,...]] [-C DIR]... [--report=FILE] [--json] [--compare]\n"
	       "                  [--quiet] [--] COMMAND [ARG]...\n\n"
	       "Runs COMMAND with throttled access to DIR.  Other programs are not affected.\n\n");
	for (unsigned i = 0; i < ARRAY_SIZE(usage_rows); i++)
		printf("  %-30s %s\n", usage_rows[i].usage, usage_rows[i].help);
	printf("\nOptions are those of ratefs --help.  Limits without a prefix apply to COMMAND as a\n"
	       "whole; mount.LIMIT applies to each DIR.  -o dry_run throttles nothing and suggests limits.\n"
	       "Exit codes: that of COMMAND; 125 ratefs failed, 126 COMMAND cannot be run, 127 COMMAND\n"
	       "was not found.  If a signal kills COMMAND, ratefs ends by the same signal.\n");
}
