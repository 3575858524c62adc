/* SPDX-License-Identifier: MIT */
/* ratefs: mounts throttled views of directories. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fusermount.h"
#include "base/log.h"
#include "daemon/background.h"
#include "daemon/cmdline.h"
#include "daemon/config_file.h"
#include "daemon/options.h"
#include "daemon/path.h"
#include "daemon/privileges.h"
#include "daemon/profile.h"
#include "daemon/run.h"
#include "daemon/serve.h"
#include "daemon/served_space.h"
#include "fs/attach.h"

#include "config.h"

/* Replaces the command line's mount by those of the file.  Prints all problems. */
static int load_file(struct cmdline *c)
{
	struct problems problems = {0};
	struct configuration config;
	int rc = config_load(&config, c->file, &problems);
	problems_log(&problems);
	problems_free(&problems);
	if (rc < 0)
		return EXIT_CODE_USAGE;
	config.force = c->config.force;
	configuration_free(&c->config);
	c->config = config;
	return EXIT_CODE_OK;
}

static int run(struct cmdline *c)
{
	int ready_fd = -1;
	const struct configuration *config = &c->config;
	if (c->file && load_file(c) != EXIT_CODE_OK)
		return EXIT_CODE_USAGE;
	privileges_enter();
	background_close_inherited(c->file ? -1 : path_passed_fd(config->mount[0].mountpoint));
	if (!c->foreground) {
		ready_fd = background_start();
		if (ready_fd < 0) {
			log_error("cannot move to the background: %s", strerror(errno));
			return EXIT_CODE_FAILED;
		}
	}
	if (chdir("/") < 0)
		log_warning("chdir /: %s", strerror(errno));
	return serve(config, c->debug, ready_fd);
}

static int remount(const struct cmdline *c)
{
	struct error err = ERROR_INIT;
	if (attach_remount(c->config.mount[0].mountpoint, c->words, &err) < 0) {
		log_error("%s", err.text);
		return EXIT_CODE_FAILED;
	}
	if (c->remount_ignores)
		log_warning(
			"a remount changes flags like 'ro' only; 'ratefsctl set' changes limits");
	return EXIT_CODE_OK;
}

static int show_profiles(const char *one)
{
	struct error err = ERROR_INIT;
	if (!one)
		profiles_list(stdout);
	else if (profile_explain(one, stdout, &err) < 0) {
		log_error("%s", err.text);
		return EXIT_CODE_USAGE;
	}
	return EXIT_CODE_OK;
}

int main(int argc, char **argv)
{
	struct cmdline c;
	struct error err = ERROR_INIT;
	fusermount_init();
	profiles_init();
	served_space_init();
	if (run_is_meant(argc, argv))
		return run_main(argc - 1, argv + 1);
	int rc = cmdline_parse(&c, argc, argv, &err);
	if (rc < 0) {
		log_error("%s", err.text);
		cmdline_free(&c);
		return EXIT_CODE_USAGE;
	}
	switch (c.action) {
	case CMDLINE_HELP:
		cmdline_help();
		break;
	case CMDLINE_VERSION:
		printf("ratefs %s\n", PACKAGE_VERSION);
		break;
	case CMDLINE_DUMP:
		options_dump(stdout);
		break;
	case CMDLINE_PROFILES:
		rc = show_profiles(c.profile);
		break;
	case CMDLINE_CHECK:
		rc = load_file(&c);
		break;
	case CMDLINE_FAKE:
		break;
	case CMDLINE_REMOUNT:
		rc = remount(&c);
		break;
	default:
		rc = run(&c);
	}
	cmdline_free(&c);
	return rc;
}
