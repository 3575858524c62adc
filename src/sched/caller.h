/* SPDX-License-Identifier: MIT */
/* Who made a request.  The kernel reports the thread, user and group; everything else is looked up
 * only if a rule or fairness needs it. */
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
	/* Not NULL: the request came without a caller; uid, gid and tid are those of the process
	 * that opened `handle`, which may have exited, and this is what caller_ops remembers of
	 * it. */
	const struct opener *opener;
};

/* Who competes for fair shares.  Requests with equal keys share one turn. */
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
	/* A number for the caller's cgroup; 0: unknown.  For an opener: its cgroup when it opened
	 * the file. */
	uint64_t (*cgroup)(const struct caller *c, uint64_t now_ns);
	/* The path of that cgroup ("/ci/job1"); "": unknown. */
	void (*cgroup_path)(uint64_t cgroup, char *buf, size_t size);
	/* The name of the caller's program, which programs can choose; "": it has exited.  For an
	 * opener: its name when it opened the file. */
	void (*name)(const struct caller *c, char buf[CALLER_NAME_MAX]);
};

/* The key of a caller.  Without `ops`, each thread counts as a process, and there are no cgroups. */
struct fair_key caller_key(const struct caller *c, const struct caller_ops *ops,
			   enum fair_kind kind, uint64_t now_ns);

#endif
