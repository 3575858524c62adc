/* SPDX-License-Identifier: MIT */
#include "ctl/volume_daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ctl/volume_run.h"

static char *path_in(const struct volume_setup *s, const char *name)
{
	char *out;
	return asprintf(&out, "%s/%s", s->state_dir, name) < 0 ? NULL : out;
}

int volume_daemon_options(const struct volume_setup *s, struct volume_options *known,
			  struct error *err)
{
	const char *const argv[] = {s->ratefs, "--dump-options", NULL};
	AUTO_FREE char *output = NULL;
	int rc = volume_run(argv, &output, err);
	if (rc < 0)
		return -1;
	if (rc > 0)
		return error_set(err, "%s --dump-options: ended with %d", s->ratefs, rc);
	return volume_options_parse(known, output) ? 0 : error_set(err, "out of memory");
}

/* 0, or -1 with what the program said. */
static int run_ratefs(const char *const *argv, struct error *err)
{
	AUTO_FREE char *output = NULL;
	int rc = volume_run(argv, &output, err);
	if (rc <= 0)
		return rc;
	AUTO_FREE char *text = volume_conf_problems(output);
	return error_set(err, "%s", text && *text ? text : "ratefs failed");
}

static int check(void *ctx, const char *text, struct error *err)
{
	const struct volume_setup *s = ctx;
	AUTO_FREE char *path = path_in(s, "check.conf");
	const char *const argv[] = {s->ratefs, "--check", "-c", path, NULL};
	if (!path)
		return error_set(err, "out of memory");
	if (volume_write_file(path, text, err) < 0)
		return -1;
	int rc = run_ratefs(argv, err);
	unlink(path);
	return rc;
}

static int start(const struct volume_setup *s, struct error *err)
{
	AUTO_FREE char *path = path_in(s, "ratefs.conf");
	const char *const argv[] = {s->ratefs, "-c", path, NULL};
	return path ? run_ratefs(argv, err) : error_set(err, "out of memory");
}

static int ctl(const struct volume_setup *s, const char *command, const char *name, const char *flag, struct error *err)
{
	const char *const argv[] = {"ratefsctl", "-d", s->control, command, name, flag, NULL};
	AUTO_FREE char *output = NULL;
	int rc = volume_run(argv, &output, err);
	if (rc != 0 && output)
		error_set(err, "%s", output);
	return rc;
}

static int mount(void *ctx, const char *name, struct error *err)
{
	const struct volume_setup *s = ctx;
	if (access(s->control, F_OK) < 0 || ctl(s, "list", NULL, NULL, err) != 0)
		return start(s, err);
	if (ctl(s, "reload", NULL, NULL, err))
		return -1;
	ctl(s, "mount", name, NULL, err);
	error_set(err, "%s", "");
	return 0;
}

static int unmount(void *ctx, const char *name, struct error *err)
{
	ctl(ctx, "unmount", name, NULL, err);
	return strstr(err->text, "in use") ? 1 : 0;
}

static json_t *status(void *ctx, const char *name)
{
	const struct volume_setup *s = ctx;
	const char *const argv[] = {"ratefsctl", "-d", s->control, "stats", name, "--json", NULL};
	AUTO_FREE char *output = NULL;
	struct error err;
	volume_run(argv, &output, &err);
	return output ? json_loads(output, 0, NULL) : NULL;
}

const struct volume_daemon_ops volume_daemon = {
	.mount = mount,
	.unmount = unmount,
	.status = status,
	.check = check,
};
