/* SPDX-License-Identifier: MIT */
/* Counts instructions where the machine's counters are out of reach (most guests): a child runs the
 * code, its parent steps through it. */
#ifndef BENCH_BENCH_STEP_H
#define BENCH_BENCH_STEP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

typedef bool step_request(uint64_t now_ns);

/* Instructions of a process that makes n requests and ends; 0: not possible here. */
static inline uint64_t step_through(step_request *run, uint64_t clock_ns, uint64_t step_ns,
				    unsigned n)
{
	uint64_t steps = 0;
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(1);
		raise(SIGSTOP);
		for (unsigned i = 0; i < n; i++)
			run(clock_ns += step_ns);
		_exit(0);
	}
	if (pid < 0)
		return 0;
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
			kill(pid, SIGKILL);
		steps++;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? steps : 0;
}

/* Instructions of one request, or -1. */
static inline double step_count(step_request *run, uint64_t clock_ns, uint64_t step_ns)
{
	uint64_t few = step_through(run, clock_ns, step_ns, 4);
	uint64_t more = step_through(run, clock_ns, step_ns, 20);
	return few && more > few ? (double)(more - few) / 16 : -1;
}

#endif
