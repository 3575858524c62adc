/* SPDX-License-Identifier: MIT */
/* Who made a request.  The kernel's message names a thread, a user and a group; process, cgroup and
 * program name are read from /proc when a rule or a fairness key needs them. */
#ifndef FS_CALLER_H
#define FS_CALLER_H

#include "fs/wire.h"
#include "sched/job.h"

/* The caller of a request.  Requests without one (write-back, for example) belong to whoever opened
 * their file. */
struct caller caller_of(const struct fuse_in_header *in, size_t len);

/* What rules may ask about whoever opened a file, as of then: the process may be gone, or its number
 * another's, when the kernel writes back what it wrote. */
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
