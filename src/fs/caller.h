/* SPDX-License-Identifier: MIT */
/* Who made a request.  The kernel's message names a thread, a user and a group; process, cgroup and
 * program name are read from /proc when a rule or a fairness key needs them. */
#ifndef FS_CALLER_H
#define FS_CALLER_H

#include <stdint.h>

#include "sched/job.h"

/* What rules may ask about the process that opened a file, as of the open: when the kernel writes
 * back its data, that process may have exited, and its number may belong to another. */
struct opener {
	bool known;
	uint64_t cgroup;
	char name[CALLER_NAME_MAX];
};
struct opener opener_of(uint32_t tid);

/* The process of a thread.  Answers may be a second old. */
uint64_t caller_process(uint32_t tid, uint64_t now_ns);

/* How the gate looks callers up. */
extern const struct caller_ops fs_caller_ops;

#endif
