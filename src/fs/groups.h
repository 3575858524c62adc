/* SPDX-License-Identifier: MIT */
/* The supplementary groups of callers.  FUSE messages do not carry them, so they are read from /proc and
 * remembered for a second.
 * Locking  safe from any thread. */
#ifndef FS_GROUPS_H
#define FS_GROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A list that grows; {0} is empty. */
struct groups {
	int n, room;
	gid_t *id;
};
bool groups_copy(struct groups *to, const gid_t *id, int n); /* false: out of memory */
bool groups_equal(const struct groups *a, const struct groups *b);
void groups_free(struct groups *g);

/* The current groups of a thread; none if it is gone or cannot be seen (tid 0: it is in a PID
 * namespace that we cannot see).  False: out of memory. */
bool groups_of(uint32_t tid, struct groups *out);
/* The same, but the answer may be up to a second old. */
bool groups_of_lately(uint32_t tid, uid_t uid, gid_t gid, struct groups *out);

#endif
