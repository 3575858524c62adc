/* SPDX-License-Identifier: MIT */
/* The daemon's life: start what the configuration says, serve until told to stop or until nothing
 * is mounted any more, end in order. */
#ifndef DAEMON_SERVE_H
#define DAEMON_SERVE_H

#include <stdbool.h>

#include "daemon/settings.h"

enum { EXIT_CODE_OK = 0, EXIT_CODE_FAILED = 1, EXIT_CODE_USAGE = 2 };

/* Who serves beside the control socket, on the same loop (daemon/run_daemon.c). */
struct loop;
struct registry;
struct companion {
	const char *name; /* for the control socket */
	/* Before the mounts are served: 0 or -errno. */
	int (*begin)(void *ctx, struct loop *l, struct registry *r);
	void *ctx;
};

/* Returns the exit code.  ready_fd: of background_start, or -1 in the foreground.  Messages go to
 * the log. */
int serve(const struct configuration *c, bool debug, int ready_fd);

#endif
