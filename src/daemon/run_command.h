/* SPDX-License-Identifier: MIT */
/* Running a command as if its parent were not there: signals, job control, exit code. */
#ifndef DAEMON_RUN_COMMAND_H
#define DAEMON_RUN_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Signals of the wrapper, which it reads instead of obeying them. */
struct run_signals {
	sigset_t before; /* the mask that the command gets */
	bool child_ignored;
	int fd;
};
int run_signals_begin(struct run_signals *s); /* 0 or -errno */

/* Waits until fd is readable.  0, or the signal that told us to end before that. */
int run_wait_readable(const struct run_signals *s, int fd);

struct run_command {
	char **argv;
	const char *cwd; /* NULL: where we are */
	bool restricted; /* the command gets only these capabilities */
	uint64_t capabilities;
};

struct run_result {
	int status; /* as of waitpid */
	uint64_t wall_ns;
	bool daemon_died; /* before the command ended */
};

/* Runs the command and waits for it to end.  Meanwhile it reaps `daemon` (0: none) if that dies.
 * 0, or -errno: the command was not started. */
int run_command(const struct run_command *c, const struct run_signals *s, pid_t daemon,
		struct run_result *out);

/* Waits until the daemon has exited.  False: a signal told us to end, or it
 * took more than `seconds`. */
bool run_wait_daemon(const struct run_signals *s, pid_t daemon, int seconds);

/* Returns the exit code of a command with this wait status.  If a signal killed the command, ends
 * this process with the same signal instead. */
int run_exit_like(int status);

#endif
