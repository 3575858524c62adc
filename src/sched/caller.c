/* SPDX-License-Identifier: MIT */
#include "sched/caller.h"

const char *fair_kind_name(enum fair_kind kind)
{
	static const char *const names[FAIR_KINDS] = {"none", "handle", "process",
						      "uid",  "gid",	"cgroup"};
	return names[kind];
}

static uint64_t process_of(const struct caller *c, const struct caller_ops *ops, uint64_t now_ns)
{
	return ops ? ops->process(c, now_ns) : c->tid;
}

struct fair_key caller_key(const struct caller *c, const struct caller_ops *ops,
			   enum fair_kind kind, uint64_t now_ns)
{
	struct fair_key key = {.kind = kind};
	switch (kind) {
	case FAIR_HANDLE:
		key.id = c->handle ? c->handle : process_of(c, ops, now_ns);
		break;
	case FAIR_PROCESS:
		key.id = process_of(c, ops, now_ns);
		break;
	case FAIR_UID:
		key.id = c->uid;
		break;
	case FAIR_GID:
		key.id = c->gid;
		break;
	case FAIR_CGROUP:
		key.id = ops ? ops->cgroup(c, now_ns) : 0;
		break;
	default:
		break;
	}
	return key;
}
