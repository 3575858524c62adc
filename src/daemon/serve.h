/* SPDX-License-Identifier: MIT */
/* The daemon's life: makes the mounts of the configuration, serves until it is told to stop or
 * nothing is mounted any more, and shuts down in order. */
#ifndef DAEMON_SERVE_H
#define DAEMON_SERVE_H

#include <stdbool.h>

#include "daemon/settings.h"

enum { EXIT_CODE_OK = 0, EXIT_CODE_FAILED = 1, EXIT_CODE_USAGE = 2 };

/* A component that is served on the same loop as the control socket (daemon/run_daemon.c). */
struct loop;
struct registry;
struct companion {
	const char *name; /* for the control socket */
	/* Called before the mounts are served: 0 or -errno. */
	int (*begin)(void *ctx, struct loop *l, struct registry *r);
	void *ctx;
};

/* Returns the exit code.  ready_fd: from background_start, or -1 in the foreground. */
int serve(const struct configuration *c, bool debug, int ready_fd);

#endif
