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

/* Waits for something to read.  0, or the signal that asks us to end before. */
int run_wait_readable(const struct run_signals *s, int fd);

struct run_command {
	char **argv;
	const char *cwd; /* NULL: where we are */
	bool restricted; /* to these capabilities */
	uint64_t capabilities;
};

struct run_result {
	int status; /* as of waitpid */
	uint64_t wall_ns;
	bool daemon_died; /* before the command ended */
};

/* Runs it to its end.  `daemon`: watched meanwhile, reaped when it dies; 0: none.  0 or -errno: it
 * was not started. */
int run_command(const struct run_command *c, const struct run_signals *s, pid_t daemon,
		struct run_result *out);

/* Waits for the daemon's end; false: a signal asked to leave, or it takes more than `seconds`. */
bool run_wait_daemon(const struct run_signals *s, pid_t daemon, int seconds);

/* The exit code of a command that ended so; where a signal killed it, does not return: ends us by
 * that signal. */
int run_exit_like(int status);

#endif
