/* SPDX-License-Identifier: MIT */
/* Who made a request.  The kernel tells the thread, user and group; the rest is looked up only if
 * a rule or fairness needs it. */
#ifndef SCHED_CALLER_H
#define SCHED_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct opener; /* fs/caller.h */

struct caller {
	uint32_t tid; /* 0: unknown, cannot be looked up */
	uint32_t uid, gid;
	uint64_t handle; /* an open file; 0: none */
	/* The request has no caller: these are the ids of the process that opened `handle`, which may be gone, and
	 * what caller_ops remembers of it.  NULL: a caller that can be looked up. */
	const struct opener *opener;
};

/* What a fair share belongs to.  Requests with equal keys share one turn. */
enum fair_kind {
	FAIR_NONE,
	FAIR_HANDLE,
	FAIR_PROCESS,
	FAIR_UID,
	FAIR_GID,
	FAIR_CGROUP,
	FAIR_KINDS
};
struct fair_key {
	enum fair_kind kind;
	uint64_t id;
};
const char *fair_kind_name(enum fair_kind kind);

#define CALLER_NAME_MAX 16
#define CALLER_PATH_MAX 4096

/* Look-ups, callable from any thread; answers may be a second old. */
struct caller_ops {
	/* The caller's process. */
	uint64_t (*process)(const struct caller *c, uint64_t now_ns);
	/* A number for the caller's cgroup; 0: unknown.  Of an opener: the one in which it opened. */
	uint64_t (*cgroup)(const struct caller *c, uint64_t now_ns);
	/* Its path ("/ci/job1"), "" when it is unknown. */
	void (*cgroup_path)(uint64_t cgroup, char *buf, size_t size);
	/* The name of the caller's program, as the program chose it; "" when it is gone.  Of an opener: the
	 * name with which it opened. */
	void (*name)(const struct caller *c, char buf[CALLER_NAME_MAX]);
};

/* The key of a caller.  Without `ops`, each thread counts as a process, and there are no cgroups. */
struct fair_key caller_key(const struct caller *c, const struct caller_ops *ops,
			   enum fair_kind kind, uint64_t now_ns);

#endif
