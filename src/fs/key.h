/* SPDX-License-Identifier: MIT */
/* Whose request is it: the key that fairness goes by.  Looked up only for requests that have to
 * wait, since the kernel names a thread and /proc must say of which process or cgroup. */
#ifndef FS_KEY_H
#define FS_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "fs/wire.h"
#include "sched/job.h"

struct fair_key key_of(enum fair_kind kind, const struct fuse_in_header *in, size_t len,
		       uint64_t now_ns);

/* The id of a cgroup by its path ("/ci/job1"), for weights; and its path, for statistics, where
 * such a request has been seen. */
uint64_t key_cgroup_id(const char *path);
bool key_cgroup_path(uint64_t id, char *buf, size_t size);

/* True when the thread is gone or about to die: SIGKILL pending, or a signal whose default action
 * ends it, neither blocked nor caught nor ignored. */
bool caller_is_dying(uint32_t tid);

/* The process of a thread; answers are kept for a second. */
uint64_t key_process(uint32_t tid, uint64_t now_ns);
/* True when all of the process has been killed or is exiting.  `tid` is one of its threads, which
 * may have gone before the others. */
bool process_has_died(uint32_t tid, uint32_t process);

#endif
