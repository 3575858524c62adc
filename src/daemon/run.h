/* SPDX-License-Identifier: MIT */
/* `ratefs run`: runs one command with a throttled view of a directory, mounted over the directory
 * itself.
 *
 *	wrapper ──fork──▶ daemon     serves the mounts; stays in the mount namespace of the caller
 *	   │ unshare                 (daemon/run_daemon.c)
 *	   │ mounts over each DIR    daemon/run_space.c
 *	   └──fork──▶ command        daemon/run_command.c
 *
 * The wrapper is the process that the user started.  Only the wrapper, the command and what the
 * command starts are in the private mount namespace.  When the last of them is gone, the kernel drops
 * the namespace and its mounts, the connection ends, and the daemon exits: nothing has to keep track
 * of processes, whichever is killed. */
#ifndef DAEMON_RUN_H
#define DAEMON_RUN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "daemon/settings.h"

/* As for env(1), nice(1) and timeout(1); any other code is the command's. */
enum { RUN_FAILED = 125, RUN_CANNOT_EXECUTE = 126, RUN_NOT_FOUND = 127 };

#define RUN_DIRS_MAX 64

struct run {
	struct configuration config; /* one mount for each DIR; paths are absolute */
	char **command;
	const char *report; /* NULL: standard error */
	bool json, quiet, compare, help;
	bool limited, dry_run;
};

/* True: the command line is that of `ratefs run`. */
bool run_is_meant(int argc, char **argv);
/* argv[0] is "run".  Returns the exit code. */
int run_main(int argc, char **argv);

/* 0, or -1 with err; call run_free in either case. */
int run_parse(struct run *r, int argc, char **argv, struct error *err);
void run_free(struct run *r);
void run_help(void);

/* --- the daemon (run_daemon.c) -------------------------------------------------------------- */

/* The daemon's process.  It receives its connections through `socket`, reports over
 * ready_fd that it serves them, and sends statistics when asked, until the mounts are gone.
 * Returns its exit code. */
int run_daemon(struct run *r, int socket, int ready_fd, uint64_t capabilities);

#endif
