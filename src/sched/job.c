/* SPDX-License-Identifier: MIT */
#include "sched/job.h"

const char *fair_kind_name(enum fair_kind kind)
{
	static const char *const names[FAIR_KINDS] = {
		[FAIR_NONE] = "none", [FAIR_HANDLE] = "handle", [FAIR_PROCESS] = "process",
		[FAIR_UID] = "uid",   [FAIR_GID] = "gid",	[FAIR_CGROUP] = "cgroup",
	};
	return kind < FAIR_KINDS ? names[kind] : "?";
}
