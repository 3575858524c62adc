/* SPDX-License-Identifier: MIT */
#include "fs/dying.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "fs/status.h"

#define SIGNAL_BIT(s) (1ULL << ((s)-1))
/* Signals whose default action is not to end the process. */
#define HARMLESS                                                                                   \
	(SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGCONT) | SIGNAL_BIT(SIGURG) | SIGNAL_BIT(SIGWINCH) |   \
	 SIGNAL_BIT(SIGSTOP) | SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU))

_Thread_local uint32_t request_tid;

static enum caller_wait wait_of(const char *status)
{
	static const char field[] = "\nState:\t";
	const char *at = strstr(status, field);
	switch (at ? at[sizeof(field) - 1] : '\0') {
	case 'S':
		return WAITS_FOR_SIGNALS;
	case 'D':
		return WAITS_FOR_DEATH;
	default:
		return WAITS_NOT_YET;
	}
}

struct caller_look caller_look(uint32_t tid)
{
	AUTO_FREE char *status = tid ? status_read(tid) : NULL;
	uint64_t tgid, own, shared, blocked, ignored, caught;
	/* A caller that cannot be examined counts as dying: an early EINTR is better than a process that
	 * cannot be killed. */
	struct caller_look look = {
		.state = CALLER_DYING, .wait = WAITS_NOT_YET, .switches = UINT64_MAX};
	if (!status || !status_number(status, "\nSigPnd:", 16, &own) ||
	    !status_number(status, "\nShdPnd:", 16, &shared) ||
	    !status_number(status, "\nSigBlk:", 16, &blocked) ||
	    !status_number(status, "\nSigIgn:", 16, &ignored) ||
	    !status_number(status, "\nSigCgt:", 16, &caught)) {
		look.gone = true;
		return look;
	}
	if (status_number(status, "\nTgid:", 10, &tgid))
		look.process = (uint32_t)tgid;
	status_number(status, "\nvoluntary_ctxt_switches:", 10, &look.switches);
	uint64_t pending = own | shared;
	look.wait = wait_of(status);
	look.killed = pending & SIGNAL_BIT(SIGKILL); /* SIGKILL always ends the whole process */
	pending &= ~blocked & ~ignored;
	if (!look.killed && !(pending & ~caught & ~HARMLESS))
		look.state = pending ? CALLER_SIGNALLED : CALLER_CALM;
	return look;
}

/* Task flags of the kernel, shown in /proc/PID/stat.  Their values have not changed since 2.6. */
#define TASK_EXITING  0x4U
#define TASK_SIGNALED 0x400U

/* True if the task is gone, exiting or killed. */
static bool task_leaves(const char *path)
{
	char stat[512];
	unsigned flags;
	if (proc_read(path, stat, sizeof(stat)) < 0)
		return true;
	const char *at = strrchr(stat, ')'); /* the name may contain anything */
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		return true;
	return flags & (TASK_EXITING | TASK_SIGNALED);
}

/* If this many threads of a process are leaving, so are the others. */
#define TASKS_LOOKED_AT 64

bool process_has_died(uint32_t tid, uint32_t process)
{
	char path[320];
	/* /proc/TID/stat would be slower: it adds up the times of all threads. */
	snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", tid, tid);
	if (!task_leaves(path))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/task", process);
	DIR *tasks = opendir(path);
	if (!tasks)
		return true;
	bool all = true;
	unsigned n = 0;
	const struct dirent *d;
	while (all && n < TASKS_LOOKED_AT && (d = readdir(tasks)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		n++;
		snprintf(path, sizeof(path), "/proc/%u/task/%s/stat", process, d->d_name);
		all = task_leaves(path);
	}
	closedir(tasks);
	return all;
}
